"""Which laws an expression obeys besides those of a field: what an evaluation can tell (design
§9).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import sympy
from sympy.functions.elementary.piecewise import ExprCondPair

from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Padded
from einalg.language.ir.traversal import accesses

FIELD_REDUCTIONS = "Sum", "Prod"
ORDERED_FUNCTIONS = (
    sympy.Max,
    sympy.Min,
    sympy.Abs,
    sympy.sign,
    sympy.floor,
    sympy.ceiling,
    Mod,
    Quotient,
    sympy.Rel,
    sympy.logic.boolalg.BooleanFunction,
)


class Laws(IntEnum):
    """`RATIONAL`: a difference in a field is a difference. `ORDERED`: exact on rational numbers.
    `REAL`: everything else.
    """

    RATIONAL = 0
    ORDERED = 1
    REAL = 2


def laws(scope: Scope) -> Laws:
    """Return what the functions of an expression, and of what it reads, obey."""
    return max((_laws(node.body) for node in all_scopes(scope)), default=Laws.RATIONAL)


def _laws(body: Any) -> Laws:
    if isinstance(body, IndexArithmetic):
        return Laws.RATIONAL
    if isinstance(body, Access):
        return _weakest(*map(_laws, _fills(body.base)))
    if isinstance(body, Reduce):
        return _weakest(_laws(body.body), _reduction_laws(body))
    if not body.args:
        return _constant_laws(body)
    return _weakest(_function_laws(body), *map(_laws, body.args))


def _weakest(*several: Laws) -> Laws:
    return max(several, default=Laws.RATIONAL)


def _fills(view: Any) -> Iterable[Any]:
    while isinstance(view, Padded):
        yield view.fill
        view = view.base


def _reduction_laws(node: Reduce) -> Laws:
    return Laws.RATIONAL if node.op in FIELD_REDUCTIONS else Laws.ORDERED


def _constant_laws(value: Any) -> Laws:
    if value.is_Rational or value.is_Float or value in (sympy.true, sympy.false):
        return Laws.RATIONAL
    return Laws.ORDERED if value in (sympy.oo, -sympy.oo) else Laws.REAL


def _function_laws(body: Any) -> Laws:
    if isinstance(body, (sympy.Add, sympy.Mul, sympy.Piecewise, ExprCondPair)):
        return Laws.RATIONAL
    if isinstance(body, sympy.Pow):
        return Laws.RATIONAL if _is_rational_power(body) else Laws.REAL
    if isinstance(body, ORDERED_FUNCTIONS):
        reads_nothing = next(accesses(body), None) is None
        return Laws.RATIONAL if reads_nothing and is_whole(body) else Laws.ORDERED
    return Laws.REAL


def _is_rational_power(body: Any) -> bool:
    if body.exp.is_Integer:
        return True
    return isinstance(body.exp, IndexArithmetic) and body.base.is_Rational


def is_whole(body: Any) -> bool:
    """Return whether a function of indices divides nothing: fields evaluate it with floats, which
    are exact then.
    """
    if isinstance(body, (IndexArithmetic, sympy.Integer)):
        return True
    if isinstance(body, sympy.Pow) and not (body.exp.is_Integer and body.exp >= 0):
        return False
    return not body.is_Number and not isinstance(body, Reduce) and all(map(is_whole, body.args))
