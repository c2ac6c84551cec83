"""Contractions with a statement over the results of each batch, such as its softmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codegen.ir.nodes import Function
from codegen.kernels.contraction.slices.reader_nest import (
    batches_are_slices,
    can_be_moved,
    function_with_reader,
)
from codegen.kernels.contraction.slices.slice_reader import SliceReader, slice_reader
from codegen.kernels.strided_axes import extent
from codegen.lowering.parallel import pays
from codegen.tuning.spaces.contraction import ContractionSpace, OrderedTiling
from codegen.tuning.spaces.loops import LoopsSpace
from codegen.tuning.spaces.space import CodeCandidate, Fields, Joint, JointPoint
from codegen.tuning.spaces.unit import CodeUnit, Reader
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import EOP, Kernel

MAX_CACHE_SHARE = 0.5  # of the second cache, that the results of a batch may fill
MAX_IDLE_SHARE = 0.25  # of the cores, in the last turn of batches
NO_THREADS = 1 << 62  # operations from which on threads would share the loops of a slice


class SlicesSpace(Joint):
    """A tiling of a contraction, and loops over the results of each of its batches."""

    name = "slices"

    def __init__(self, product: ContractionSpace, reader: SliceReader, unit: CodeUnit):
        self.product, self.reader, self.unit = product, reader, unit
        self.loops = LoopsSpace(unit, product.target)

    @property
    def parts(self) -> Sequence[Fields]:
        return self.product, self.loops

    def start(self) -> JointPoint:
        return self.start_with(self.product.start())

    def start_with(self, tiling: OrderedTiling) -> JointPoint:
        """Return the loops of the start after a contraction with these numbers."""
        return JointPoint((tiling, self.loops.start()))

    @property
    def work(self) -> int:
        """Return the number of products."""
        return self.product.work

    def cycles(self, point: JointPoint) -> float:
        tiling, schedule = point.parts
        return self.product.cycles(tiling) + self.reader.count * self.loops.cycles(schedule)

    def refusal(self, point: JointPoint) -> str | None:
        reason = super().refusal(point)
        if reason is None and not can_be_moved(self.loops.build(point.parts[1]), self.reader):
            reason = "what lies apart for each slice is read as if side by side"
        return reason

    def build(self, point: JointPoint) -> Function:
        tiling, schedule = point.parts
        ordered = self.product.ordered(tiling)
        is_parallel = pays(ordered.work, ordered.left.buf, ordered.right.buf)
        comment = f"{self.product.comment}, then {self.reader.scope}"
        loops = self.loops.build(schedule)
        return function_with_reader(ordered, tiling, self.reader, loops, comment, is_parallel)

    def with_epilogue(self, point: JointPoint, epilogue: Reader) -> CodeCandidate | None:
        return None


def with_slice_reader(
    unit: CodeUnit, candidate: CodeCandidate, statement: Reader
) -> CodeCandidate | None:
    """Return a contraction with a reader of its results, batch by batch; None where there is none.

    A cache holds the results of a batch, so no loops find them sooner than those that follow it.
    """
    product = candidate.space
    if not isinstance(product, ContractionSpace):
        return None
    name, scope = statement
    c = product.contraction
    count = extent(c.batch)
    if count < 2 or not _keeps_cores_busy(count, product.target.cores):
        return None
    reader = slice_reader(name, scope, c.target.buf.name, count)
    if reader is None or not all(
        batches_are_slices(order, reader.elements) for order in product.orders
    ):
        return None
    slice_bytes = reader.elements * numpy_dtype(c.target.buf.dtype).itemsize
    if slice_bytes > MAX_CACHE_SHARE * product.target.level2:
        return None
    kernel = Kernel(EOP, {}, tuple(scope.tensors), name)
    schedule = replace(unit.schedule, parallel=NO_THREADS)
    first = CodeUnit(kernel, reader.first_slice, unit.constants, unit.statements, schedule)
    space = SlicesSpace(product, reader, first)
    start = space.start_with(candidate.point)
    if not space.fits(start):
        return None
    return CodeCandidate(space, start)


def _keeps_cores_busy(count: int, cores: int) -> bool:
    """Whether threads that share so many batches are idle for a small part of the time only."""
    turns = -(-count // cores)
    return count >= (1 - MAX_IDLE_SHARE) * turns * cores
