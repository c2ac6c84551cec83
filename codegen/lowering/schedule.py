"""Choices of a lowering that do not change what a kernel computes (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codegen.ir.types import bytes_of
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses


@dataclass(frozen=True)
class Schedule:
    """The numbers of a lowering, which a tuner may choose.

    `DEFAULT` is for a CPU with vector registers. `unroll`: most points of a reduction that are
    written out one by one; `written_calls`: most of them where each calls a function. `row`:
    elements of a row of accumulators. `long_row_bytes`: of such a row where its terms come from
    memory, which is fastest in long runs; `long_row_parts`: fewest of these, for threads;
    `memory_bytes`: of the terms of all outputs in a row, from which on a cache may not hold them.
    `regions`: most parts into which the output is cut so that the inner ones need no guards.
    `parallel`: scalar operations from which on threads are worth starting. `chunks`: pieces of work
    that the threads should find. `tile`: edge, in elements, of the tiles in which a transposed read
    is walked. `constant_terms`: most terms with numbers of constants that are written out in one
    place. `hoisted_points`: least points of a reduction that is not computed again in loops on
    which it does not depend; these are inner ones then, behind a row of such reductions.
    `guarded_terms`: most points of a reduction that are written out where some may not contribute,
    each with its condition; what one reads then waits for no other.
    """

    unroll: int = 64
    written_calls: int = 4
    row: int = 64
    long_row_bytes: int = 1 << 14
    long_row_parts: int = 1
    memory_bytes: int = 1 << 19
    regions: int = 64
    parallel: int = 1 << 16
    chunks: int = 64
    tile: int = 32
    constant_terms: int = 512
    hoisted_points: float = 4
    guarded_terms: int = 0


DEFAULT = Schedule()
MIN_VECTOR_TERMS = 16  # from which on a sum is for vector registers
MIN_ROW = 8  # neighbouring outputs that are summed side by side
UNKNOWN_STRIDE = 1 << 62  # elements: longer than every known one
Stride = Callable[[Index], int | None]


def strides(access: Access, fixed: Mapping[Index, Affine]) -> Stride:
    """Return how many elements apart an access reads for neighbouring values of an index.

    None where that varies.
    """
    total, size = affine(0), 1
    for form, (low, high) in zip(reversed(access.subscripts), reversed(access.tensor.box)):
        total = total + form.substitute(fixed) * size
        size *= max(1, high - low)

    def stride(index: Index) -> int | None:
        step = total.coefficient(index)
        if index in (total - affine(index) * step).indices:
            return None
        return step

    return stride


def outer_first(reduce: Reduce) -> list[LoopIndex]:
    """Return the indices of a reduction with the one that moves least in memory last."""
    steps = _all_strides([reduce], {})

    def longest_step(it: LoopIndex) -> int:
        longest = 0
        for stride in steps:
            step = stride(it.index)
            if step is None:
                step = UNKNOWN_STRIDE
            longest = max(longest, abs(step))
        return longest

    return sorted(reduce.iterators, key=longest_step, reverse=True)


def prefers_row(
    reduces: Sequence[Reduce], last: Index, extent: int, fixed: Mapping[Index, Affine]
) -> bool:
    """Whether neighbouring outputs should be summed side by side.

    Rather than each by itself over its summed index.
    """
    if extent < MIN_ROW:
        return False
    along_output = _contiguous_reads(_all_strides(reduces, fixed), last)
    return along_output >= _most_contiguous_reads(_all_strides(reduces, {}), reduces)


def bytes_of_terms(
    reduces: Sequence[Reduce], last: Index, extent: int, fixed: Mapping[Index, Affine]
) -> int:
    """Return the bytes that so many neighbouring outputs read, each once."""
    total = 0
    for reduce in reduces:
        for access in accesses(reduce.body):
            counts = {last: extent, **{it.index: it.extent for it in reduce.iterators}}
            elements = _distinct_elements(strides(access, fixed), counts)
            total += elements * bytes_of(access.tensor.dtype)
    return total


def _distinct_elements(stride: Stride, counts: Mapping[Index, int]) -> int:
    """Return how many elements are read for so many values of some indices, in whole runs."""
    steps: list[tuple[int, int]] = []
    for index, count in counts.items():
        step = stride(index)
        if step and count > 1:
            steps.append((abs(step), count))
    run, runs = 1, 1
    for step, count in sorted(steps):
        if step <= run:
            run += step * (count - 1)
        else:
            runs *= count
    return run * runs


def is_across(reduce: Reduce, last: Index | None) -> bool:
    """Whether the terms of a reduction lie side by side, many of them.

    Where those of neighbouring outputs lie apart.
    """
    steps = _all_strides([reduce], {})
    along_output = 0.0
    if last is not None:
        along_output = _contiguous_reads(steps, last)
    return _most_contiguous_reads(steps, [reduce]) > along_output


def _all_strides(reduces: Iterable[Reduce], fixed: Mapping[Index, Affine]) -> list[Stride]:
    """Return the strides of everything that some reductions read."""
    results = []
    for reduce in reduces:
        for access in accesses(reduce.body):
            results.append(strides(access, fixed))
    return results


def _most_contiguous_reads(steps: Sequence[Stride], reduces: Iterable[Reduce]) -> float:
    """Return how many reads are contiguous in the best summed index with enough terms."""
    most = 0.0
    for reduce in reduces:
        for it in reduce.iterators:
            if _terms_in_row(reduce, it, steps) >= MIN_VECTOR_TERMS:
                most = max(most, _contiguous_reads(steps, it.index))
    return most


def _terms_in_row(reduce: Reduce, last: LoopIndex, steps: Sequence[Stride]) -> int:
    """Return how many terms are walked in the stride of an index: its own, and those of the indices
    by which rows of these go on, as the 196 of an image of 14x14.
    """
    terms = last.extent
    for it in reversed(outer_first(reduce)):
        if it.index != last.index and all(_goes_on(stride, last, it, terms) for stride in steps):
            terms *= it.extent
    return terms


def _goes_on(stride: Stride, last: LoopIndex, it: LoopIndex, terms: int) -> bool:
    step = stride(last.index)
    return step is not None and stride(it.index) == terms * step


def _contiguous_reads(steps: Sequence[Stride], index: Index) -> float:
    """Return how many reads are contiguous in an index; one that does not move counts half."""
    count = 0.0
    for stride in steps:
        step = stride(index)
        if step == 1:
            count += 1
        elif step == 0:
            count += 0.5
    return count
