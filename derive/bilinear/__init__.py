"""Bilinear factorisations: few products of linear combinations in the place of many products (Winograd, Strassen, a user's own)."""

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
