"""The ranges of depth that the rows of a tile sum, and the panels that they need (design §10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codegen.ir.builder import maximum, minimum
from codegen.ir.nodes import Bound
from codegen.kernels.contraction.nest.builder import RowTile, divided
from codegen.kernels.contraction.partition import Partition, has_index
from codegen.kernels.contraction.ranges import IndexPlaces, IndexRange
from einalg.language.index.affine import Affine, Index


@dataclass(frozen=True)
class TileRange:
    """A range of depth or of columns, `extent` long without conditions, in a register tile."""

    within: IndexRange
    extent: int
    partition: Partition
    tile: RowTile

    @property
    def index(self) -> Index:
        """Return the index that has the range."""
        return self.within.index

    @property
    def common(self) -> tuple[Bound, Bound]:
        """Return the first value that the ranges of all rows have, and the end of such values.

        This may lie before the first one.
        """
        return self._first(self._common_starts), self._end(self._common_ends)

    @property
    def widest(self) -> tuple[Bound, Bound]:
        """Return the first value that the range of some row has, and the end of such values."""
        places, within = self._places, self.within
        if places is None:
            return self.common
        return self._first(within.widest_starts(places)), self._end(within.widest_ends(places))

    def apart(self, row: int) -> Iterator[tuple[Bound, Bound]]:
        """Yield what a row has before and after what all rows have, where this may be anything."""
        places = self._places
        if places is None:
            return
        begin, end = self.common
        here = {places.index: places.first + row}
        starts, ends = self.within.starts(here), self.within.ends(here)
        if starts != self._common_starts:
            yield self._first(starts), minimum(self._end(ends), begin)
        if ends != self._common_ends:
            yield maximum(begin, end), self._end(ends)

    @property
    def _places(self) -> IndexPlaces | None:
        """Return the rows of the tile, where the range depends on these."""
        first = self.tile.first
        for index in self.within.others:
            if has_index(self.partition.rows, index):
                return IndexPlaces(index, first, first + self.tile.rows - 1)
        return None

    @property
    def _common_starts(self) -> list[Affine]:
        places = self._places
        if places is None:
            return self.within.starts({})
        return self.within.common_starts(places)

    @property
    def _common_ends(self) -> list[Affine]:
        places = self._places
        if places is None:
            return self.within.ends({})
        return self.within.common_ends(places)

    def _first(self, starts: Sequence[Affine]) -> Bound:
        return maximum(0, *starts)

    def _end(self, ends: Sequence[Affine]) -> Bound:
        return minimum(self.extent, *ends)


def summed_ranges(partition: Partition, tile: RowTile) -> list[TileRange]:
    """Return the ranges of axes of depth in a tile.

    All rows sum what they have in common in one loop; each sums the rest by itself, so that no row
    multiplies an element that it does not sum.
    """
    ranges: list[TileRange] = []
    for within in partition.contraction.ranges:
        (extent,) = (axis.extent for axis in partition.depth_axes if axis.index == within.index)
        ranges.append(TileRange(within, extent, partition, tile))
    return ranges


def needed_panels(partition: Partition, tile: RowTile) -> tuple[Bound, Bound] | None:
    """Return the first panel that has a result of the tile that is read, and the end of such
    panels; None where all are.
    """
    within = partition.needed_columns
    if within is None:
        return None
    first, end = TileRange(within, partition.width, partition, tile).widest
    size = partition.tiling.vectors * partition.tiling.lanes
    return divided(first, size), divided(end, size, up=True)
