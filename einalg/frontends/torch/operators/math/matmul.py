"""Torch's products of matrices and tensors."""

from __future__ import annotations

from typing import Any

from einalg.frontends.torch.nodes.registry import aten, register
from einalg.language import ops
from einalg.language.notation.einsum import einsum

register(
    {
        "mm.default bmm.default matmul.default mv.default dot.default vdot.default": lambda a, b: (
            ops.matmul(a, b)
        ),
        "linear.default": lambda x, weight, bias: ops.linear(x, weight, bias),
        "outer.default": lambda a, b: einsum("i,j->ij", a, b),
        "linalg_vecdot.default": lambda a, b, dim: ops.sum(ops.mul(a, b), dim),
    }
)


@aten("einsum.default")
def _einsum(equation: str, operands: Any, path: Any) -> Any:
    return einsum(equation, *operands)


@aten("bilinear.default")
def _bilinear(x: Any, y: Any, weight: Any, bias: Any) -> Any:
    total = einsum("...i,...j,kij->...k", x, y, weight)
    if bias is None:
        return total
    return ops.add(total, bias)
