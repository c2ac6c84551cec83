"""Which laws an expression obeys besides those of a field, and how large its degree is: what an
evaluation can tell (design §9).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Any

import sympy
from sympy.functions.elementary.piecewise import ExprCondPair

from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.remainder import Mod
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Constant, Padded
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
        return Laws.RATIONAL if reads_nothing and _is_whole(body) else Laws.ORDERED
    return Laws.REAL


def _is_rational_power(body: Any) -> bool:
    if body.exp.is_Integer:
        return True
    return isinstance(body.exp, IndexArithmetic) and body.base.is_Rational


def _is_whole(body: Any) -> bool:
    """Return whether a function of indices divides nothing: fields evaluate it with floats, which
    are exact then.
    """
    if isinstance(body, (IndexArithmetic, sympy.Integer)):
        return True
    if isinstance(body, sympy.Pow) and not (body.exp.is_Integer and body.exp >= 0):
        return False
    return not body.is_Number and not isinstance(body, Reduce) and all(map(_is_whole, body.args))


@dataclass(frozen=True)
class Degree:
    """The degree of an element as a rational function of the inputs and of the values of functions,
    of which there are `applications`.

    For `exp(A[i]**2)/B[i]` the numerator has degree 1, the denominator 1, and exp, applied once, an
    argument of degree 2.
    """

    numerator: int = 0
    denominator: int = 0
    applications: int = 0
    argument: int = 0  # the largest sum of both degrees of an argument of a function

    @property
    def both(self) -> int:
        return self.numerator + self.denominator

    def times(self, count: int) -> Degree:
        """Return the degree of the product of `count` such elements."""
        return Degree(
            self.numerator * count,
            self.denominator * count,
            self.applications * count,
            self.argument,
        )

    @property
    def inverse(self) -> Degree:
        return Degree(self.denominator, self.numerator, self.applications, self.argument)


class Unbounded(Exception):
    """There is no bound: a root, or a choice by order, is met too rarely or too often."""


def miss_probability(scopes: Iterable[Scope], modulus: int) -> float | None:
    """Return a bound of the probability that elements that differ are equal at one random point of
    a field; None where none is known.

    Schwartz and Zippel: degree / modulus. A function such as exp is as good as random where it is
    applied, so that besides no two of its different arguments may meet.
    """
    try:
        degrees = [_degree(scope.body, {}) for scope in scopes]
    except Unbounded:
        return None
    together = _degree_of_product(degrees)
    pairs = together.applications * (together.applications - 1) // 2
    meetings = pairs * 2 * together.argument
    return min(1.0, (together.both + meetings) / modulus)


def _largest_argument(degrees: Iterable[Degree]) -> int:
    return max((degree.argument for degree in degrees), default=0)


def _degree(body: Any, known: dict[int, Degree]) -> Degree:
    """Return the degree of a body; `known` are those of scopes by identity."""
    if isinstance(body, Access):
        return _degree_of_read(body.tensor, known)
    if isinstance(body, Reduce):
        return _degree_of_reduction(body, known)
    if isinstance(body, IndexArithmetic) or next(accesses(body), None) is None:
        return Degree()
    parts = [_degree(part, known) for part in body.args]
    if isinstance(body, sympy.Add):
        return _degree_of_sum(parts, 1)
    if isinstance(body, sympy.Mul):
        return _degree_of_product(parts)
    return _degree_of_function(body, parts)


def _degree_of_read(tensor: Any, known: dict[int, Degree]) -> Degree:
    if isinstance(tensor, Constant):
        return Degree()
    if not isinstance(tensor, Scope):
        return Degree(1)
    if id(tensor) not in known:
        known[id(tensor)] = _degree(tensor.body, known)
    return known[id(tensor)]


def _degree_of_reduction(node: Reduce, known: dict[int, Degree]) -> Degree:
    if node.op not in FIELD_REDUCTIONS:
        raise Unbounded
    element = _degree(node.body, known)
    count = prod(it.extent for it in node.iterators)
    if node.op == "Prod":
        return element.times(count)
    return _degree_of_sum([element] * min(count, 1), count)


def _degree_of_sum(parts: list[Degree], count: int) -> Degree:
    """Return the degree of `count` times the sum of such elements, all denominators different."""
    denominator = applications = 0
    excesses = []  # of the numerator of each part over its denominator
    for part in parts:
        denominator += part.denominator * count
        applications += part.applications * count
        excesses.append(part.numerator - part.denominator)
    numerator = max(0, max(excesses, default=0) + denominator)
    return Degree(numerator, denominator, applications, _largest_argument(parts))


def _degree_of_product(parts: list[Degree]) -> Degree:
    numerator = denominator = applications = 0
    for part in parts:
        numerator += part.numerator
        denominator += part.denominator
        applications += part.applications
    return Degree(numerator, denominator, applications, _largest_argument(parts))


def _degree_of_function(body: Any, parts: list[Degree]) -> Degree:
    if isinstance(body, sympy.Pow) and body.exp.is_Integer:
        power = parts[0].times(abs(int(body.exp)))
        return power if body.exp > 0 else power.inverse
    if isinstance(body, (sympy.Pow, sympy.Piecewise, *ORDERED_FUNCTIONS)):
        raise Unbounded
    together = _degree_of_product(parts)
    return Degree(1, 0, together.applications + 1, max(together.argument, together.both))
