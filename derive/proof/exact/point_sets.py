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


def conjunctions_of(points: Array, forms: Sequence[Affine]) -> Iterator[tuple[Constraint, ...]]:
    """Conditions that hold where the values of `forms` are one of the points, which are rows: the fewer the more regular they are.

    >>> from einalg.language.index.affine import Index
    >>> i, j = Index("i"), Index("j")
    >>> list(conjunctions_of(np.array([[0, 1], [1, 2], [2, 3]]), [affine(i), affine(j)]))
    [(Eq(i + 1, j), i >= 0, i <= 2, j >= 1, j <= 3)]
    """
    equations = _equations(points)
    low, high = points.min(axis=0), points.max(axis=0)
    if _count(equations, low, high) == len(points):
        equal = [
            Constraint(sum((f * c for f, c in zip(forms, row)), affine(0)) - total, "==")
            for row, total in equations
        ]
        bounds = [
            Constraint(side, ">=")
            for f, a, b in zip(forms, low.tolist(), high.tolist())
            for side in (f - a, -f + b)
        ]
        yield (*(c for c in equal if c.truth is None), *bounds)
        return
    axis = min(
        (k for k in range(points.shape[1]) if low[k] < high[k]),
        key=lambda k: len(np.unique(points[:, k])),
    )
    for value in np.unique(points[:, axis]):
        yield from conjunctions_of(points[points[:, axis] == value], forms)


def _count(equations: Sequence[tuple[list[int], int]], low: Array, high: Array) -> int:
    """How many points of a box fulfil all equations."""
    grid = np.meshgrid(
        *(np.arange(a, b + 1) for a, b in zip(low, high)), indexing="ij", sparse=True
    )
    inside: Any = np.ones((high - low + 1).tolist(), bool)
    for row, total in equations:
        inside = inside & (sum((g * c for g, c in zip(grid, row)), np.int64(0)) == total)
    return int(inside.sum())


def _equations(points: Array) -> list[tuple[list[int], int]]:
    """The linear equations that all points fulfil, as integer coefficients and the constant they give."""
    first = points[0].tolist()
    basis = _reduced((points[1:] - points[0]).tolist(), len(first))
    pivots = [next(k for k, v in enumerate(row) if v) for row in basis]
    found = []
    for free in (k for k in range(len(first)) if k not in pivots):
        vector = [Fraction(0)] * len(first)
        vector[free] = Fraction(1)
        for row, pivot in zip(basis, pivots):
            vector[pivot] = -row[free]
        scale = lcm(*(v.denominator for v in vector))
        numbers = [int(v * scale) for v in vector]
        common = gcd(*numbers)
        coefficients = [n // common for n in numbers]
        found.append((coefficients, sum(c * x for c, x in zip(coefficients, first))))
    return found


def _reduced(rows: Sequence[Sequence[int]], width: int) -> list[Row]:
    """A reduced basis of the space that rows span: every pivot is 1, and alone in its column."""
    basis: list[Row] = []
    for numbers in rows:
        row = [Fraction(n) for n in numbers]
        for known in basis:
            row = _without(row, known)
        if any(row):
            lead = next(v for v in row if v)
            row = [v / lead for v in row]
            basis = [*(_without(known, row) for known in basis), row]
        if len(basis) == width:
            break
    return basis


def _without(row: Row, known: Row) -> Row:
    pivot = next(k for k, v in enumerate(known) if v)
    return [v - row[pivot] * w for v, w in zip(row, known)] if row[pivot] else row
