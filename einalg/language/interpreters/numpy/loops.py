"""The loops over which a body is evaluated as one array: nested levels of index ranges, one array
axis an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from functools import reduce as fold
from itertools import product
from math import prod
from typing import Any

import numpy as np

from einalg.language.index.affine import Index
from einalg.language.index.bounds import is_of_64_bits
from einalg.language.index.constraint import Constraint
from einalg.language.ir.scope import Scope

Range = tuple[int, int]


class Loops:
    """Half-open ranges of the indices in force. A reduction adds a level, whose axes come after
    those of its parent.

    The value of a body is a scalar, or an array with one axis for each index, of extent 1 where it
    does not depend on it, so that values of one level broadcast against each other.
    """

    def __init__(self, ranges: Mapping[Index, Range], parent: Loops | None = None):
        self.parent = parent
        self.ranges: dict[Index, Range] = dict(ranges)
        if parent is not None:
            self.ranges = {**parent.ranges, **ranges}
        self.reductions: dict[Any, Any] = {}  # values of those that are evaluated at this level

    def deeper(self, ranges: Mapping[Index, Range]) -> Loops:
        return Loops(ranges, self)

    @property
    def rank(self) -> int:
        return len(self.ranges)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(high - low for low, high in self.ranges.values())

    @property
    def extents(self) -> dict[Index, int]:
        return {index: high - low for index, (low, high) in self.ranges.items()}

    @cached_property
    def coordinates(self) -> dict[Index, np.ndarray[Any, Any]]:
        """For each index its values, along its own axis."""
        return along_axes(self.ranges)

    def index_values(self, form: Any) -> Any:
        """Return index arithmetic at every point, as Python's integers where it is long."""
        return form.evaluate(self._coordinates_for(form))

    def holds(self, condition: Constraint) -> Any:
        """Return whether a condition holds at every point."""
        return condition.holds(self._coordinates_for(condition.form))

    def _coordinates_for(self, form: Any) -> dict[Index, np.ndarray[Any, Any]]:
        if is_of_64_bits(form, self.ranges):
            return self.coordinates
        return {index: values.astype(object) for index, values in self.coordinates.items()}

    def home(self, indices: Any) -> Loops:
        """Return the shallowest level at which all of `indices` are in force: what depends on no
        more is evaluated there, once.
        """
        level = self
        while level.parent is not None and all(i in level.parent.ranges for i in indices):
            level = level.parent
        return level

    def lifted(self, value: Any) -> Any:
        """Return a value of a level above with an axis of extent 1 for every index that this level
        has besides.
        """
        missing = self.rank - np.ndim(value)
        if missing and isinstance(value, np.ndarray):
            return value.reshape(value.shape + (1,) * missing)
        return value


def along_axes(ranges: Mapping[Index, Range]) -> dict[Index, np.ndarray[Any, Any]]:
    """Return for each index the integers of its range, along the axis that is its position."""
    coordinates = {}
    for axis, (index, (low, high)) in enumerate(ranges.items()):
        shape = (1,) * axis + (-1,) + (1,) * (len(ranges) - axis - 1)
        coordinates[index] = np.arange(low, high, dtype=np.int64).reshape(shape)
    return coordinates


def all_hold(conditions: Iterable[Constraint], points: Mapping[Index, Any]) -> Any:
    """Return whether all conditions hold at points, which are values of the indices."""
    return fold(np.logical_and, (condition.holds(points) for condition in conditions))


def defined_points(scope: Scope) -> Any:
    """Return where a scope has a value, as an array over its box; None where it has everywhere."""
    if not scope.where:
        return None
    points = along_axes({it.index: (it.low, it.high) for it in scope.iterators})
    return np.broadcast_to(all_hold(scope.where, points), scope.shape)


def blocks(
    ranges: Mapping[Index, Range], extents: Mapping[Index, int]
) -> Iterator[dict[Index, Range]]:
    """Cut a box into blocks of at most `extents`, in row-major order.

    >>> i = Index("i")
    >>> list(blocks({i: (0, 5)}, {i: 2}))
    [{i: (0, 2)}, {i: (2, 4)}, {i: (4, 5)}]
    """
    cuts = []
    for index, (low, high) in ranges.items():
        starts = range(low, high, extents[index])
        cuts.append([(start, min(start + extents[index], high)) for start in starts])
    for block in product(*cuts):
        yield dict(zip(ranges, block))


def volume(indices: Any, extents: Mapping[Index, int]) -> int:
    """Return the number of points of the axes of `indices`."""
    return prod(extents[index] for index in indices)
