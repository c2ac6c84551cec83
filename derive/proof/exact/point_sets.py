"""Finite sets of integer points as disjoint conjunctions of equations and bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np

from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

Array = np.ndarray[Any, Any]
Row = list[Fraction]
Equation = tuple[list[int], int]  # coefficients and the constant that they give


def conjunctions_of(points: Array, forms: Sequence[Affine]) -> Iterator[tuple[Constraint, ...]]:
    """Yield conditions that hold where the values of `forms` are one of the points, which are rows:
    the fewer the more regular they are.

    >>> from einalg.language.index.affine import Index
    >>> i, j = Index("i"), Index("j")
    >>> list(conjunctions_of(np.array([[0, 1], [1, 2], [2, 3]]), [affine(i), affine(j)]))
    [(Eq(i + 1, j), i >= 0, i <= 2, j >= 1, j <= 3)]
    """
    equations = _equations(points)
    low, high = points.min(axis=0), points.max(axis=0)
    if _count(equations, low, high) == len(points):
        yield (*_equalities(equations, forms), *_bounds(forms, low.tolist(), high.tolist()))
        return
    axis = _axis_of_fewest_values(points, low, high)
    for value in np.unique(points[:, axis]):
        yield from conjunctions_of(points[points[:, axis] == value], forms)


def _equalities(equations: Sequence[Equation], forms: Sequence[Affine]) -> Iterator[Constraint]:
    """Yield the equations of forms, but for those that are always true."""
    for coefficients, total in equations:
        left = affine(0)
        for form, coefficient in zip(forms, coefficients):
            left = left + form * coefficient
        condition = Constraint(left - total, "==")
        if condition.truth is None:
            yield condition


def _bounds(forms: Sequence[Affine], low: list[int], high: list[int]) -> Iterator[Constraint]:
    for form, first, last in zip(forms, low, high):
        yield Constraint(form - first, ">=")
        yield Constraint(-form + last, ">=")


def _axis_of_fewest_values(points: Array, low: Array, high: Array) -> int:
    """Return the axis on which points have the fewest values, but more than one."""
    axes = np.flatnonzero(low < high).tolist()
    return min(axes, key=lambda axis: len(np.unique(points[:, axis])))


def _count(equations: Sequence[Equation], low: Array, high: Array) -> int:
    """Return how many points of a box fulfil all equations."""
    ranges = [np.arange(first, last + 1) for first, last in zip(low, high)]
    grid = np.meshgrid(*ranges, indexing="ij", sparse=True)
    inside: Any = np.ones((high - low + 1).tolist(), bool)
    for coefficients, total in equations:
        left: Any = np.int64(0)
        for values, coefficient in zip(grid, coefficients):
            left = left + values * coefficient
        inside = inside & (left == total)
    return int(inside.sum())


def _equations(points: Array) -> list[Equation]:
    """Return the linear equations that all points fulfil, as integer coefficients and the constant
    they give.
    """
    first = points[0].tolist()
    basis = _reduced_basis((points[1:] - points[0]).tolist(), len(first))
    pivots = [_pivot(row) for row in basis]
    equations = []
    for free in range(len(first)):
        if free in pivots:
            continue
        vector = [Fraction(0)] * len(first)
        vector[free] = Fraction(1)
        for row, pivot in zip(basis, pivots):
            vector[pivot] = -row[free]
        coefficients = _as_coprime_integers(vector)
        equations.append((coefficients, sum(c * x for c, x in zip(coefficients, first))))
    return equations


def _as_coprime_integers(vector: Row) -> list[int]:
    """Return the shortest integer vector of the same direction."""
    scale = lcm(*(number.denominator for number in vector))
    integers = [int(number * scale) for number in vector]
    common = gcd(*integers)
    return [number // common for number in integers]


def _reduced_basis(rows: Sequence[Sequence[int]], width: int) -> list[Row]:
    """Return a reduced basis of the space that rows span: every pivot is 1, and alone in its
    column.
    """
    basis: list[Row] = []
    for numbers in rows:
        row = list(map(Fraction, numbers))
        for other in basis:
            row = _eliminated(row, other)
        if any(row):
            lead = row[_pivot(row)]
            row = [number / lead for number in row]
            basis = [*(_eliminated(other, row) for other in basis), row]
        if len(basis) == width:
            break
    return basis


def _pivot(row: Row) -> int:
    """Return the position of the first number that is not 0."""
    return next(position for position, number in enumerate(row) if number)


def _eliminated(row: Row, other: Row) -> Row:
    """Return a row with 0 at the pivot of another one."""
    factor = row[_pivot(other)]
    if not factor:
        return row
    return [number - factor * its_number for number, its_number in zip(row, other)]
