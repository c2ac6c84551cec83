"""Copies in another order of axes: squares of elements are transposed in registers (design §10).

Where neighbours of the copy are not neighbours in what is read, a loop over either would touch a line of the cache for each element, and
lines whose distance is a power of 2 drive each other out. A square reads and writes whole vectors of both.
"""

from __future__ import annotations

from collections.abc import Iterator as Iterable
from math import prod

from codegen.contraction import Axis, Operand, merged, offset
from codegen.guards import Range
from codegen.ir import Buf, Function, Put, Ref, Turn
from codegen.machine import Machine, machine
from codegen.scalar import computed
from codegen.writer import LANE, Writer
from einalg.access import Constant, Tensor
from einalg.affine import Affine, Index, affine
from einalg.dtypes import numpy_dtype
from einalg.facts import simplify
from einalg.scope import Iterator, Scope
from einalg.traverse import fresh_index

ROWS, COLUMNS, NUMBER = Index("rows"), Index("columns"), Index("number")
SIZES = (4, 8)  # bytes of elements of which a square fits into registers
PARALLEL = 1 << 18  # elements from which on threads pay


def turned(name: str, scope: Scope, target: Machine | None = None, parallel: bool | None = None) -> Function | None:
    """The function of the statement `name = scope` if it is such a copy, else None.

    >>> import einalg as ea
    >>> turned("O", ea.parse("O[i,j] = A[j,i]", A=(40, 50)), Machine(64, 32)).inputs[0].name
    'A'
    >>> turned("O", ea.parse("O[i,j] = A[i,j]", A=(40, 50)), Machine(64, 32)) is None
    True
    """
    source, element = getattr(scope.body, "tensor", None), numpy_dtype(scope.dtype).itemsize
    if not isinstance(source, Tensor) or isinstance(source, Constant) or scope.where:
        return None
    found, size = _axes(scope), (target or machine()).vector // element
    if found is None or element not in SIZES or not scope.dtype == source.dtype == computed(scope.dtype):
        return None
    axes, first = found
    row, column = (next((axis for axis in axes if axis.step(side) == 1), None) for side in ("left", "target"))
    if row is None or column is None or row is column or min(row.extent, column.extent) < size:
        return None
    buf, out = Buf(source.name, source.shape, source.dtype), Buf(name, scope.shape, scope.dtype)
    w = Writer((buf.name, out.name))
    threads = prod(scope.shape) >= PARALLEL if parallel is None else parallel
    _squares(w, Operand(buf, first), Operand(out, 0), [axis for axis in axes if axis not in (row, column)], (row, column), size, threads)
    return Function(name, (buf,), out, tuple(w.out), str(scope))


def _axes(scope: Scope) -> tuple[list[Axis], int] | None:
    """The axes of a copy with their steps in what is read (`left`) and in the copy, neighbours that lie like one as one, and the first element.

    An index that is read by its digits is an axis for each. None for another statement.
    """
    access = scope.body
    if access.base is not access.tensor:  # padded
        return None
    read = sum(((form - low) * step for form, (low, _), step in zip(access.subscripts, access.tensor.box, _steps(access.tensor.shape))), affine(0))
    own = sum(((affine(it.index) - it.low) * step for it, step in zip(scope.iterators, _steps(scope.shape))), affine(0))
    ranges, forms = dict[Index, Range](), dict[Index, Affine]()
    for it in scope.iterators:
        digits = _digits(it, read, {*scope.indices, *ranges})
        ranges |= {digit: (0, extent) for digit, extent, _ in digits}
        forms[it.index] = sum((affine(digit) * step for digit, _, step in digits), affine(it.low))
    read, own = (simplify(form.substitute(forms), ranges) for form in (read, own))
    if not read.is_affine():
        return None
    axes = [Axis(index, high, read.coefficient(index), 0, own.coefficient(index)) for index, (_, high) in ranges.items() if high != 1]
    return list(merged(sorted(axes, key=lambda axis: -axis.left), "left", "target")), read.const


def _digits(it: Iterator, read: Affine, taken: set[Index]) -> list[tuple[Index, int, int]]:
    """An index, or the two digits of it that are read: the name, the extent and the step of each."""
    divisors = {atom.divisor for atom, _ in read.terms if not isinstance(atom, Index) and it.index in atom.argument.indices}
    (divisor,) = divisors if len(divisors) == 1 else (1,)
    high = fresh_index(it.index.name, taken)
    if divisor == 1 or it.extent % divisor:
        return [(high, it.extent, 1)]
    return [(high, it.extent // divisor, divisor), (fresh_index(it.index.name, {*taken, high}), divisor, 1)]


def _steps(shape: tuple[int, ...]) -> list[int]:
    """How far neighbours of each axis are apart."""
    return [prod(shape[k + 1 :]) for k in range(len(shape))]


def _squares(w: Writer, source: Operand, target: Operand, outer: list[Axis], pair: tuple[Axis, Axis], size: int, parallel: bool) -> None:
    """Loops over all other axes, and over squares of a pair: `row` lies side by side in what is read, `column` in the copy."""
    row, column = pair
    kind = "par" if parallel else "seq"
    with w.loops(sorted(outer, key=lambda axis: -axis.target), kind):
        for first, count in _blocks(row.extent, size):
            with w.loop(ROWS, count, kind="seq" if outer else kind) as rows:
                for start, number in _blocks(column.extent, size):
                    with w.loop(COLUMNS, number) as columns:
                        at = rows * size + first, columns * size + start
                        read = offset(outer, "left") + at[0] + at[1] * column.left + source.offset
                        square = w.local("square", (size * size,), source.buf.dtype)
                        w.out.append(Turn(Ref(source.flat, (read,)), column.left, size, size, Ref(square, (affine(0),))))
                        with w.loop(NUMBER, size) as line:
                            place: Affine = offset(outer, "target") + (at[0] + line) * row.target + at[1] + affine(LANE)
                            w.lanes(Put(Ref(target.flat, (place,)), "=", Ref(square, (line * size + affine(LANE),))), size)


def _blocks(extent: int, size: int) -> Iterable[tuple[int, int]]:
    """Blocks of this size that cover an axis: where they begin, and how many there are; the last one may overlap others."""
    yield 0, extent // size
    if extent % size:
        yield extent - size, 1
