"""Normalizations: softmax in both of its meanings, and by mean and variance."""

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

PER_AXIS = (
    13  # the operator set from which on a softmax is over one axis, before over all from `axis` on
)


def _hardmax(x: Any, axis: int) -> Any:
    """1 at the first of the largest elements, 0 elsewhere."""
    place, at = operand(ops.argmax(x, axis, keepdims=True), "place"), result_indices(x.rank)
    first: Any = sympy.Eq(place[with_entries(at, {axis: affine(0)})], at[axis])
    return ops.cast(L[spans(at, x.shape)](sympy.Piecewise((1, first), (0, True))), x.dtype)


NORMALIZATIONS = {"Softmax": ops.softmax, "LogSoftmax": ops.log_softmax, "Hardmax": _hardmax}


@onnx_operator(*NORMALIZATIONS)
def softmax(node: Operator) -> Any:
    x, function = node.tensor(0), NORMALIZATIONS[node.type]
    axis = axis_number(node.integer("axis", -1 if node.version >= PER_AXIS else 1), "axis", x.rank)
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
    x, scale, bias, groups = (
        node.tensor(0),
        node.tensor(1),
        node.tensor(2),
        node.integer("num_groups"),
    )
    if node.version < 21:
        scale, bias = (ops.repeat(v, x.shape[1] // max(v.shape[0], 1), 0) for v in (scale, bias))
    return ops.group_norm(x, groups, scale, bias, eps=node.number("epsilon", 1e-5))


@onnx_operator("LayerNormalization", "RMSNormalization", ignoring="stash_type")
def layer_normalization(node: Operator) -> Any:
    """Over all axes from `axis` on; scale and bias broadcast."""
    if node.wants(1) or node.wants(2):
        raise NotExpressible("mean and deviation as outputs")
    x, eps = node.tensor(0), node.number("epsilon", 1e-5)
    axes = tuple(range(axis_number(node.integer("axis", -1), "axis", x.rank), x.rank))
    own = tuple(x.shape[a] for a in axes)
    scale, bias = node.tensor(1), node.optional(2)
    fits = scale.shape == own and (bias is None or bias.shape == own)
    weights = (scale, bias) if fits else (None, None)
    normal = (
        ops.layer_norm(x, *weights, axes=axes, eps=eps)
        if node.type == "LayerNormalization"
        else ops.rms_norm(x, weights[0], axes, eps)
    )
    if fits:
        return normal
    scaled = ops.mul(normal, scale)
    return scaled if bias is None else ops.add(scaled, bias)


@onnx_operator("MeanVarianceNormalization")
def mean_variance_normalization(node: Operator) -> Any:
    return ops.layer_norm(node.tensor(0), axes=node.sizes("axes", [0, 2, 3]), eps=1e-9)


@onnx_operator("LRN")
def local_response(node: Operator) -> Any:
    """Divided by a power of the mean square of the neighbouring channels."""
    x = operand(node.tensor(0), "x", least=2, dtype="float")
    size, alpha, beta, bias = (
        node.integer("size"),
        node.number("alpha", 1e-4),
        node.number("beta", 0.75),
        node.number("bias", 1.0),
    )
    if not 1 <= (size or 0) <= 2**16:
        raise NotExpressible(f"{size} channels")
    at, (r,) = result_indices(x.rank), result_indices(x.rank + 1)[x.rank :]
    before = (size - 1) // 2
    around = x.padded(with_entries(((0, 0),) * x.rank, {1: (before, size - 1 - before)}))
    squares = Sum[r:size](around[with_entries(at, {1: at[1] + r - before})] ** 2)
    return L[spans(at, x.shape)](x[at] / (bias + sympy.sympify(alpha) / size * squares) ** beta)
