"""Options of the public functions: the kind of each, declared where the function is (design §13).

`checked` reads the options of a call before anything is done. One that is not of its kind is
refused with its name, the kind in words, and a remedy. A kind that several functions share is
added here; one that speaks of expressions or rules stands where these are defined.

>>> @checked(depth=whole(), target=one_of("cpu", "cuda"))
... def search(depth=3, target="cpu"):
...     return depth, target
>>> search(2)
(2, 'cpu')
>>> search(depth=2.5)
Traceback (most recent call last):
einalg.errors.UseError: depth must be a whole number of at least 0, not 2.5
  e.g. depth=1
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from einalg.boundary import public
from einalg.errors import EinalgError, RecordError, UseError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
MAX_SHOWN = 80  # characters of a value in a message


class Misfit(Exception):
    """A value is not of a kind."""


@dataclass(frozen=True)
class Kind:
    """The values that an option may have.

    `description` is the kind in words, such as "a whole number of at least 0"; `read` returns the
    value to go on with, or raises `Misfit`; `remedy` ends the message, with `{name}` for the name
    of the option; `error` is the class that is raised.

    >>> whole(1).check("rounds", 3)
    3
    """

    description: str
    read: Callable[[Any], Any]
    remedy: str
    error: type[EinalgError] = UseError

    def check(self, name: str, value: Any) -> Any:
        """Return the value to go on with; raise `error` for one that is not of the kind."""
        try:
            return self.read(value)
        except Misfit:
            raise self.error(
                f"{name} must be {self.description}, not {shown(value)}\n"
                f"  {self.remedy.format(name=name)}"
            ) from None

    def raising(self, error: type[EinalgError]) -> Kind:
        """Return the same kind with another class of error."""
        return replace(self, error=error)


def shown(value: Any) -> str:
    """Return a value as a message shows it: on one short line, whatever its `repr` does.

    >>> shown("a"), shown([0] * 1000)[-9:]
    ("'a'", '0, 0, 0 …')
    """
    try:
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        text = " ".join(repr(value).split())
    except Exception:  # of a class that is not ours
        text = f"a value of type {type(value).__name__}"
    if len(text) > MAX_SHOWN:
        return f"{text[:MAX_SHOWN]} …"
    return text


def accepting(accepts: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """Return what reads the values that a predicate accepts, as they are."""

    def read(value: Any) -> Any:
        if not accepts(value):
            raise Misfit
        return value

    return read


def whole(least: int | None = 0, most: int | None = None) -> Kind:
    """Return the kind of whole numbers, Python's or NumPy's, from `least` up to `most`."""

    def read(value: Any) -> int:
        number = _as_int(value)
        if least is not None and number < least:
            raise Misfit
        if most is not None and number > most:
            raise Misfit
        return number

    description = "a whole number"
    if least is not None and most is not None:
        description += f" from {least} to {most}"
    elif least is not None:
        description += f" of at least {least}"
    return Kind(description, read, f"e.g. {{name}}={max(least or 0, 1)}")


def _as_int(value: Any) -> int:
    if _is_truth_value(value):
        raise Misfit
    try:
        return operator.index(value)
    except Exception:  # of a class that is not ours
        raise Misfit from None


def _is_truth_value(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def real(example: str, *, above: float | None = None, most: float = inf) -> Kind:
    """Return the kind of real numbers from 0, or greater than `above`, up to `most`.

    Infinity is one of them where `most` does not say otherwise.
    """

    def read(value: Any) -> float:
        if not isinstance(value, Real) or _is_truth_value(value):
            raise Misfit
        number = _as_float(value)
        fits = number >= 0 if above is None else number > above
        if not fits or number > most:
            raise Misfit
        return number

    description = "a number from 0" if above is None else f"a number above {above:g}"
    if most != inf:
        description += f" to {most:g}" if above is None else f", up to {most:g}"
    return Kind(description, read, f"e.g. {{name}}={example}")


def _as_float(value: Any) -> float:
    """Return a real number as a float; infinity for one that is too large."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def one_of(*names: str, error: type[EinalgError] = UseError) -> Kind:
    """Return the kind of a few names."""
    read = accepting(lambda value: isinstance(value, str) and value in names)
    listed = ", ".join(names)
    return Kind(f"one of {', '.join(map(repr, names))}", read, f"use one of: {listed}", error)


def text(example: str, error: type[EinalgError] = UseError) -> Kind:
    """Return the kind of text that is not empty."""
    read = accepting(lambda value: isinstance(value, str) and bool(value))
    return Kind("text", read, f"e.g. {{name}}={example!r}", error)


def instance_of(
    classes: type | tuple[type, ...],
    description: str,
    remedy: str,
    error: type[EinalgError] = UseError,
) -> Kind:
    """Return the kind of values of a class, or of one of several."""
    read = accepting(lambda value: isinstance(value, classes))
    return Kind(description, read, remedy, error)


def optional(kind: Kind) -> Kind:
    """Return a kind with None."""

    def read(value: Any) -> Any:
        return None if value is None else kind.read(value)

    return replace(kind, description=f"{kind.description}, or None", read=read)


def either(*kinds: Kind) -> Kind:
    """Return the kind of values of any of several kinds; the remedy is that of the first."""

    def read(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind.read(value)
            except Misfit:
                continue
        raise Misfit

    description = " or ".join(kind.description for kind in kinds)
    return replace(kinds[0], description=description, read=read)


def several(kind: Kind, what: str, remedy: str) -> Kind:
    """Return the kind of iterables of a kind, but for text; they are read as tuples."""

    def read(value: Any) -> tuple[Any, ...]:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise Misfit
        try:
            entries = tuple(value)
        except EinalgError:  # of a tensor expression, which is no list
            raise Misfit from None
        return tuple(kind.read(entry) for entry in entries)

    return Kind(what, read, remedy, kind.error)


def _is_path(value: Any) -> bool:
    """Say whether a value names a file or a folder, there or not."""
    if not isinstance(value, (str, os.PathLike)):
        return False
    name = os.fspath(value)
    return isinstance(name, str) and bool(name) and "\0" not in name


def _read_path(value: Any) -> Path:
    if not _is_path(value):
        raise Misfit
    return Path(value)


def _read_new_file(value: Any) -> Path:
    path = _read_path(value)
    try:
        fits = path.parent.is_dir() and not path.is_dir()
    except OSError:  # of a name that is too long
        fits = False
    if not fits:
        raise Misfit
    return path


TEXT = Kind("text", accepting(lambda value: isinstance(value, str)), "e.g. {name}='L[x] f'")
FLAG = Kind("True or False", accepting(lambda value: type(value) is bool), "e.g. {name}=True")
SEED = whole()
SECONDS = real("60")
FUNCTION = Kind("a function", accepting(callable), "e.g. {name}=print")
PROGRESS = optional(
    replace(either(FLAG, FUNCTION), remedy="{name}=True shows a bar, a function is called")
)
ACCURACY = optional(real("1e-4"))
EXECUTOR = optional(
    Kind(
        "an executor, which has a method submit",
        accepting(lambda value: callable(getattr(value, "submit", None))),
        "e.g. {name}=concurrent.futures.ProcessPoolExecutor()",
    )
)
PATH = Kind("the path of a file or a folder", _read_path, "e.g. {name}='model'", RecordError)
NEW_FILE = Kind(
    "a file in a folder that is there",
    _read_new_file,
    "make the folder first, or write beside this: {name}='derivation.json'",
    RecordError,
)


def checked(
    **kinds: Kind,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Check the options of a function or a method by their kinds, before it is called.

    Options that are left out keep their defaults, which are not checked. The kind of `*options`
    is that of each of them.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        in_places, rest = _by_place(function, kinds)

        @wraps(function)
        def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
            values = list(arguments)
            for place, value in enumerate(values):
                name, kind = in_places[place] if place < len(in_places) else rest
                if kind is not None:
                    values[place] = kind.check(name, value)
            options: dict[str, Any] = dict(named)
            for name, value in options.items():
                if name in kinds:
                    options[name] = kinds[name].check(name, value)
            return function(*values, **options)  # pyright: ignore

        call.__option_kinds__ = kinds  # type: ignore[attr-defined]
        return public(call)

    return decorate


Class = TypeVar("Class", bound=type)


def checked_fields(**kinds: Kind) -> Callable[[Class], Class]:
    """Check the fields of a class by their kinds where a value is made."""

    def decorate(cls: Class) -> Class:
        cls.__init__ = checked(**kinds)(cls.__init__)
        return cls

    return decorate


Place = tuple[str, Kind | None]


def _by_place(function: Callable[..., Any], kinds: Mapping[str, Kind]) -> tuple[list[Place], Place]:
    """Return the name and the kind of every parameter in its place, and of what comes after."""
    parameters = signature(function).parameters
    unknown = kinds.keys() - parameters.keys()
    if unknown:
        raise TypeError(f"{function.__qualname__} has no option {', '.join(sorted(unknown))}")
    in_places: list[Place] = []
    rest: Place = ("", None)
    for name, parameter in parameters.items():
        if parameter.kind is Parameter.VAR_POSITIONAL:
            rest = (name, kinds.get(name))
        elif parameter.kind is not Parameter.KEYWORD_ONLY:
            in_places.append((name, kinds.get(name)))
    return in_places, rest
