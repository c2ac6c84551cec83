"""Transposing statements: squares of elements change their order in registers (design §10).

Where neighbours of the result are not neighbours in what is read, a loop over either would touch a
line of the cache for each element, and lines whose distance is a power of 2 drive each other out. A
square reads and writes whole vectors of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import attrgetter

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.builder import LANE, LoopBuilder
from codegen.ir.nodes import Buf, Function, Ref, Store, Transpose
from codegen.ir.types import computed
from codegen.kernels.epilogue import (
    ElementLeaves,
    element_number,
    plain_reads,
    result_number,
)
from codegen.kernels.strided_axes import Side, StridedAxis, merged, offset
from codegen.lowering.block import buffer
from codegen.lowering.guards import Range
from codegen.lowering.parallel import MIN_ELEMENTS
from einalg.language.analysis.simplify import simplify
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import fresh_index
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

ROWS, COLUMNS, NUMBER = Index("rows"), Index("columns"), Index("number")
SQUARE_ELEMENT_BYTES = (4, 8)  # of elements of which a square fits into registers


def transpose_kernel(
    name: str,
    scope: Scope,
    target: CpuModel | None = None,
    parallel: bool | None = None,
    size: int | None = None,
) -> Function | None:
    """Return the function of the statement `name = scope` if it reads elements in another order.

    None where it reads all of them in the order of its result, or not one by one. Threads share it
    where `parallel`; where that is None, if it is large enough. A square has `size` rows, or as
    many as a vector of the machine has elements.

    >>> import einalg as ea
    >>> transposed = ea.parse("O[i,j] = A[j,i]", A=(40, 50))
    >>> transpose_kernel("O", transposed, CpuModel(64, 32)).inputs[0].name
    'A'
    >>> transpose_kernel("O", ea.parse("O[i,j] = A[i,j]", A=(40, 50)), CpuModel(64, 32)) is None
    True
    """
    reads = plain_reads(scope)
    if reads is None:
        return None
    walk = _walk(scope, reads)
    if walk is None:
        return None
    pair = _square_axes(walk, len(reads))
    if pair is None:
        return None
    dtypes = {reads[number].tensor.dtype for number in pair.across}
    if len(dtypes) > 1 or (isinstance(scope.body, Access) and dtypes != {scope.dtype}):
        return None
    (dtype,) = dtypes
    if size is None:
        size = (target or machine()).vector // numpy_dtype(dtype).itemsize
    if not _fits_squares(dtype) or min(pair.row.extent, pair.column.extent) < size:
        return None
    if parallel is None:
        parallel = prod(scope.shape) >= MIN_ELEMENTS
    kind = "seq"
    if parallel:
        kind = "par"
    tensors = {tensor.name: buffer(tensor) for tensor in scope.tensors.values()}
    out = Buf(name, scope.shape, scope.dtype)
    w = LoopBuilder((*tensors, name))
    _Squares(w, scope, reads, walk, pair, size, out).write(kind)
    return Function(name, tuple(tensors.values()), out, tuple(w.out), str(scope))


def _fits_squares(dtype: str) -> bool:
    """Whether a square of elements fits into registers, as it is computed."""
    return computed(dtype) == dtype and numpy_dtype(dtype).itemsize in SQUARE_ELEMENT_BYTES


@dataclass(frozen=True)
class _Walk:
    """The axes of a statement with their steps in the result, and in every read.

    The latter are `epilogue_steps`; `first` are the first elements of the reads.
    """

    axes: list[StridedAxis]
    first: list[int]


@dataclass(frozen=True)
class _Digit:
    """An index of a loop: its extent, and the step that it makes in an index of a statement."""

    index: Index
    extent: int
    step: int


def _walk(scope: Scope, reads: Sequence[Access]) -> _Walk | None:
    """Return how a statement is walked; None where some read lies in no strides.

    Neighbours that lie like one are one axis; an index that is read by its digits is an axis for
    each.
    """
    numbers = [element_number(read) for read in reads]
    ranges, forms = dict[Index, Range](), dict[Index, Affine]()
    for it in scope.iterators:
        form = affine(it.low)
        for digit in _digits(it, numbers, {*scope.indices, *ranges}):
            ranges[digit.index] = (0, digit.extent)
            form = form + affine(digit.index) * digit.step
        forms[it.index] = form
    elements = []
    for number in numbers:
        element = simplify(number.substitute(forms), ranges)
        if not element.is_affine():
            return None
        elements.append(element)
    result = simplify(result_number(scope).substitute(forms), ranges)
    axes = _axes(ranges, result, elements)
    merged_axes = merged(axes, "target", *range(len(elements)))
    return _Walk(list(merged_axes), [element.const for element in elements])


def _axes(
    ranges: Mapping[Index, Range], result: Affine, elements: Sequence[Affine]
) -> list[StridedAxis]:
    """Return the axes of some indices, the longest step of the result outermost."""
    axes = []
    for index, (_, extent) in ranges.items():
        if extent != 1:
            steps = tuple(element.coefficient(index) for element in elements)
            axes.append(StridedAxis(index, extent, 0, 0, result.coefficient(index), steps))
    return sorted(axes, key=attrgetter("target"), reverse=True)


def _digits(it: LoopIndex, numbers: Sequence[Affine], used: set[Index]) -> list[_Digit]:
    """Return an index as one digit, or as the two digits of it that are read."""
    divisors = set()
    for number in numbers:
        for atom, _ in number.terms:
            if not isinstance(atom, Index) and it.index in atom.argument.indices:
                divisors.add(atom.divisor)
    high = fresh_index(it.index.name, used)
    if len(divisors) != 1:
        return [_Digit(high, it.extent, 1)]
    divisor = divisors.pop()
    if divisor == 1 or it.extent % divisor:
        return [_Digit(high, it.extent, 1)]
    low = fresh_index(it.index.name, {*used, high})
    return [_Digit(high, it.extent // divisor, divisor), _Digit(low, divisor, 1)]


@dataclass(frozen=True)
class _SquareAxes:
    """Two axes: neighbours along `column` are so in the result, along `row` in some reads.

    `across` are the numbers of these reads.
    """

    row: StridedAxis
    column: StridedAxis
    across: list[int]


def _square_axes(walk: _Walk, reads: int) -> _SquareAxes | None:
    """Return the axes of squares; None where nothing is read across the order of the result."""
    for column in walk.axes:
        if column.target == 1:
            across = [number for number in range(reads) if column.step(number) not in (0, 1)]
            if not across:
                return None
            return _with_row(walk, column, across)
    return None


def _with_row(walk: _Walk, column: StridedAxis, across: list[int]) -> _SquareAxes | None:
    for row in walk.axes:
        if all(row.step(number) == 1 for number in across):
            return _SquareAxes(row, column, across)
    return None


@dataclass(frozen=True)
class _Squares:
    """Writes the squares of two axes, and the loops around them."""

    w: LoopBuilder
    scope: Scope
    reads: Sequence[Access]
    walk: _Walk
    pair: _SquareAxes
    size: int
    out: Buf

    @property
    def outer(self) -> list[StridedAxis]:
        """Return the axes around the squares."""
        return [axis for axis in self.walk.axes if axis not in (self.pair.row, self.pair.column)]

    def write(self, kind: str) -> None:
        """Write loops over all other axes and the squares; `kind` is that of the outermost."""
        w, size, row_kind = self.w, self.size, kind
        if self.outer:
            row_kind = "seq"
        with w.loops(self.outer, kind):
            for first, rows in _blocks(self.pair.row.extent, size):
                with w.loop(ROWS, rows, kind=row_kind) as row:
                    for start, columns in _blocks(self.pair.column.extent, size):
                        with w.loop(COLUMNS, columns) as column:
                            self.square(row * size + first, column * size + start)

    def square(self, first: Affine, start: Affine) -> None:
        """Write the results of so many rows from `first` on, and columns from `start` on."""
        w, size = self.w, self.size
        squares = self.transposed_squares(first, start)
        with w.loop(NUMBER, size) as line:
            column = affine(LANE)
            row = first + line
            target = self.place("target", row, start + column)
            if isinstance(self.scope.body, Access):
                value = Ref(squares[0], (line * size + column,))
                w.lanes(Store(target, "=", value), size)
                return
            elements = {}
            for number, read in enumerate(self.reads):
                if number in squares:
                    elements[read] = Ref(squares[number], (line * size + column,))
                else:
                    elements[read] = self.place(number, row, start + column)
            with w.loop(LANE, size, kind="vec"):
                w.put(target, "=", ElementLeaves(self.scope.body, elements).value)

    def transposed_squares(self, first: Affine, start: Affine) -> dict[int, Buf]:
        """Transpose a square of every read across, and return these by the number of the read."""
        size, squares = self.size, dict[int, Buf]()
        for number in self.pair.across:
            begin = self.place(number, first, start)
            square = self.w.local("square", (size * size,), begin.buf.dtype)
            step, to = self.pair.column.step(number), Ref(square, (affine(0),))
            self.w.out.append(Transpose(begin, step, size, size, to, size))
            squares[number] = square
        return squares

    def place(self, side: Side, row: Affine, column: Affine) -> Ref:
        """Return an element of the result, or of a read."""
        buf, first = self.out, 0
        if isinstance(side, int):
            buf, first = buffer(self.reads[side].tensor), self.walk.first[side]
        pair = self.pair
        at = row * pair.row.step(side) + column * pair.column.step(side)
        flat = Buf(buf.name, (prod(buf.shape),), buf.dtype)
        return Ref(flat, (offset(self.outer, side) + at + first,))


def _blocks(extent: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield blocks of a size that cover an axis: where they begin, and how many there are.

    The last one may overlap others.
    """
    yield 0, extent // size
    if extent % size:
        yield extent - size, 1
