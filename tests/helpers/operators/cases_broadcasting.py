"""Functions of several elements against NumPy, of shapes that broadcast and of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from einalg.language import ops
from tests.helpers.operators.harness import case, flip, floats, integers, size
from tests.helpers.operators.operands import readable, some_shape

Reference = Callable[..., Any]
NUMBERS: dict[str, Reference] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
}  # fmt: skip
CONDITIONS: dict[str, Reference] = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "equal": np.equal,
    "not_equal": np.not_equal,
}


def _shapes(rng: Any, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast with each other, of different ranks at times."""
    full = some_shape(rng)
    return [
        tuple(1 if flip(rng, 0.25) else s for s in full)[
            size(rng, 0, len(full)) if flip(rng) else 0 :
        ]
        for _ in range(count)
    ]


def operands(
    rng: Any, names: str, array: Callable[[Any, Any], Any], numbers: bool = True
) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """Operands, the arrays to give for them, and their values; one of them may be a number."""
    scalar = int(rng.integers(0, len(names))) if numbers and flip(rng, 0.3) else None
    given, arrays, values = [], {}, []
    for position, (name, shape) in enumerate(zip(names, _shapes(rng, len(names)))):
        value = array(rng, () if position == scalar else shape)
        if position == scalar:
            value = value if value else value + 2  # a product with the number 0 is the number 0
            given.append(value.item() if hasattr(value, "item") else value)
        else:
            operand, arrays[name], value = readable(rng, value, name)
            given.append(operand)
        values.append(value)
    return given, arrays, values


def register(
    name: str,
    reference: Reference,
    array: Callable[[Any, Any], Any],
    label: str,
    numbers: bool = True,
) -> None:
    def compared(rng: Any) -> Any:
        given, arrays, values = operands(rng, "ab", array, numbers)
        return getattr(ops, name)(*given), arrays, reference(*values)

    compared.__name__ = f"{name}_of_{label}"
    case(name)(compared)


def few(rng: Any, shape: Any) -> Any:
    """Integers of which many are equal."""
    return integers(rng, shape, -1, 2)


def conditions(rng: Any, shape: Any) -> Any:
    return rng.random(shape) < 0.5


for name, reference in NUMBERS.items():
    register(name, reference, few, "integers")
    register(name, reference, floats, "floats")
for name, reference in CONDITIONS.items():
    register(name, reference, conditions, "conditions", numbers=False)


@case("logical_not")
def logical_not(rng: Any) -> Any:
    values = conditions(rng, some_shape(rng))
    x, stored, values = readable(rng, values)
    return ops.logical_not(x), {"x": stored}, ~values


@case("div")
def div(rng: Any) -> Any:
    """A divisor of 0 is replaced in the expression, because a view may be filled with it."""
    given, arrays, (a, b) = operands(rng, "ab", lambda rng, shape: floats(rng, shape) + 3)
    divisor = given[1] if isinstance(given[1], float) else ops.where(given[1], given[1], 4)
    return ops.div(given[0], divisor), arrays, a / np.where(b == 0, 4, b)


@case("pow")
def whole_exponents(rng: Any) -> Any:
    values = integers(rng, some_shape(rng), -4, 4)
    x, stored, values = readable(rng, values)
    exponent = size(rng, 1, 5)
    return ops.pow(x, exponent), {"x": stored}, values**exponent


@case("pow")
def real_exponents(rng: Any) -> Any:
    given, arrays, (a, b) = operands(rng, "ab", lambda rng, shape: floats(rng, shape))
    base = abs(given[0]) if isinstance(given[0], float) else ops.add(ops.abs(given[0]), 0.5)
    value = np.abs(a) if isinstance(given[0], float) else np.abs(a) + 0.5
    return ops.pow(base, given[1]), arrays, value**b


@case("where")
def where(rng: Any) -> Any:
    shapes = _shapes(rng, 3)
    condition = conditions(rng, shapes[0]) if flip(rng) else few(rng, shapes[0])
    a, b = few(rng, shapes[1]), few(rng, shapes[2])
    tensors, arrays, values = [], {}, []
    for name, value in (("c", condition), ("a", a), ("b", b)):
        tensor, arrays[name], elements = readable(rng, value, name)
        tensors.append(tensor)
        values.append(elements)
    if flip(rng, 0.3):
        tensors[2] = values[2] = 7
        del arrays["b"]
    return ops.where(*tensors), arrays, np.where(values[0] != 0, values[1], values[2])


@case("bias_add")
def bias_add(rng: Any) -> Any:
    values = integers(rng, some_shape(rng, 1, 4, 3))
    axis = int(rng.integers(-values.ndim, values.ndim))
    added = integers(rng, values.shape[axis : axis + 1 or None])
    x, x_stored, values = readable(rng, values)
    bias, bias_stored, added = readable(rng, added, "bias")
    aligned = added.reshape([-1 if a == axis % values.ndim else 1 for a in range(values.ndim)])
    return ops.bias_add(x, bias, axis), {"x": x_stored, "bias": bias_stored}, values + aligned
