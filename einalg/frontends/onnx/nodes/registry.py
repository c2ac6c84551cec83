"""The table of ONNX operators that the language expresses, and nodes as definitions see them."""

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
MAX_EXACT_FLOAT = 2**53  # beyond, a whole number is not the same as a float
MAX_SIZE = 2**31


class NotExpressible(EinalgError):
    """A node that stays a call, and why."""


IGNORED: dict[str, frozenset[str]] = {}  # attributes that a definition need not read


def onnx_operator(*names: str, ignoring: str = "") -> Callable[[Definition], Definition]:
    """Register a definition of operators of the standard domain.

    `ignoring` names attributes that change nothing. A definition takes an `Operator` and returns
    its outputs: a scope, a program, a tuple of these; an array where the result is constant; a
    tensor where it is that of an input. It raises an `EinalgError` where the language cannot
    express it.

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
    """A node as a definition sees it.

    `version` is that of the operator set; inputs that are left out are None.
    """

    type: str
    version: int
    attributes: Mapping[str, Any]
    inputs: tuple[Value | None, ...]
    outputs: tuple[str, ...]  # "" where an output is left out
    dtypes: tuple[str | None, ...] = ()  # of the outputs, as ONNX infers them
    seen: set[str] = field(default_factory=set, repr=False)
    read: Callable[[Value], Tensor | None] = field(repr=False, default=lambda value: value.tensor)

    def has(self, position: int) -> bool:
        """Return whether an input is there."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def wants(self, position: int) -> bool:
        """Return whether somebody may read an output."""
        return position < len(self.outputs) and bool(self.outputs[position])

    def _value(self, position: int) -> Value:
        if not self.has(position):
            raise NotExpressible(f"input {position} is missing")
        return self.inputs[position]  # pyright: ignore

    def tensor(self, position: int) -> Tensor:
        """Return an input as a tensor of the language."""
        value = self._value(position)
        tensor = self.read(value)
        if tensor is not None:
            return tensor
        if value.shape is None:
            raise NotExpressible(f"the shape of {value.name} is known at run time only")
        raise NotExpressible(f"{value.name} has elements of a type that the language does not have")

    def optional(self, position: int) -> Tensor | None:
        """Return an input as a tensor, or None where it is left out."""
        if not self.has(position):
            return None
        return self.tensor(position)

    def operands(self) -> list[Any]:
        """Return all inputs, to be broadcast against each other.

        They are tensors, and numbers for those that are one constant number.
        """
        rank = -1
        for value in self.inputs:
            if value is not None and not _is_single(value):
                rank = max(rank, len(value.shape or ()))
        operands: list[Any] = []
        for position, value in enumerate(self.inputs):
            number = None
            if value is not None and _is_single(value) and value.array.ndim <= rank:
                number = plain_number(value.array)
            if number is None:
                number = self.tensor(position)
            operands.append(number)
        return operands

    def array(self, position: int, what: str) -> Array:
        """Return an input that must be constant, a parameter of the operator."""
        value = self._value(position)
        if value.array is None:
            raise NotExpressible(f"{what} ({value.name}) is known at run time only")
        return value.array

    def integers(self, position: int, what: str) -> tuple[int, ...]:
        """Return a constant list of integers."""
        array = self.array(position, what)
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise NotExpressible(f"{what} is not a list of integers")
        return tuple(int(v) for v in array.ravel())

    def scalar(self, position: int, what: str, default: Any = None) -> Any:
        """Return a constant of one element as a Python number; `default` where it is left out."""
        if not self.has(position):
            return default
        array = self.array(position, what)
        if array.size != 1 or array.dtype.kind not in "iufb":
            raise NotExpressible(f"{what} is not one number")
        return array.ravel()[0].item()

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute of any kind."""
        self.seen.add(name)
        return self.attributes.get(name, default)

    @property
    def unread(self) -> list[str]:
        """The attributes that a definition has not looked at."""
        expected = {*self.seen, *IGNORED.get(self.type, ())}
        return [name for name in self.attributes if name not in expected]

    def _attribute(self, name: str, default: Any, fits: Callable[[Any], bool]) -> Any:
        value = self.attribute(name, default)
        if value is not default and not fits(value):
            raise NotExpressible(f"attribute {name} is {value!r}, which it cannot be")
        return value

    def integer(self, name: str, default: Any = None) -> Any:
        """Return an attribute that is an integer."""
        return self._attribute(name, default, is_whole)

    def sizes(self, name: str, default: Any = None) -> Any:
        """Return an attribute that is a list of integers, none of them absurdly large."""
        value = self._attribute(name, default, _is_integer_list)
        if value is None:
            return None
        if any(abs(size) > MAX_SIZE for size in value):
            raise NotExpressible(f"attribute {name} has the value {value}")
        return tuple(value)

    def number(self, name: str, default: Any = None) -> Any:
        """Return an attribute that is a finite number."""
        return self._attribute(name, default, _is_finite_float)

    def word(self, name: str, default: str) -> str:
        """Return an attribute that is text."""
        value = self._attribute(name, default, lambda value: isinstance(value, (bytes, str)))
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        return value


def _is_integer_list(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_whole, value))


def _is_finite_float(value: Any) -> bool:
    return isinstance(value, float) and bool(np.isfinite(value))


def _is_single(value: Value) -> bool:
    """Return whether a value is one constant number."""
    return value.array is not None and value.array.size == 1 and dtype_of(value.type) is not None


def plain_number(array: Array, infinite: bool = False) -> Any:
    """Return one element as a Python number, an integer where it is whole.

    None where the language has no such number.
    """
    element = array.ravel()[0]
    if array.dtype.kind in "iu":
        return int(element)
    if array.dtype.kind not in "fV":
        return None
    number = float(element)
    if np.isnan(number) or (np.isinf(number) and not infinite):
        return None
    if number.is_integer() and abs(number) < MAX_EXACT_FLOAT:
        return int(number)
    return number
