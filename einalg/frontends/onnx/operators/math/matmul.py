"""Products of matrices and of any number of arrays."""

from __future__ import annotations

from typing import Any

from einalg.frontends.onnx.nodes.registry import Operator, onnx_operator
from einalg.language import ops
from einalg.language.notation.einsum import einsum
from einalg.language.ops.math.broadcasting import broadcast


@onnx_operator("MatMul")
def matmul(node: Operator) -> Any:
    return ops.matmul(node.tensor(0), node.tensor(1))


@onnx_operator("Gemm", ignoring="broadcast")
def gemm(node: Operator) -> Any:
    alpha, beta = _plain(node.number("alpha", 1.0)), _plain(node.number("beta", 1.0))
    product = ops.matmul(
        node.tensor(0),
        node.tensor(1),
        transpose_a=bool(node.integer("transA", 0)),
        transpose_b=bool(node.integer("transB", 0)),
    )
    if not node.has(2):
        if alpha == 1:
            return product
        return ops.mul(product, alpha)
    return broadcast(lambda p, c: alpha * p + beta * c, product=product, C=node.tensor(2))


def _plain(value: float) -> Any:
    """Return a whole number as an integer."""
    if value.is_integer():
        return int(value)
    return value


@onnx_operator("Einsum")
def einstein_sum(node: Operator) -> Any:
    return einsum(node.word("equation", ""), *(node.tensor(k) for k in range(len(node.inputs))))
