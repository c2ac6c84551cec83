"""ONNX resizing: the nearest element, or linear or cubic interpolation, axis by axis.

The position of an element of the result in the input is a quotient `(factor·i + start) / divisor`
of integers along each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import Any

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language.ir.dtypes import is_float
from einalg.language.ops.definition.axes import axis_numbers
from einalg.language.ops.layers.resampling import (
    HALF,
    LINEAR,
    NEAREST,
    Interpolation,
    Line,
    cubic,
    fraction,
    resampled,
)

IGNORED = (
    "nearest_mode cubic_coeff_a exclude_outside extrapolation_value antialias "
    "keep_aspect_ratio_policy coordinate_transformation_mode"
)


@onnx_operator("Resize", "Upsample", ignoring=IGNORED)
def resize(node: Operator) -> Any:
    x = node.tensor(0)
    lines = _lines(node, x.shape)
    if node.integer("antialias", 0) and any(line.new < line.old for line in lines.values()):
        raise NotExpressible("a filter against aliasing")
    if not lines:
        return x
    return resampled(x, lines, _interpolation(node, x.dtype))


def _has_old_rules(node: Operator) -> bool:
    return node.type == "Upsample" or node.version < 11


def _interpolation(node: Operator, dtype: str) -> Interpolation:
    mode = node.word("mode", "nearest")
    if mode == "nearest":
        kind = "floor"
        if not _has_old_rules(node):
            kind = node.word("nearest_mode", "round_prefer_floor")
        if kind not in NEAREST:
            raise NotExpressible(f"attribute nearest_mode is {kind!r}")
        return NEAREST[kind]
    if not is_float(dtype) or node.integer("exclude_outside", 0) or mode not in ("linear", "cubic"):
        raise NotExpressible(f"mode {mode} of {dtype}, or without what lies outside")
    if mode == "linear":
        return LINEAR
    return cubic(Fraction(str(round(node.number("cubic_coeff_a", -0.75), 6))))


def _lines(node: Operator, shape: tuple[int, ...]) -> dict[int, Line]:
    """Return the positions in the input of the elements of each axis that changes."""
    scales, sizes = _scales_or_sizes(node)
    rank = len(shape)
    axes = axis_numbers(node.sizes("axes") or tuple(range(rank)), "axes", rank)
    count = len(scales if scales is not None else sizes)
    if count != len(axes) or 0 in shape:
        raise NotExpressible(f"{count} scales for {len(axes)} axes")
    if scales is None:
        policy = node.word("keep_aspect_ratio_policy", "stretch")
        scales, sizes = _by_policy(policy, [shape[axis] for axis in axes], sizes)
    else:
        sizes = [floor(shape[a] * float(scale)) for a, scale in zip(axes, scales)]
        scales = [fraction(scale) for scale in scales]
    if min(sizes, default=1) < 1 or min(scales, default=1) <= 0:
        raise NotExpressible("a size of 0")
    kind = _transformation(node)
    lines: dict[int, Line] = {}
    for axis, size, scale in zip(axes, sizes, scales):
        if size != shape[axis] or scale != 1:
            lines[axis] = _line(kind, shape[axis], size, scale)
    return lines


def _scales_or_sizes(node: Operator) -> tuple[Any, Any]:
    """Return scales or sizes, which have moved from version to version."""
    if node.type == "Upsample" and node.version < 9:
        return node.attribute("scales"), None
    if node.type == "Upsample":
        return node.array(1, "scales").ravel().tolist(), None
    first = 2
    if node.version < 11:
        first = 1
    if node.has(first) and node.inputs[first].shape != (0,):  # pyright: ignore
        return node.array(first, "scales").ravel().tolist(), None
    return None, node.integers(3, "sizes")


def _by_policy(
    policy: str, old: Sequence[int], sizes: Sequence[int]
) -> tuple[list[Fraction], list[int]]:
    scales = [Fraction(size, before) for size, before in zip(sizes, old)]
    if policy == "stretch":
        return scales, list(sizes)
    if policy not in ("not_larger", "not_smaller"):
        raise NotExpressible(f"attribute keep_aspect_ratio_policy is {policy!r}")
    common = max(scales)
    if policy == "not_larger":
        common = min(scales)
    return [common] * len(scales), [floor(common * before + HALF) for before in old]


def _transformation(node: Operator) -> str:
    if _has_old_rules(node):
        return "asymmetric"
    return node.word("coordinate_transformation_mode", "half_pixel")


def _line(kind: str, old: int, new: int, scale: Fraction) -> Line:
    slope = 1 / scale
    middle = slope / 2 - HALF
    if kind == "half_pixel" or (kind == "pytorch_half_pixel" and new > 1):
        return Line(old, new, slope, middle)
    if kind == "half_pixel_symmetric":
        return Line(old, new, slope, middle + Fraction(old, 2) * (1 - new / (old * scale)))
    if kind == "pytorch_half_pixel":
        return Line(old, new, Fraction(0), Fraction(0))
    if kind == "align_corners":
        if new > 1:  # the size that there is, as runtimes have it, not `old * scale`
            return Line(old, new, Fraction(old - 1, new - 1), Fraction(0))
        return Line(old, new, Fraction(0), Fraction(0))
    if kind == "asymmetric":
        return Line(old, new, slope, Fraction(0))
    if kind == "tf_half_pixel_for_nn":
        return Line(old, new, slope, slope / 2)
    raise NotExpressible(f"positions of kind {kind}")
