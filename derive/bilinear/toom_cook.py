"""Toom–Cook and Winograd: m outputs of a correlation with r taps by m + r - 1 products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm
from typing import Any

import numpy as np

from derive.bilinear.factorisation import Array, Factorisation
from einalg.errors import RuleError

# In the order in which float32 loses least (`bench/bilinear_error.py`).
FIRST_POINTS = "0 1 -1 2 -1/2 -2 1/2 4 -1/4 -3/2 2/3 -4 1/4 3/2 -2/3 3 -1/3 -3 1/3"
Row = list[Fraction]


@lru_cache(maxsize=256)
def correlation(m: int, r: int, points: tuple[Any, ...] | None = None) -> Factorisation:
    """Return F(m, r): `z[a] = Σ_j x[a+j]·y[j]` for m outputs and r taps.

    The product of two polynomials is determined by its values at m + r - 2 rational `points` and at
    infinity; the transposed algorithm computes the correlation (Toom, Cook, Winograd). Rows of U
    are scaled to coprime integers, so that divisions concern V, the taps. Raises `RuleError` for
    sizes below 1 and for points that are not different, or too few or too many.

    >>> f = correlation(2, 3)
    >>> f.rank, f.computes(correlation_tensor(2, 3))
    (4, True)
    """
    if m < 1 or r < 1:
        raise RuleError(f"F({m}, {r}) does not exist: a tile and a filter have at least 1 element")
    if points is None and min(m, r) == 1:
        return _trivial(m, r)
    if points is None:
        name, chosen = f"F_{m}_{r}", default_points(m + r - 2)
    else:
        chosen = tuple(map(Fraction, points))
        name = "_".join([f"F_{m}_{r}_at", *map(_word, chosen)])
    _check_points(m, r, chosen)
    interpolation, taps, outputs = [], [], []
    for point, polynomial in zip((*chosen, None), _interpolation(chosen)):
        interpolation.append(polynomial.coefficients)
        taps.append([power / polynomial.scale for power in _powers(point, r)])
        outputs.append(_powers(point, m))
    return Factorisation(name, interpolation, taps, list(map(list, zip(*outputs))))


def _check_points(m: int, r: int, points: Sequence[Fraction]) -> None:
    count = m + r - 2
    if len(points) != count or len(set(points)) != count:
        raise RuleError(
            f"F({m}, {r}) takes {count} different points besides infinity, "
            f"not {', '.join(map(str, points)) or 'none'}"
        )


def correlation_tensor(m: int, r: int) -> Array:
    """Return `T[a, i, j] = 1` where `i = a + j`, else 0."""
    a, i, j = np.indices((m, m + r - 1, r))
    return (i == a + j).astype(int)


def default_points(count: int) -> tuple[Fraction, ...]:
    """Return the first so many points: `FIRST_POINTS`, then the integers that are left.

    >>> default_points(5)[-1]
    Fraction(-1, 2)
    """
    points = dict.fromkeys(map(Fraction, FIRST_POINTS.split()))
    for size in range(3, count + 8):
        points[Fraction(size)] = points[Fraction(-size)] = None
    return tuple(points)[:count]


def _trivial(m: int, r: int) -> Factorisation:
    """Return one output or one tap: products of single elements, without any error."""
    unit = np.eye(max(m, r), dtype=int)
    ones = np.ones((max(m, r), 1), dtype=int)
    if r == 1:
        return Factorisation(f"F_{m}_{r}", unit, ones, unit)
    return Factorisation(f"F_{m}_{r}", unit, unit, ones.T)


def _powers(point: Fraction | None, count: int) -> Row:
    """Return what a polynomial's coefficients are multiplied with to give its value at a point.

    At infinity (None) that is its leading coefficient.
    """
    if point is None:
        return [*[Fraction(0)] * (count - 1), Fraction(1)]
    return [point**power for power in range(count)]


@dataclass(frozen=True)
class _Polynomial:
    """Coefficients, the lowest first, as coprime integers: those of a polynomial times `scale`."""

    coefficients: Row
    scale: Fraction

    @staticmethod
    def scaled(row: Row) -> _Polynomial:
        denominators = [coefficient.denominator for coefficient in row]
        numerators = [coefficient.numerator for coefficient in row]
        scale = Fraction(lcm(*denominators), gcd(*numerators))
        return _Polynomial([coefficient * scale for coefficient in row], scale)


def _interpolation(points: Sequence[Fraction]) -> list[_Polynomial]:
    """Return for every point, and infinity, the polynomial that is 1 there and 0 at the others."""
    polynomials = []
    for position, point in enumerate(points):
        others = [*points[:position], *points[position + 1 :]]
        norm = Fraction(1)
        for other in others:
            norm *= point - other
        row = [coefficient / norm for coefficient in _with_roots(others)]
        polynomials.append(_Polynomial.scaled([*row, Fraction(0)]))
    polynomials.append(_Polynomial.scaled(_with_roots(points)))
    return polynomials


def _with_roots(roots: Sequence[Fraction]) -> Row:
    """Return the coefficients, lowest first, of the product of `(t - root)`.

    >>> _with_roots([Fraction(1), Fraction(2)])  # (t - 1)(t - 2) = 2 - 3·t + t²
    [Fraction(2, 1), Fraction(-3, 1), Fraction(1, 1)]
    """
    coefficients = [Fraction(1)]
    for root in roots:
        times_t = [Fraction(0), *coefficients]
        padded = [*coefficients, Fraction(0)]
        coefficients = [a - root * b for a, b in zip(times_t, padded)]
    return coefficients


def _word(point: Fraction) -> str:
    return str(point).replace("-", "m").replace("/", "over")
