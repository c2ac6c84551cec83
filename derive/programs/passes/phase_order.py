"""Phase order: dilated convolutions as plain ones, all of a program at once (PET, design §15).

The points that one window reads lie side by side if an axis has its even points first, then its odd
ones. Convolutions that follow each other have all their tensors in this order, which are moved
before the first and after the last one alone. Every change is a move of a rule.
"""

from __future__ import annotations

from collections.abc import Callable

from derive.programs.passes.normalise import fused
from derive.rules import ALL
from derive.search.starts.arranged_together import arranged_together
from derive.search.starts.partly_equal import arrangements_together
from einalg.errors import EinalgError
from einalg.language.ir.program import Program
from einalg.language.ir.tensor import Access


def in_phases(program: Program, is_late: Callable[[], bool] = lambda: False) -> Program:
    """Return a flat program with all its dilated convolutions as plain ones; itself where there is
    at most one, where a rule does not allow it, and once it `is_late`.

    >>> import einalg as ea
    >>> text = "T[h:8] = Sum[r](A.pad(2)[h+2*r-2]*K[r])\\nO[h:8] = Sum[r](T.pad(2)[h+2*r-2]*L[r])"
    >>> for name, scope in in_phases(ea.parse(text, A=(8,), K=(3,), L=(3,))).statements:
    ...     print(name, scope.shape)
    T2 (9,)
    T1 (9,)
    T4 (9,)
    T3 (9,)
    O (8,)
    """
    for at in arrangements_together(program):
        if is_late():
            return program
        if any(mutation["kind"] == "interleave" for steps in at.values() for mutation in steps):
            try:
                changed, _ = arranged_together(program, at, ALL)
            except EinalgError:
                return program
            return fused(changed, lambda _, scope: isinstance(scope.body, Access))[0]
    return program
