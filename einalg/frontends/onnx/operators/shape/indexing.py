"""ONNX permutations, slices, repetitions and paddings."""

from __future__ import annotations

from typing import Any

from einalg.frontends.onnx.nodes.registry import (
    NotExpressible,
    Operator,
    onnx_operator,
    plain_number,
)
from einalg.language import ops
from einalg.language.ops.definition.axes import axis_numbers, broadcast_shape, with_entries
from einalg.language.ops.definition.operands import operand

MAX_PADDING = 2**31


@onnx_operator("Transpose")
def transpose(node: Operator) -> Any:
    x = node.tensor(0)
    order = node.sizes("perm")
    if order == tuple(range(x.rank)):
        return x
    return ops.transpose(x, order)


@onnx_operator("Slice")
def cut(node: Operator) -> Any:
    """Cut out a slice.

    Bounds are attributes before operator set 10; far outside they stand for the ends.
    """
    x = node.tensor(0)
    if node.version < 10:
        starts, ends = _bounds(node, "starts"), _bounds(node, "ends")
        axes, steps = node.sizes("axes"), None
    else:
        starts, ends = node.integers(1, "starts"), node.integers(2, "ends")
        axes, steps = _optional_integers(node, 3, "axes"), _optional_integers(node, 4, "steps")
    if axes is None:
        axes = tuple(range(len(starts)))
    if steps is None:
        steps = (1,) * len(starts)
    axes = axis_numbers(axes, "axes", x.rank)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise NotExpressible("starts, ends, axes and steps are not equally many")
    stops = [_stop(end, step, x.shape[a]) for end, step, a in zip(ends, steps, axes)]
    part = ops.slice(x, tuple(starts), tuple(stops), tuple(steps), tuple(axes))
    if part.shape == x.shape and min(steps, default=1) > 0:
        return x
    return part


def _optional_integers(node: Operator, position: int, name: str) -> tuple[int, ...] | None:
    if not node.has(position):
        return None
    return node.integers(position, name)


def _bounds(node: Operator, name: str) -> tuple[int, ...]:
    """Return an attribute that is a list of integers, which may be huge."""
    value = node.attribute(name)
    if not isinstance(value, list) or not all(isinstance(bound, int) for bound in value):
        raise NotExpressible(f"attribute {name} is {value!r}")
    return tuple(value)


def _stop(end: int, step: int, size: int) -> int | None:
    """Return an end as Python reads it: going backwards, none lies before the first element."""
    if step < 0 and end < -size:
        return None
    return end


@onnx_operator("Expand")
def expand(node: Operator) -> Any:
    x, wanted = operand(node.tensor(0), "x", dtype="any"), node.integers(1, "shape")
    shape = broadcast_shape([x, _Shape(wanted)])  # pyright: ignore
    if shape == x.shape:
        return x.value
    return ops.broadcast_to(x.value, shape)


class _Shape:
    """A shape among operands that are broadcast."""

    def __init__(self, shape: tuple[int, ...]):
        self.name, self.shape, self.rank = "shape", shape, len(shape)


@onnx_operator("Tile")
def tile(node: Operator) -> Any:
    return ops.tile(node.tensor(0), node.integers(1, "repeats"))


@onnx_operator("Pad", ignoring="value")
def pad(node: Operator) -> Any:
    """Pad an array.

    Amounts and value are attributes before operator set 11. Negative amounts take elements away, in
    any mode.
    """
    x, mode = node.tensor(0), node.word("mode", "constant")
    if node.version < 11:
        pads = node.sizes("pads") or node.sizes("paddings")
    else:
        pads = node.integers(1, "pads")
    axes = _optional_integers(node, 3, "axes")
    if axes is None:
        axes = tuple(range(x.rank))
    axes = axis_numbers(axes, "axes", x.rank)
    if pads is None or len(pads) != 2 * len(axes) or max(map(abs, pads), default=0) > MAX_PADDING:
        raise NotExpressible("pads does not fit the axes")
    pairs = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :])))
    amounts = with_entries(((0, 0),) * x.rank, pairs)
    if mode == "constant":
        return ops.pad(x, amounts, value=_fill(node))
    if min(map(min, amounts), default=0) < 0:
        x = ops.pad(x, [(min(before, 0), min(after, 0)) for before, after in amounts])
    return ops.pad(x, [(max(before, 0), max(after, 0)) for before, after in amounts], mode)


def _fill(node: Operator) -> Any:
    if node.version < 11:
        return node.number("value", 0.0)
    if not node.has(2):
        return 0
    number = plain_number(node.array(2, "constant_value"), infinite=True)
    if number is None:
        raise NotExpressible("a padding of no number")
    return number


@onnx_operator("CenterCropPad")
def center(node: Operator) -> Any:
    """Cut or pad on both sides to a size, with the odd element after."""
    x, wanted = node.tensor(0), node.integers(1, "shape")
    axes = node.sizes("axes")
    if axes is None:
        axes = tuple(range(x.rank))
    amounts: dict[int, tuple[int, int]] = {}
    for axis, size in zip(axis_numbers(axes, "axes", x.rank), wanted, strict=True):
        more = size - x.shape[axis]
        before = abs(more) // 2
        if more < 0:
            before = -before
        amounts[axis] = (before, more - before)
    return ops.pad(x, with_entries(((0, 0),) * x.rank, amounts))
