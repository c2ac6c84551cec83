"""Library operators as expressions: the definition types an operator, is its template for matching, and its reference (design §5)."""

from __future__ import annotations

from einalg.ops.contraction import linear, matmul
from einalg.ops.registry import OPERATORS, operator

__all__ = ["OPERATORS", "linear", "matmul", "operator"]
