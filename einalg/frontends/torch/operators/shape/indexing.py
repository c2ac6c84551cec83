"""Torch's views, copies and rearrangements of one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy

from einalg.frontends.torch.nodes.arguments import as_dtype, map_elements, one_or_each
from einalg.frontends.torch.nodes.registry import NotExpressed, aten, register
from einalg.language import ops
from einalg.language.index.convert import affine
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import result_indices, with_entries
from einalg.language.ops.definition.operands import operand, spans
from einalg.language.ops.shape.gather import take_together

UNKNOWN_POSITIONS = "positions that are known at run time only"


def _same(x: Any, *_: Any) -> Any:
    """Return the operand of a copy or view of a whole tensor."""
    return x


def _reshape(x: Any, shape: Any) -> Any:
    return ops.reshape(x, tuple(shape))


def _shape_like(x: Any, other: Any) -> Any:
    return ops.reshape(x, other.shape)


def _flatten(x: Any, start: int, end: int) -> Any:
    if not x.rank:
        return ops.reshape(x, (1,))
    return ops.flatten(x, start, end)


register(
    {
        "clone.default contiguous.default detach.default detach_copy.default": _same,
        "alias.default alias_copy.default lift_fresh.default lift_fresh_copy.default": _same,
        "positive.default resolve_conj.default resolve_neg.default to.device": _same,
        "view.default reshape.default _unsafe_view.default view_copy.default": _reshape,
        "_reshape_alias.default": lambda x, shape, _: _reshape(x, shape),
        "view_as.default reshape_as.default": _shape_like,
        "flatten.using_ints": _flatten,
        "unflatten.int": lambda x, dim, sizes: ops.reshape(
            x, (*x.shape[: dim % x.rank], *sizes, *x.shape[dim % x.rank + 1 :])
        ),
        "permute.default permute_copy.default": lambda x, dims: ops.transpose(x, tuple(dims)),
        "t.default t_copy.default numpy_T.default": lambda x: ops.transpose(x),
        "mT.default": lambda x: _exchanged(x, -2, -1),
        "squeeze.dims": lambda x, dims: _squeeze(x, dims),
        "squeeze.dim": lambda x, dim: _squeeze(x, (dim,)),
        "squeeze.default": lambda x: ops.squeeze(x),
        "unsqueeze.default unsqueeze_copy.default": lambda x, dim: ops.unsqueeze(x, dim),
        "expand.default expand_copy.default": lambda x, sizes, _: ops.broadcast_to(x, tuple(sizes)),
        "expand_as.default": lambda x, other: ops.broadcast_to(x, other.shape),
        "flip.default": lambda x, dims: ops.flip(x, tuple(dims)),
        "repeat.default tile.default": lambda x, repeats: ops.tile(x, tuple(repeats)),
        "tril.default": lambda x, k: _triangle(x, k, 1),
        "triu.default": lambda x, k: _triangle(x, k, -1),
        "diagonal.default diagonal_copy.default": lambda x, offset, first, second: ops.diagonal(
            x, offset, first, second
        ),
        "pixel_shuffle.default": lambda x, factor: ops.pixel_shuffle(x, factor),
        "pixel_unshuffle.default": lambda x, factor: ops.pixel_unshuffle(x, factor),
        "_to_copy.default": lambda x, dtype, *_: as_dtype(x, dtype),
        "to.dtype": lambda x, dtype, *_: as_dtype(x, dtype),
        "to.dtype_layout": lambda x, dtype, *_: as_dtype(x, dtype),
        "type_as.default": lambda x, other: as_dtype(x, other.dtype),
    }
)


@aten("transpose.int", "swapaxes.default", "transpose_copy.int")
def _exchanged(x: Any, first: int, second: int) -> Any:
    if not x.rank:
        return x
    order = list(range(x.rank))
    order[first], order[second] = order[second], order[first]
    return ops.transpose(x, tuple(order))


@aten("movedim.int", "movedim.intlist")
def _moved(x: Any, source: Any, destination: Any) -> Any:
    source_of = dict(zip(_axes(x, destination), _axes(x, source)))
    others = [axis for axis in range(x.rank) if axis not in source_of.values()]
    order: list[int] = []
    for axis in range(x.rank):
        order.append(source_of[axis] if axis in source_of else others.pop(0))
    return ops.transpose(x, tuple(order))


def _axes(x: Any, value: Any) -> list[int]:
    """Return one axis or several as a list, counted from the first."""
    if not isinstance(value, (list, tuple)):
        value = [value]
    return [axis % x.rank for axis in value]


def _squeeze(x: Any, dims: Sequence[int]) -> Any:
    """Remove axes of size 1; torch leaves others as they are."""
    if not x.rank:
        return x
    units = {axis % x.rank for axis in dims if x.shape[axis] == 1}
    if not units:
        return x
    return ops.squeeze(x, tuple(sorted(units)))


def _triangle(x: Any, k: int, side: int) -> Any:
    """Return the elements on one side of a diagonal, and 0 elsewhere."""

    def element(view: Any, at: Any) -> Any:
        inside = at[-1] >= at[-2] + k
        if side > 0:
            inside = at[-2] + k >= at[-1]
        if x.dtype == "bool":
            present: Any = sympy.Ne(view[at], 0)
            return sympy.And(present, inside)
        return sympy.Piecewise((view[at], inside), (0, True))

    return map_elements(x, element)


@aten("slice.Tensor", "slice_copy.Tensor")
def _slice(x: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    if (start or 0) == 0 and (end is None or end >= x.shape[dim]) and step == 1:
        return x
    return ops.slice(x, start, end, step, dim)


@aten("narrow.default")
def _narrow(x: Any, dim: int, start: int, length: int) -> Any:
    first = start % max(x.shape[dim], 1)
    return ops.slice(x, first, first + length, 1, dim)


@aten("select.int", "select_copy.int")
def _select(x: Any, dim: int, index: int) -> Any:
    position = dim % x.rank
    at = index % x.shape[position]
    return ops.squeeze(ops.slice(x, at, at + 1, 1, position), position)


@aten("roll.default")
def _roll(x: Any, shifts: Any, dims: Any) -> Any:
    if dims:
        return ops.roll(x, tuple(shifts), tuple(dims))
    return ops.reshape(ops.roll(ops.reshape(x, (-1,)), one_or_each(shifts), 0), x.shape)


@aten("repeat_interleave.self_int")
def _repeat_interleave(x: Any, repeats: int, dim: int | None, _: Any) -> Any:
    if dim is None:
        return ops.repeat(ops.reshape(x, (-1,)), repeats, 0)
    return ops.repeat(x, repeats, dim)


@aten("unfold.default", "unfold_copy.default")
def _windows(x: Any, dim: int, size: int, step: int) -> Any:
    """Return windows along an axis; the place inside a window is the last axis."""
    view = operand(x, "x", least=1, dtype="any")
    position = dim % view.rank
    *at, inside = result_indices(view.rank + 1)
    shape = with_entries(view.shape, {position: (view.shape[position] - size) // step + 1})
    read = with_entries(at, {position: affine(at[position]) * step + inside})
    return L[spans((*at, inside), (*shape, size))](view[read])


@aten("im2col.default")
def _columns(x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    if x.rank != 4:
        return ops.squeeze(_columns(ops.unsqueeze(x, 0), kernel, dilation, padding, stride), 0)
    return ops.unfold(x, *map(one_or_each, (kernel, stride, padding, dilation)))


@aten("index_select.default", by_position=True)
def _index_select(x: Any, dim: int, positions: Any) -> Any:
    return _take(x, positions, dim)


@aten("index.Tensor", by_position=True)
def _index(x: Any, indices: Sequence[Any]) -> Any:
    """Return the elements at positions along some axes, and all along the others.

    The axes of positions come in the place of these, or first where others lie between them.
    """
    axes = [axis for axis, positions in enumerate(indices) if positions is not None]
    places = [indices[axis] for axis in axes]
    if not all(isinstance(along, np.ndarray) for along in places):
        raise NotExpressed(UNKNOWN_POSITIONS)
    if not places:
        raise NotExpressed("positions along no axis")
    first = axes[0]
    if axes != list(range(first, first + len(axes))):
        others = [axis for axis in range(x.rank) if axis not in axes]
        x, first = ops.transpose(x, (*axes, *others)), 0
    return take_together(x, places, first)


def _take(x: Any, positions: Any, axis: int) -> Any:
    if not isinstance(positions, np.ndarray):
        raise NotExpressed(UNKNOWN_POSITIONS)
    return ops.take(x, positions, axis)
