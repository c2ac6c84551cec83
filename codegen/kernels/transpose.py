"""Statements that read tensors in another order of axes: squares of elements are transposed in registers (design §10).

Where neighbours of the result are not neighbours in what is read, a loop over either would touch a line of the cache for each element, and
lines whose distance is a power of 2 drive each other out. A square reads and writes whole vectors of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.builder import LANE, LoopBuilder
from codegen.ir.nodes import Buf, Function, Ref, Store, Transpose
from codegen.ir.scalar import computed
from codegen.kernels.epilogue import ElementLeaves, element_number, is_plain, result_number
from codegen.kernels.strided_axes import Side, StridedAxis, merged, offset
from codegen.lowering.block import buffer
from codegen.lowering.guards import Range
from codegen.lowering.loop_plan import has_numbers
from codegen.lowering.parallel import ELEMENTS
from einalg.language.analysis.simplify import simplify
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import fresh_index
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses, reductions

ROWS, COLUMNS, NUMBER = Index("rows"), Index("columns"), Index("number")
SIZES = (4, 8)  # bytes of elements of which a square fits into registers


def transpose_kernel(
    name: str, scope: Scope, target: CpuModel | None = None, parallel: bool | None = None
) -> Function | None:
    """The function of the statement `name = scope` if it reads elements one by one, some in another order; else None.

    >>> import einalg as ea
    >>> transpose_kernel("O", ea.parse("O[i,j] = A[j,i]", A=(40, 50)), CpuModel(64, 32)).inputs[0].name
    'A'
    >>> transpose_kernel("O", ea.parse("O[i,j] = A[i,j]", A=(40, 50)), CpuModel(64, 32)) is None
    True
    """
    reads = list(dict.fromkeys(accesses(scope.body)))
    if (
        scope.where
        or any(True for _ in reductions(scope.body))
        or not all(map(is_plain, reads))
        or has_numbers(scope)
    ):
        return None
    walk = _walk(scope, reads)
    column = next((axis for axis in walk.axes if axis.target == 1), None) if walk else None
    if walk is None or column is None:
        return None
    across = [number for number in range(len(reads)) if column.step(number) not in (0, 1)]
    row = next(
        (axis for axis in walk.axes if across and all(axis.step(number) == 1 for number in across)),
        None,
    )
    dtypes = {reads[number].tensor.dtype for number in across}
    if (
        row is None
        or len(dtypes) > 1
        or (isinstance(scope.body, Access) and dtypes != {scope.dtype})
    ):
        return None
    (dtype,) = dtypes
    size = (target or machine()).vector // numpy_dtype(dtype).itemsize
    if (
        computed(dtype) != dtype
        or numpy_dtype(dtype).itemsize not in SIZES
        or min(row.extent, column.extent) < size
    ):
        return None
    tensors = {tensor.name: buffer(tensor) for tensor in scope.tensors.values()}
    out = Buf(name, scope.shape, scope.dtype)
    w = LoopBuilder((*tensors, name))
    threads = prod(scope.shape) >= ELEMENTS if parallel is None else parallel
    _Squares(w, scope, reads, walk, (row, column), across, size, out).write(
        "par" if threads else "seq"
    )
    return Function(name, tuple(tensors.values()), out, tuple(w.out), str(scope))


@dataclass(frozen=True)
class _Walk:
    """The axes of a statement with their steps in the result and `beside` in every read, and the first element of each read."""

    axes: list[StridedAxis]
    first: list[int]


def _walk(scope: Scope, reads: Sequence[Access]) -> _Walk | None:
    """How a statement is walked: neighbours that lie like one are one axis, an index that is read by its digits is an axis for each.

    None where some read lies in no strides.
    """
    elements = [element_number(read) for read in reads]
    ranges, forms = dict[Index, Range](), dict[Index, Affine]()
    for it in scope.iterators:
        digits = _digits(it, elements, {*scope.indices, *ranges})
        ranges |= {digit: (0, extent) for digit, extent, _ in digits}
        forms[it.index] = sum((affine(digit) * step for digit, _, step in digits), affine(it.low))
    result, *elements = (
        simplify(form.substitute(forms), ranges) for form in (result_number(scope), *elements)
    )
    if not all(form.is_affine() for form in elements):
        return None
    axes = [
        StridedAxis(
            i, n, 0, 0, result.coefficient(i), tuple(form.coefficient(i) for form in elements)
        )
        for i, (_, n) in ranges.items()
        if n != 1
    ]
    ordered = sorted(axes, key=lambda axis: -axis.target)
    return _Walk(
        list(merged(ordered, "target", *range(len(elements)))), [form.const for form in elements]
    )


def _digits(
    it: LoopIndex, forms: Sequence[Affine], taken: set[Index]
) -> list[tuple[Index, int, int]]:
    """An index, or the two digits of it that are read: the name, the extent and the step of each."""
    atoms = (atom for form in forms for atom, _ in form.terms if not isinstance(atom, Index))
    divisors = {atom.divisor for atom in atoms if it.index in atom.argument.indices}
    (divisor,) = divisors if len(divisors) == 1 else (1,)
    high = fresh_index(it.index.name, taken)
    if divisor == 1 or it.extent % divisor:
        return [(high, it.extent, 1)]
    return [
        (high, it.extent // divisor, divisor),
        (fresh_index(it.index.name, {*taken, high}), divisor, 1),
    ]


@dataclass(frozen=True)
class _Squares:
    """Squares of a pair of axes: the first lies side by side in what is read `across`, the second in the result."""

    w: LoopBuilder
    scope: Scope
    reads: Sequence[Access]
    walk: _Walk
    pair: tuple[StridedAxis, StridedAxis]
    across: Sequence[int]
    size: int
    out: Buf

    def write(self, kind: str) -> None:
        """Loops over all other axes, and over the squares."""
        (row, column), w = self.pair, self.w
        outer = [axis for axis in self.walk.axes if axis not in self.pair]
        with w.loops(outer, kind):
            for first, count in _blocks(row.extent, self.size):
                with w.loop(ROWS, count, kind="seq" if outer else kind) as rows:
                    for start, number in _blocks(column.extent, self.size):
                        with w.loop(COLUMNS, number) as columns:
                            self.square(
                                outer, rows * self.size + first, columns * self.size + start
                            )

    def square(self, outer: Sequence[StridedAxis], first: Affine, start: Affine) -> None:
        """The results of so many rows from `first` on, and columns from `start` on."""
        w, size, squares = self.w, self.size, dict[int, Buf]()
        for number in self.across:
            begin = self.place(outer, number, first, start)
            squares[number] = w.local("square", (size * size,), begin.buf.dtype)
            w.out.append(
                Transpose(
                    begin, self.pair[1].step(number), size, size, Ref(squares[number], (affine(0),))
                )
            )
        with w.loop(NUMBER, size) as line:
            column = affine(LANE)
            turned = {
                number: Ref(square, (line * size + column,)) for number, square in squares.items()
            }
            target = self.place(outer, "target", first + line, start + column)
            if isinstance(self.scope.body, Access):
                return w.lanes(Store(target, "=", turned[0]), size)
            read = [
                turned.get(number) or self.place(outer, number, first + line, start + column)
                for number in range(len(self.reads))
            ]
            with w.loop(LANE, size, kind="vec"):
                w.put(target, "=", ElementLeaves(self.scope.body, dict(zip(self.reads, read))).value)

    def place(self, outer: Sequence[StridedAxis], side: Side, row: Affine, column: Affine) -> Ref:
        """An element of the result, or of a read."""
        buf, first = (
            (self.out, 0)
            if side == "target"
            else (buffer(self.reads[int(side)].tensor), self.walk.first[int(side)])
        )
        at = (
            offset(outer, side)
            + row * self.pair[0].step(side)
            + column * self.pair[1].step(side)
            + first
        )
        return Ref(Buf(buf.name, (prod(buf.shape),), buf.dtype), (at,))


def _blocks(extent: int, size: int) -> Iterator[tuple[int, int]]:
    """Blocks of this size that cover an axis: where they begin, and how many there are; the last one may overlap others."""
    yield 0, extent // size
    if extent % size:
        yield extent - size, 1
