"""The parts into which the numbers of a tiling cut a contraction, and what threads share of these (design §10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.strided_axes import BorderWindow, StridedAxis, extent, used_tap_fraction
from einalg.language.index.affine import Index

K = Index("k")


class Partition:
    """Blocks of tiles of rows, groups of panels of columns, steps of depth: how many there are, and the axes that each walks."""

    def __init__(self, contraction: Contraction, tiling: Tiling):
        self.c, self.t = c, t = contraction, tiling
        cut = max(0, len(c.rows) - t.row_axes)
        self.outer_rows, self.rows = c.rows[:cut], c.rows[cut:]
        rest, self.columns = c.columns[: -t.column_axes], c.columns[-t.column_axes :]
        self.outer_columns, self.lines = (rest[:-1], rest[-1]) if t.lines > 1 else (rest, None)
        self.height, self.width = extent(self.rows), extent(self.columns)
        self.tiles = -(-self.height // t.rows)
        self.high = t.high(self.height)
        self.blocks = -(-(self.outer_rows[0].extent if self.outer_rows else self.tiles) // t.block)
        self.outer, self.inner = (c.depth[0], c.depth[1:]) if c.depth else (StridedAxis(K, 1), ())
        self.steps = -(-self.outer.extent // t.depth)
        self.is_apart = t.apart and self.steps > 1
        self.most = t.depth * extent(self.inner)  # elements of depth in a panel
        size, one = (
            (self.lines.extent, t.lines) if self.lines else (self.width, t.vectors * t.lanes)
        )
        self.whole, self.rest = divmod(size, one)  # panels, and what is left for a last one

    @property
    def windows(self) -> Iterator[tuple[BorderWindow, int]]:
        """Those with taps that some tile leaves out, and how many neighbouring positions a tile has."""
        for window in self.c.windows:
            together = self._together(window.position)
            if together and used_tap_fraction(window, together) < 1:
                yield window, together

    @property
    def reads_borders(self) -> bool:
        """Whether some tile reads a border that is not written."""
        return any(
            not window.written and self._together(window.position) != 1 for window in self.c.windows
        )

    def _together(self, index: Index) -> int:
        """How many neighbouring values of an index of rows or columns a tile has; 0 where these are walked as one with those of another."""
        if self.lines and self.lines.index == index:
            return self.t.lines
        for axes, size in ((self.rows, self.t.rows), (self.columns, self.t.vectors * self.t.lanes)):
            if any(axis.index == index for axis in axes):
                return size if len(axes) == 1 else 0
        return 1

    @property
    def groups(self) -> int:
        """Of panels of equal form."""
        return -(-self.whole // self.t.group)

    @property
    def split(self) -> int:
        """Blocks of rows that threads may share; none where what they read is copied with its borders for all of them."""
        return 1 if self.c.left.borders or self.c.right.borders else self.blocks

    @property
    def outside(self) -> int:
        """What lies around the steps of depth, blocks of rows among it."""
        return extent(self.c.batch) * self.split

    @property
    def shared(self) -> str:
        """What threads share: steps of `depth`, `blocks` of rows and what lies around them, outer `columns`, `groups` of panels, or `rows`."""
        if self.is_apart:
            return "depth"
        if self.outside > 1 and self.outside >= min(extent(self.outer_columns) * self.groups, 2):
            return "blocks"
        return "columns" if self.outer_columns else "groups" if self.groups > 1 else "rows"

    def busy(self, cores: int) -> float:
        """The part of the cores that threads keep at work, counted in equal tiles.

        >>> from dataclasses import replace
        >>> from codegen.kernels.contraction.problem import Operand
        >>> from codegen.ir.nodes import Buf
        >>> from codegen.kernels.contraction.cost_model import Tiling
        >>> a, b, c = (Operand(Buf(name, (96, 96), "f32"), 0) for name in "ABC")
        >>> m, n, k = StridedAxis(Index("m"), 21, 96, 0, 96), StridedAxis(Index("n"), 16, 0, 1, 1), StridedAxis(Index("k"), 96, 1, 96, 0)
        >>> c = Contraction(a, b, c, (), (m,), (n,), (k,), "f32")
        >>> four = Tiling(8, 6, 2, depth=24, block=4)  # tiles, one of 6 rows, then three of 5
        >>> Partition(c, four).busy(2), Partition(c, replace(four, apart=True)).busy(2)
        (0.65625, 1.0)
        """
        if self.shared == "depth":
            return _kept([(self.steps, self.t.depth)], self.outer.extent, cores)
        if self.shared == "blocks":
            return _kept([(self.outside, 1)], self.outside, cores)
        if self.shared == "columns":
            return _kept([(extent(self.outer_columns), 1)], extent(self.outer_columns), cores)
        if self.shared == "groups":
            panels = self.whole + bool(self.rest)
            return _kept([(self.groups, self.t.group), (bool(self.rest), 1)], panels, cores)
        if self.outer_rows:
            return _kept([(self.outer_rows[0].extent, 1)], self.outer_rows[0].extent, cores)
        return _kept(
            [(self.high, self.t.rows), (self.tiles - self.high, self.t.rows - 1)],
            self.height,
            cores,
        )


def _kept(loops: Sequence[tuple[int, int]], work: int, cores: int) -> float:
    """The part of the cores that is busy in loops one after the other, of so many turns of so much work each; `work` in all."""
    return work / (cores * sum(ceil(turns / cores) * each for turns, each in loops))


@dataclass(frozen=True)
class Tiling:
    """The numbers of a loop nest for one contraction.

    `lanes`: elements of a vector. A register tile has `rows` rows (the last tiles have one fewer) and `vectors` vectors of each of
    `lines` neighbouring lines of columns. `depth`: steps of the outermost summed axis between which the sums are kept in
    registers. `block`: register tiles of rows that are walked before the next group of panels; `group`: panels that each of these
    tiles meets in turn. `row_axes`, `column_axes`: how many inner axes are walked as one. `pack_left`, `pack_right`: whether an
    operand is copied into panels. `apart`: whether each step of depth has sums of its own, which are added at the end, so that threads
    may share these steps.
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
        """Whether the loop nest of a contraction can have these numbers: what is read in place is one axis, what is stored lies in order."""
        numbers = (
            self.lanes,
            self.rows,
            self.vectors,
            self.lines,
            self.depth,
            self.block,
            self.group,
            self.row_axes,
            self.column_axes,
        )
        if min(numbers) <= 0 or not c.columns:
            return False
        columns, width = c.columns[-self.column_axes :], extent(c.columns[-self.column_axes :])
        own = all(
            packed or operand.buf.dtype == c.dtype
            for packed, operand in ((self.pack_left, c.left), (self.pack_right, c.right))
        )
        ordered = self.pack_right or (
            len(columns) == 1 and columns[0].right == columns[0].target == 1
        )
        rows = self.row_axes >= len(c.rows) if self.pack_left else self.row_axes == 1
        lines = self.lines == 1 or (
            len(c.columns) > self.column_axes and self.vectors == -(-width // self.lanes)
        )
        whole = (
            self.apart
            or c.target.buf.dtype == c.dtype
            or not c.depth
            or self.depth >= c.depth[0].extent
        )
        high = self.high(extent(c.rows[-self.row_axes :])) > 0
        return (
            own
            and ordered
            and rows
            and lines
            and whole
            and high
            and not Partition(c, self).reads_borders
        )

    def high(self, height: int) -> int:
        """How many tiles of so many rows have all their rows; the others have one fewer."""
        return height - -(-height // self.rows) * (self.rows - 1)
