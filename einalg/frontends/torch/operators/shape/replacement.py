"""Torch's writes into a part of a tensor, which return a new one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import sympy

from einalg.frontends.torch.nodes.arguments import is_boolean, map_elements, truth_as_integers
from einalg.frontends.torch.nodes.registry import NotExpressed, aten
from einalg.language import ops
from einalg.language.index.convert import affine
from einalg.language.ops.definition.axes import with_entries
from einalg.language.ops.definition.operands import operand
from einalg.language.ops.math.cast import cast


@aten("slice_scatter.default")
def _slice_scatter(x: Any, part: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    """Replace a slice of `x` by `part`."""
    position = dim % x.rank
    places = range(*slice(start, end, step).indices(x.shape[position]))
    x, part = truth_as_integers(x), truth_as_integers(cast(part, x.dtype))
    inner = operand(part, "src", rank=x.rank, dtype="any")
    if not len(places):
        return x
    around = with_entries(((0, 0),) * x.rank, {position: (x.shape[position], x.shape[position])})
    padded = inner.padded(around)

    def element(view: Any, at: Any) -> Any:
        i = affine(at[position])
        gap = i - places.start
        inside = [i >= places.start, i <= places[-1]]
        if step > 1:
            inside.append(sympy.Eq(gap % step, 0))
        new = padded[with_entries(at, {position: gap // step})]
        return sympy.Piecewise((new, sympy.And(*inside)), (view[at], True))

    return map_elements(x, element)


@aten("select_scatter.default")
def _select_scatter(x: Any, part: Any, dim: int, index: int) -> Any:
    at = index % x.shape[dim]
    return _slice_scatter(x, ops.unsqueeze(part, dim % x.rank), dim, at, at + 1, 1)


@aten("copy.default")
def _copy(x: Any, source: Any, _: Any) -> Any:
    source = cast(source, x.dtype)
    if source.shape == x.shape:
        return source
    return ops.broadcast_to(source, x.shape)


@aten("index_put.default")
def _replace_masked(x: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> Any:
    """Replace elements where a mask holds, as of `x[mask] = 0` or `x[:, mask] = row`."""
    before = len(list(takewhile(lambda positions: positions is None, indices)))
    mask, *others = indices[before:]
    if not is_boolean(mask) or any(positions is not None for positions in others):
        raise NotExpressed("elements at positions are replaced")
    if accumulate:
        raise NotExpressed("numbers are added to elements at positions")
    after = x.rank - before - mask.rank
    mask = ops.reshape(mask, (*mask.shape, *(1,) * after))
    return ops.where(mask, _beside_mask(values, mask, after), x)


def _beside_mask(values: Any, mask: Any, after: int) -> Any:
    """Return values with the axes of a mask in the place of the axis of the elements it selects."""
    if values.rank <= after:
        return values
    place = values.rank - after - 1
    if values.shape[place] != 1:
        raise NotExpressed("each element that a mask selects is replaced by its own value")
    ones = (1,) * (mask.rank - after)
    return ops.reshape(values, (*values.shape[:place], *ones, *values.shape[place + 1 :]))
