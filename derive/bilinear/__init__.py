"""Bilinear factorisations: few products of linear combinations in the place of many products.

`factorisation` is the value, `toom_cook` and `strassen` make some, and `registry` has names for
moves; `tiling` cuts a contraction into small problems, and `assembly` writes them as a scope. The
folder imports `einalg.language` and `derive.rewriting.body_queries`. A new factorisation is
registered by name; a new kind of small problem is a function in `tiling`.
"""

from __future__ import annotations

from derive.bilinear.factorisation import Factorisation
from derive.bilinear.registry import named, register, registered
from derive.bilinear.strassen import STRASSEN, matmul, matmul_tensor
from derive.bilinear.toom_cook import correlation, correlation_tensor

__all__ = [
    "STRASSEN",
    "Factorisation",
    "correlation",
    "correlation_tensor",
    "matmul",
    "matmul_tensor",
    "named",
    "register",
    "registered",
]
