"""The boundary between einalg and who calls it: an error ends at the caller's own line, and a call
that does not fit says what to write (design §13).

Every public function and every method of a public class is decorated with `public`;
`einalg.options.checked` and the registry of operators do so by themselves. An error that passes
through loses the frames of einalg, so that Python, IPython, Jupyter, pytest and logs show nothing
of the inside. `EINALG_FULL_TRACEBACK=1` keeps them.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property, wraps
from inspect import Parameter, signature
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar

from einalg.errors import EinalgError, UseError

Target = TypeVar("Target")
Class = TypeVar("Class")
SETTING = "EINALG_FULL_TRACEBACK"
# The frames of these packages, and of Python's library between them, are the inside.
INSIDE = {"einalg", "derive", "codegen", "sympy", *sys.stdlib_module_names} - {"__main__"}
# Called by Python and SymPy themselves, or never with a mistake of the user's.
NOT_CALLED_BY_USERS = frozenset(
    {
        *("__repr__", "__str__", "__format__", "__hash__", "__eq__", "__ne__", "__dir__"),
        *("__reduce__", "__reduce_ex__", "__getnewargs__", "__getstate__", "__setstate__"),
        *("__init_subclass__", "__class_getitem__", "__set_name__", "__post_init__"),
    }
)
# The names that NumPy and torch have for an option, by what it may be called here.
HABITS: Mapping[str, tuple[str, ...]] = {
    "dim": ("axis", "axes"),
    "dims": ("axes", "axis"),
    "axis": ("axes",),
    "axes": ("axis",),
    "keepdim": ("keepdims",),
    "input": ("x", "A"),
    "other": ("B", "b"),
    "kernel_size": ("kernel",),
    "negative_slope": ("slope",),
    "min": ("low",),
    "max": ("high",),
    "size": ("shape",),
    "shape": ("size",),
    "timeout": ("seconds",),
    "device": ("target",),
    "time": ("seconds",),
    "weight": ("K", "B"),
    "filters": ("K",),
    "value": ("fill",),
    "constant_values": ("fill",),
}


def public(target: Target) -> Target:
    """Make a function, or every public method of a class, a boundary for errors.

    >>> @public
    ... def area(*, height: int, width: int) -> int:
    ...     return height * width
    >>> area(height=2, wdith=3)
    Traceback (most recent call last):
    einalg.errors.UseError: area has no option wdith
      write width=3
    """
    decorated: Any = target
    if isinstance(target, type):
        for name, member in list(vars(target).items()):
            if _is_called_by_users(name):
                changed = _as_boundary(member)
                if changed is not member:
                    setattr(target, name, changed)
    else:
        decorated = _boundary(decorated)
    return decorated


def _is_called_by_users(name: str) -> bool:
    if name.startswith("__") and name.endswith("__"):
        return name not in NOT_CALLED_BY_USERS
    return not name.startswith("_")


def _as_boundary(member: Any) -> Any:
    """Return a member of a class as a boundary; what is no function stays as it is."""
    if isinstance(member, FunctionType):
        return _boundary(member)
    if isinstance(member, (classmethod, staticmethod)):
        return type(member)(_boundary(member.__func__))
    if isinstance(member, property) and member.fget is not None:
        return property(_boundary(member.fget), member.fset, member.fdel, member.__doc__)
    if isinstance(member, cached_property):
        member.func = _boundary(member.func)
    return member


def called(name: str) -> Callable[[type[Class]], type[Class]]:
    """Decorate a class that users know by another name: errors have that one.

    >>> @called("Rule")
    ... @public
    ... class Substitution:
    ...     def __init__(self, name):
    ...         self.name = name
    >>> Substitution()
    Traceback (most recent call last):
    einalg.errors.UseError: Rule needs name
      write Rule(name)
    """

    def decorate(target: type[Class]) -> type[Class]:
        own = target.__name__
        for member in vars(target).values():
            while isinstance(member, FunctionType):
                member.__qualname__ = member.__qualname__.replace(f"{own}.", f"{name}.")
                member = getattr(member, "__wrapped__", None)
        target.__name__ = name
        return target

    return decorate


def is_boundary(function: Any) -> bool:
    """Return whether errors that leave a function end at who called it."""
    return getattr(function, "__boundary__", None) is function


def public_by_hand(function: Target) -> Target:
    """Mark a function that calls `hide_inside` itself, because a function around it would take as
    long as what it does.
    """
    function.__boundary__ = function  # type: ignore[attr-defined]
    return function


def _boundary(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose errors have no frames of einalg.

    A bare `raise` adds no frame of its own, so that the caller's line is the last one.
    """
    if is_boundary(function):
        return function

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            try:
                return function(*arguments, **named)
            except TypeError as error:
                refuse_misfit(error, function, arguments, named)
                raise
        except EinalgError as error:
            hide_inside(error)
            raise

    call.__boundary__ = call  # type: ignore[attr-defined]
    return call


def hide_inside(error: BaseException) -> None:
    """Take the frames of einalg out of the traceback of an error, unless a setting keeps them.

    What einalg was doing about another error when this one was raised is of the inside too.
    """
    if os.environ.get(SETTING, "0") not in ("", "0"):
        return
    error.__traceback__ = _without_inside(error.__traceback__)
    context = error.__context__
    if context is not None and _without_inside(context.__traceback__) is None:
        error.__suppress_context__ = True


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the caller of einalg."""
    level = 2  # the caller of this function
    frame = sys._getframe(1)
    while frame.f_back is not None and _package(frame) in INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _package(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]


def _without_inside(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback with the frames of others alone, such as those of a user's rule."""
    outside = []
    while traceback is not None:
        if _package(traceback.tb_frame) not in INSIDE:
            outside.append(traceback)
        traceback = traceback.tb_next
    rest = None
    for frame in reversed(outside):
        rest = TracebackType(rest, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return rest


def refuse_misfit(
    error: TypeError,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
) -> None:
    """Raise `UseError` where the arguments of a call do not fit its parameters."""
    if isinstance(error, EinalgError):
        return
    expected = signature(function)
    try:
        expected.bind(*arguments, **named)
    except TypeError:
        raise _misfit(_name(function), expected.parameters, arguments, named) from None


def _name(function: Callable[..., Any]) -> str:
    """Return a function as a user calls it, e.g. `Session.apply`, or `Program` for `__new__`."""
    name: str = function.__qualname__.rpartition("<locals>.")[2]
    for constructor in (".__init__", ".__new__", ".__call__"):
        name = name.removesuffix(constructor)
    return name


def _misfit(
    name: str,
    parameters: Mapping[str, Parameter],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
) -> UseError:
    """Return the error of a call with an option that is not there, too few or too many arguments.

    The first parameter of a method is the object itself, which nobody writes.
    """
    shown = {key: kind for key, kind in parameters.items() if key not in ("self", "cls")}
    if len(shown) < len(parameters) and arguments and "." in name:
        owner = arguments[0] if isinstance(arguments[0], type) else type(arguments[0])
        name = f"{owner.__name__}.{name.rpartition('.')[2]}"
    implicit = len(parameters) - len(shown)
    in_places = [key for key, kind in shown.items() if kind.kind in _BY_PLACE]
    by_name = {key for key in named if key in shown and shown[key].kind not in _NOT_BY_NAME}
    takes_any = any(kind.kind is Parameter.VAR_KEYWORD for kind in shown.values())
    for option in named:
        if option not in shown and not takes_any:
            return unknown_option(name, option, named[option], list(shown))
    by_place = arguments[implicit:]
    usage = f"write {name}({', '.join(map(str, map(_written, shown.values())))})"
    if len(by_place) > len(in_places):
        usage = _usage_of_more(name, by_place, in_places, takes_any) or usage
        arguments_text = "1 argument" if len(in_places) == 1 else f"{len(in_places)} arguments"
        return UseError(
            f"{name} takes {arguments_text} by place, and here are {len(by_place)}\n  {usage}"
        )
    for option in in_places[: len(by_place)]:
        if option in by_name:
            return UseError(f"{name} has two values for {option}\n  {usage}")
    missing = []
    for key, kind in shown.items():
        is_needed = kind.default is Parameter.empty and kind.kind not in _ANY_NUMBER
        if is_needed and key not in by_name and key not in in_places[: len(by_place)]:
            missing.append(key)
    nameless = [key for key in missing if key in named]
    if nameless:
        return UseError(
            f"{name} takes {' and '.join(nameless)} by place, without a name\n  {usage}"
        )
    return UseError(f"{name} needs {' and '.join(missing)}\n  {usage}")


def _usage_of_more(
    name: str, by_place: tuple[Any, ...], in_places: list[str], takes_any: bool
) -> str | None:
    """Return how to write a call with too many arguments by place, where that is plain: sizes or
    axes are one tuple, and what has names is given by these.
    """
    last = by_place[-1]
    if takes_any and isinstance(last, dict):
        named = ", ".join(f"{key}={value!r}" for key, value in last.items())
        return f"write {name}({', '.join(in_places)}, {named})"
    numbers = by_place[len(in_places) - 1 :]
    if in_places and all(type(number) is int for number in numbers):
        return f"write {name}({', '.join([*in_places[:-1], str(numbers)])})"
    return None


_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NOT_BY_NAME = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_ANY_NUMBER = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _written(parameter: Parameter) -> str:
    """Return a parameter as a call has it: its name, with its default where it has one."""
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    if parameter.kind is Parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if parameter.default is Parameter.empty:
        return parameter.name
    return f"{parameter.name}={parameter.default!r}"


def unknown_option(name: str, option: str, value: Any, known: list[str]) -> UseError:
    """Return the error of an option that a function does not have, with the one that was meant.

    >>> print(unknown_option("softmax", "dim", 1, ["x", "axis"]))
    softmax has no option dim
      write axis=1
    """
    meant = [other for other in HABITS.get(option, ()) if other in known]
    meant += get_close_matches(option, known, 1)
    remedy = f"leave it out; its options: {', '.join(known) or 'none'}"
    if meant:
        written = repr(value) if isinstance(value, (int, float, str, tuple)) else "..."
        remedy = f"write {meant[0]}={written}"
    return UseError(f"{name} has no option {option}\n  {remedy}")


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that a wrong one may stand for, the likeliest first: the same without
    case and underscores, then those of which it is a part, then those that are spelt alike.

    >>> similar("Maxpool_2d", ["max_pool1d", "max_pool2d"]), similar("conv", ["conv1d", "conv2d"])
    (['max_pool2d', 'max_pool1d'], ['conv2d', 'conv1d'])
    """
    by_letters: dict[str, list[str]] = {}
    for other in known:
        by_letters.setdefault(_letters(other), []).append(other)
    wanted = _letters(name)
    likely = [letters for letters in by_letters if letters == wanted]
    if len(wanted) > 2:
        starting = [letters for letters in by_letters if letters.startswith(wanted)]
        likely += sorted(starting, key=lambda letters: (letters != f"{wanted}2d", len(letters)))
        likely += [letters for letters in by_letters if wanted in letters]
    likely += get_close_matches(wanted, by_letters, 3, 0.75)
    names: list[str] = []
    for letters in dict.fromkeys(likely):
        names += by_letters[letters]
    return names


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


class MissingName(UseError, AttributeError):
    """A name that a module of einalg does not have."""


def missing_attribute(module: str, name: str, known: Iterable[str]) -> MissingName:
    """Return the error of a name that a module does not have, with the one that was meant."""
    remedy = f"see dir({module}) for what there is"
    if not name.startswith("_"):  # Python asks for many of those itself
        meant = similar(name, known)
        if meant:
            remedy = f"write {module}.{meant[0]}"
    return MissingName(f"{module} has no attribute {name!r}\n  {remedy}")
