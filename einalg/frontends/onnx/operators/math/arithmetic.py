"""Functions of several arrays, broadcast against each other: arithmetic, comparisons, logic."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import sympy

from einalg.frontends.nonfinite import equal, is_read
from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops
from einalg.language.ir.dtypes import is_float
from einalg.language.ops.definition.scalars import is_number
from einalg.language.ops.math.broadcasting import broadcast
from einalg.language.ops.math.elementwise import truncated_remainder

BINARY: dict[str, Callable[..., Any]] = {
    "Add": ops.add,
    "Sub": ops.sub,
    "Mul": ops.mul,
    "Div": ops.div,
    "Equal": equal,
    "Less": ops.less,
    "LessOrEqual": ops.less_equal,
    "Greater": ops.greater,
    "GreaterOrEqual": ops.greater_equal,
    "And": ops.logical_and,
    "Or": ops.logical_or,
}
FOLDED: dict[str, Callable[..., Any]] = {
    "Max": ops.maximum,
    "Min": ops.minimum,
    "Sum": ops.add,
    "Mean": ops.add,
}
OLD = "broadcast axis consumed_inputs"
OLD_BROADCASTING = 7  # the first operator set with NumPy's


def operands(node: Operator) -> list[Any]:
    """Return the operands.

    Before operator set 7 the second one lies along the axes from `axis` on.
    """
    values = node.operands()
    axis = node.integer("axis")
    if node.version >= OLD_BROADCASTING or axis is None or is_number(values[1]):
        return values
    left, right = values
    last = left.rank - axis % max(left.rank, 1)
    return [left, ops.unsqueeze(right, tuple(range(right.rank, last)))]


@onnx_operator(*BINARY, ignoring=OLD)
def binary(node: Operator) -> Any:
    left, right = operands(node)
    if node.type == "Div":
        tensor = left
        if is_number(left):
            tensor = right
        if not is_float(tensor.dtype):
            raise NotExpressible("the language has no division of integers")
    result = BINARY[node.type](left, right)
    if not is_read(result, left, right):
        raise NotExpressible("over the real numbers it would not depend on an operand")
    return result


@onnx_operator("Xor", ignoring=OLD)
def exclusive_or(node: Operator) -> Any:
    left, right = operands(node)
    return broadcast(lambda p, q: sympy.Ne(p, q), "any", a=left, b=right)


@onnx_operator("Pow", ignoring=OLD)
def power(node: Operator) -> Any:
    """The result has the type of the base; a whole exponent that is known stays whole."""
    base, exponent = operands(node)
    return ops.pow(base, exponent)


@onnx_operator("Mod")
def modulo(node: Operator) -> Any:
    """`fmod`, whose result has the sign of the dividend; of integers nothing."""
    left, right = node.operands()
    if not node.integer("fmod", 0) or not is_float(node.dtypes[0] or "i64"):
        raise NotExpressible("the language has no division of integers")
    return broadcast(truncated_remainder, a=left, b=right)


@onnx_operator(*FOLDED, ignoring=OLD)
def folded(node: Operator) -> Any:
    values = node.operands()
    total = reduce(FOLDED[node.type], values)
    if node.type == "Mean" and len(values) > 1:
        return ops.div(total, len(values))
    return total
