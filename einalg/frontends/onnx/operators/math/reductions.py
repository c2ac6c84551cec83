"""ONNX reductions over axes, which are an attribute in older operator sets, an input in newer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops
from einalg.language.notation.builders import Max, Min
from einalg.language.ops.math.cast import in_single
from einalg.language.ops.math.elementwise import elementwise
from einalg.language.ops.math.reductions import logsumexp_of_infinities, reduce_axes

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": ops.sum,
    "ReduceMean": ops.mean,
    "ReduceMax": ops.max,
    "ReduceMin": ops.min,
    "ReduceProd": ops.prod,
    "ReduceLogSumExp": logsumexp_of_infinities,
    "ReduceL1": lambda x, axes, keepdims: ops.norm(x, axes, keepdims, 1),
    "ReduceL2": ops.norm,
    "ReduceSumSquare": in_single(
        lambda x, axes, keepdims: ops.sum(elementwise(x, lambda v: v**2), axes, keepdims)
    ),
    "ReduceLogSum": in_single(
        lambda x, axes, keepdims: elementwise(ops.sum(x, axes, keepdims), sympy.log)
    ),
}
OF_TRUTH = {"ReduceMax": Max, "ReduceMin": Min}


@onnx_operator(*REDUCTIONS, ignoring="noop_with_empty_axes")
def reduction(node: Operator) -> Any:
    x = node.tensor(0)
    axes = node.sizes("axes")
    if node.has(1):
        axes = node.integers(1, "axes")
    keepdims = bool(node.integer("keepdims", 1))
    if not axes and node.integer("noop_with_empty_axes", 0):
        return _of_nothing(node, x)
    axes = tuple(axes or ()) or None
    if x.dtype == "bool" and node.type in OF_TRUTH:
        r = reduce_axes(x, axes, "any")
        return r.result(r.over(OF_TRUTH[node.type], r.element), keepdims)
    return REDUCTIONS[node.type](x, axes, keepdims)


def _of_nothing(node: Operator, x: Any) -> Any:
    """Return a reduction over no axes: what it does to one element."""
    functions = {
        "ReduceL1": sympy.Abs,
        "ReduceL2": sympy.Abs,
        "ReduceSumSquare": lambda v: v**2,
        "ReduceLogSum": sympy.log,
    }
    if node.type not in functions:
        return x
    return elementwise(x, functions[node.type])


@onnx_operator("ArgMax", "ArgMin")
def place(node: Operator) -> Any:
    find = ops.argmin
    if node.type == "ArgMax":
        find = ops.argmax
    return find(
        node.tensor(0),
        node.integer("axis", 0),
        bool(node.integer("keepdims", 1)),
        bool(node.integer("select_last_index", 0)),
    )


@onnx_operator("LpNormalization")
def lp_normalization(node: Operator) -> Any:
    x, order = node.tensor(0), node.integer("p", 2)
    if order not in (1, 2):
        raise NotExpressible(f"a norm of order {order}")
    size = ops.norm(x, node.integer("axis", -1), True, order)
    safe = elementwise(
        size, lambda v: sympy.Piecewise((1, sympy.Eq(v, 0)), (v, True))
    )  # zeros stay zeros
    return ops.div(x, safe)
