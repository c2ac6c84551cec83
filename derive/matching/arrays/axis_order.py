"""Operands with their axes in the order of the result's: the view of them that an operator along axes is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from derive.matching.patterns.operand_views import strides
from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.kernel import View
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor, unpadded
from einalg.language.ir.traversal import accesses, map_accesses
from einalg.language.ops.definition.axes import kept


@dataclass(frozen=True)
class AxisOrder:
    """The scope over such operands, and for each of these, by name, the tensor and the axes of it that remain."""

    scope: Scope
    axes: dict[str, tuple[Tensor, tuple[int, ...]]]
    starts: dict[str, tuple[int, ...]] = field(
        default_factory=dict
    )  # where the axes that do not remain are read

    def view(self, base: Any) -> View:
        """The operand as it lies in memory."""
        tensor, order = self.axes.get(base.name, (base, tuple(range(base.rank))))
        steps = strides(tensor.shape)
        offset = sum(
            (start - low) * step
            for start, (low, _), step in zip(self.starts.get(base.name, ()), tensor.box, steps)
        )
        axes = {
            letter.name: ((tensor.shape[a], steps[a]),)
            for letter, a in zip(kept(len(order)), order)
        }
        return View(base.name, offset, axes)


def in_output_order(scope: Scope) -> AxisOrder:
    """A scope with the axes of every tensor in the order of the indices that walk along them; fixed ones are left out."""
    orders: dict[str, tuple[Tensor, tuple[int, ...]]] = {}
    starts: dict[str, tuple[int, ...]] = {}
    for access in _own(scope.body):
        tensor = unpadded(access.base)
        order = (
            None if isinstance(tensor, Scope) or tensor.name in orders else _order(scope, access)
        )
        order = order if order is not None and _is_inside(access, order) else None
        if order is not None:
            orders[tensor.name] = tensor, order
            starts[tensor.name] = tuple(
                low if k in order else s.const
                for k, (s, (low, _)) in enumerate(zip(access.subscripts, tensor.box))
            )
    for access in accesses(scope.body):
        name = getattr(unpadded(access.base), "name", None)
        if name in orders and any(
            k not in orders[name][1] and (s.terms or s.const != starts[name][k])
            for k, s in enumerate(access.subscripts)
        ):
            del orders[name], starts[name]  # what is fixed in one read is not in another
    return AxisOrder(
        Scope(scope.iterators, scope.where, map_accesses(scope.body, lambda a: _moved(a, orders))),
        orders,
        starts,
    )


def _own(body: Any) -> Iterator[Access]:
    """The accesses of a body outside its reductions."""
    if isinstance(body, Access):
        yield body
    elif not isinstance(body, (Reduce, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from _own(argument)


def _order(scope: Scope, access: Access) -> tuple[int, ...] | None:
    """The axes along which one index each walks, in the order of these; None where other subscripts move."""
    position = {index: k for k, index in enumerate(scope.indices)}
    walked: dict[int, int] = {}
    for axis, form in enumerate(access.subscripts):
        if form.terms:
            index = form.terms[0][0] if len(form.terms) == 1 else None
            if index not in position or position[index] in walked:
                return None
            walked[position[index]] = axis
    return tuple(walked[p] for p in sorted(walked))


def _is_inside(access: Access, order: tuple[int, ...]) -> bool:
    """Whether the places on the axes that are left out are those of elements, not of padding."""
    rest = [k for k in range(access.tensor.rank) if k not in order]
    return all(
        low <= access.subscripts[k].const < high
        for k in rest
        for low, high in (access.tensor.box[k],)
    )


def _moved(access: Access, orders: dict[str, tuple[Tensor, tuple[int, ...]]]) -> Access:
    name = getattr(access.tensor, "name", None)
    if name not in orders:
        return access
    tensor, order = orders[name]
    straight = Tensor(name, _picked(tensor.axes, order), tensor.dtype)
    return Access.of(_viewed(access.base, straight, order), _picked(access.subscripts, order))


def _viewed(view: Any, tensor: Tensor, order: tuple[int, ...]) -> Any:
    """The tensor under all paddings of a view, with the amounts of these axes."""
    if not isinstance(view, Padded):
        return tensor
    return Padded(_viewed(view.base, tensor, order), _picked(view.amounts, order), view.fill)


def _picked(row: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    return tuple(row[position] for position in positions)
