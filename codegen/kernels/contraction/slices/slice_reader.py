"""Statements over the results of a contraction that read these slice by slice (design §10).

The softmax of a batch of products reads one product at a time. Computed right after it, it finds
the product in a cache, and no other kernel ever sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from math import prod

import sympy

from codegen.ir.nodes import Buf
from codegen.kernels.epilogue import is_plain
from codegen.lowering.block import buffer
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses, map_accesses, rebased, reductions

Place = tuple[int, Index]  # an axis of a tensor, and the index that walks over it


@dataclass(frozen=True)
class SliceReader:
    """The statement `name = scope` over results of which it reads one slice for each of its own.

    `results` is the tensor of all of them, and `outer` are the indices along which slices follow
    one another, there and in the statement. `places` says which axes these are of all tensors that
    are read, and of `name`.
    """

    name: str
    scope: Scope
    results: Tensor
    outer: tuple[LoopIndex, ...]
    places: Mapping[str, tuple[Place, ...]]

    @property
    def count(self) -> int:
        """Return the number of slices."""
        return prod(it.extent for it in self.outer)

    @property
    def elements(self) -> int:
        """Return the results of a slice."""
        return prod(self.results.shape) // self.count

    @cached_property
    def buffers(self) -> dict[str, Buf]:
        """The whole tensors by their names: the statement's own, and others that it reads."""
        others = {name: buffer(tensor) for name, tensor in self.scope.tensors.items()}
        del others[self.results.name]
        return {**others, self.name: Buf(self.name, self.scope.shape, self.scope.dtype)}

    @cached_property
    def first_slice(self) -> Scope:
        """The statement over the first slice; of what it reads, the first slices."""
        first = {it.index: (it.low, it.low + 1) for it in self.outer}
        parts: dict[str, Tensor] = {}
        for name, tensor in self.scope.tensors.items():
            axes = list(tensor.axes)
            for axis, index in self.places[name]:
                axes[axis] = first[index]
            parts[name] = Tensor(name, axes, tensor.dtype, tensor.role)

        def of_part(access: Access) -> Access:
            return rebased(access, parts[access.tensor.name])

        iterators: list[LoopIndex] = []
        for it in self.scope.iterators:
            low, high = first.get(it.index, (it.low, it.high))
            iterators.append(LoopIndex(it.index, low, high))
        return Scope(iterators, (), map_accesses(self.scope.body, of_part))

    def is_contiguous(self, name: str) -> bool:
        """Whether slices of a buffer, if it is one of these, lie side by side in memory."""
        return name not in self.buffers or _begins_with(self.buffers[name].shape, self.places[name])

    def place(self, name: str, number: Affine) -> dict[int, Affine]:
        """Return the subscripts, counted from 0, that are the same in the slice of a number."""
        digits: dict[Index, Affine] = {}
        rest = number
        for it in reversed(self.outer):
            digits[it.index], rest = rest % it.extent, rest // it.extent
        return {axis: digits[index] for axis, index in self.places[name]}

    def begin(self, name: str, number: Affine) -> Affine:
        """Return the element of a buffer at which the slice of a number begins."""
        shape, total = self.buffers[name].shape, affine(0)
        for axis, digit in self.place(name, number).items():
            total = total + digit * prod(shape[axis + 1 :])
        return total


def slice_reader(name: str, scope: Scope, results: str, count: int) -> SliceReader | None:
    """Return the statement `name = scope` as a reader of `count` slices of the tensor `results`.

    None where it has other axes before theirs, reads another slice for one of its own, or counts
    with their numbers.

    >>> import einalg as ea
    >>> O = ea.parse("O[b,i,j] = T[b,i,j]/Sum[k](T[b,i,k])*W[j]", T=(3, 4, 5), W=(5,))
    >>> reader = slice_reader("O", O, "T", 3)
    >>> reader.elements, reader.first_slice.shape
    (20, (1, 4, 5))
    >>> reader.begin("O", affine(2)), reader.begin("W", affine(2))
    (40, 0)
    """
    tensor = scope.tensors.get(results)
    if tensor is None or scope.where:
        return None
    outer = _outer(scope, count)
    if outer is None or _counts_with(scope, {it.index for it in outer}):
        return None
    places = {name: _own_places(scope, outer)}
    for access in accesses(scope.body):
        own = _places(access, outer)
        if own is None or places.setdefault(access.tensor.name, own) != own:
            return None
    if [index for _, index in places[results]] != [it.index for it in outer]:
        return None
    reader = SliceReader(name, scope, tensor, outer, places)
    if _begins_with(tensor.shape, reader.places[results]) and reader.is_contiguous(name):
        return reader
    return None


def _begins_with(shape: Sequence[int], places: Sequence[Place]) -> bool:
    """Whether the axes of some places come before all others that have several elements."""
    last = max((axis for axis, _ in places), default=0)
    axes = {axis for axis, _ in places}
    return all(shape[axis] == 1 or axis in axes for axis in range(last))


def _outer(scope: Scope, count: int) -> tuple[LoopIndex, ...] | None:
    """Return the first axes of a statement that have so many places; None where there are none."""
    outer: list[LoopIndex] = []
    for it in scope.iterators:
        if count == prod(outer_axis.extent for outer_axis in outer):
            break
        if it.extent > 1:
            outer.append(it)
    if count != prod(it.extent for it in outer) or count == prod(scope.shape):
        return None
    return tuple(outer)


def _own_places(scope: Scope, outer: Sequence[LoopIndex]) -> tuple[Place, ...]:
    """Return where the result of a statement has its outer axes."""
    indices = {it.index for it in outer}
    return tuple((n, index) for n, index in enumerate(scope.indices) if index in indices)


def _places(access: Access, outer: Sequence[LoopIndex]) -> tuple[Place, ...] | None:
    """Return where the tensor of an access has outer axes.

    None where it reads no slice of the tensor, or not the one of the same number.
    """
    if not is_plain(access):
        return None
    ranges = {it.index: (it.low, it.high) for it in outer}
    places: list[Place] = []
    for number, (form, axis) in enumerate(zip(access.subscripts, access.tensor.axes)):
        index = form.as_index()
        if index is not None and ranges.get(index) == axis:
            places.append((number, index))
        elif form.indices & ranges.keys():
            return None
    indices = [index for _, index in places]
    if len(set(indices)) < len(indices):
        return None
    return tuple(places)


def _counts_with(scope: Scope, indices: Set[Index]) -> bool:
    """Whether some indices stand elsewhere than in subscripts."""
    for node in reductions(scope.body):
        if any(condition.indices & indices for condition in node.where):
            return True
    without_reads = map_accesses(scope.body, lambda _: sympy.Dummy(real=True))
    return bool(without_reads.free_symbols & indices)
