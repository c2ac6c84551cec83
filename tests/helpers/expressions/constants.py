"""Expressions whose loops say which numbers of a constant are read: steps are written out with
these numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy

import einalg as ea
from einalg.language.ir.program import Program, statement_tensor
from tests.helpers.expressions.registry import expression

i, j, k, p, q = ea.indices("i j k p q")
HALF = Fraction(1, 2)
TRANSFORM = ea.constant(
    "U", [[4, 0, -5, 0], [0, -HALF, 1, 1], [0, 0, 0, 0], [1, Fraction(1, 3), -1, 0]]
)


@expression
def transform() -> Any:
    """Tiles that overlap, with a border that is not of the same size everywhere."""
    a = ea.tensor("A", (11, 20))
    return ea.L[p:4, i:6, j:20](ea.Sum[k:4](TRANSFORM[p, k] * a.pad((1, 2), 0)[2 * i + k - 1, j]))


@expression
def transform_in_double_precision() -> Any:
    a = ea.tensor("A", (5, 4, 9), "f64")
    return ea.L[i:5, p:4, j:9](ea.Sum[k:4](TRANSFORM.as_dtype("f64")[p, k] * a[i, k, j]))


@expression
def inverse_transform_of_phases() -> Any:
    """A period that does not divide the size."""
    a = ea.tensor("A", (4, 5, 20))
    return ea.L[i:18, j:20](ea.Sum[k:4](TRANSFORM[i % 4, k] * a[k, i // 4, j]))


@expression
def two_transforms() -> Any:
    first = ea.L[p:4, i:6, j:9](
        ea.Sum[k:4](TRANSFORM[p, k] * ea.tensor("A", (14, 9))[2 * i + k, j])
    )
    table = statement_tensor("T", first)
    return Program(
        [
            ("T", first),
            ("O", ea.L[q:4, p:4, j:9](ea.Sum[k:4](TRANSFORM[q, k] * table[p, k + 1, j]))),
        ]
    )


@expression
def transform_of_part_of_the_numbers() -> Any:
    a = ea.tensor("A", (4, 30))
    return ea.L[p:4, i:30](ea.Sum[k:4](TRANSFORM[p, k] * a[k, i], where=k <= p), where=2 * p <= i)


@expression
def numbers_chosen_by_the_innermost_loop() -> Any:
    return ea.L[i:6, p:4](ea.Sum[k:4](TRANSFORM[p, k] * ea.tensor("A", (6, 4))[i, k]))


@expression
def largest_of_integers() -> Any:
    table = ea.constant("N", [[3, -2, 0], [1, 1, -7]], "i32")
    return ea.L[p:2, j:17](ea.Max[k:3](table[p, k] * ea.tensor("A", (3, 17), "i32")[k, j]))


@expression
def padded_numbers() -> Any:
    """Beyond its elements, the constant is what it is filled with."""
    return ea.L[p:6, j:10](TRANSFORM.pad(1, 0, fill=9)[p - 1, 1] + ea.tensor("A", (10,))[j])


@expression
def numbers_read_at_every_other_step() -> Any:
    """Steps are written out in pairs, though a condition leaves the first of one alone."""
    read = ea.constant("N", [3], "i32")[j % 2]
    return ea.L[i:-2:5, j:6](sympy.Piecewise((4 * read, read > 2), (1, True)), where=sympy.Eq(j, 2))


@expression
def numbers_under_functions() -> Any:
    return ea.L[p:4, j:10](
        sympy.Piecewise(
            (ea.tensor("A", (10,))[j], TRANSFORM[p, 2] > 0), (sympy.exp(TRANSFORM[p, 3]), True)
        )
    )


@expression
def transform_between_two_axes() -> Any:
    """What is written out stands between loops that would be one without it."""
    return ea.L[p:5, i:3, j:2](ea.Sum[k:4](TRANSFORM[i, k] * ea.tensor("A", (4, 5, 2))[k, p, j]))
