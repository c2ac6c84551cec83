"""Torch's concatenations, splits and paddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from einalg.frontends.torch.nodes.arguments import number_in_type
from einalg.frontends.torch.nodes.registry import aten, register
from einalg.language import ops


@aten("cat.default", "concat.default")
def _cat(tensors: Sequence[Any], dim: int) -> Any:
    if len(tensors) == 1:
        return tensors[0]
    return ops.concat(list(tensors), dim)


def _split(x: Any, sizes: Sequence[int], dim: int) -> Any:
    return ops.split(x, tuple(sizes), dim)


register(
    {
        "stack.default": lambda tensors, dim: ops.stack(list(tensors), dim),
        "split_with_sizes.default split_with_sizes_copy.default split.sizes": _split,
        "split.Tensor split_copy.Tensor": lambda x, size, dim: ops.split(
            x, _pieces(x.shape[dim], size), dim
        ),
        "chunk.default": lambda x, count, dim: ops.split(
            x, _pieces(x.shape[dim], -(-x.shape[dim] // count)), dim
        ),
    }
)


def _pieces(length: int, size: int) -> tuple[int, ...]:
    """Return the lengths of pieces of one size, the last of which may be smaller."""
    if not size:
        return (0,)
    return tuple(min(size, length - start) for start in range(0, length, size)) or (0,)


@aten("unbind.int", "unbind_copy.int")
def _unbind(x: Any, dim: int) -> Any:
    position = dim % x.rank
    parts = ops.split(x, (1,) * x.shape[position], position)
    return tuple(ops.squeeze(part, position) for part in parts)


def _amounts(x: Any, pad: Sequence[int]) -> list[tuple[int, int]]:
    """Return `(before, after)` for every axis of `x`; torch names the last axis first."""
    pairs = list(zip(pad[::2], pad[1::2]))[::-1]
    return [(0, 0)] * (x.rank - len(pairs)) + pairs


@aten("pad.default")
def _pad(x: Any, pad: Sequence[int], mode: str, value: Any) -> Any:
    return ops.pad(x, _amounts(x, pad), mode, number_in_type(value or 0, x))


@aten("constant_pad_nd.default")
def _constant_pad(x: Any, pad: Sequence[int], value: Any) -> Any:
    return _pad(x, pad, "constant", value)


@aten("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def _reflection_pad(x: Any, pad: Sequence[int]) -> Any:
    return _pad(x, pad, "reflect", None)


@aten("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def _replication_pad(x: Any, pad: Sequence[int]) -> Any:
    return _pad(x, pad, "replicate", None)
