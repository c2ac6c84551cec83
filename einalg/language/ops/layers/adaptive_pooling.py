"""Poolings to a given size: windows that cover the axes of space evenly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Max, Sum
from einalg.language.ops.definition.axes import kept, reduced, replaced
from einalg.language.ops.definition.operands import operand, per_axis, spans
from einalg.language.ops.definition.registry import operator

INFINITY = float("inf")


@operator
def adaptive_avg_pool(x: Any, size: Any, axes: int = 2) -> Scope:
    """The means of `size` windows along the last `axes` axes: window `i` of `m` covers the elements
    `⌊i·n/m⌋` to `⌈(i+1)·n/m⌉` of `n`.

    `x` has at least `axes` axes; `size` is a number, or for each of them a number or None, which
    keeps the axis. Raises `ShapeError` for sizes below 1 or an empty axis.

    >>> import einalg as ea
    >>> adaptive_avg_pool(ea.tensor("x", (4, 6)), 2, axes=1)
    L[i:4, j:2](Sum[r:3](x[i, 3*j + r])/3)
    """
    return _pooled(
        x,
        size,
        axes,
        lambda windows, element, where, count: Sum[windows](element, where=where) / count,
        0,
    )


@operator
def adaptive_max_pool(x: Any, size: Any, axes: int = 2) -> Scope:
    """The largest elements of `size` windows along the last `axes` axes; see `adaptive_avg_pool`
    for the parameters.

    >>> import einalg as ea
    >>> adaptive_max_pool(ea.tensor("x", (4, 6)), 2, axes=1)
    L[i:4, j:2](Max[r:3](x[i, 3*j + r]))
    """
    return _pooled(
        x,
        size,
        axes,
        lambda windows, element, where, _: Max[windows](element, where=where),
        -INFINITY,
    )


def _pooled(x: Any, size: Any, axes: int, reduction: Callable[..., Any], fill: Any) -> Scope:
    found = operand(x, "x", least=axes)
    over = range(found.rank - axes, found.rank)
    if 0 in found.shape[found.rank - axes :]:
        raise ShapeError(
            f"x has shape {found.shape}, with no elements to pool\n"
            "  give every axis of space at least one"
        )
    new = dict(zip(over, _sizes(size, found.shape[found.rank - axes :])))
    at, taps = kept(found.rank), dict(zip(over, reduced(axes)))
    views = {a: _Windows(found.shape[a], new[a], at[a], taps[a]) for a in over}
    around = replaced(((0, 0),) * found.rank, {a: (0, view.beyond) for a, view in views.items()})
    element = found.padded(around, fill)[
        replaced(at, {a: view.start + taps[a] for a, view in views.items()})
    ]
    count: Any = 1
    for view in views.values():
        count = view.count * count
    where = tuple(taps[a] < view.count for a, view in views.items() if not view.even)
    windows = spans(taps.values(), (view.most for view in views.values()))
    return L[spans(at, replaced(found.shape, new))](reduction(windows, element, where, count))


def _sizes(size: Any, old: tuple[int, ...]) -> tuple[int, ...]:
    given = (size,) * len(old) if not isinstance(size, (tuple, list)) else tuple(size)
    filled = (
        tuple(own if entry is None else entry for entry, own in zip(given, old))
        if len(given) == len(old)
        else given
    )
    return per_axis(filled, "size", [f"axis {a - len(old)}" for a in range(len(old))], 1)


class _Windows:
    """`new` windows over `old` elements: where each starts, and how many elements it has."""

    def __init__(self, old: int, new: int, point: Index, tap: Index):
        self.even = old % new == 0
        self.start: Any = affine(point) * old // new
        self.count: Any = (
            old // new if self.even else ((point + 1) * old + new - 1) // new - self.start
        )
        lengths = [(-(-(p + 1) * old // new) - p * old // new, p * old // new) for p in range(new)]
        self.most = max(length for length, _ in lengths)
        self.beyond = max(0, lengths[-1][1] + self.most - old)
