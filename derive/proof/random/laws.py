"""Which laws an expression obeys besides those of a field, and how large its degree is: what an evaluation can tell (design §9)."""

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
    """`RATIONAL`: a difference in a field is a difference. `ORDERED`: exact on rational numbers. `REAL`: everything else."""

    RATIONAL = 0
    ORDERED = 1
    REAL = 2


def laws(scope: Scope) -> Laws:
    """What the functions of an expression, and of what it reads, obey."""
    return max((_laws(node.body) for node in all_scopes(scope)), default=Laws.RATIONAL)


def _laws(body: Any) -> Laws:
    if isinstance(body, Access):
        return max(_laws(fill) for fill in (sympy.S.Zero, *_fills(body.base)))
    if isinstance(body, IndexArithmetic):
        return Laws.RATIONAL
    if isinstance(body, Reduce):
        return max(_laws(body.body), Laws.RATIONAL if body.op in ("Sum", "Prod") else Laws.ORDERED)
    if not body.args:
        return _constant_laws(body)
    return max(_function_laws(body), *(_laws(a) for a in body.args))


def _fills(view: Any) -> Iterable[Any]:
    while isinstance(view, Padded):
        yield view.fill
        view = view.base


def _constant_laws(value: Any) -> Laws:
    if value.is_Rational or value.is_Float or value in (sympy.true, sympy.false):
        return Laws.RATIONAL
    return Laws.ORDERED if value in (sympy.oo, -sympy.oo) else Laws.REAL


def _function_laws(body: Any) -> Laws:
    if isinstance(body, (sympy.Add, sympy.Mul, sympy.Piecewise, ExprCondPair)):
        return Laws.RATIONAL
    if isinstance(body, sympy.Pow):
        return (
            Laws.RATIONAL
            if body.exp.is_Integer
            or (isinstance(body.exp, IndexArithmetic) and body.base.is_Rational)
            else Laws.REAL
        )
    if isinstance(body, ORDERED_FUNCTIONS):
        return (
            Laws.RATIONAL
            if next(accesses(body), None) is None and _is_whole(body)
            else Laws.ORDERED
        )
    return Laws.REAL


def _is_whole(body: Any) -> bool:
    """Return whether a function of indices divides nothing: fields evaluate it with floats, which are exact then."""
    if isinstance(body, (IndexArithmetic, sympy.Integer)):
        return True
    if isinstance(body, sympy.Pow) and not (body.exp.is_Integer and body.exp >= 0):
        return False
    return not body.is_Number and not isinstance(body, Reduce) and all(map(_is_whole, body.args))


@dataclass(frozen=True)
class Degree:
    """Of an element as a rational function of the inputs and of the values of functions, of which there are `applications`."""

    above: int = 0
    below: int = 0
    applications: int = 0
    argument: int = 0  # the largest above + below of an argument of a function

    def times(self, count: int) -> Degree:
        """The product of `count` such elements."""
        return Degree(
            self.above * count, self.below * count, self.applications * count, self.argument
        )


class Unbounded(Exception):
    """There is no bound: a root, or a choice by order, is met too rarely or too often."""


def miss_probability(scopes: Iterable[Scope], modulus: int) -> float | None:
    """A bound of the probability that elements that differ are equal at one random point of a field; None where none is known.

    Schwartz and Zippel: degree / modulus. A function such as exp is as good as random where it is applied, so that besides no
    two of its different arguments may meet.
    """
    try:
        degrees = [_degree(scope.body, {}) for scope in scopes]
    except Unbounded:
        return None
    applications = sum(d.applications for d in degrees)
    meetings = (
        applications * (applications - 1) // 2 * 2 * max((d.argument for d in degrees), default=0)
    )
    return min(1.0, (sum(d.above + d.below for d in degrees) + meetings) / modulus)


def _degree(body: Any, known: dict[int, Degree]) -> Degree:
    if isinstance(body, Access):
        if isinstance(body.tensor, Constant):
            return Degree()
        return _degree_of_scope(body.tensor, known) if isinstance(body.tensor, Scope) else Degree(1)
    if isinstance(body, Reduce):
        if body.op not in ("Sum", "Prod"):
            raise Unbounded
        inner, count = _degree(body.body, known), prod(it.extent for it in body.iterators)
        return inner.times(count) if body.op == "Prod" else _sum([inner] * min(count, 1), count)
    if isinstance(body, IndexArithmetic) or next(accesses(body), None) is None:
        return Degree()
    parts = [_degree(a, known) for a in body.args]
    if isinstance(body, sympy.Add):
        return _sum(parts, 1)
    if isinstance(body, sympy.Mul):
        above, below, applications = (
            sum(numbers) for numbers in zip(*((p.above, p.below, p.applications) for p in parts))
        )
        return Degree(above, below, applications, max(p.argument for p in parts))
    return _degree_of_function(body, parts)


def _degree_of_scope(scope: Scope, known: dict[int, Degree]) -> Degree:
    if id(scope) not in known:
        known[id(scope)] = _degree(scope.body, known)
    return known[id(scope)]


def _sum(parts: list[Degree], count: int) -> Degree:
    """`count` times the sum of elements of these degrees, all denominators different."""
    below = sum(p.below for p in parts) * count
    above = max((p.above - p.below for p in parts), default=0) + below
    return Degree(
        max(0, above),
        below,
        sum(p.applications for p in parts) * count,
        max((p.argument for p in parts), default=0),
    )


def _degree_of_function(body: Any, parts: list[Degree]) -> Degree:
    if isinstance(body, sympy.Pow) and body.exp.is_Integer:
        power = parts[0].times(abs(int(body.exp)))
        return (
            power
            if body.exp > 0
            else Degree(power.below, power.above, power.applications, power.argument)
        )
    if isinstance(body, (sympy.Pow, sympy.Piecewise, *ORDERED_FUNCTIONS)):
        raise Unbounded
    argument = max([p.argument for p in parts] + [sum(p.above + p.below for p in parts)])
    return Degree(1, 0, sum(p.applications for p in parts) + 1, argument)
