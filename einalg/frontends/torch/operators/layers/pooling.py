"""Torch's poolings."""

from __future__ import annotations

from typing import Any

from einalg.frontends.torch.nodes.arguments import one_or_each
from einalg.frontends.torch.nodes.registry import Handler, NotExpressed, register
from einalg.language import ops
from einalg.language.ops.definition.windows import SPATIAL


def _layout(x: Any, axes: int) -> str:
    layout = "C" + SPATIAL[axes - 1]
    if x.rank == axes + 2:
        return "N" + layout
    return layout


def _maximum(axes: int) -> Handler:
    pool = getattr(ops, f"max_pool{axes}d")

    def handler(
        x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Any:
        kernel, stride, padding, dilation = map(
            one_or_each, (kernel, stride or None, padding, dilation)
        )
        return pool(x, kernel, stride, padding, dilation, ceil_mode, _layout(x, axes))

    return handler


def _average(axes: int) -> Handler:
    pool = getattr(ops, f"avg_pool{axes}d")

    def handler(
        x: Any,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: Any = None,
    ) -> Any:
        if divisor is not None:
            raise NotExpressed("an average with a divisor of its own")
        kernel, stride, padding = map(one_or_each, (kernel, stride or None, padding))
        return pool(x, kernel, stride, padding, 1, ceil_mode, count_include_pad, _layout(x, axes))

    return handler


def _with_places(handler: Handler) -> Handler:
    """Return an operator with a second result, positions of elements, which has no expression."""
    return lambda *arguments: (handler(*arguments), None)


def _adaptive(operator: Any, axes: int) -> Handler:
    return lambda x, size: operator(x, one_or_each(size), axes)


for _axes in (1, 2, 3):
    _mean = _adaptive(ops.adaptive_avg_pool, _axes)
    _largest = _adaptive(ops.adaptive_max_pool, _axes)
    if _axes > 1:
        register({f"_adaptive_avg_pool{_axes}d.default": _mean})
    register(
        {
            f"max_pool{_axes}d.default": _maximum(_axes),
            f"avg_pool{_axes}d.default": _average(_axes),
            f"adaptive_avg_pool{_axes}d.default": _mean,
            f"adaptive_max_pool{_axes}d.default": _with_places(_largest),
            f"max_pool{_axes}d_with_indices.default": _with_places(_maximum(_axes)),
        }
    )
