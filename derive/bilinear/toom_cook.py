"""Toom–Cook and Winograd: m outputs of a correlation with r taps by m + r - 1 products, for any m and r."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm
from typing import Any

import numpy as np

from derive.bilinear.factorisation import Array, Factorisation
from einalg.errors import RuleError

EARLY = (
    0,
    1,
    -1,
    2,
    "-1/2",
    -2,
    "1/2",
    4,
    "-1/4",
    "-3/2",
    "2/3",
    -4,
    "1/4",
    "3/2",
    "-2/3",
    3,
    "-1/3",
    -3,
    "1/3",
)
FIRST_POINTS = tuple(map(Fraction, EARLY))
Row = list[Fraction]


@lru_cache(maxsize=256)
def correlation(m: int, r: int, points: tuple[Any, ...] | None = None) -> Factorisation:
    """F(m, r): `z[a] = Σ_j x[a+j]·y[j]` for m outputs and r taps, by evaluation at m + r - 2 rational `points` and at infinity.

    The product of two polynomials is determined by its values; the transposed algorithm computes the correlation (Toom, Cook,
    Winograd). Rows of U are scaled to coprime integers, so that divisions concern V, the taps. Raises `RuleError` for sizes below
    1 and for points that are not different, or too few or too many.

    >>> f = correlation(2, 3)
    >>> f.rank, f.computes(correlation_tensor(2, 3))
    (4, True)
    """
    if m < 1 or r < 1:
        raise RuleError(f"F({m}, {r}) does not exist: a tile and a filter have at least 1 element")
    if points is None and min(m, r) == 1:
        return _trivial(m, r)
    chosen = default_points(m + r - 2) if points is None else tuple(map(Fraction, points))
    if len(set(chosen)) != m + r - 2 or len(chosen) != m + r - 2:
        raise RuleError(
            f"F({m}, {r}) takes {m + r - 2} different points besides infinity, not {', '.join(map(str, chosen)) or 'none'}"
        )
    name = f"F_{m}_{r}" if points is None else "_".join([f"F_{m}_{r}_at", *map(_word, chosen)])
    scales, interpolation = zip(*_scaled_interpolation(chosen))
    taps = [[value / scale for value in _powers(p, r)] for p, scale in zip((*chosen, None), scales)]
    outputs = [_powers(p, m) for p in (*chosen, None)]
    return Factorisation(name, list(interpolation), taps, list(map(list, zip(*outputs))))


def correlation_tensor(m: int, r: int) -> Array:
    """`T[a, i, j] = 1` where `i = a + j`, else 0."""
    a, i, j = np.indices((m, m + r - 1, r))
    return (i == a + j).astype(int)


def default_points(count: int) -> tuple[Fraction, ...]:
    """The first so many points: in the order in which float32 loses least (`bench/bilinear_error.py`), then the integers that are left."""
    further = (Fraction(sign * k) for k in range(3, count + 8) for sign in (1, -1))
    return tuple(dict.fromkeys((*FIRST_POINTS, *further)))[:count]


def _trivial(m: int, r: int) -> Factorisation:
    """One output or one tap: products of single elements, without any error."""
    unit = np.eye(max(m, r), dtype=int)
    ones = np.ones((max(m, r), 1), dtype=int)
    return Factorisation(f"F_{m}_{r}", unit, ones if r == 1 else unit, unit if r == 1 else ones.T)


def _powers(point: Fraction | None, count: int) -> Row:
    """A polynomial's value at a point is the sum of its coefficients times these; at infinity (None) its leading one."""
    if point is None:
        return [Fraction(int(k == count - 1)) for k in range(count)]
    return [point**k for k in range(count)]


def _scaled_interpolation(points: Sequence[Fraction]) -> list[tuple[Fraction, Row]]:
    """For every point, and infinity: the coefficients of the polynomial that is 1 there and 0 at the others, as coprime integers.

    With each comes the scale that was multiplied to get there.
    """
    rows = []
    for k, point in enumerate(points):
        others = [q for position, q in enumerate(points) if position != k]
        norm = Fraction(1)
        for q in others:
            norm *= point - q
        rows.append([c / norm for c in (*_with_roots(others), Fraction(0))])
    rows.append(_with_roots(points))
    return [_integral(row) for row in rows]


def _with_roots(roots: Sequence[Fraction]) -> Row:
    """The coefficients, lowest first, of the product of `(t - q)`."""
    coefficients = [Fraction(1)]
    for q in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [a - q * b for a, b in zip(shifted, [*coefficients, Fraction(0)])]
    return coefficients


def _integral(row: Row) -> tuple[Fraction, Row]:
    scale = Fraction(lcm(*(c.denominator for c in row)), gcd(*(c.numerator for c in row)))
    scaled = [c * scale for c in row]
    return scale, scaled


def _word(point: Fraction) -> str:
    return str(point).replace("-", "m").replace("/", "over")
