"""ONNX normalizations: softmax in both of its meanings, and by mean and variance."""

from __future__ import annotations

from math import prod
from typing import Any

import sympy

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops
from einalg.language.index.convert import affine
from einalg.language.notation.builders import L, Sum
from einalg.language.ops.definition.axes import axis_number, result_indices, with_entries
from einalg.language.ops.definition.operands import operand, spans

# The operator set from which on a softmax is over one axis; before it is over all from `axis` on.
PER_AXIS = 13


def _hardmax(x: Any, axis: int) -> Any:
    """Return 1 at the first of the largest elements, 0 elsewhere."""
    place, at = operand(ops.argmax(x, axis, keepdims=True), "place"), result_indices(x.rank)
    first: Any = sympy.Eq(place[with_entries(at, {axis: affine(0)})], at[axis])
    return ops.cast(L[spans(at, x.shape)](sympy.Piecewise((1, first), (0, True))), x.dtype)


NORMALIZATIONS = {"Softmax": ops.softmax, "LogSoftmax": ops.log_softmax, "Hardmax": _hardmax}


@onnx_operator(*NORMALIZATIONS)
def softmax(node: Operator) -> Any:
    x, function = node.tensor(0), NORMALIZATIONS[node.type]
    default = 1
    if node.version >= PER_AXIS:
        default = -1
    axis = axis_number(node.integer("axis", default), "axis", x.rank)
    if node.version >= PER_AXIS or prod(x.shape[axis:]) == x.shape[axis]:
        return function(x, axis)
    rows = ops.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    return ops.reshape(function(rows, 1), x.shape)


@onnx_operator("BatchNormalization", ignoring="momentum is_test spatial consumed_inputs")
def batch_normalization(node: Operator) -> Any:
    if node.integer("training_mode", 0) or any(node.wants(k) for k in range(1, 5)):
        raise NotExpressible("a batch normalization in training mode")
    x, scale, bias, mean, variance = (node.tensor(k) for k in range(5))
    return ops.batch_norm(x, mean, variance, scale, bias, eps=node.number("epsilon", 1e-5))


@onnx_operator("InstanceNormalization", ignoring="consumed_inputs")
def instance_normalization(node: Operator) -> Any:
    return ops.instance_norm(
        node.tensor(0), node.tensor(1), node.tensor(2), eps=node.number("epsilon", 1e-5)
    )


@onnx_operator("GroupNormalization", ignoring="stash_type")
def group_normalization(node: Operator) -> Any:
    """Scale and bias are for each channel from operator set 21 on, for each group before."""
    x, groups = node.tensor(0), node.integer("num_groups")
    scale: Any = node.tensor(1)
    bias: Any = node.tensor(2)
    if node.version < 21:
        scale = ops.repeat(scale, x.shape[1] // max(scale.shape[0], 1), 0)
        bias = ops.repeat(bias, x.shape[1] // max(bias.shape[0], 1), 0)
    return ops.group_norm(x, groups, scale, bias, eps=node.number("epsilon", 1e-5))


@onnx_operator("LayerNormalization", "RMSNormalization", ignoring="stash_type")
def layer_normalization(node: Operator) -> Any:
    """Normalize over all axes from `axis` on; scale and bias broadcast."""
    if node.wants(1) or node.wants(2):
        raise NotExpressible("mean and deviation as outputs")
    x, eps = node.tensor(0), node.number("epsilon", 1e-5)
    axes = tuple(range(axis_number(node.integer("axis", -1), "axis", x.rank), x.rank))
    shape = x.shape[axes[0] :]
    scale, bias = node.tensor(1), node.optional(2)
    if scale.shape == shape and (bias is None or bias.shape == shape):
        return _normalized(node, x, scale, bias, axes, eps)
    scaled = ops.mul(_normalized(node, x, None, None, axes, eps), scale)
    if bias is None:
        return scaled
    return ops.add(scaled, bias)


def _normalized(
    node: Operator, x: Any, scale: Any, bias: Any, axes: tuple[int, ...], eps: float
) -> Any:
    if node.type == "LayerNormalization":
        return ops.layer_norm(x, scale, bias, axes=axes, eps=eps)
    return ops.rms_norm(x, scale, axes, eps)


@onnx_operator("MeanVarianceNormalization")
def mean_variance_normalization(node: Operator) -> Any:
    return ops.layer_norm(node.tensor(0), axes=node.sizes("axes", [0, 2, 3]), eps=1e-9)


@onnx_operator("LRN")
def local_response(node: Operator) -> Any:
    """Divide by a power of the mean square of the neighbouring channels."""
    x = operand(node.tensor(0), "x", least=2, dtype="float")
    size, bias = node.integer("size"), node.number("bias", 1.0)
    alpha, beta = node.number("alpha", 1e-4), node.number("beta", 0.75)
    if not 1 <= (size or 0) <= 2**16:
        raise NotExpressible(f"{size} channels")
    at, (r,) = result_indices(x.rank), result_indices(x.rank + 1)[x.rank :]
    before = (size - 1) // 2
    around = x.padded(with_entries(((0, 0),) * x.rank, {1: (before, size - 1 - before)}))
    squares = Sum[r:size](around[with_entries(at, {1: at[1] + r - before})] ** 2)
    return L[spans(at, x.shape)](x[at] / (bias + sympy.sympify(alpha) / size * squares) ** beta)
