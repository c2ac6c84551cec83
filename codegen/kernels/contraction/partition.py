"""The parts into which a tiling cuts a contraction, and what threads share (design §10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.contraction.ranges import IndexRange
from codegen.kernels.strided_axes import (
    BorderWindow,
    StridedAxis,
    extent,
    merged,
    used_tap_fraction,
)
from einalg.language.index.affine import Index

K = Index("k")
MAX_TAP_RUNS = 7  # of a window, each of which has code of its own in a tile
MIN_TAP_RUN = 8  # steps of depth for a tap, in a row: a panel is read in pieces of these
MAX_DATA_SHARE = 0.98  # of the taps of a window, above which leaving out the others saves nothing


@dataclass(frozen=True)
class Tiling:
    """The numbers of a loop nest for one contraction.

    `lanes`: elements of a vector. A register tile has `rows` rows (the last tiles have one fewer)
    and `vectors` vectors of each of `lines` neighbouring lines of columns. `depth`: steps of the
    outermost summed axis between which the sums are kept in registers. `block`: register tiles of
    rows that are walked before the next group of panels; `group`: panels that each of these tiles
    meets in turn. `row_axes`, `column_axes`: how many inner axes are walked as one. `pack_left`,
    `pack_right`: whether an operand is copied into panels. `apart`: whether each step of depth has
    sums of its own, which are added at the end, so that threads may share these steps.
    """

    lanes: int
    rows: int
    vectors: int
    lines: int = 1
    depth: int = 1
    block: int = 1
    group: int = 1
    row_axes: int = 1
    column_axes: int = 1
    pack_left: bool = False
    pack_right: bool = True
    apart: bool = False

    def fits(self, c: Contraction) -> bool:
        """Whether the loop nest of a contraction can have these numbers."""
        return self.refusal(c) is None

    def refusal(self, c: Contraction) -> str | None:
        """Say in words why the loop nest of a contraction cannot have these numbers.

        None where it can: operands that are read in place have one axis there, and what is stored
        lies in order.
        """
        if not self._is_positive():
            return "each number is at least 1"
        if not c.columns:
            return "no axis can be laid side by side in a vector"
        reason = (
            self._refused_operands(c)
            or self._refused_columns(c)
            or self._refused_rows(c)
            or self._refused_depth(c)
        )
        if reason is not None:
            return reason
        partition = Partition(c, self)
        if partition.reads_borders:
            return "some steps of these tiles read borders, which this order leaves out: order=0"
        if partition.merges_ranges:
            return "rows that sum other ranges are not walked as one: pack_left=False"
        return None

    def _is_positive(self) -> bool:
        tile = (self.lanes, self.rows, self.vectors, self.lines)
        blocks = (self.depth, self.block, self.group, self.row_axes, self.column_axes)
        return min(*tile, *blocks) > 0

    def _refused_operands(self, c: Contraction) -> str | None:
        """What is read in place is an element of the type of the products."""
        if self.pack_left and c.is_bare:
            return "this order of operands leaves out borders, which packing would read: order=0"
        if not (self.pack_left or c.is_in_place(c.left)):
            return "the left operand is computed as it is packed: pack_left=True"
        if not (self.pack_right or c.is_in_place(c.right)):
            return "the right operand is computed as it is packed: pack_right=True"
        return None

    def _refused_columns(self, c: Contraction) -> str | None:
        columns = c.columns[-self.column_axes :]
        is_row = len(columns) == 1 and columns[0].right == columns[0].target == 1
        if not (self.pack_right or is_row):
            return "columns do not lie side by side in memory unless they are packed"
        if self.lines == 1:
            return None
        if len(c.columns) <= self.column_axes:
            return f"column_axes={self.column_axes} leaves no axis whose lines a panel could have"
        vectors = -(-extent(columns) // self.lanes)
        if self.vectors != vectors:
            return f"a panel of several lines has {vectors} vectors, which fill one"
        return None

    def _refused_rows(self, c: Contraction) -> str | None:
        rows = extent(c.rows[-self.row_axes :])
        if self.full_tiles(rows) <= 0:
            return f"{rows} rows cannot be cut into tiles of {self.rows} and {self.rows - 1}"
        if self.pack_left and self.row_axes < len(c.rows):
            return f"rows that are packed are walked as one: row_axes={len(c.rows)}"
        if not self.pack_left and self.row_axes != 1:
            return "rows that are read in place are walked axis by axis: row_axes=1"
        return None

    def _refused_depth(self, c: Contraction) -> str | None:
        """Sums of earlier steps are kept in the result, where there are any."""
        if self.apart or c.target.buf.dtype == c.dtype:
            return None
        if c.depth and self.depth < c.depth[0].extent:
            return (
                f"sums in {c.dtype} cannot be kept in a result in {c.target.buf.dtype}: "
                f"depth={c.depth[0].extent}"
            )
        return None

    def full_tiles(self, height: int) -> int:
        """Return how many tiles of so many rows have all their rows; the others have one fewer."""
        return height - -(-height // self.rows) * (self.rows - 1)


@dataclass(frozen=True)
class Partition:
    """Blocks of tiles of rows, groups of panels of columns, steps of depth.

    Says how many of these there are, and which axes each of them walks.
    """

    contraction: Contraction
    tiling: Tiling

    # Axes.

    @cached_property
    def outer_rows(self) -> tuple[StridedAxis, ...]:
        """Return the axes of rows around the tiles."""
        return self.contraction.rows[: max(0, len(self.contraction.rows) - self.tiling.row_axes)]

    @property
    def rows(self) -> tuple[StridedAxis, ...]:
        """Return the axes of rows that tiles walk as one."""
        return self.contraction.rows[len(self.outer_rows) :]

    @property
    def outer_columns(self) -> tuple[StridedAxis, ...]:
        """Return the axes of columns around the panels."""
        rest = self.contraction.columns[: -self.tiling.column_axes]
        if self.tiling.lines > 1:
            return rest[:-1]
        return rest

    @property
    def lines(self) -> StridedAxis | None:
        """Return the axis of the lines of panels; None where a panel has one line."""
        if self.tiling.lines > 1:
            return self.contraction.columns[-self.tiling.column_axes - 1]
        return None

    @property
    def columns(self) -> tuple[StridedAxis, ...]:
        """Return the axes of columns that panels walk as one."""
        return self.contraction.columns[-self.tiling.column_axes :]

    @property
    def outer_depth(self) -> StridedAxis:
        """Return the outermost summed axis, which is cut into steps."""
        if self.contraction.depth:
            return self.contraction.depth[0]
        return StridedAxis(K, 1)

    @property
    def inner_depth(self) -> tuple[StridedAxis, ...]:
        return self.contraction.depth[1:]

    @property
    def depth_axes(self) -> tuple[StridedAxis, ...]:
        return (self.outer_depth, *self.inner_depth)

    @cached_property
    def packs_squares(self) -> bool:
        """Whether columns are copied in squares, which change their order in registers.

        Their elements of depth are then neighbours in memory, and enough for a vector.
        """
        right, lanes = self.contraction.right, self.tiling.lanes
        depth = self.depth_axes[-1]
        if right.prologue is not None or right.buf.dtype != self.contraction.dtype or lanes == 1:
            return False
        if depth.right != 1 or depth.extent < lanes or len(merged(self.columns, "right")) > 1:
            return False
        return self.steps == 1 or bool(self.inner_depth) or self.tiling.depth % lanes == 0

    # Sizes.

    @cached_property
    def height(self) -> int:
        """Return the rows that tiles walk."""
        return extent(self.rows)

    @cached_property
    def width(self) -> int:
        """Return the columns of a line that panels walk."""
        return extent(self.columns)

    @property
    def tiles(self) -> int:
        """Return the tiles of rows."""
        return -(-self.height // self.tiling.rows)

    @property
    def full_tiles(self) -> int:
        """Return the tiles that have all their rows; the others have one fewer."""
        return self.tiling.full_tiles(self.height)

    @property
    def blocks(self) -> int:
        """Return the blocks of rows: of the outermost axis around the tiles, or of the tiles."""
        size = self.tiles
        if self.outer_rows:
            size = self.outer_rows[0].extent
        return -(-size // self.tiling.block)

    @cached_property
    def steps(self) -> int:
        """Return the steps of depth."""
        return -(-self.outer_depth.extent // self.tiling.depth)

    @property
    def has_separate_sums(self) -> bool:
        """Whether each step of depth has sums of its own."""
        return self.tiling.apart and self.steps > 1

    @property
    def step_depth(self) -> int:
        """Return the elements of depth in a panel: those of one step."""
        return self.tiling.depth * extent(self.inner_depth)

    @cached_property
    def panel_counts(self) -> tuple[int, int]:
        """Return the number of whole panels, and the size of a last one: lines, or columns."""
        if self.lines:
            return divmod(self.lines.extent, self.tiling.lines)
        return divmod(self.width, self.tiling.vectors * self.tiling.lanes)

    @property
    def whole_panels(self) -> int:
        return self.panel_counts[0]

    @property
    def last_panel(self) -> int:
        """Return the lines or columns of a last panel; 0 where whole panels cover everything."""
        return self.panel_counts[1]

    @property
    def panels(self) -> int:
        return self.whole_panels + bool(self.last_panel)

    @property
    def groups(self) -> int:
        """Return the groups of whole panels."""
        return -(-self.whole_panels // self.tiling.group)

    # Windows.

    @property
    def windows(self) -> Iterator[tuple[BorderWindow, int]]:
        """Yield the windows with taps that are left out, with the positions that are together."""
        for window in self.contraction.windows:
            positions = self._positions_together(window)
            if positions and used_tap_fraction(window, positions) < 1:
                yield window, positions

    @cached_property
    def row_window(self) -> BorderWindow | None:
        """The window of which a tile has all positions, as its rows; None where there is none.

        Each tap then sums the rows that read data alone, where that saves enough.
        """
        if len(self.rows) != 1 or self.tiles != 1:
            return None
        for window in self.contraction.windows:
            if window.position != self.rows[0].index or window.positions != self.height:
                continue
            if len(window.tap_runs) > MAX_TAP_RUNS or self._run_of(window.tap) < MIN_TAP_RUN:
                return None
            if not window.written or used_tap_fraction(window, 1) <= MAX_DATA_SHARE:
                return window
        return None

    def _run_of(self, tap: Index) -> int:
        """Return how many steps of depth follow one another between two values of a tap."""
        indices = [axis.index for axis in self.depth_axes]
        return extent(self.depth_axes[indices.index(tap) + 1 :])

    @property
    def reads_borders(self) -> bool:
        """Whether some tile reads a border that is not written."""
        for window in self.contraction.windows:
            if not window.written and self._positions_together(window) != 1:
                return True
        return False

    @property
    def needed_columns(self) -> IndexRange | None:
        """Return the columns of a panel's line that are read; None where that is not told here."""
        within = self.contraction.needed_columns
        if within is None or self.lines or len(self.columns) > 1:
            return None
        if len(self.rows) > 1 and any(has_index(self.rows, index) for index in within.others):
            return None
        if any(has_index(self.contraction.columns, index) for index in within.others):
            return None
        return within

    @property
    def merges_ranges(self) -> bool:
        """Whether rows on which a range depends are walked as one with others."""
        if len(self.rows) < 2:
            return False
        return any(axis.index in self.contraction.range_indices for axis in self.rows)

    def _positions_together(self, window: BorderWindow) -> int:
        """Return how many neighbouring positions sum the same taps; 0 where that is not told."""
        if window is self.row_window:
            return 1
        return self._tile_positions(window.position)

    def _tile_positions(self, index: Index) -> int:
        """Return how many neighbouring values of an index of rows or columns a tile has.

        0 where these are walked as one with those of another index.
        """
        if self.lines and self.lines.index == index:
            return self.tiling.lines
        panel_width = self.tiling.vectors * self.tiling.lanes
        for axes, size in ((self.rows, self.tiling.rows), (self.columns, panel_width)):
            if has_index(axes, index):
                return size * (len(axes) == 1)
        return 1

    # Threads.

    @property
    def shared_blocks(self) -> int:
        """Return the blocks of rows that threads may share.

        None are where what they read is copied with its borders for all of them.
        """
        if self.contraction.left.borders or self.contraction.right.borders:
            return 1
        return self.blocks

    @property
    def outer_work(self) -> int:
        """Return the turns of the loops around the steps of depth, blocks of rows among them."""
        return extent(self.contraction.batch) * self.shared_blocks

    @property
    def shared(self) -> str:
        """Return what threads share.

        That is: steps of `depth`, `blocks` of rows and the batches around them, outer `columns`,
        `groups` of panels, or `rows`.
        """
        if self.has_separate_sums:
            return "depth"
        inner_work = extent(self.outer_columns) * self.groups
        if self.outer_work > 1 and self.outer_work >= min(inner_work, 2):
            return "blocks"
        if self.outer_columns:
            return "columns"
        if self.groups > 1:
            return "groups"
        return "rows"

    def core_utilization(self, cores: int) -> float:
        """Return the part of the cores that threads keep at work, counted in equal tiles.

        >>> from dataclasses import replace
        >>> from codegen.ir.nodes import Buf
        >>> from codegen.kernels.strided_axes import StridedOperand
        >>> a, b, c = (StridedOperand(Buf(name, (96, 96), "f32"), 0) for name in "ABC")
        >>> m = StridedAxis(Index("m"), 21, 96, 0, 96)
        >>> n = StridedAxis(Index("n"), 16, 0, 1, 1)
        >>> k = StridedAxis(Index("k"), 96, 1, 96, 0)
        >>> c = Contraction(a, b, c, (), (m,), (n,), (k,), "f32")
        >>> four = Tiling(8, 6, 2, depth=24, block=4)  # tiles, one of 6 rows, then three of 5
        >>> Partition(c, four).core_utilization(2)
        0.65625
        >>> Partition(c, replace(four, apart=True)).core_utilization(2)
        1.0
        """
        loops, work = self._shared_loops()
        return work / (cores * sum(ceil(turns / cores) * each for turns, each in loops))

    def _shared_loops(self) -> tuple[Sequence[tuple[int, int]], int]:
        """Return the loops that threads share, as (turns, work of each turn), and their work."""
        t, shared = self.tiling, self.shared
        if shared == "depth":
            return [(self.steps, t.depth)], self.outer_depth.extent
        if shared == "groups":
            return [(self.groups, t.group), (bool(self.last_panel), 1)], self.panels
        if shared == "rows" and not self.outer_rows:
            smaller_tiles = self.tiles - self.full_tiles
            return [(self.full_tiles, t.rows), (smaller_tiles, t.rows - 1)], self.height
        if shared == "blocks":
            turns = self.outer_work
        elif shared == "columns":
            turns = extent(self.outer_columns)
        else:
            turns = self.outer_rows[0].extent
        return [(turns, 1)], turns


def has_index(axes: Sequence[StridedAxis], index: Index) -> bool:
    """Whether one of some axes is walked by an index."""
    return any(axis.index == index for axis in axes)
