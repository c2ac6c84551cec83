"""An expression or a candidate as a flat program with its kernels, whose schedules are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from derive.matching import kernels_of
from derive.results.candidates import Candidate
from derive.rules.inter.lifting_nesting import lifted
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, as_program


def flat_program(expression: Any) -> tuple[Program, Sequence[Kernel]]:
    """Return a program with a statement for each scope, and its kernels.

    Raises `NotationError` for anything but an expression or a candidate of a derivation.
    """
    if isinstance(expression, Candidate):
        return expression.program, expression.kernels
    flat = lifted(as_program(expression))
    return flat, kernels_of(flat)
