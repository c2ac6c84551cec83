"""Which points an expression has and which elements it reads, as isl sets seen along two axes
(design §3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import islpy as isl
import numpy as np

from einalg.errors import UseError
from einalg.language.index.affine import Affine, FloorDiv, Index, IndexArithmetic, Modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.isl import Space, box_set, listed_points
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor, padded_box

MAX_PICTURE_CELLS = 1 << 18


@dataclass(frozen=True)
class BoundRead:
    """An access with the indices that are bound around it."""

    access: Access
    iterators: tuple[LoopIndex, ...]
    where: tuple[Constraint, ...]

    @property
    def relation(self) -> isl.Map:
        """From the point of the scope and its reductions to the element that is read."""
        space = Space([it.index for it in self.iterators])
        return space.map(self.access.subscripts).intersect_domain(
            space.set(self.iterators, self.where)
        )


def reads(scope: Scope) -> list[BoundRead]:
    """Every access of a scope, also inside reductions."""
    return list(_reads(scope.body, scope.iterators, scope.where))


def _reads(
    body: Any, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> Iterator[BoundRead]:
    if isinstance(body, Access):
        yield BoundRead(body, iterators, where)
    elif isinstance(body, Reduce):
        yield from _reads(body.body, (*iterators, *body.iterators), (*where, *body.where))
    elif not isinstance(body, IndexArithmetic):
        for argument in getattr(body, "args", ()):
            yield from _reads(argument, iterators, where)


@dataclass
class CellGrid:
    """The cells of a `box` along one or two axes, whose names are `labels`: `cells` says what each
    is, `marked` which a point reads.
    """

    title: str
    labels: tuple[str, ...]
    box: tuple[tuple[int, int], ...]
    cells: np.ndarray[Any, Any]
    marked: list[np.ndarray[Any, Any]] = field(default_factory=list)

    @staticmethod
    def empty(title: str, labels: Sequence[str], box: Sequence[tuple[int, int]]) -> CellGrid:
        shape = tuple(high - low for low, high in box)
        if np.prod(shape, dtype=float) > MAX_PICTURE_CELLS:
            cells = " × ".join(map(str, shape))
            raise UseError(
                f"{title} has {cells} cells, too many for a picture\n"
                "  give the same expression smaller shapes"
            )
        return CellGrid(title, tuple(labels), tuple(box), np.zeros(shape, dtype=np.uint8))

    @property
    def columns(self) -> int:
        """How many cells there are from left to right."""
        return self.cells.shape[-1]

    @property
    def rows(self) -> int:
        """How many cells there are from top to bottom: one where there is one axis."""
        return self.cells.shape[0] if self.cells.ndim == 2 else 1

    def transposed(self) -> CellGrid:
        """Return the grid with its axes exchanged."""
        marked = [mask.T for mask in self.marked]
        return CellGrid(self.title, self.labels[::-1], self.box[::-1], self.cells.T, marked)

    def fill(self, points: isl.Set, value: int) -> None:
        """Give all cells of a set a number."""
        self.cells[self.mask(points)] = value

    def mask(self, points: isl.Set) -> np.ndarray[Any, Any]:
        """The cells of a set, as truth values."""
        is_read = np.zeros(self.cells.shape, dtype=bool)
        lows = [low for low, _ in self.box]
        for point in listed_points(points.intersect(box_set(self.box))):
            place = [coordinate - low for coordinate, low in zip(point, lows)]
            is_read[tuple(place)] = True
        return is_read


def seen(points: isl.Set, axes: Sequence[int]) -> isl.Set:
    """A set projected on some of its axes, in their order."""
    for k in reversed(range(points.dim(isl.dim_type.set))):
        if k not in axes:
            points = points.project_out(isl.dim_type.set, k, 1)
    return points


def two_most_interesting(rank: int, interest: Callable[[int], tuple[Any, ...]]) -> list[int]:
    """Return the axes to draw, in their order: at most two, the first of those that are equal."""
    ranked = sorted(range(rank), key=interest, reverse=True)
    return sorted(ranked[:2])


def at(read: BoundRead, point: Mapping[Index, int]) -> isl.Set:
    """The elements that one point reads."""
    relation = read.relation
    for k, it in enumerate(read.iterators):
        if it.index in point:
            relation = relation.fix_val(isl.dim_type.in_, k, isl.Val(point[it.index]))
    return relation.range()


def padded_points(scope: Scope, reads: Sequence[BoundRead]) -> isl.Set:
    """Return the points of a scope that read padding somewhere: its border."""
    own = len(scope.iterators)
    parts = []
    for read in reads:
        outside = read.relation.subtract_range(box_set(read.access.tensor.box)).domain()
        parts.append(
            outside.project_out(isl.dim_type.set, own, outside.dim(isl.dim_type.set) - own)
        )
    empty = scope.domain.subtract(scope.domain)
    return reduce(lambda a, b: a.union(b), parts, empty)


def shared(form: Affine) -> bool:
    """Whether several indices move along one axis, or one in other than equal steps."""
    return len(form.terms) > 1 or any(
        isinstance(atom, (FloorDiv, Modulo)) for atom, _ in form.terms
    )


def name_of(access: Access) -> str:
    return access.tensor.name if isinstance(access.tensor, Tensor) else "inner scope"


def window(access: Access) -> tuple[tuple[int, int], ...]:
    """Return the box that may be read of a tensor, its padding included."""
    return padded_box(access.base)
