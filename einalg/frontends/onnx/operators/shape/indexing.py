"""Elements elsewhere: permutations, slices, repetitions, padding."""

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

LARGEST = 2**31


@onnx_operator("Transpose")
def transpose(node: Operator) -> Any:
    x = node.tensor(0)
    order = node.sizes("perm")
    return x if order == tuple(range(x.rank)) else ops.transpose(x, order)


@onnx_operator("Slice")
def cut(node: Operator) -> Any:
    """Bounds are attributes before operator set 10; far outside they stand for the ends."""
    x = node.tensor(0)
    if node.version < 10:
        starts, ends, axes, steps = (
            *(_any_sizes(node, name) for name in ("starts", "ends")),
            node.sizes("axes"),
            None,
        )
    else:
        starts, ends = node.integers(1, "starts"), node.integers(2, "ends")
        axes, steps = (
            node.integers(k, name) if node.has(k) else None
            for k, name in ((3, "axes"), (4, "steps"))
        )
    axes = axis_numbers(tuple(range(len(starts)) if axes is None else axes), "axes", x.rank)
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise NotExpressible("starts, ends, axes and steps are not equally many")
    stops = [_stop(end, step, x.shape[a]) for end, step, a in zip(ends, steps, axes)]
    found = ops.slice(x, tuple(starts), tuple(stops), tuple(steps), tuple(axes))
    return x if found.shape == x.shape and min(steps, default=1) > 0 else found


def _any_sizes(node: Operator, name: str) -> tuple[int, ...]:
    found = node.attribute(name)
    if not isinstance(found, list) or not all(isinstance(v, int) for v in found):
        raise NotExpressible(f"attribute {name} is {found!r}")
    return tuple(found)


def _stop(end: int, step: int, size: int) -> int | None:
    """An end as Python reads it: going backwards, what lies before the first element is no end."""
    return None if step < 0 and end < -size else end


@onnx_operator("Expand")
def expand(node: Operator) -> Any:
    x, wanted = operand(node.tensor(0), "x", dtype="any"), node.integers(1, "shape")
    shape = broadcast_shape([x, _Shape(wanted)])  # pyright: ignore
    return x.value if shape == x.shape else ops.broadcast_to(x.value, shape)


class _Shape:
    """A shape among operands that are broadcast."""

    def __init__(self, shape: tuple[int, ...]):
        self.name, self.shape, self.rank = "shape", shape, len(shape)


@onnx_operator("Tile")
def tile(node: Operator) -> Any:
    return ops.tile(node.tensor(0), node.integers(1, "repeats"))


@onnx_operator("Pad", ignoring="value")
def pad(node: Operator) -> Any:
    """Amounts and value are attributes before operator set 11; negative amounts take elements away, in any mode."""
    x, mode = node.tensor(0), node.word("mode", "constant")
    given = (
        (node.sizes("pads") or node.sizes("paddings"))
        if node.version < 11
        else node.integers(1, "pads")
    )
    axes = node.integers(3, "axes") if node.has(3) else tuple(range(x.rank))
    axes = axis_numbers(tuple(axes), "axes", x.rank)
    if given is None or len(given) != 2 * len(axes) or max(map(abs, given), default=0) > LARGEST:
        raise NotExpressible("pads does not fit the axes")
    pairs = dict(zip(axes, zip(given[: len(axes)], given[len(axes) :])))
    amounts = with_entries(((0, 0),) * x.rank, pairs)
    if mode == "constant":
        return ops.pad(x, amounts, value=_fill(node))
    cut = (
        ops.pad(x, [(min(a, 0), min(b, 0)) for a, b in amounts])
        if min(map(min, amounts), default=0) < 0
        else x
    )
    return ops.pad(cut, [(max(a, 0), max(b, 0)) for a, b in amounts], mode)


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
    """Cut or padded on both sides to a size, the odd element after."""
    x, wanted = node.tensor(0), node.integers(1, "shape")
    axes = node.sizes("axes")
    over = axis_numbers(tuple(range(x.rank)) if axes is None else axes, "axes", x.rank)
    amounts = {}
    for a, size in zip(over, wanted, strict=True):
        more = size - x.shape[a]
        amounts[a] = (
            (more // 2, more - more // 2) if more >= 0 else (-(-more // 2), more + (-more // 2))
        )
    return ops.pad(x, with_entries(((0, 0),) * x.rank, amounts))
