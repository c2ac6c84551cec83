"""Epilogues: what is computed from a kernel's results before they are stored (design §10).

These are biases, activations and residuals. The results of a contraction, counted as they lie in
memory, are walked by its own axes, and by the indices of the statement that reads them. Both are
cut where either begins a new digit; every piece of an axis is then a step of one index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import attrgetter

from codegen.ir.nodes import Buf, Ref, Value
from codegen.ir.scalars.elements import ElementLeaves
from codegen.kernels.strided_axes import Epilogue, StridedAxis, StridedOperand, extent
from codegen.lowering.block import buffer
from codegen.lowering.loop_plan import has_numbers
from einalg.language.analysis.simplify import simplify
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.ir.traversal import accesses, reductions


@dataclass(frozen=True)
class Digit:
    """The values of an index, `step` elements of a contraction's result apart."""

    index: Index
    extent: int
    step: int


@dataclass(frozen=True)
class EpilogueRead:
    """How a statement reads results.

    The pieces of each axis along which results lie, what is stored, and what is computed from each.
    """

    pieces: Sequence[Sequence[StridedAxis]]
    target: StridedOperand
    epilogue: Epilogue

    def whole(self, position: int, axis: StridedAxis) -> StridedAxis | None:
        """Return an axis in one piece; None where it is cut."""
        pieces = self.pieces[position]
        if not pieces:  # of one step
            return replace(axis, target=0, epilogue_steps=(0,) * len(self.epilogue.reads))
        if len(pieces) > 1:
            return None
        return replace(pieces[0], index=axis.index)

    def whole_and_cut(
        self, axes: Sequence[StridedAxis]
    ) -> tuple[list[StridedAxis], tuple[StridedAxis, ...]] | None:
        """Return the first `axes` in one piece each, and the pieces of all that follow.

        None where one of the first is cut.
        """
        whole = []
        for position, axis in enumerate(axes):
            piece = self.whole(position, axis)
            if piece is None:
                return None
            whole.append(piece)
        following: list[StridedAxis] = []
        for pieces in self.pieces[len(axes) :]:
            following += pieces
        return whole, tuple(following)


def read_each_result_once(
    axes: Sequence[StridedAxis], target: StridedOperand, dtype: str, name: str, scope: Scope
) -> EpilogueRead | None:
    """Return how the statement `name = scope` reads what was computed in `dtype` along some axes.

    None where it does not read each result for exactly one element.
    """
    if not _walks_all(axes, target):
        return None
    return read_some_results(axes, target, dtype, name, scope)


def read_some_results(
    axes: Sequence[StridedAxis], target: StridedOperand, dtype: str, name: str, scope: Scope
) -> EpilogueRead | None:
    """Return how the statement `name = scope` reads a part of what it reads, which lies along axes.

    None where it does not read each of these results for exactly one element.
    """
    if not dtype == target.buf.dtype == scope.dtype:
        return None
    others = _read_numbers(scope)
    if others is None:
        return None
    results = set[Affine]()
    for access in list(others):
        if access.tensor.name == target.buf.name:
            results.add(others.pop(access))
    if len(results) != 1:
        return None
    digits = _digits(scope, results.pop(), prod(target.buf.shape))
    if digits is None:
        return None
    first = _first_values(scope, digits, target.offset)
    axis_pieces = _pieces_in_range(axes, scope, digits, first)
    if axis_pieces is None:
        return None
    stored_numbers = [result_number(scope), *others.values()]
    cut = [_cut_axis(axis, pieces, stored_numbers) for axis, pieces in zip(axes, axis_pieces)]
    operands = {}
    for access, number in others.items():
        operands[access] = StridedOperand(buffer(access.tensor), number.substitute(first).const)
    begin = result_number(scope).substitute(first).const
    stored = StridedOperand(Buf(name, scope.shape, scope.dtype), begin)
    return EpilogueRead(cut, stored, Epilogue(scope.body, target.buf.name, operands))


def _read_numbers(scope: Scope) -> dict[Access, Affine] | None:
    """Return the elements that a statement reads; None where they lie in no order."""
    reads = plain_reads(scope)
    if reads is None:
        return None
    numbers = {access: simplify(element_number(access), scope.ranges) for access in reads}
    if all(number.is_affine() for number in numbers.values()):
        return numbers
    return None


def plain_reads(scope: Scope) -> list[Access] | None:
    """Return what a statement reads, each once; None unless it computes each element at one place.

    That is: without conditions and reductions, from tensors in memory, without index values.
    """
    if scope.where or has_numbers(scope):
        return None
    for _ in reductions(scope.body):
        return None
    reads = list(dict.fromkeys(accesses(scope.body)))
    if all(map(is_plain, reads)):
        return reads
    return None


def _walks_all(axes: Sequence[StridedAxis], target: StridedOperand) -> bool:
    """Whether some axes walk forwards over all elements of a target."""
    shortest_step = min((axis.target for axis in axes if axis.extent != 1), default=1)
    return not target.offset and shortest_step >= 1 and extent(axes) == prod(target.buf.shape)


def is_plain(access: Access) -> bool:
    """Whether an access reads a tensor in memory as it is."""
    return (
        access.base is access.tensor
        and isinstance(access.tensor, Tensor)
        and not isinstance(access.tensor, Constant)
    )


def element_number(access: Access) -> Affine:
    """Return the element that an access reads, counted as it lies in memory."""
    places = []
    for form, (low, _) in zip(access.subscripts, access.tensor.box):
        places.append(form - low)
    return _counted(zip(places, access.tensor.shape))


def result_number(scope: Scope) -> Affine:
    """Return the element of its result that a scope computes."""
    return _counted((affine(it.index) - it.low, it.extent) for it in scope.iterators)


def _counted(subscripts: Iterable[tuple[Affine, int]]) -> Affine:
    total = affine(0)
    for form, size in subscripts:
        total = total * size + form
    return total


def _digits(scope: Scope, result: Affine, size: int) -> list[Digit] | None:
    """Return the indices of a scope as digits of the element that it reads.

    None where not every element is read once.
    """
    digits = []
    for it in scope.iterators:
        if it.extent != 1:
            digits.append(Digit(it.index, it.extent, result.coefficient(it.index)))
    step = 1
    for digit in sorted(digits, key=attrgetter("step")):
        if digit.step != step:
            return None
        step *= digit.extent
    if step != size:
        return None
    return digits


@dataclass(frozen=True)
class _AxisPiece:
    """A part of an axis along which one digit counts.

    Its places are `axis_steps` steps of the axis, and `digit_steps` of the digit.
    """

    digit: Digit
    extent: int
    axis_steps: int
    digit_steps: int


def _pieces(axis: StridedAxis, digits: Sequence[Digit]) -> list[_AxisPiece] | None:
    """Cut an axis into steps of single digits; None where that cannot be."""
    pieces = []
    for digit in digits:
        piece = _common_part(axis, digit)
        if piece is not None:
            pieces.append(piece)
    if prod(piece.extent for piece in pieces) != axis.extent:
        return None
    return pieces


def _common_part(axis: StridedAxis, digit: Digit) -> _AxisPiece | None:
    """Return the part of an axis along which one digit counts; None where there is none.

    Of an axis that walks over some values of a digit, the last step may end beyond this one.
    """
    low = max(axis.target, digit.step)
    high = min(axis.target * axis.extent, digit.step * digit.extent)
    if low == axis.target:
        high = -(-high // low) * low
    if low >= high or high % low or low % axis.target or low % digit.step:
        return None
    return _AxisPiece(digit, high // low, low // axis.target, low // digit.step)


def _first_values(scope: Scope, digits: Sequence[Digit], element: int) -> dict[Index, Affine]:
    """Return the values of a scope's indices at which it reads an element of the results."""
    values = {it.index: affine(it.low) for it in scope.iterators}
    for digit in digits:
        values[digit.index] += element // digit.step % digit.extent
    return values


def _pieces_in_range(
    axes: Sequence[StridedAxis],
    scope: Scope,
    digits: Sequence[Digit],
    first: Mapping[Index, Affine],
) -> list[list[_AxisPiece]] | None:
    """Return the pieces of all axes along which no index leaves its range, as no digit carries."""
    last = {index: value.const for index, value in first.items()}
    results = []
    for axis in axes:
        pieces = _pieces(axis, digits)
        if pieces is None:
            return None
        for piece in pieces:
            last[piece.digit.index] += piece.digit_steps * (piece.extent - 1)
        results.append(pieces)
    if all(last[it.index] < it.low + it.extent for it in scope.iterators):
        return results
    return None


def _cut_axis(
    axis: StridedAxis, pieces: Sequence[_AxisPiece], numbers: Sequence[Affine]
) -> list[StridedAxis]:
    """Return an axis in pieces.

    `numbers` are the elements of the target, and of what is read beside the results.
    """
    results = []
    for position, piece in enumerate(pieces):
        index = axis.index
        if len(pieces) > 1:
            index = Index(f"{axis.index.name}_{position}")
        steps = [n.coefficient(piece.digit.index) * piece.digit_steps for n in numbers]
        target, *others = steps
        cut = StridedAxis(
            index,
            piece.extent,
            left=axis.left * piece.axis_steps,
            right=axis.right * piece.axis_steps,
            target=target,
            epilogue_steps=tuple(others),
            left_reads=tuple(step * piece.axis_steps for step in axis.left_reads),
            right_reads=tuple(step * piece.axis_steps for step in axis.right_reads),
        )
        results.append(cut)
    return results


class EpilogueLeaves(ElementLeaves):
    """The leaves of an epilogue's body: a result, and elements by their numbers."""

    def __init__(self, epilogue: Epilogue, result: Value, elements: Sequence[Ref]):
        self.product, self.result = epilogue.product, result
        super().__init__(epilogue.body, dict(zip(epilogue.reads, elements, strict=True)))

    def access(self, access: Access) -> Value:
        if access.tensor.name == self.product:
            return self.result
        return self.elements[access]


def epilogue_value(epilogue: Epilogue | None, result: Value, elements: Sequence[Ref]) -> Value:
    """Return what an epilogue computes from a result and other elements, or the result."""
    if epilogue is None:
        return result
    return EpilogueLeaves(epilogue, result, elements).value
