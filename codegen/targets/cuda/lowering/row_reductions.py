"""Which reductions of a statement threads share, and how many threads and blocks share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codegen.ir.types import WIDE
from codegen.lowering.guards import Place
from codegen.lowering.loop_plan import LoopLevel, points
from codegen.lowering.reductions import outermost_reductions, reads_inside
from codegen.targets.cuda.lowering.threads.points import CudaSource, count_points
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce

MAX_SHARED_REDUCTIONS = 8  # of one kernel
MIN_THREAD_POINTS = 4  # terms, or outputs of a row, that make a thread worth while


# The values that threads share.


@dataclass(frozen=True)
class RowReductions:
    """Reductions, inner ones first, of which all outputs of a row need the same value.

    A row is the points of `along` at one point of `over`. In a softmax over `j` of `A[i, j]`, a
    maximum and a sum over 1000 terms are shared, `over` is the loop over `i`, `along` the loop
    over `j`.
    """

    reduces: tuple[Reduce, ...]
    over: tuple[LoopLevel, ...]
    along: tuple[LoopLevel, ...]

    @property
    def terms(self) -> int:
        """Return the number of terms of the longest reduction."""
        return max(map(points, self.reduces))


def shared_reductions(source: CudaSource) -> RowReductions | None:
    """Return the reductions of a statement that several threads share.

    None where each thread had better compute its outputs by itself.
    """
    rows = row_reductions(source)
    if rows is None:
        return None
    enough_outputs = count_points(rows.over) >= source.numbers.device_threads
    if count_points(rows.along) == 1 and (
        enough_outputs or rows.terms < source.numbers.min_shared_terms
    ):
        return None
    return rows


def row_reductions(source: CudaSource) -> RowReductions | None:
    """Return the reductions that several threads may share; None where there are none."""
    indices_of = _shareable(source)
    if not 0 < len(indices_of) <= MAX_SHARED_REDUCTIONS:
        return None
    needed = frozenset[Index]().union(*indices_of.values())
    over = tuple(level for level in source.plan.output if level.index in needed)
    along = tuple(level for level in source.plan.output if level.index not in needed)
    return RowReductions(tuple(indices_of), over, along)


def _shareable(source: CudaSource) -> dict[Reduce, frozenset[Index]]:
    """Return the reductions that can be summed once for a row, inner ones first.

    Each comes with the loops of the output that it depends on: `Max[k](A[i, k])` with `{i}`.
    """
    place = source.block(source.plan.output).place
    indices_of: dict[Reduce, frozenset[Index]] = {}

    def visit(body: Any, conditional: bool) -> None:
        for reduce in outermost_reductions(body):
            if reduce in indices_of:
                continue
            visit(reduce.body, True)
            indices = _indices_read(reduce, place)
            if not indices <= place.bound or points(reduce) < source.numbers.min_row_terms:
                continue
            if not conditional or reads_inside(reduce, place):
                indices_of[reduce] = indices

    visit(source.scope.body, bool(source.scope.where))
    return indices_of


def _indices_read(reduce: Reduce, place: Place) -> frozenset[Index]:
    """Return the indices at a place that a reduction depends on."""
    indices: set[Index] = set()
    for symbol in reduce.free_symbols:
        indices |= place.form(affine(symbol)).indices
    return frozenset(indices)


# How many threads and blocks do it.


def choose_part_count(source: CudaSource, rows: RowReductions) -> int:
    """Return how many groups of blocks share one long reduction.

    More than 1 where the outputs alone keep few blocks busy.
    """
    numbers = source.numbers
    lanes = max(numbers.lanes)
    rows_of_block = max(1, numbers.threads // lanes)
    blocks = -(-count_points(rows.over) // rows_of_block)
    if blocks >= numbers.device_blocks or not has_parts(source, rows):
        return 1
    for_a_full_device = -(-numbers.device_blocks // blocks)
    with_enough_terms = rows.terms // (lanes * numbers.min_part_steps * MIN_THREAD_POINTS)
    return max(1, min(for_a_full_device, with_enough_terms, numbers.max_parts))


def has_parts(source: CudaSource, rows: RowReductions) -> bool:
    """Return whether several groups of blocks may share a reduction.

    The statement reduces once, every output is a row by itself, and arrays hold what a part has.
    """
    if len(rows.reduces) != 1 or count_points(rows.along) != 1 or source.scope.where:
        return False
    if source.accumulated(rows.reduces[0]) == WIDE:
        return False
    return outermost_reductions(source.scope.body) == list(rows.reduces)


@dataclass(frozen=True)
class Division:
    """How the rows of a kernel are divided among threads and blocks.

    300 rows of 4096 terms: `parts=1, lanes=256, warp_lanes=32, groups=1, blocks=300, pieces=1`.
    """

    parts: int  # groups of blocks that share one reduction
    lanes: int  # threads that share a row
    warp_lanes: int  # those of them that hand each other values directly
    groups: int  # rows that a block computes at once
    blocks: int  # blocks for all rows
    pieces: int  # blocks that share the outputs of one row, each with all its reductions

    @property
    def warps(self) -> int:
        """Return the number of warps that share a row."""
        return self.lanes // self.warp_lanes


def divide(source: CudaSource, rows: RowReductions, parts: int) -> Division:
    """Choose the threads and blocks of a kernel."""
    numbers, row_count, row_length = (
        source.numbers,
        count_points(rows.over),
        count_points(rows.along),
    )
    few, many = numbers.lanes
    lanes = few
    if max(rows.terms // parts, row_length) >= MIN_THREAD_POINTS * many:
        lanes = many
    groups = max(1, min(numbers.threads // lanes, row_count))
    blocks = -(-row_count // groups)
    worth_while = row_length // max(rows.terms, MIN_THREAD_POINTS * lanes)
    for_a_full_device = -(-numbers.device_blocks // blocks)
    pieces = max(1, min(worth_while, for_a_full_device))
    return Division(parts, lanes, min(numbers.warp_lanes, lanes), groups, blocks, pieces)
