"""Operands with their axes in the order of the result's: the view of them that an operator along
axes reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from derive.matching.patterns.operand_views import strides
from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.kernel import View
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor, unpadded
from einalg.language.ir.traversal import accesses, map_accesses, padded_like
from einalg.language.ops.definition.axes import result_indices


@dataclass(frozen=True)
class OrderedAxes:
    """The axes of a tensor that remain, in the order of the result's, and the first element that is
    read: for `A[2, j, i]` in a result over i and j the axes (2, 1) and the start (2, 0, 0).
    """

    tensor: Tensor
    axes: tuple[int, ...]
    start: tuple[int, ...]


@dataclass(frozen=True)
class AxisOrder:
    """The scope over operands whose axes are in order, and these axes by the name of the tensor."""

    scope: Scope
    operands: dict[str, OrderedAxes] = field(default_factory=dict)

    def view(self, base: Any) -> View:
        """Return the operand as it lies in memory."""
        ordered = self.operands.get(base.name)
        if ordered is None:
            return contiguous_view(base, base.name)
        tensor_strides = strides(ordered.tensor.shape)
        offset = 0
        for start, (low, _), stride in zip(ordered.start, ordered.tensor.box, tensor_strides):
            offset += (start - low) * stride
        axes = {}
        for letter, axis in zip(result_indices(len(ordered.axes)), ordered.axes):
            axes[letter.name] = ((ordered.tensor.shape[axis], tensor_strides[axis]),)
        return View(base.name, offset, axes)


def contiguous_view(base: Any, name: str) -> View:
    """Return an array as it lies in memory."""
    shape = unpadded(base).shape
    axes = {}
    for letter, size, stride in zip(result_indices(len(shape)), shape, strides(shape)):
        axes[letter.name] = ((size, stride),)
    return View(name, 0, axes)


def in_output_order(scope: Scope) -> AxisOrder:
    """Return a scope with the axes of every tensor in the order of the indices that walk along
    them; axes along which none walks are left out.
    """
    operands: dict[str, OrderedAxes] = {}
    for access in _unreduced_accesses(scope.body):
        tensor = unpadded(access.base)
        if not isinstance(tensor, Scope) and tensor.name not in operands:
            ordered = _ordered_axes(scope, access)
            if ordered is not None:
                operands[tensor.name] = ordered
    for access in accesses(scope.body):
        name = getattr(unpadded(access.base), "name", None)
        if name in operands and not _has_start(access, operands[name]):
            del operands[name]
    body = map_accesses(scope.body, lambda access: _reordered(access, operands))
    return AxisOrder(Scope(scope.iterators, scope.where, body), operands)


def _unreduced_accesses(body: Any) -> Iterator[Access]:
    """Yield the accesses of a body outside its reductions."""
    if isinstance(body, Access):
        yield body
    elif not isinstance(body, (Reduce, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from _unreduced_accesses(argument)


def _ordered_axes(scope: Scope, access: Access) -> OrderedAxes | None:
    """Return the axes that one read of a tensor leaves, and its start; None where it is no such
    view.
    """
    order = _order(scope, access)
    if order is None or not _is_inside(access, order):
        return None
    tensor = unpadded(access.base)
    start = []
    for axis, (low, _) in enumerate(tensor.box):
        if axis in order:
            start.append(low)
        else:
            start.append(access.subscripts[axis].const)
    return OrderedAxes(tensor, order, tuple(start))


def _order(scope: Scope, access: Access) -> tuple[int, ...] | None:
    """Return the axes along which one index each walks, in the order of these; None where other
    subscripts move.
    """
    position = {index: k for k, index in enumerate(scope.indices)}
    axis_at: dict[int, int] = {}
    for axis, form in enumerate(access.subscripts):
        if not form.terms:
            continue
        if len(form.terms) > 1:
            return None
        place = position.get(form.terms[0][0])
        if place is None or place in axis_at:
            return None
        axis_at[place] = axis
    return tuple(axis_at[place] for place in sorted(axis_at))


def _is_inside(access: Access, order: tuple[int, ...]) -> bool:
    """Return whether the places on the axes that are left out are those of elements, not of
    padding.
    """
    for axis, (low, high) in enumerate(access.tensor.box):
        if axis not in order and not low <= access.subscripts[axis].const < high:
            return False
    return True


def _has_start(access: Access, ordered: OrderedAxes) -> bool:
    """Return whether a read stands still on the axes that are left out, where the view starts."""
    for axis, form in enumerate(access.subscripts):
        if axis not in ordered.axes and (form.terms or form.const != ordered.start[axis]):
            return False
    return True


def _reordered(access: Access, operands: dict[str, OrderedAxes]) -> Access:
    name = getattr(access.tensor, "name", None)
    if name not in operands:
        return access
    original, order = operands[name].tensor, operands[name].axes
    tensor = Tensor(name, _at(original.axes, order), original.dtype)
    view = padded_like(access.base, tensor, lambda amounts: _at(amounts, order))
    return Access.of(view, _at(access.subscripts, order))


def _at(row: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    return tuple(row[position] for position in positions)
