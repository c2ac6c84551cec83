"""The table of ONNX operators that the language expresses, and what a definition sees of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einalg.errors import EinalgError
from einalg.frontends.onnx.nodes.values import Array, Value, dtype_of
from einalg.language.ir.tensor import Tensor
from einalg.language.ops.definition.operands import is_whole

Definition = Callable[["Operator"], Any]
DEFINITIONS: dict[str, Definition] = {}
LARGEST_NUMBER = (
    2**53
)  # that a float holds exactly: beyond, a whole number is not the same as a float
LARGEST_SIZE = 2**31


class NotExpressible(EinalgError):
    """A node that stays a call, and why."""


class NotKnown(NotExpressible):
    """A node that stays a call because `value` (its name in the file) is known at run time only."""

    def __init__(self, text: str, value: str):
        super().__init__(text)
        self.value = value


IGNORED: dict[str, frozenset[str]] = {}  # attributes that a definition need not read


def onnx_operator(*names: str, ignoring: str = "") -> Callable[[Definition], Definition]:
    """Register a definition of operators of the standard domain; `ignoring` names attributes that change nothing.

    A definition takes an `Operator` and returns what its outputs are: a scope, a program, a tuple of these; an array where
    the result is known; a tensor where it is that of an input. It raises an `EinalgError` where the language cannot say it.

    >>> @onnx_operator("Thrice")
    ... def thrice(node):
    ...     return ops.mul(node.tensor(0), 3)
    >>> DEFINITIONS.pop("Thrice") is thrice
    True
    """

    def register(definition: Definition) -> Definition:
        for name in names:
            if name in DEFINITIONS:
                raise ValueError(f"{name} is defined twice")
            DEFINITIONS[name] = definition
            IGNORED[name] = frozenset(ignoring.split())
        return definition

    return register


@dataclass
class Operator:
    """A node as a definition sees it. `version` is that of the operator set; inputs that are left out are None."""

    type: str
    version: int
    attributes: Mapping[str, Any]
    inputs: tuple[Value | None, ...]
    outputs: tuple[str, ...]  # "" where an output is left out
    dtypes: tuple[str | None, ...] = ()  # of the outputs, as ONNX infers them
    seen: set[str] = field(default_factory=set, repr=False)
    read: Callable[[Value], Tensor | None] = field(repr=False, default=lambda value: value.tensor)

    def has(self, position: int) -> bool:
        """Whether an input is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def wants(self, position: int) -> bool:
        """Whether somebody may read an output."""
        return position < len(self.outputs) and bool(self.outputs[position])

    def _value(self, position: int) -> Value:
        if not self.has(position):
            raise NotExpressible(f"input {position} is missing")
        return self.inputs[position]  # pyright: ignore

    def tensor(self, position: int) -> Tensor:
        """An input as a tensor of the language."""
        value = self._value(position)
        tensor = self.read(value)
        if tensor is not None:
            return tensor
        if value.shape is None:
            raise NotExpressible(f"the shape of {value.name} is known at run time only")
        raise NotExpressible(f"{value.name} has elements of a type that the language does not have")

    def optional(self, position: int) -> Tensor | None:
        """An input as a tensor, or None where it is left out."""
        return self.tensor(position) if self.has(position) else None

    def operands(self) -> list[Any]:
        """All inputs, to be broadcast against each other: tensors, and numbers for those that are one known number."""
        values = [value for value in self.inputs if value is not None]
        rank = max((len(v.shape or ()) for v in values if not _is_single(v)), default=-1)
        numbers = [
            plain_number(v.array)
            if v is not None and _is_single(v) and v.array.ndim <= rank
            else None
            for v in self.inputs
        ]
        return [n if n is not None else self.tensor(position) for position, n in enumerate(numbers)]

    def array(self, position: int, what: str) -> Array:
        """An input that must be known, a parameter of the operator."""
        value = self._value(position)
        if value.array is None:
            raise NotKnown(f"{what} ({value.name}) is known at run time only", value.name)
        return value.array

    def integers(self, position: int, what: str) -> tuple[int, ...]:
        """A known list of integers."""
        array = self.array(position, what)
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise NotExpressible(f"{what} is not a list of integers")
        return tuple(int(v) for v in array.ravel())

    def scalar(self, position: int, what: str, default: Any = None) -> Any:
        """A known input of one element as a Python number; `default` where it is left out."""
        if not self.has(position):
            return default
        array = self.array(position, what)
        if array.size != 1 or array.dtype.kind not in "iufb":
            raise NotExpressible(f"{what} is not one number")
        return array.ravel()[0].item()

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of any kind."""
        self.seen.add(name)
        return self.attributes.get(name, default)

    @property
    def unread(self) -> list[str]:
        """The attributes that a definition has not looked at."""
        return [
            name
            for name in self.attributes
            if name not in self.seen and name not in IGNORED.get(self.type, ())
        ]

    def _attribute(self, name: str, default: Any, fits: Callable[[Any], bool]) -> Any:
        value = self.attribute(name, default)
        if value is not default and not fits(value):
            raise NotExpressible(f"attribute {name} is {value!r}, which it cannot be")
        return value

    def integer(self, name: str, default: Any = None) -> Any:
        """An attribute that is an integer."""
        return self._attribute(name, default, is_whole)

    def sizes(self, name: str, default: Any = None) -> Any:
        """An attribute that is a list of integers, none of them absurdly large."""
        found = self._attribute(
            name, default, lambda value: isinstance(value, list) and all(map(is_whole, value))
        )
        if found is not None and any(abs(v) > LARGEST_SIZE for v in found):
            raise NotExpressible(f"attribute {name} has the value {found}")
        return None if found is None else tuple(found)

    def number(self, name: str, default: Any = None) -> Any:
        """An attribute that is a finite number."""
        return self._attribute(
            name, default, lambda value: isinstance(value, float) and bool(np.isfinite(value))
        )

    def word(self, name: str, default: str) -> str:
        """An attribute that is text."""
        found = self._attribute(name, default, lambda value: isinstance(value, (bytes, str)))
        return found.decode(errors="replace") if isinstance(found, bytes) else found


def _is_single(value: Value) -> bool:
    """Whether a value is one number that is known."""
    return value.array is not None and value.array.size == 1 and dtype_of(value.type) is not None


def plain_number(array: Array, infinite: bool = False) -> Any:
    """One element as a Python number, whole where it is; None where the language has no such number."""
    element = array.ravel()[0]
    if array.dtype.kind in "iu":
        return int(element)
    if array.dtype.kind not in "fV":
        return None
    found = float(element)
    if not np.isfinite(found):
        return found if infinite and not np.isnan(found) else None
    return int(found) if found.is_integer() and abs(found) < LARGEST_NUMBER else found
