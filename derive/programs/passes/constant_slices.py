"""Slices that a statement reads at one place of an axis alone, as tensors of their own.

The steps of a recurrent network, or the heads of an attention that are written one by one, differ
in such places only: with slabs in the place of the whole tensors they are one layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from einalg.language.index.affine import Affine, Index
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.program import substitute_accesses
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Constant, Padded, Tensor
from einalg.language.ir.traversal import accesses, rebased

Places = tuple[int | None, ...]  # the only place of each axis that is read; None: several are


@dataclass(frozen=True)
class ConstantSlice:
    """A part of a tensor: all of it but for the axes of which one place is read.

    The range of these is then `[0, 1)`.

    >>> ConstantSlice(Tensor("A", (9, 4)), (7, None)).called("S", "input").axes
    ((0, 1), (0, 4))
    """

    tensor: Tensor
    places: Places

    @staticmethod
    def whole(tensor: Tensor) -> ConstantSlice:
        return ConstantSlice(tensor, (None,) * tensor.rank)

    def called(self, name: str, role: str) -> Tensor:
        """Return the slab as a tensor of this name."""
        axes = []
        for axis, place in zip(self.tensor.axes, self.places):
            axes.append(axis if place is None else (0, 1))
        return Tensor(name, tuple(axes), self.tensor.dtype, role)

    def to_slab(self, subscripts: Sequence[Affine]) -> tuple[Affine, ...]:
        """Return subscripts of the tensor as those of the slab."""
        offsets = [place or 0 for place in self.places]
        return tuple(s - offset for s, offset in zip(subscripts, offsets))

    def to_tensor(self, subscripts: Sequence[Affine]) -> tuple[Affine, ...]:
        """Return subscripts of the slab as those of the tensor."""
        offsets = [place or 0 for place in self.places]
        return tuple(s + offset for s, offset in zip(subscripts, offsets))

    def of(self, access: Access, name: Tensor) -> Access:
        """Return an access to the tensor as one to the slab of this name."""
        return Access.of(rebased(access, name).base, self.to_slab(access.subscripts))

    def read(self, access: Access) -> Access:
        """Return an access to the slab as one to the tensor.

        It reads a copy where it is padded at an axis of one place, beside which the tensor has
        values.
        """
        if self._is_padded_there(access):
            return rebased(access, self._copy())
        return Access.of(rebased(access, self.tensor).base, self.to_tensor(access.subscripts))

    def _copy(self) -> Scope:
        iterators = []
        for k, axis in enumerate(self.called("S", "input").axes):
            iterators.append(LoopIndex(Index(f"i{k}"), *axis))
        subscripts = self.to_tensor([it.index.as_affine() for it in iterators])
        return Scope(iterators, None, self.tensor[subscripts])

    def _is_padded_there(self, access: Access) -> bool:
        view = access.base
        while isinstance(view, Padded):
            for place, amount in zip(self.places, view.amounts):
                if place is not None and any(amount):
                    return True
            view = view.base
        return False


def slabs(scope: Scope) -> dict[str, ConstantSlice]:
    """Return what a scope and those below it read of every tensor, in order of first use.

    Constants are left out.

    >>> import einalg as ea
    >>> scope = ea.parse("O[j] = A[7,j]*B[j,0] + B[j,1]", A=(9, 4), B=(4, 2))
    >>> [slab.places for slab in slabs(scope).values()]
    [(7, None), (None, None)]
    """
    places: dict[str, Places] = {}
    for inner in all_scopes(scope):
        for access in accesses(inner.body):
            tensor = access.tensor
            if isinstance(tensor, Tensor):
                here = _places(access, tensor)
                places[tensor.name] = _common(places.get(tensor.name, here), here)
    slices = {}
    for name, tensor in scope.tensors.items():
        if not isinstance(tensor, Constant):
            slices[name] = ConstantSlice(tensor, places[name])
    return slices


def _common(one: Places, other: Places) -> Places:
    """Return the places that two reads of a tensor have in common, None elsewhere."""
    return tuple(a if a == b else None for a, b in zip(one, other))


def _places(access: Access, tensor: Tensor) -> Places:
    """Return the place of each axis that an access reads alone."""
    if access.base is not tensor:  # padded
        return (None,) * tensor.rank
    places: list[int | None] = []
    for form, (low, high) in zip(access.subscripts, tensor.axes):
        is_constant = not form.terms and low <= form.const < high
        places.append(int(form.const) if is_constant else None)
    return tuple(places)


def on_slabs(scope: Scope, inputs: Mapping[str, tuple[ConstantSlice, Tensor]]) -> Scope:
    """Return the scope with tensors replaced by their slabs, which are called like `inputs` say."""

    def change(access: Access) -> Access:
        tensor = access.tensor
        if not isinstance(tensor, Tensor) or tensor.name not in inputs:
            return access
        slab, name = inputs[tensor.name]
        return slab.of(access, name)

    return substitute_accesses(scope, change)


def on_tensors(scope: Scope, slices: Mapping[str, ConstantSlice]) -> Scope:
    """Return a scope that reads slabs, by name, with these replaced by their tensors."""

    def change(access: Access) -> Access:
        tensor = access.tensor
        if not isinstance(tensor, Tensor) or tensor.name not in slices:
            return access
        return slices[tensor.name].read(access)

    return substitute_accesses(scope, change)
