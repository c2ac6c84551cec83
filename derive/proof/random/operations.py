"""Which operations an expression uses besides those of a field: they decide over what kind of
numbers an evaluation can tell it from another (design §9).
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


class Operations(IntEnum):
    """`RATIONAL`: those of a field, in which a difference is a difference. `ORDERED`: an order too,
    so that rational numbers decide. `REAL`: everything else.
    """

    RATIONAL = 0
    ORDERED = 1
    REAL = 2


def operations_of(scope: Scope) -> Operations:
    """Return the operations of an expression, and of what it reads."""
    return max((_operations(node.body) for node in all_scopes(scope)), default=Operations.RATIONAL)


def _operations(body: Any) -> Operations:
    if isinstance(body, IndexArithmetic):
        return Operations.RATIONAL
    if isinstance(body, Access):
        return _richest(*map(_operations, fills(body.base)))
    if isinstance(body, Reduce):
        return _richest(_operations(body.body), _reduction_operations(body))
    if not body.args:
        return _constant_operations(body)
    return _richest(_function_operations(body), *map(_operations, body.args))


def _richest(*several: Operations) -> Operations:
    return max(several, default=Operations.RATIONAL)


def fills(view: Any) -> Iterable[Any]:
    """Yield the numbers that the paddings of a view hold."""
    while isinstance(view, Padded):
        yield view.fill
        view = view.base


def _reduction_operations(node: Reduce) -> Operations:
    return Operations.RATIONAL if node.op in FIELD_REDUCTIONS else Operations.ORDERED


def _constant_operations(value: Any) -> Operations:
    if value.is_Rational or value.is_Float or value in (sympy.true, sympy.false):
        return Operations.RATIONAL
    return Operations.ORDERED if value in (sympy.oo, -sympy.oo) else Operations.REAL


def _function_operations(body: Any) -> Operations:
    if isinstance(body, (sympy.Add, sympy.Mul, sympy.Piecewise, ExprCondPair)):
        return Operations.RATIONAL
    if isinstance(body, sympy.Pow):
        return Operations.RATIONAL if _is_rational_power(body) else Operations.REAL
    if isinstance(body, ORDERED_FUNCTIONS):
        reads_nothing = next(accesses(body), None) is None
        return Operations.RATIONAL if reads_nothing and is_whole(body) else Operations.ORDERED
    return Operations.REAL


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
