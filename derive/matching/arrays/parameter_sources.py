"""What the parameters of an operator on whole arrays may be, by what a scope reads: proposals, to be verified.

A template names a source for each of its parameters. Nothing here knows an operator; a source reads coefficients, constants, boxes and
extents. Where nothing of its kind is there, it proposes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

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
        """What is read, once along every padded axis in the order in which it lies there."""
        if (
            len(self.bases) == len(self.reads)
            and len({len(read.subscripts) for read in self.reads}) == 1
        ):
            for axis in padded_axes(self, self.bases):
                yield tuple(
                    unpadded(r.base)
                    for r in sorted(
                        self.reads, key=lambda r, a=axis: r.base.box[a][0] - r.subscripts[a].const
                    )
                )


def _walk(look: ReadSummary, form: Affine) -> tuple[int, int] | None:
    """The position of the index that alone moves a subscript, and its step; None where there is no such index."""
    if len(form.terms) != 1:
        return None
    index, step = form.terms[0]
    return (
        (look.scope.indices.index(index), step)
        if isinstance(index, Index) and index in look.scope.indices
        else None
    )


def sizes(look: ReadSummary, _: Operands) -> Iterator[tuple[int, ...]]:
    """The shape of the result."""
    yield look.scope.shape


def ratios(look: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """How often each axis of an operand goes into that of the result, aligned at the end."""
    (base,) = operands
    front = look.rank - base.rank
    old = (1,) * front + base.shape
    if front >= 0 and all(size and not full % size for size, full in zip(old, look.scope.shape)):
        yield tuple(full // size for size, full in zip(old, look.scope.shape))


def enlarged_axes(look: ReadSummary, operands: Operands) -> Iterator[int]:
    """Axes on which the result is larger than the operand."""
    for row in ratios(look, operands):
        if len(row) == operands[0].rank:
            yield from (axis for axis, times in enumerate(row) if times > 1)


def ratio(look: ReadSummary, operands: Operands) -> Iterator[int]:
    """How often the operand goes into the result on one of its axes."""
    for row in ratios(look, operands):
        yield from dict.fromkeys(times for times in row if times > 1)


def order(look: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """For every axis of the result the axis of the operand along which its index walks; fixed axes stand for those of extent 1."""
    for read in look.reads_of(operands[0]):
        found = {
            walk[0]: axis
            for axis, form in enumerate(read.subscripts)
            if (walk := _walk(look, form)) is not None
        }
        fixed = [axis for axis in range(len(read.subscripts)) if axis not in found.values()]
        rest = [position for position in range(look.rank) if position not in found]
        if len(fixed) == len(rest):
            found.update(zip(rest, fixed))
            yield tuple(found[position] for position in range(look.rank))


def reversed_axes(look: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """The axes along which an index walks backwards."""
    for read in look.reads_of(operands[0]):
        walks = [_walk(look, form) for form in read.subscripts]
        found = tuple(axis for axis, walk in enumerate(walks) if walk is not None and walk[1] < 0)
        if found:
            yield found


def _progressions(look: ReadSummary, operands: Operands) -> Iterator[list[tuple[int, int, int]]]:
    """For every axis of the operand the first place that is read, the step, and how many there are."""
    for read in look.reads_of(operands[0]):
        rows = []
        for form, (low, _) in zip(read.subscripts, unpadded(read.base).box):
            walk = _walk(look, form)
            if form.terms and walk is None:
                break
            first, step = (0, 1) if walk is None else (look.scope.iterators[walk[0]].low, walk[1])
            rows.append(
                (
                    form.const - low + step * first,
                    step,
                    1 if walk is None else look.scope.shape[walk[0]],
                )
            )
        else:
            yield rows


def starts(look: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """Where each axis of the operand is read first."""
    yield from (tuple(first for first, _, _ in rows) for rows in _progressions(look, operands))


def stops(look: ReadSummary, operands: Operands) -> Iterator[tuple[int | None, ...]]:
    """Where each axis of the operand is no longer read; None before its begin."""
    for rows in _progressions(look, operands):
        ends = [first + step * count for first, step, count in rows]
        yield tuple(end if end >= 0 else None for end in ends)


def steps(look: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """How far apart the elements are that are read along each axis of the operand."""
    yield from (tuple(step for _, step, _ in rows) for rows in _progressions(look, operands))


def overruns(look: ReadSummary, operands: Operands) -> Iterator[tuple[tuple[int, int], ...]]:
    """How many elements more than the operand has are read before and after each axis; fewer are negative."""
    for rows in _progressions(look, operands):
        if all(step == 1 for _, step, _ in rows):
            yield tuple(
                (-first, first + count - size)
                for (first, _, count), size in zip(rows, operands[0].shape)
            )


def fill(look: ReadSummary, operands: Operands) -> Iterator[Any]:
    """What is read outside an operand."""
    for read in look.reads_of(operands[0]):
        yield read.base.fill if isinstance(read.base, Padded) else 0


def padded_axes(look: ReadSummary, _: Operands) -> list[int]:
    """The axes on which every operand that is read through padding is padded."""
    amounts = [read.base.amounts for read in look.reads if isinstance(read.base, Padded)]
    rank = min((len(a) for a in amounts), default=0)
    return [axis for axis in range(rank) if all(any(a[axis]) for a in amounts)]


def reduced_axes(look: ReadSummary, operands: Operands) -> list[int]:
    """The axes of the first operand along which a reduction moves."""
    summed = {index for node in reductions(look.scope.body) for index in node.indices}
    return sorted(
        {
            axis
            for read in look.reads_of(operands[0])
            for axis, form in enumerate(read.subscripts)
            if summed & set(form.indices)
        }
    )


def all_reduced_axes(look: ReadSummary, operands: Operands) -> Iterator[tuple[int, ...]]:
    """The axes of the first operand along which reductions move, together."""
    found = reduced_axes(look, operands)
    if found:
        yield tuple(found)


def number(look: ReadSummary, _: Operands) -> list[Any]:
    """The numbers of the body, and what they may come from."""
    return proposals(list(dict.fromkeys(n for n in numbers(look.scope.body) if n.is_finite)))


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
