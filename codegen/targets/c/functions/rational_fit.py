"""Quotients of polynomials that are fitted to functions (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath

Real = Any  # a number of mpmath
NODES_PER_COEFFICIENT = 3
ROUNDS = 3  # in which the error of the quotient is weighted by the last denominator


def rational_fit(
    function: Callable[[Real], Real], high: int, degree: int
) -> tuple[list[Real], list[Real]]:
    """Return two polynomials of a degree whose quotient is a function on `0 <= t <= high`.

    Their coefficients begin with that of the highest power; the last one of the denominator is 1.
    The relative error is the least in the mean over Chebyshev's nodes. The function has no zeros.

    >>> numerator, denominator = rational_fit(mpmath.exp, 1, 2)
    >>> round(float(mpmath.polyval(numerator, 0.5) / mpmath.polyval(denominator, 0.5)), 6)
    1.648721
    """
    nodes = _chebyshev_nodes(high, NODES_PER_COEFFICIENT * (2 * degree + 1))
    values = [function(node) for node in nodes]
    denominator: list[Real] = [mpmath.mpf(1)]
    numerator: list[Real] = []
    for _ in range(ROUNDS):
        weights = []
        for node, value in zip(nodes, values):
            weights.append(1 / (value * mpmath.polyval(denominator, node)))
        numerator, denominator = _weighted_fit(nodes, values, weights, degree)
    return numerator, denominator


def _chebyshev_nodes(high: int, count: int) -> list[Real]:
    return [
        high * (1 + mpmath.cospi((2 * k + 1) / mpmath.mpf(2 * count))) / 2 for k in range(count)
    ]


def _weighted_fit(
    nodes: Sequence[Real], values: Sequence[Real], weights: Sequence[Real], degree: int
) -> tuple[list[Real], list[Real]]:
    """Return polynomials p and q with the least squares of `weight * (p - value*q)`."""
    equations = mpmath.matrix(len(nodes), 2 * degree + 1)
    right = mpmath.matrix(len(nodes), 1)
    for row, (node, value, weight) in enumerate(zip(nodes, values, weights)):
        for power in range(degree + 1):
            equations[row, power] = weight * node**power
        for power in range(1, degree + 1):
            equations[row, degree + power] = -weight * value * node**power
        right[row] = weight * value
    solution = list(mpmath.lu_solve(equations, right))
    return solution[degree::-1], [*solution[:degree:-1], mpmath.mpf(1)]
