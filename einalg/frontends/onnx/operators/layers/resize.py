"""Arrays at other sizes: the nearest element, or interpolated by straight lines or cubics, one axis after another.

Where an element of the result lies in the input is a quotient `(factor·i + start) / divisor` of integers along each axis.
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

IGNORED = "nearest_mode cubic_coeff_a exclude_outside extrapolation_value antialias keep_aspect_ratio_policy coordinate_transformation_mode"


@onnx_operator("Resize", "Upsample", ignoring=IGNORED)
def resize(node: Operator) -> Any:
    x = node.tensor(0)
    lines = _lines(node, x.shape)
    if node.integer("antialias", 0) and any(line.new < line.old for line in lines.values()):
        raise NotExpressible("a filter against aliasing")
    return resampled(x, lines, _way(node, x.dtype)) if lines else x


def _way(node: Operator, dtype: str) -> Interpolation:
    mode = node.word("mode", "nearest")
    if mode == "nearest":
        old = node.type == "Upsample" or node.version < 11
        kind = "floor" if old else node.word("nearest_mode", "round_prefer_floor")
        if kind not in NEAREST:
            raise NotExpressible(f"attribute nearest_mode is {kind!r}")
        return NEAREST[kind]
    if not is_float(dtype) or node.integer("exclude_outside", 0) or mode not in ("linear", "cubic"):
        raise NotExpressible(f"mode {mode} of {dtype}, or without what lies outside")
    return (
        LINEAR
        if mode == "linear"
        else cubic(Fraction(str(round(node.number("cubic_coeff_a", -0.75), 6))))
    )


def _lines(node: Operator, shape: tuple[int, ...]) -> dict[int, Line]:
    """Where the elements of each axis that does not stay lie in the input."""
    scales, sizes = _given(node)
    rank = len(shape)
    axes = axis_numbers(node.sizes("axes") or tuple(range(rank)), "axes", rank)
    count = len(sizes if scales is None else scales)
    if count != len(axes) or 0 in shape:
        raise NotExpressible(f"{count} scales for {len(axes)} axes")
    if scales is None:
        scales, sizes = _by_policy(
            node.word("keep_aspect_ratio_policy", "stretch"), [shape[a] for a in axes], sizes
        )
    else:
        sizes = [floor(shape[a] * float(scale)) for a, scale in zip(axes, scales)]
        scales = [fraction(scale) for scale in scales]
    if min(sizes, default=1) < 1 or min(scales, default=1) <= 0:
        raise NotExpressible("a size of 0")
    kind = _transformation(node)
    return {
        a: _line(kind, shape[a], size, scale)
        for a, size, scale in zip(axes, sizes, scales)
        if size != shape[a] or scale != 1
    }


def _given(node: Operator) -> tuple[Any, Any]:
    """Scales or sizes, which have moved from version to version."""
    if node.type == "Upsample":
        return (
            node.attribute("scales")
            if node.version < 9
            else node.array(1, "scales").ravel().tolist()
        ), None
    first = 1 if node.version < 11 else 2
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
    common = min(scales) if policy == "not_larger" else max(scales)
    return [common] * len(scales), [floor(common * before + HALF) for before in old]


def _transformation(node: Operator) -> str:
    old = node.type == "Upsample" or node.version < 11
    return "asymmetric" if old else node.word("coordinate_transformation_mode", "half_pixel")


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
        length = old * scale  # which ONNX does not round
        return Line(
            old,
            new,
            (old - 1) / (length - 1) if new > 1 and length != 1 else Fraction(0),
            Fraction(0),
        )
    if kind == "asymmetric":
        return Line(old, new, slope, Fraction(0))
    if kind == "tf_half_pixel_for_nn":
        return Line(old, new, slope, slope / 2)
    raise NotExpressible(f"positions of kind {kind}")
