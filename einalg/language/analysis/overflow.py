"""Where the integers of frameworks wrap round, and the whole numbers of the language do not."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Padded

SHORT = ("i8", "i16", "u8", "u16")  # with longer integers too large values are rare


def may_wrap(expression: Scope | Program) -> bool:
    """Whether a scope or program does arithmetic that gives integers of 8 or 16 bits.

    What reads such a result would read a number that is too large for its type, once both are one
    expression.

    >>> import einalg as ea
    >>> A = ea.tensor("A", (3,), "u8")
    >>> may_wrap(ea.ops.sub(A, 1)), may_wrap(ea.ops.relu(A)), may_wrap(ea.ops.concat([A, A])), may_wrap(ea.ops.cast(A, "f32"))
    (True, False, False, False)
    """
    scopes = [
        scope for _, whole in as_program(expression).statements for scope in all_scopes(whole)
    ]
    return any(scope.dtype in SHORT and _calculates(scope.body) for scope in scopes)


def _calculates(body: Any) -> bool:
    if isinstance(body, (Access, IndexArithmetic)):
        return False
    if isinstance(body, Reduce):
        return body.op in ("Sum", "Prod") or _calculates(body.body)
    if body.is_Add and all(map(_is_beside, body.args)):
        return False
    return (
        bool(body.is_Add or body.is_Mul or body.is_Pow)
        or isinstance(body, sympy.Abs)
        or any(map(_calculates, body.args))
    )


def _is_beside(term: Any) -> bool:
    """Whether a term is a part of what operators put together: 0 where the others lie."""
    return isinstance(term, Access) and isinstance(term.base, Padded) and term.base.fill == 0
