"""What a statement reads of a tensor at one place of an axis alone, as a tensor of its own (design
§11).

The steps of a recurrent network, or the heads of an attention that are written one by one, differ
in such places only: with slabs in the place of the whole tensors they are one layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from einalg.language.index.affine import Affine, Index
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.program import substitute_accesses
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Constant, Padded, Tensor
from einalg.language.ir.traversal import accesses, rebased

Places = tuple[
    int | None, ...
]  # of every axis of a tensor, the only one that is read; None where it is read at several


@dataclass(frozen=True)
class ConstantSlice:
    """A part of a tensor: all of it but for the axes of which one place is read, whose range is
    then `[0, 1)`.

    >>> ConstantSlice(Tensor("A", (9, 4)), (7, None)).called("S", "input").axes
    ((0, 1), (0, 4))
    """

    tensor: Tensor
    places: Places

    @staticmethod
    def whole(tensor: Tensor) -> ConstantSlice:
        return ConstantSlice(tensor, (None,) * tensor.rank)

    def called(self, name: str, role: str) -> Tensor:
        """The slab as a tensor of this name."""
        axes = tuple(
            axis if place is None else (0, 1) for axis, place in zip(self.tensor.axes, self.places)
        )
        return Tensor(name, axes, self.tensor.dtype, role)

    def moved(self, subscripts: tuple[Affine, ...], back: bool = False) -> tuple[Affine, ...]:
        """Subscripts of the tensor as those of the slab, or `back`."""
        return tuple(
            s if place is None else s + place if back else s - place
            for s, place in zip(subscripts, self.places)
        )

    def of(self, access: Access, name: Tensor) -> Access:
        """An access to the tensor as one to the slab of this name."""
        return Access.of(rebased(access, name).base, self.moved(access.subscripts))

    def read(self, access: Access) -> Access:
        """An access to the slab as one to the tensor; to a copy, where it is padded at an axis of
        one place, beside which the tensor has values.
        """
        if self._is_padded_there(access):
            iterators = [
                LoopIndex(Index(f"i{k}"), *axis)
                for k, axis in enumerate(self.called("S", "input").axes)
            ]
            return rebased(
                access,
                Scope(
                    iterators,
                    None,
                    self.tensor[
                        self.moved(tuple(it.index.as_affine() for it in iterators), back=True)
                    ],
                ),
            )
        return Access.of(
            rebased(access, self.tensor).base, self.moved(access.subscripts, back=True)
        )

    def _is_padded_there(self, access: Access) -> bool:
        view, found = access.base, False
        while isinstance(view, Padded):
            found = found or any(
                place is not None and any(amount)
                for place, amount in zip(self.places, view.amounts)
            )
            view = view.base
        return found


def slabs(scope: Scope) -> dict[str, ConstantSlice]:
    """What a scope and the scopes below it read of every tensor that is no constant, in order of
    first use.

    >>> import einalg as ea
    >>> [slab.places for slab in slabs(ea.parse("O[j] = A[7,j]*B[j,0] + B[j,1]", A=(9, 4), B=(4, 2))).values()]
    [(7, None), (None, None)]
    """
    found: dict[str, Places] = {}
    for inner in all_scopes(scope):
        for access in accesses(inner.body):
            tensor = access.tensor
            if isinstance(tensor, Tensor):
                places = _places(access, tensor)
                found[tensor.name] = tuple(
                    a if a == b else None for a, b in zip(found.get(tensor.name, places), places)
                )
    return {
        name: ConstantSlice(tensor, found[name])
        for name, tensor in scope.tensors.items()
        if not isinstance(tensor, Constant)
    }


def _places(access: Access, tensor: Tensor) -> Places:
    if access.base is not tensor:  # padded
        return (None,) * tensor.rank
    fixed = [
        not form.terms and low <= form.const < high
        for form, (low, high) in zip(access.subscripts, tensor.axes)
    ]
    return tuple(
        int(form.const) if alone else None for form, alone in zip(access.subscripts, fixed)
    )


def on_slabs(scope: Scope, found: Mapping[str, tuple[ConstantSlice, Tensor]]) -> Scope:
    """The scope, reading slabs, as these tensors, in the place of the tensors of these names."""
    return _changed(
        scope, {name: partial(slab.of, name=tensor) for name, (slab, tensor) in found.items()}
    )


def on_tensors(scope: Scope, found: Mapping[str, ConstantSlice]) -> Scope:
    """A scope that reads slabs, by name, reading their tensors."""
    return _changed(scope, {name: slab.read for name, slab in found.items()})


def _changed(scope: Scope, changes: Mapping[str, Callable[[Access], Access]]) -> Scope:
    def change(access: Access) -> Access:
        tensor = access.tensor
        return (
            changes[tensor.name](access)
            if isinstance(tensor, Tensor) and tensor.name in changes
            else access
        )

    return substitute_accesses(scope, change)
