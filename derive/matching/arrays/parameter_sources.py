"""Proposals for the parameters of an operator on whole arrays, by the reads of a scope; they are to
be verified.

A template names a source for each of its parameters. Nothing here knows an operator; a source reads
coefficients, constants, boxes and extents. Where nothing of its kind is there, it proposes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from derive.matching.patterns.scalar_parameters import numbers, proposals
from einalg.language.index.affine import Affine, Index
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, unpadded
from einalg.language.ir.traversal import accesses, reductions

Operands = Sequence[Any]


class ReadSummary:
    """A scope without inner scopes, as sources see it."""

    def __init__(self, scope: Scope):
        self.scope = scope

    @property
    def rank(self) -> int:
        return self.scope.rank

    @cached_property
    def reads(self) -> list[Access]:
        return list(dict.fromkeys(accesses(self.scope.body)))

    @cached_property
    def bases(self) -> list[Any]:
        """The tensors and scopes that are read, each once."""
        return list(dict.fromkeys(unpadded(read.base) for read in self.reads))

    def reads_of(self, base: Any) -> list[Access]:
        return [read for read in self.reads if unpadded(read.base) == base]

    def joined_orders(self) -> Iterator[tuple[Any, ...]]:
        """Yield what is read, once along every padded axis in the order in which it lies there."""
        if len(self.bases) != len(self.reads):
            return
        if len({len(read.subscripts) for read in self.reads}) != 1:
            return
        for axis in padded_axes(self, self.bases):
            yield tuple(unpadded(read.base) for read in self._in_order_along(axis))

    def _in_order_along(self, axis: int) -> list[Access]:
        def place(read: Access) -> int:
            low, _ = read.base.box[axis]
            return low - read.subscripts[axis].const

        return sorted(self.reads, key=place)


class Walk(NamedTuple):
    """The index that alone moves a subscript, by its position among the result's, and its step:
    (1, 2) for `2*j` in a result over i and j.
    """

    position: int
    step: int


def _walk(summary: ReadSummary, form: Affine) -> Walk | None:
    """Return the walk along a subscript; None where no index of the result moves it alone."""
    if len(form.terms) != 1:
        return None
    index, step = form.terms[0]
    if not isinstance(index, Index) or index not in summary.scope.indices:
        return None
    return Walk(summary.scope.indices.index(index), step)


def sizes(summary: ReadSummary, _: Operands) -> Iterator[tuple[int, ...]]:
    """Propose the shape of the result."""
    yield summary.scope.shape


def ratios(summary: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """Propose how often each axis of an operand goes into that of the result, aligned at the
    end.
    """
    (base,) = operands
    front = summary.rank - base.rank
    if front < 0:
        return
    times = []
    for size, full in zip((1,) * front + base.shape, summary.scope.shape):
        if size == 0 or full % size:
            return
        times.append(full // size)
    yield tuple(times)


def enlarged_axes(summary: ReadSummary, operands: Operands) -> Iterator[int]:
    """Propose the axes on which the result is larger than the operand."""
    for row in ratios(summary, operands):
        if len(row) == operands[0].rank:
            for axis, times in enumerate(row):
                if times > 1:
                    yield axis


def ratio(summary: ReadSummary, operands: Operands) -> Iterator[int]:
    """Propose how often the operand goes into the result on one of its axes."""
    for row in ratios(summary, operands):
        for times in dict.fromkeys(row):
            if times > 1:
                yield times


def order(summary: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """Propose for every axis of the result the axis of the operand along which its index walks;
    fixed axes stand for those of extent 1.
    """
    for read in summary.reads_of(operands[0]):
        axis_at: dict[int, int] = {}
        for axis, form in enumerate(read.subscripts):
            walk = _walk(summary, form)
            if walk is not None:
                axis_at[walk.position] = axis
        walked = axis_at.values()
        fixed = [axis for axis in range(len(read.subscripts)) if axis not in walked]
        others = [position for position in range(summary.rank) if position not in axis_at]
        if len(fixed) == len(others):
            axis_at.update(zip(others, fixed))
            yield tuple(axis_at[position] for position in range(summary.rank))


def reversed_axes(summary: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """Propose the axes along which an index walks backwards."""
    for read in summary.reads_of(operands[0]):
        backwards = []
        for axis, form in enumerate(read.subscripts):
            walk = _walk(summary, form)
            if walk is not None and walk.step < 0:
                backwards.append(axis)
        if backwards:
            yield tuple(backwards)


class Progression(NamedTuple):
    """The elements that are read along an axis of an operand: the first one, the step, how many."""

    first: int
    step: int
    count: int


def _progressions(summary: ReadSummary, operands: Operands) -> Iterator[list[Progression]]:
    """Yield the elements that each read of an operand reads along its axes, where they are
    progressions.
    """
    for read in summary.reads_of(operands[0]):
        rows = []
        for form, (low, _) in zip(read.subscripts, unpadded(read.base).box):
            row = _progression(summary, form, low)
            if row is None:
                break
            rows.append(row)
        else:
            yield rows


def _progression(summary: ReadSummary, form: Affine, low: int) -> Progression | None:
    """Return the elements of an axis from `low` on that a subscript reads; None where they are no
    progression.
    """
    if not form.terms:
        return Progression(form.const - low, 1, 1)
    walk = _walk(summary, form)
    if walk is None:
        return None
    iterator = summary.scope.iterators[walk.position]
    first = form.const - low + walk.step * iterator.low
    return Progression(first, walk.step, iterator.extent)


def starts(summary: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """Propose where each axis of the operand is read first."""
    for rows in _progressions(summary, operands):
        yield tuple(row.first for row in rows)


def stops(summary: ReadSummary, operands: Operands) -> Iterator[tuple[int | None, ...]]:
    """Propose where each axis of the operand is no longer read; None before its begin."""
    for rows in _progressions(summary, operands):
        ends: list[int | None] = []
        for first, step, count in rows:
            end = first + step * count
            if end >= 0:
                ends.append(end)
            else:
                ends.append(None)
        yield tuple(ends)


def steps(summary: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """Propose how far apart the elements are that are read along each axis of the operand."""
    for rows in _progressions(summary, operands):
        yield tuple(row.step for row in rows)


def overruns(summary: ReadSummary, operands: Operands) -> Iterator[tuple[tuple[int, int], ...]]:
    """Propose how many elements more than the operand has are read before and after each axis;
    fewer are negative.
    """
    for rows in _progressions(summary, operands):
        amounts = []
        for (first, step, count), size in zip(rows, operands[0].shape):
            if step != 1:
                break
            amounts.append((-first, first + count - size))
        else:
            yield tuple(amounts)


def fill(summary: ReadSummary, operands: Operands) -> Iterator[Any]:
    """Propose what is read outside an operand."""
    for read in summary.reads_of(operands[0]):
        if isinstance(read.base, Padded):
            yield read.base.fill
        else:
            yield 0


def padded_axes(summary: ReadSummary, _: Operands) -> list[int]:
    """Propose the axes on which every operand that is read through padding is padded."""
    amounts = [read.base.amounts for read in summary.reads if isinstance(read.base, Padded)]
    rank = min(map(len, amounts), default=0)
    axes = []
    for axis in range(rank):
        if all(any(its_amounts[axis]) for its_amounts in amounts):
            axes.append(axis)
    return axes


def reduced_axes(summary: ReadSummary, operands: Operands) -> list[int]:
    """Propose the axes of the first operand along which a reduction moves."""
    summed: set[Index] = set()
    for node in reductions(summary.scope.body):
        summed.update(node.indices)
    axes = set()
    for read in summary.reads_of(operands[0]):
        for axis, form in enumerate(read.subscripts):
            if not summed.isdisjoint(form.indices):
                axes.add(axis)
    return sorted(axes)


def all_reduced_axes(summary: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """Propose the axes of the first operand along which reductions move, together."""
    axes = reduced_axes(summary, operands)
    if axes:
        yield tuple(axes)


def number(summary: ReadSummary, _: Operands) -> list[Any]:
    """Propose the numbers of the body, and what they may come from."""
    finite = [value for value in numbers(summary.scope.body) if value.is_finite]
    return proposals(list(dict.fromkeys(finite)))


SOURCES: dict[str, Callable[[ReadSummary, Operands], Any]] = {
    "sizes": sizes,
    "ratios": ratios,
    "ratio": ratio,
    "enlarged axis": enlarged_axes,
    "order": order,
    "reversed axes": reversed_axes,
    "starts": starts,
    "stops": stops,
    "steps": steps,
    "overruns": overruns,
    "fill": fill,
    "padded axis": padded_axes,
    "reduced axis": reduced_axes,
    "reduced axes": all_reduced_axes,
    "number": number,
}
