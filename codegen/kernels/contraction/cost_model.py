"""The numbers of a contraction's loop nest, and a small model that chooses them for a machine (design §10).

The model counts cycles: a core with vector registers starts two products and two loads of vectors at once, and a product is ready
after four cycles. Vectors that are wider than a core's units take several turns in these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, gcd, prod

from codegen.hardware.cpu import CpuModel, machine
from codegen.kernels.contraction.partition import Partition, Tiling
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.strided_axes import extent, merged, used_tap_fraction
from einalg.language.ir.dtypes import numpy_dtype

PRODUCTS, LOADS, ISSUED, LATENCY = (
    2,
    2,
    5,
    4,
)  # vector instructions in a cycle, all instructions in a cycle, cycles
FEW = 16  # tiles of rows that take a panel from memory faster than it comes
PAGE, PAGE_MISS = 4096, 4.0  # bytes, and cycles for each new one
APART, GAIN = (
    256,
    1.1,
)  # products of a step of depth that threads share at least, and times as busy as they must be then
SECOND = 24  # bytes that the second cache gives in a cycle
COPIED, LINE_START = (
    4,
    8,
)  # elements that are copied in a cycle, and cycles for each new line of them
WAYS = 8  # lines of a set of the second cache
FAR, FAR_PAGE, UNASKED = (
    3.0,
    45.0,
    9.0,
)  # cycles for a line that is not in it, for a page of such, and for a line that nobody asks for ahead
LINE, LINE_MISS = (
    64,
    1.0,
)  # of the cache: bytes, and cycles for one that others of its set drive out


def plan(
    contraction: Contraction, target: CpuModel | None = None
) -> tuple[Contraction, Tiling] | None:
    """The order of the operands and the numbers that the model finds best; None where there is nothing to lay side by side.

    >>> from codegen.kernels.contraction.problem import Axis, Operand
    >>> from codegen.ir.nodes import Buf
    >>> from einalg.language.index.affine import Index
    >>> a, b, c = (Operand(Buf(name, (64, 64), "f32"), 0) for name in "ABC")
    >>> m, n, k = Axis(Index("m"), 64, 64, 0, 64), Axis(Index("n"), 64, 0, 1, 1), Axis(Index("k"), 64, 1, 64, 0)
    >>> plan(Contraction(a, b, c, (), (m,), (n,), (k,), "f32"), CpuModel(64, 32))[1].lanes
    16
    """
    best = min(_plans(contraction, target), key=_Plan.cycles, default=None)
    return None if best is None else (best.contraction, best.blocked())


def ranked(
    contraction: Contraction, target: CpuModel | None = None
) -> list[tuple[Contraction, Tiling]]:
    """Every order of the operands and every tiling, what the model finds best first."""
    return [
        (found.contraction, found.blocked())
        for found in sorted(_plans(contraction, target), key=_Plan.cycles)
    ]


def _plans(contraction: Contraction, target: CpuModel | None) -> list[_Plan]:
    target = target or machine()
    return [_Plan(way, t, target) for way in orders(contraction) for t in tilings(way, target)]


def orders(contraction: Contraction) -> list[Contraction]:
    """Every order of the operands and axes: those of windows one with others, or as they are, and without a written border."""
    c = contraction
    if c.is_bare:
        return [ordered(c)]
    ways = [replace(c, windows=()), c] if c.windows else [c]
    return [
        ordered(way)
        for way in (
            *(turned for way in ways for turned in (way, way.swapped())),
            *([c.bare] if c.bare else []),
        )
    ]


def products_per_cycle(
    contraction: Contraction, tiling: Tiling, target: CpuModel | None = None
) -> float:
    """How fast the model finds a loop nest; a machine's best is two vectors."""
    return contraction.work / _Plan(contraction, tiling, target or machine()).cycles()


def ordered(contraction: Contraction) -> Contraction:
    """Axes in the order of memory, and those that lie like one as one, but for those of windows; without a written border, these come first."""
    c = contraction
    but = {index for window in c.windows for index in (window.position, window.tap)}
    first = {window.position for window in c.windows if not window.written}
    order = {
        operand: lambda a, operand=operand: (a.index not in first, -abs(getattr(a, operand)))
        for operand in ("left", "right", "target")
    }
    return replace(
        c,
        batch=merged(sorted(c.batch, key=order["target"]), "left", "right", *c.stored),
        rows=merged(sorted(c.rows, key=order["target"]), "left", *c.stored, but=but),
        columns=merged(sorted(c.columns, key=order["target"]), "right", *c.stored, but=but),
        depth=merged(sorted(c.depth, key=order["left"]), "left", "right", but=but),
        bare=None,
    )


def tilings(c: Contraction, target: CpuModel) -> Iterator[Tiling]:
    """Everything that the registers of a machine allow, of which the model finds one best."""
    if not c.columns:
        return
    own = [operand.buf.dtype == c.dtype for operand in (c.left, c.right)]
    size = numpy_dtype(c.dtype).itemsize
    for row_axes, pack_left in ((1, False), (max(1, len(c.rows)), True)):
        if c.is_bare if pack_left else not own[0]:
            continue
        for column_axes, pack_right in _column_ways(c, own[1]):
            width, height = (
                extent(c.columns[-column_axes:]),
                extent(c.rows[len(c.rows) - row_axes :]),
            )
            for lanes in target.widths(size):
                for vectors, lines in _widths(
                    c, -(-width // lanes), column_axes, (target.registers - 2) // min(2, height)
                ):
                    most = max(1, (target.registers - 2) // (vectors * lines) - 1)
                    for rows in sorted(
                        {-(-height // n) for n in range(-(-height // most), -(-height // most) + 2)}
                    ):
                        tiling = Tiling(
                            lanes,
                            rows,
                            vectors,
                            lines,
                            1,
                            1,
                            1,
                            row_axes,
                            column_axes,
                            pack_left,
                            pack_right,
                        )
                        if not (c.is_bare and Partition(c, tiling).reads_borders):
                            yield tiling


def _column_ways(c: Contraction, own: bool) -> Iterator[tuple[int, bool]]:
    """How many inner axes of columns are one, and whether they are copied, as where that makes no difference to the model."""
    yield 1, True
    if c.columns[-1].right == 1 and c.columns[-1].target == 1 and own:
        yield 1, False
    for number in range(2, len(c.columns) + 1):
        if len(merged(c.columns[-number:], "target")) == 1:
            yield number, True


def _widths(c: Contraction, vectors: int, column_axes: int, most: int) -> Iterator[tuple[int, int]]:
    """Vectors of a line in a panel, and lines of a panel."""
    for width in range(1, min(vectors, most) + 1):
        yield width, 1
    if len(c.columns) > column_axes:
        lines = c.columns[-column_axes - 1].extent
        for number in range(2, min(lines, most // vectors if vectors else 0) + 1):
            yield vectors, number


@dataclass(frozen=True)
class _Plan:
    """A tiling with what it costs."""

    contraction: Contraction
    tiling: Tiling
    target: CpuModel

    @property
    def size(self) -> int:
        return numpy_dtype(self.contraction.dtype).itemsize

    @property
    def turns(self) -> int:
        """Of a vector through the units of the machine."""
        return self.target.passes(self.tiling.lanes, self.size)

    @property
    def row_parts(self) -> tuple[int, int]:
        """Rows that are not walked as one, and those that are."""
        axes, inner = self.contraction.rows, len(self.contraction.rows) - self.tiling.row_axes
        return extent(axes[: max(0, inner)]), extent(axes[max(0, inner) :])

    @property
    def column_parts(self) -> tuple[int, int, int]:
        """Columns that are walked one by one, in lines, and as one."""
        axes, t = self.contraction.columns, self.tiling
        rest = axes[: -t.column_axes]
        lines = rest[-1].extent if t.lines > 1 else 1
        return extent(rest) // lines, lines, extent(axes[-t.column_axes :])

    def cycles(self) -> float:
        """What the model counts for the whole contraction."""
        c, t = self.contraction, self.tiling
        outer_rows, height = self.row_parts
        outer_columns, lines, width = self.column_parts
        depth = extent(c.depth)
        full, last = divmod(-(-width // t.lanes), t.vectors)
        heights = even_tiles(height, t.rows)
        used = prod(used_tap_fraction(window, together) for window, together in Partition(c, t).windows)
        total = 0.0
        for number, count in ((t.lines, lines // t.lines), (lines % t.lines, 1)):
            for vectors, panels in ((t.vectors, full), (last, 1)):
                if number * vectors and count * panels:
                    tiles = sum(
                        n * self._tile(rows, number * vectors, used * depth) for rows, n in heights
                    )
                    total += (
                        count
                        * panels
                        * (outer_rows * tiles + self._packed_right(number * vectors, depth))
                    )
            if (
                number * count and not t.pack_right and width % t.lanes
            ):  # what fills no vector is copied all the same
                total += count * self._copied(number * (last or t.vectors), depth)
        panels = outer_columns * -(-lines // t.lines) * (full + bool(last))
        return extent(c.batch) * (
            outer_columns * total
            + self._left(panels, depth, outer_rows * height)
            + self._bordered()
        )

    def _bordered(self) -> float:
        """The copies of operands with their borders."""
        borders = [
            operand.borders
            for operand in (self.contraction.left, self.contraction.right)
            if operand.borders
        ]
        return sum(
            LINE_START * prod(b.whole for b in axes[:-1]) + prod(b.whole for b in axes) / COPIED
            for axes in borders
        )

    def _tile(self, rows: int, vectors: int, depth: float) -> float:
        products = rows * vectors
        read = vectors * (
            1 if self.tiling.pack_right else 2
        )  # also where a vector lies across two lines of the cache
        loads = read + rows
        turns = self.turns
        wide = vectors * self.tiling.lanes * self.size
        given = wide / SECOND if depth * wide > self.target.level1 else 0.0
        busy = max(
            turns * products / PRODUCTS,
            (turns * read + rows) / LOADS,
            (products + loads + 2) / ISSUED,
            LATENCY,
            given,
        )
        step = busy + LINE_MISS * self._crowded(rows) + self._in_place(wide, busy)
        stride = self.contraction.columns[-1].target
        stores = (
            products
            * (3 if stride == 1 else self.tiling.lanes / 2)
            * (2 * self._pieces(vectors) - 1)
        )
        return depth * step + turns * stores + 20

    def _in_place(self, wide: int, busy: float) -> float:
        """What a step waits for so many bytes of the right operand where that is read as it lies, while the core is busy for some cycles.

        Steps that are far apart are new pages, which the processor does not see coming, and of which the second cache keeps few where
        they lie in the same sets.
        """
        c = self.contraction
        if self.tiling.pack_right or not c.depth:
            return 0.0
        apart, way = abs(c.depth[-1].right) * self.size, self.target.level2 // WAYS
        paged, lines = min(1.0, apart / PAGE), -(-wide // LINE)
        if extent((*c.columns, *c.depth)) * self.size <= self.target.level2 // 2:
            return max(0.0, PAGE_MISS * paged - busy)
        kept = WAYS * (
            way // gcd(apart, way) if apart else 1
        )  # steps whose lines the second cache has room for
        again = (
            self.visits
            if apart < LINE
            or extent(c.depth) <= kept * self._pieces(self.tiling.vectors * self.tiling.lines)
            else 1
        )
        return max(0.0, FAR_PAGE * paged + FAR * lines - busy) / again

    @property
    def visits(self) -> int:
        """How many tiles of rows read each panel."""
        outer, height = self.row_parts
        return outer * -(-height // self.tiling.rows)

    def _crowded(self, rows: int) -> int:
        """How many rows that are read in place are more than their sets of the first cache hold; lines a page apart are of one set."""
        if self.tiling.pack_left or not self.contraction.rows:
            return 0
        apart = self.contraction.rows[-1].left * self.size
        held = Counter(row * apart % PAGE // LINE for row in range(rows))
        return sum(max(0, lines - self.target.level1 // PAGE) for lines in held.values() if apart)

    def _packed_right(self, vectors: int, depth: int) -> float:
        return (
            0.0
            if not self.tiling.pack_right or self.contraction.right.ahead
            else self._copied(vectors, depth)
        )

    def _copied(self, vectors: int, depth: int) -> float:
        """The copy of a panel."""
        if self.tiling.column_axes > 1 or self.contraction.columns[-1].right != 1:
            return 2.0 * vectors * self.tiling.lanes * depth
        return 4.5 * self.turns * vectors * depth

    def _left(self, panels: int, depth: int, height: int) -> float:
        """The copy of the left operand, or what reading it out of order costs."""
        elements = depth * height
        own = min(elements, prod(self.contraction.left.buf.shape)) * self.size
        missed = UNASKED * own / LINE if own > self.target.level2 else 0.0
        if self.tiling.pack_left:
            return missed + (0.0 if self.contraction.left.ahead else 2.0 * elements)
        inner = self.contraction.depth[-1].left if self.contraction.depth else 0
        return missed + elements * panels * (0.0 if abs(inner) <= 1 else 0.25)

    def _pieces(self, vectors: int) -> int:
        """Parts of depth: those with which least moves between the second cache and memory, as every part reads and writes the results.

        One where sums cannot be kept in the result.
        """
        c = self.contraction
        if not c.depth or c.target.buf.dtype != c.dtype:
            return 1
        outer, inner = c.depth[0].extent, extent(c.depth[1:])
        least = -(
            -extent(c.depth) * vectors * self.tiling.lanes * self.size // (self.target.level2 // 4)
        )
        return (
            min(
                range(least, 2 * least + 2),
                key=lambda pieces: self._moved(-(-outer // pieces) * inner, pieces),
            )
            if least < outer
            else outer
        )

    def _moved(self, depth: int, pieces: int) -> int:
        """Elements that move where so many parts of depth are summed one after the other."""
        c = self.contraction
        rows, width = extent((*c.batch, *c.rows)), extent(c.columns)
        again = 2 if c.columns[-1].target == 1 else self.tiling.lanes  # transposed each time
        left = min(rows * extent(c.depth), prod(c.left.buf.shape))
        return left * -(
            -width * depth * self.size // (self.target.level2 // 2)
        ) + again * rows * width * (pieces - 1)

    def blocked(self) -> Tiling:
        """The tiling with a group of panels for some steps of depth in one half of the second cache, and a block of rows in the other."""
        c, t = self.contraction, self.tiling
        inner, outer = extent(c.depth[1:]), c.depth[0].extent if c.depth else 1
        depth = -(-outer // self._pieces(t.vectors * t.lines))
        outer_columns, lines, width = self.column_parts
        panels = lines // t.lines if t.lines > 1 else -(-width // (t.vectors * t.lanes))
        outer_rows, height = self.row_parts
        tiles = -(-height // t.rows) if outer_rows == 1 else c.rows[0].extent
        share = (
            4 if c.right.ahead and outer_rows * -(-height // t.rows) < FEW else 2
        )  # where the next group is on its way
        group = (
            self.target.level2
            // share
            // (t.vectors * t.lines * t.lanes * depth * inner * self.size)
        )
        block = (
            self.target.level2 // 2 // (t.rows * depth * inner * self.size)
            if t.pack_left and not c.left.ahead
            else tiles
        )
        usual = replace(
            t,
            depth=depth,
            block=max(1, min(block, tiles)),
            group=balanced_group(outer_columns * panels, group, self.target.cores),
        )
        return self._apart(usual) or usual

    def _apart(self, usual: Tiling) -> Tiling | None:
        """Steps of depth for the threads to share, where much of it comes to few results, which keep the cores less busy."""
        c, cores = self.contraction, self.target.cores
        outer, inner = c.depth[0].extent if c.depth else 1, extent(c.depth[1:])
        steps = -(-max(2 * cores, -(-outer // usual.depth)) // cores) * cores
        found = replace(usual, depth=-(-outer // steps), apart=True)
        many = extent((*c.rows, *c.columns)) * steps * self.size > self.target.level2 // 2
        if cores == 1 or many or found.depth * inner < APART:
            return None
        return (
            found
            if Partition(c, found).busy(cores) > GAIN * Partition(c, usual).busy(cores)
            else None
        )


def balanced_group(panels: int, most: int, cores: int) -> int:
    """Panels of a group, at most so many, with which all cores are done soonest: the largest of these.

    >>> balanced_group(16, 12, 2), balanced_group(10, 2, 2), balanced_group(3, 8, 1)
    (8, 1, 3)
    """
    groups = range(1, max(1, min(most, panels)) + 1)
    return min(groups, key=lambda group: (ceil(ceil(panels / group) / cores) * group, -group))


def even_tiles(size: int, most: int) -> list[tuple[int, int]]:
    """Tiles of `most` rows or one fewer, as (rows, how many); all of the rows and no others.

    >>> even_tiles(49, 12), even_tiles(7, 7)
    ([(10, 4), (9, 1)], [(7, 1)])
    """
    tiles = -(-size // most)
    small, rest = divmod(size, tiles)
    return [(rows, count) for rows, count in ((small + 1, rest), (small, tiles - rest)) if count]
