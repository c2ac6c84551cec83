"""The output points at which expressions are evaluated, and what that covers.

All of them, where that is cheap: of what is not proved equal by structure, where that is known.
Elsewhere points of every part that is written differently, beside blocks at the corners and
anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import islpy as isl
import numpy as np

from derive.proof.outcome.regions import union_of_boxes
from derive.proof.random.blocks import (
    OutputBlock,
    block_extents,
    block_steps,
    cut_block,
    evaluation_steps,
    origins,
)
from einalg.language.index.isl import bounded
from einalg.language.ir.scope import Scope

MAX_ISL_OPERATIONS = 100_000  # to choose points
SMALLER_BLOCKS = 8  # times smaller, where the parts that are written differently are known
Place = tuple[tuple[int, ...], tuple[int, ...]]  # the first point of a block, and its extents


@dataclass(frozen=True)
class Places:
    """Where to evaluate two scopes of one shape, at most `max_steps` steps at once. `cells` are
    parts of the output whose points are written alike, and outside of which both are equal; none
    where that is not known.
    """

    scopes: tuple[Scope, Scope]
    cells: tuple[isl.Set, ...]
    max_steps: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.scopes[0].shape

    @cached_property
    def is_whole(self) -> bool:
        """True where the output is evaluated as a whole."""
        return evaluation_steps(list(self.scopes)) <= self.max_steps

    @cached_property
    def _parts(self) -> tuple[list[Place], bool]:
        """The blocks of every round, and whether they hold all points that count."""
        if self.is_whole:
            return [((0,) * len(self.shape), self.shape)], True
        try:
            with bounded(MAX_ISL_OPERATIONS):
                return self._blocks_of_cells()
        except isl.Error:
            return [], False

    @property
    def is_complete(self) -> bool:
        """True where every point that may differ is evaluated in every round."""
        return self._parts[1]

    def _blocks_of_cells(self) -> tuple[list[Place], bool]:
        left, places, is_complete = self.max_steps, [], bool(self.cells)
        for cell in self.cells:
            box = _bounding_box(cell)
            steps = block_steps(list(self.scopes), *box)
            if steps <= left:
                places.append(box)
                left -= steps
                continue
            is_complete = False
            for point in _ends(cell):
                steps = block_steps(list(self.scopes), *point)
                if steps <= max(left, self.max_steps // 2):
                    places.append(point)
                    left -= steps
        return list(dict.fromkeys(places)), is_complete

    def of_round(self, number: int, rng: np.random.Generator) -> list[Place]:
        """Return the blocks of a round."""
        places, is_complete = self._parts
        if is_complete:
            return places
        steps = self.max_steps // SMALLER_BLOCKS if places else self.max_steps
        extents = block_extents(list(self.scopes), steps)
        anywhere = [(origin, extents) for origin in origins(self.shape, extents, number, rng)]
        return list(dict.fromkeys([*places, *anywhere]))

    def is_cheaper_than(self, steps: int) -> bool:
        """Return whether the whole output is evaluated in so many steps."""
        return evaluation_steps(list(self.scopes)) <= steps

    def steps_of_round(self, seed: int) -> int:
        """Return the evaluation steps of the first round."""
        places = self.of_round(0, np.random.default_rng(seed))
        return sum(block_steps(list(self.scopes), *place) for place in places)

    def cut(self, place: Place) -> OutputBlock:
        return cut_block(list(self.scopes), *place)

    def coverage(self, visited: Sequence[Place]) -> str:
        """Say at which output points both sides were evaluated, in words."""
        if self.is_whole:
            return "at every output point"
        if self.is_complete:
            return "at every output point that is not proved equal"
        boxes = []
        for origin, extents in dict.fromkeys(visited):
            boxes.append(tuple((low, low + extent) for low, extent in zip(origin, extents)))
        count = int(union_of_boxes(boxes, len(self.shape)).count_val().to_python())
        return f"at {count:,} of {prod(self.shape):,} output points"


def _bounding_box(cell: isl.Set) -> Place:
    axes = range(cell.dim(isl.dim_type.set))
    low = tuple(int(cell.dim_min_val(axis).to_python()) for axis in axes)
    high = [int(cell.dim_max_val(axis).to_python()) for axis in axes]
    return low, tuple(last + 1 - first for first, last in zip(low, high))


def _ends(cell: isl.Set) -> list[Place]:
    """Return the first and the last point of a cell, as blocks."""
    places = []
    for end in (cell.lexmin(), cell.lexmax()):
        origin = _bounding_box(end)[0]
        places.append((origin, (1,) * len(origin)))
    return places
