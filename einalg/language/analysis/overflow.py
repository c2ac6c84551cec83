"""Overflow: where the integers of frameworks wrap round, and those of the language do not."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Padded

SHORT_INTEGERS = ("i8", "i16", "u8", "u16")  # too large values of longer ones are rare


def may_wrap(expression: Scope | Program) -> bool:
    """Return whether a scope or program does arithmetic that gives integers of 8 or 16 bits.

    What reads such a result would read a number that is too large for its type, once both are one
    expression.

    >>> import einalg as ea
    >>> A = ea.tensor("A", (3,), "u8")
    >>> may_wrap(ea.ops.sub(A, 1)), may_wrap(ea.ops.relu(A)), may_wrap(ea.ops.concat([A, A]))
    (True, False, False)
    """
    for _, statement in as_program(expression).statements:
        for scope in all_scopes(statement):
            if scope.dtype in SHORT_INTEGERS and _calculates(scope.body):
                return True
    return False


def _calculates(body: Any) -> bool:
    if isinstance(body, (Access, IndexArithmetic)):
        return False
    if isinstance(body, Reduce):
        return body.op in ("Sum", "Prod") or _calculates(body.body)
    if body.is_Add and all(map(_is_joined_part, body.args)):
        return False
    if body.is_Add or body.is_Mul or body.is_Pow or isinstance(body, sympy.Abs):
        return True
    return any(map(_calculates, body.args))


def _is_joined_part(term: Any) -> bool:
    """Return whether a term is a part of a concatenation, which is 0 at the places of the
    others.
    """
    return isinstance(term, Access) and isinstance(term.base, Padded) and term.base.fill == 0
