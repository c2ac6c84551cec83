"""The loop nest of a contraction and of a statement over its results, slice by slice (design §10).

for each batch
  contract into memory that a thread keeps
  run the loops of the statement over that
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from codegen.ir.builder import LoopBuilder
from codegen.ir.names import unused_name, used_names
from codegen.ir.nodes import Buf, Function, Outlined, Ref, Statement, walk
from codegen.ir.substitute import with_references
from codegen.kernels.contraction.nest.loop_nest import LoopKinds, write_batch
from codegen.kernels.contraction.nest.packing import PackedLayout, buffer_names, inputs_and_packs
from codegen.kernels.contraction.partition import Partition, Tiling
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.contraction.slices.slice_reader import SliceReader
from codegen.kernels.strided_axes import StridedAxis, StridedOperand, extent
from einalg.language.analysis.simplify import simplify
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine


def batches_are_slices(c: Contraction, elements: int) -> bool:
    """Whether each batch of a contraction computes so many results that lie side by side."""
    inner = (*c.rows, *c.columns)
    last = sum((axis.extent - 1) * axis.target for axis in inner)
    if c.target.offset or extent(inner) != elements or last != elements - 1:
        return False
    if any(axis.target < 1 for axis in inner):
        return False
    return all(axis.target % elements == 0 for axis in c.batch)


def can_be_moved(loops: Function, reader: SliceReader) -> bool:
    """Whether loops over the first slice of a reader are those over others at other places.

    Slices of a tensor that lie apart have other distances than the first one by itself.
    """
    for node in walk(loops):
        if not isinstance(node, Ref) or reader.is_contiguous(node.buf.name):
            continue
        if len(node.subscripts) < len(reader.buffers[node.buf.name].shape):
            return False
    return True


def function_with_reader(
    contraction: Contraction,
    tiling: Tiling,
    reader: SliceReader,
    loops: Function,
    comment: str = "",
    parallel: bool = False,
) -> Function:
    """Return the function that computes a contraction and the reader of its results.

    `loops` compute the reader's first slice. Threads share the batches where `parallel`.
    """
    used = {*used_names(loops), *buffer_names(contraction), *reader.buffers}
    used.discard(reader.results.name)
    c = replace(contraction, batch=_renamed(contraction.batch, used))
    w = LoopBuilder(used)
    with w.loops(c.batch, "par" if parallel else "seq"):
        results = w.local(reader.results.name, (reader.elements,), c.target.buf.dtype)
        kept = replace(
            c,
            target=StridedOperand(results, 0),
            batch=tuple(replace(axis, target=0) for axis in c.batch),
        )
        layout = PackedLayout(Partition(kept, tiling), reader.name, tuple(used))
        write_batch(w, layout, LoopKinds())
        slice_of = _Slice(reader, results, _number(c.batch, reader.elements), c.batch)
        w.out.append(Outlined(slice_of.statements(loops)))
    bufs, packs = inputs_and_packs(layout)
    known = {buf.name: buf for buf in (*bufs, *reader.buffers.values())}
    output = known.pop(reader.name)
    inputs = tuple(known.values())
    return Function(reader.name, inputs, output, tuple(w.out), comment, tuple(packs))


def _renamed(batch: tuple[StridedAxis, ...], used: set[str]) -> tuple[StridedAxis, ...]:
    """Return axes under names that are not in use, and now are."""
    axes: list[StridedAxis] = []
    for axis in batch:
        name = unused_name(axis.index.name, used)
        used.add(name)
        axes.append(replace(axis, index=Index(name)))
    return tuple(axes)


def _number(batch: tuple[StridedAxis, ...], elements: int) -> Affine:
    """Return the number of the slice that a batch computes."""
    total = affine(0)
    for axis in batch:
        total = total + affine(axis.index) * (axis.target // elements)
    return total


@dataclass(frozen=True)
class _Slice:
    """A slice of a reader: its number, and the buffer that holds the results of the batch."""

    reader: SliceReader
    results: Buf
    number: Affine
    batch: tuple[StridedAxis, ...]

    def statements(self, loops: Function) -> tuple[Statement, ...]:
        """Return the loops over the first slice for this one."""
        ranges = {axis.index: (0, axis.extent) for axis in self.batch}

        def moved(ref: Ref) -> Ref:
            name = ref.buf.name
            if name == self.reader.results.name:
                return Ref(self.results, (_element(ref),))
            whole = self.reader.buffers.get(name)
            if whole is None:
                return ref
            if self.reader.is_contiguous(name):
                flat = replace(whole, shape=(prod(whole.shape),))
                begin = simplify(self.reader.begin(name, self.number), ranges)
                return Ref(flat, (_element(ref) + begin,))
            subscripts = list(ref.subscripts)
            for axis, digit in self.reader.place(name, self.number).items():
                subscripts[axis] = subscripts[axis] + simplify(digit, ranges)
            return Ref(whole, tuple(subscripts))

        return tuple(with_references(statement, moved) for statement in loops.body)


def _element(ref: Ref) -> Affine:
    """Return the element of a reference, counted as it lies in memory."""
    total = affine(0)
    for subscript, size in zip(ref.subscripts, ref.buf.shape, strict=True):
        total = total * size + subscript
    return total
