"""Decisions of hypothesis as plain questions; and ranges, index forms and conditions made of the
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from einalg.language.index.affine import Affine, Index, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import REDUCTIONS

Value = TypeVar("Value")


class Draws:
    """Answers that shrink towards the first, the smallest and False."""

    def __init__(self, draw: Callable[[Any], Any], strategies: Any):
        self._draw, self._strategies = draw, strategies

    def integer(self, low: int, high: int) -> int:
        return self._draw(self._strategies.integers(low, high))

    def one_of(self, values: Sequence[Value]) -> Value:
        return values[0] if len(values) == 1 else self._draw(self._strategies.sampled_from(values))

    def chance(self, one_in: int) -> bool:
        return self.integer(0, one_in - 1) == one_in - 1


@dataclass(frozen=True)
class Options:
    """The features that may occur in an expression; see `strategies.scopes`."""

    max_indices: int = 4
    nested: bool = True
    quotients: bool = True
    padding: bool = True
    strides: bool = True
    where: bool = True
    reductions: tuple[str, ...] = REDUCTIONS
    functions: bool = False
    truths: bool = False
    rounding: bool = False
    inexact: bool = False
    empty: bool = False
    far: bool = False
    constants: bool = False
    conversions: bool = False
    scalars: bool = False
    infinite: bool = False
    max_points: int = 240
    max_reads: int = 4
    dtypes: tuple[str, ...] = ("f32",)

    def for_inner_scope(self) -> Options:
        return replace(
            self,
            max_indices=min(self.max_indices, 3),
            max_points=max(1, self.max_points // 6),
            max_reads=2,
        )


@dataclass(frozen=True)
class Domain:
    """The iterators in scope at a place of a body, and the conditions on them."""

    iterators: tuple[LoopIndex, ...] = ()
    where: tuple[Constraint, ...] = ()

    @property
    def indices(self) -> tuple[Index, ...]:
        return tuple(it.index for it in self.iterators)

    @property
    def box_size(self) -> int:
        return int(np.prod([it.extent for it in self.iterators], dtype=int))

    def extended(self, iterators: Sequence[LoopIndex], where: Sequence[Constraint] = ()) -> Domain:
        return Domain((*self.iterators, *iterators), (*self.where, *where))

    @cached_property
    def points(self) -> dict[Index, np.ndarray[Any, Any]]:
        """The coordinates of all points, by index."""
        if not self.iterators:
            return {}
        grid = np.indices([it.extent for it in self.iterators]).reshape(len(self.iterators), -1)
        points = {it.index: row + it.low for it, row in zip(self.iterators, grid)}
        inside = np.ones(grid.shape[1], bool)
        for condition in self.where:
            inside &= np.asarray(condition.holds(points))
        return {index: row[inside] for index, row in points.items()}

    def bounds(self, form: Affine) -> tuple[int, int]:
        """The smallest and the largest value of `form`; (0, 0) where there is no point."""
        values = np.asarray(form.evaluate(self.points))
        return (int(values.min()), int(values.max())) if values.size else (0, 0)

    def is_empty_somewhere(self, outer: Domain) -> bool:
        """Whether some point of `outer` has no point here."""
        names = outer.indices
        inner_points = set(zip(*(self.points[i].tolist() for i in names)))
        return len(inner_points) < len(set(zip(*(outer.points[i].tolist() for i in names))))


def draw_range(choices: Draws, max_extent: int, min_extent: int = 1) -> tuple[int, int]:
    extent = choices.integer(min_extent, max(min_extent, max_extent))
    low = choices.one_of((0, 0, 0, 1, -1, -2, 3))
    return low, low + extent


def draw_iterators(
    choices: Draws, names: Sequence[str], count: int, max_points: int, empty: bool = False
) -> tuple[LoopIndex, ...]:
    """Iterators of `count` of `names`, whose box has at most `max_points` points, and with `empty`
    at times none.
    """
    indices: list[LoopIndex] = []
    for name in names[:count]:
        least = 0 if empty and choices.chance(5) else 1
        low, high = draw_range(choices, min(max_points, 7), least)
        max_points //= max(1, high - low)
        indices.append(LoopIndex(Index(name), low, high))
    return tuple(indices)


def draw_form(choices: Draws, indices: Sequence[Index], options: Options) -> Affine:
    """A subscript: a bare index, a window `i + j`, a strided and dilated sum, a quotient, or a
    constant.
    """
    if not indices:
        return affine(choices.integer(0, 2))
    kinds = [
        "bare",
        "bare",
        "bare",
        "sum",
        "sum",
        "sum",
        "constant",
        *(("quotient", "remainder", "mixed") if options.quotients else ()),
    ]
    kind = choices.one_of(kinds)
    if kind == "bare":
        return affine(choices.one_of(indices))
    if kind == "constant":
        return affine(choices.integer(0, 2))
    form = _draw_sum(choices, indices, options)
    if kind == "sum":
        return form
    if kind == "mixed":
        inner = draw_form(choices, indices, options)
        return floordiv(form + inner, choices.integer(2, 4)) + modulo(inner, choices.integer(2, 4))
    return (floordiv if kind == "quotient" else modulo)(form, choices.integer(2, 5))


def _draw_sum(choices: Draws, indices: Sequence[Index], options: Options) -> Affine:
    form = affine(choices.integer(-2, 2))
    left = list(indices)
    for _ in range(choices.integer(1, min(3, len(indices)))):
        coefficient = choices.one_of((1, 1, 2, -1, 3, -2) if options.strides else (1, 1, -1))
        index = choices.one_of(left)
        left.remove(index)
        form = form + affine(index) * coefficient
    return form


def draw_conditions(choices: Draws, domain: Domain, options: Options) -> tuple[Constraint, ...]:
    """Conditions that cut the domain but leave some of it; often none."""
    if not options.where or not domain.iterators or not choices.chance(4):
        return ()
    form = draw_form(choices, domain.indices, options)
    low, high = domain.bounds(form)
    bound = choices.integer(low, high)
    condition = Constraint(
        *choices.one_of(((form - bound, ">="), (bound - form, ">="), (form - bound, "==")))
    )
    if condition.truth is not None or not len(
        Domain(domain.iterators, (*domain.where, condition)).points[domain.indices[0]]
    ):
        return ()
    return (condition,)
