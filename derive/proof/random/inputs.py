"""Inputs that tell expressions apart where an order decides: near the numbers that stand in them,
on either side, and all alike, in order, or of one sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from derive.proof.random.blocks import within_type
from derive.proof.random.operations import fills
from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Tensor

Array = np.ndarray[Any, Any]
DIVISORS = (1, 1, 2, 3, 8)  # of the fractions that are drawn
NEIGHBOURS = (  # of a number that is compared with: itself, and what is near it on both sides
    Fraction(0),
    *(Fraction(side, below) for below in (1, 2, 8, 1000) for side in (-1, 1)),
)
MAX_MARK = 10**12  # a number of an expression near which inputs are drawn
MAX_INTERVALS = 12  # between neighbouring marks, in each of which all inputs are drawn once
MAX_MARKS = 8  # at each of which all inputs are once
LONG_ROW = 16  # elements, over which inputs in order span about 4


def marks_of(scopes: Iterable[Scope]) -> list[Fraction]:
    """Return the numbers in some scopes, of both signs, and 0: inputs must lie on either side of
    what they are compared with.
    """
    marks = {Fraction(0)}
    for scope in scopes:
        for node in all_scopes(scope):
            for number in numbers_in(node.body):
                if abs(number) <= MAX_MARK:
                    marks.update((number, -number))
    return sorted(marks)


def numbers_in(body: Any) -> Iterator[Fraction]:
    """Yield the finite numbers of a body, and those that its paddings are filled with."""
    if isinstance(body, Reduce):
        yield from numbers_in(body.body)
    elif isinstance(body, Access):
        for fill in fills(body.base):
            yield from numbers_in(fill)
    elif isinstance(body, IndexArithmetic):
        return
    elif body.is_Number:
        if body.is_finite:
            yield _fraction_of(body)
    else:
        for part in body.args:
            yield from numbers_in(part)


def _fraction_of(number: Any) -> Fraction:
    if number.is_Rational:
        return Fraction(int(number.p), int(number.q))
    return Fraction(float(number))


@dataclass(frozen=True)
class Grid:
    """Numbers `offset + steps·step`; for tensors of integers the step is `whole_step`."""

    steps: Array
    offset: Fraction
    step: Fraction
    whole_step: Fraction

    def floats(self) -> Array:
        return float(self.offset) + self.steps * float(self.step)

    def fractions(self) -> Array:
        number = np.frompyfunc(lambda steps: self.offset + int(steps) * self.step, 1, 1)
        return np.asarray(number(self.steps), object)

    def integers(self) -> Array:
        return np.rint(float(self.offset) + self.steps * float(self.whole_step))


Pattern = Callable[[np.random.Generator, Any], Grid]
FINE, COARSE, EIGHTH = Fraction(1, 1024), Fraction(1, 64), Fraction(1, 8)


def positive(rng: np.random.Generator, shape: Any) -> Grid:
    """Draw numbers from 1/4 to 7/4."""
    return Grid(rng.integers(256, 1793, shape), Fraction(0), FINE, COARSE)


def negative(rng: np.random.Generator, shape: Any) -> Grid:
    """Draw numbers from -7/4 to -1/4."""
    return Grid(rng.integers(256, 1793, shape), Fraction(0), -FINE, -COARSE)


def ascending(rng: np.random.Generator, shape: Any) -> Grid:
    """Draw numbers of which each is larger than those before it, along every axis."""
    return _in_order(rng, shape, EIGHTH)


def descending(rng: np.random.Generator, shape: Any) -> Grid:
    """Draw numbers of which each is smaller than those before it, along every axis."""
    return _in_order(rng, shape, -EIGHTH)


def _in_order(rng: np.random.Generator, shape: Any, step: Fraction) -> Grid:
    steps = np.cumsum(rng.integers(1, 4, prod(shape))).reshape(shape)
    step /= max(1, prod(shape) // LONG_ROW)
    start = Fraction(int(rng.integers(-16, 17)), 8)
    return Grid(steps, start, step, Fraction(1 if step > 0 else -1))


def equal(rng: np.random.Generator, shape: Any) -> Grid:
    """Draw one number for all elements."""
    steps = np.full(shape, rng.integers(-24, 25))
    return Grid(steps, Fraction(0), EIGHTH, EIGHTH)


def few(rng: np.random.Generator, shape: Any) -> Grid:
    """Draw from -1, 0 and 1: ties, and zeros beside what is none."""
    return Grid(rng.integers(-1, 2, shape), Fraction(0), Fraction(1), Fraction(1))


def all_at(mark: Fraction) -> Pattern:
    """Return the pattern of one number for all elements of all tensors."""

    def draw(rng: np.random.Generator, shape: Any) -> Grid:
        return Grid(np.zeros(shape, np.int64), mark, Fraction(1), Fraction(1))

    return draw


def between(low: Fraction, high: Fraction) -> Pattern:
    """Return the pattern of numbers between two."""

    def draw(rng: np.random.Generator, shape: Any) -> Grid:
        step = (high - low) / 8
        return Grid(rng.integers(1, 8, shape), low, step, step)

    return draw


def patterns(marks: Sequence[Fraction], most: float = MAX_MARK) -> list[Pattern]:
    """Return patterns to draw inputs by, one after the other: between all neighbours of the marks
    up to `most`, beyond, and at the marks, too.
    """
    marks = [mark for mark in marks if abs(mark) <= most]
    beyond = abs(marks[-1]) + 1
    ends = [marks[0] - beyond, *marks, marks[-1] + beyond]
    intervals = list(pairwise(ends))
    if len(intervals) > MAX_INTERVALS:
        # Those of numbers that are not negative, of which the first and last.
        intervals = intervals[len(intervals) // 2 :]
        half = MAX_INTERVALS // 2
        intervals = [*intervals[:half], *intervals[max(half, len(intervals) - half) :]]
    return [
        positive,
        few,
        ascending,
        negative,
        few,
        descending,
        equal,
        few,
        *(between(low, high) for low, high in intervals),
        *(all_at(mark) for mark in sorted(marks, key=abs)[:MAX_MARKS]),
    ]


def rational_values(tensor: Tensor, pattern: Pattern, rng: np.random.Generator) -> Array:
    """Return fractions by a pattern, or the integers that a type holds."""
    grid = pattern(rng, tensor.shape)
    if is_float(tensor.dtype):
        return grid.fractions()
    return typed(tensor.dtype, grid.integers())


def double_values(tensor: Tensor, pattern: Pattern, rng: np.random.Generator) -> Array:
    """Return floats by a pattern, or the integers that a type holds."""
    grid = pattern(rng, tensor.shape)
    if is_float(tensor.dtype):
        return grid.floats()
    return typed(tensor.dtype, grid.integers())


def mixed_rationals(marks: Sequence[Fraction], rng: np.random.Generator) -> Callable[..., Array]:
    """Return a function that draws values for a tensor: fractions of a random range among which
    ties are common, or integers, and every third near one of some marks.
    """
    most = 2 * int(marks[-1]) + 2
    low, high = map(int, rng.choice([(-3, 3), (-1000, 1000), (1, 9), (-9, -1), (-most, most)]))

    def drawn(shape: Any, divisors: Any) -> Array:
        numerators = rng.integers(low * divisors, high * divisors + 1)
        anywhere = np.asarray(_fraction(numerators, divisors))
        mark = rng.choice(np.array(marks, object), shape)
        neighbour = rng.choice(np.array(NEIGHBOURS, object), shape)
        return np.where(rng.random(shape) < 1 / 3, np.asarray(_sum(mark, neighbour)), anywhere)

    def values(tensor: Tensor) -> Array:
        if is_float(tensor.dtype):
            return drawn(tensor.shape, rng.choice(DIVISORS, tensor.shape))
        whole = drawn(tensor.shape, np.ones(tensor.shape, np.int64))
        return typed(tensor.dtype, np.asarray(_integer(whole)))

    return values


def mixed_doubles(marks: Sequence[Fraction], rng: np.random.Generator) -> Callable[..., Array]:
    """Return a function that draws values for a tensor: numbers of both signs, every third near one
    of some marks.
    """
    centres = [float(mark) for mark in marks]

    def values(tensor: Tensor) -> Array:
        shape = tensor.shape
        near = rng.choice(centres, shape) + rng.normal(size=shape)
        is_near = rng.random(shape) < 1 / 3
        anywhere = rng.normal(size=shape) * rng.choice([1, 1 + centres[-1]], shape)
        drawn = np.where(is_near, near, anywhere)
        if is_float(tensor.dtype):
            return drawn
        return typed(tensor.dtype, np.rint(4 * drawn))

    return values


def typed(dtype: str, whole: Array) -> Array:
    """Return integers that a type holds; truth values where it is bool."""
    if dtype == "bool":
        return whole % 2 >= 1
    if dtype.startswith("u"):
        whole = np.abs(whole)
    return within_type(dtype, whole).astype(np.int64)


_fraction = np.frompyfunc(lambda above, below: Fraction(int(above), int(below)), 2, 1)
_sum = np.frompyfunc(lambda one, other: one + other, 2, 1)
_integer = np.frompyfunc(round, 1, 1)
