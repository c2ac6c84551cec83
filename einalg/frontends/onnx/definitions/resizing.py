"""Arrays at other sizes: the nearest element, or interpolated by straight lines or cubics, one axis after another.

Where an element of the result lies in the input is a quotient `(factor·i + start) / divisor` of integers along each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm
from typing import Any

import sympy

from einalg import ops
from einalg.affine import Affine, Index, affine
from einalg.dtypes import is_float
from einalg.frontends.onnx.registry import NotExpressible, Operator, onnx_operator
from einalg.notation import L
from einalg.ops.axes import axis_numbers, kept, replaced
from einalg.ops.interpolation import cubic_weights
from einalg.ops.parameters import operand, spans

LARGEST_DIVISOR = 4096
IGNORED = "nearest_mode cubic_coeff_a exclude_outside extrapolation_value antialias keep_aspect_ratio_policy coordinate_transformation_mode"
HALF = Fraction(1, 2)
POINT = Index("point")
TOLERANCE = 1e-6  # of a scale that is stored as a float


@dataclass(frozen=True)
class Line:
    """Positions `slope·i + start` of the elements of an axis that has `old` elements and gets `new` ones."""

    old: int
    new: int
    slope: Fraction
    start: Fraction

    def whole(self) -> tuple[Affine, int]:
        """The positions times their common divisor, and that."""
        divisor = lcm(self.slope.denominator, self.start.denominator)
        if divisor > LARGEST_DIVISOR:
            raise NotExpressible(f"a scale of {float(1 / self.slope) if self.slope else 0:g}, which no small fraction is")
        scale = Fraction(divisor)
        return POINT * int(self.slope * scale) + int(self.start * scale), divisor


@onnx_operator("Resize", "Upsample", ignoring=IGNORED)
def resize(node: Operator) -> Any:
    x = node.tensor(0)
    mode = node.word("mode", "nearest")
    lines = _lines(node, x.shape)
    result: Any = x
    for axis, line in enumerate(lines):
        if line is not None:
            result = _along(node, mode, result, axis, line)
    return result


def _lines(node: Operator, shape: tuple[int, ...]) -> list[Line | None]:
    """For each axis where its elements lie in the input; None where it stays."""
    scales, sizes = _given(node)
    rank = len(shape)
    axes = axis_numbers(node.sizes("axes") or tuple(range(rank)), "axes", rank)
    count = len(sizes if scales is None else scales)
    if count != len(axes) or 0 in shape:
        raise NotExpressible(f"{count} scales for {len(axes)} axes")
    if scales is None:
        scales, sizes = _by_policy(node.word("keep_aspect_ratio_policy", "stretch"), [shape[a] for a in axes], sizes)
    else:
        sizes = [floor(shape[a] * float(scale)) for a, scale in zip(axes, scales)]
        scales = [_fraction(scale) for scale in scales]
    if min(sizes, default=1) < 1 or min(scales, default=1) <= 0:
        raise NotExpressible("a size of 0")
    found: list[Line | None] = [None] * rank
    for a, size, scale in zip(axes, sizes, scales):
        if size != shape[a] or scale != 1:
            found[a] = _line(_transformation(node), shape[a], size, scale)
    return found


def _given(node: Operator) -> tuple[Any, Any]:
    """Scales or sizes, which have moved from version to version."""
    if node.type == "Upsample":
        return (node.attribute("scales") if node.version < 9 else node.array(1, "scales").ravel().tolist()), None
    first = 1 if node.version < 11 else 2
    if node.has(first) and node.inputs[first].shape != (0,):  # pyright: ignore
        return node.array(first, "scales").ravel().tolist(), None
    return None, node.integers(3, "sizes")


def _fraction(scale: float) -> Fraction:
    found = Fraction(scale).limit_denominator(LARGEST_DIVISOR)
    return found if found and abs(float(found) - scale) <= TOLERANCE * abs(scale) else Fraction(scale)


def _by_policy(policy: str, old: Sequence[int], sizes: Sequence[int]) -> tuple[list[Fraction], list[int]]:
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
        return Line(old, new, (old - 1) / (length - 1) if new > 1 and length != 1 else Fraction(0), Fraction(0))
    if kind == "asymmetric":
        return Line(old, new, slope, Fraction(0))
    if kind == "tf_half_pixel_for_nn":
        return Line(old, new, slope, slope / 2)
    raise NotExpressible(f"positions of kind {kind}")


def _along(node: Operator, mode: str, x: Any, axis: int, line: Line) -> Any:
    """One axis at its new size."""
    if node.integer("antialias", 0) and line.new < line.old:
        raise NotExpressible("a filter against aliasing")
    if mode == "nearest":
        kind = (
            "floor"
            if _transformation(node) == "asymmetric" and (node.type == "Upsample" or node.version < 11)
            else node.word("nearest_mode", "round_prefer_floor")
        )
        return _nearest(x, axis, line, kind)
    if not is_float(x.dtype) or node.integer("exclude_outside", 0) or mode not in ("linear", "cubic"):
        raise NotExpressible(f"mode {mode} of {x.dtype}, or without what lies outside")
    return _linear(x, axis, line) if mode == "linear" else _cubic(x, axis, line, sympy.Rational(str(round(node.number("cubic_coeff_a", -0.75), 6))))


def _read(x: Any, axis: int, line: Line, form: Affine, first: int, last: int, body: Any) -> Any:
    """`body(read)` at every point, `read(k)` being the element `k` after the position `form`; beyond the ends are the edges."""
    at = kept(x.rank)
    here = form.substitute({POINT: affine(at[axis])})
    ends = [form.evaluate({POINT: i}) for i in (0, line.new - 1)]
    before, after = max(0, -(min(ends) + first)), max(0, max(ends) + last - line.old + 1)
    around = replaced(((0, 0),) * x.rank, {axis: (before, after)})
    found = operand(ops.pad(x, around, "edge") if before or after else x, "x", dtype="any")

    def read(offset: int) -> Any:
        return found[replaced(at, {axis: here + offset + before})]

    return L[spans(at, replaced(x.shape, {axis: line.new}))](body(read, at[axis]))


def _nearest(x: Any, axis: int, line: Line, kind: str) -> Any:
    position, divisor = line.whole()
    forms = {
        "floor": lambda: position // divisor,
        "ceil": lambda: (position + divisor - 1) // divisor,
        "round_prefer_floor": lambda: (position * 2 + divisor - 1) // (2 * divisor),
        "round_prefer_ceil": lambda: (position * 2 + divisor) // (2 * divisor),
    }
    if kind not in forms:
        raise NotExpressible(f"attribute nearest_mode is {kind!r}")
    return _read(x, axis, line, forms[kind](), 0, 0, lambda read, _: read(0))


def _linear(x: Any, axis: int, line: Line) -> Any:
    position, divisor = line.whole()

    def between(read: Any, i: Any) -> Any:
        rest = position.substitute({POINT: affine(i)}) % divisor
        return ((divisor - rest) * read(0) + rest * read(1)) / divisor if divisor > 1 else read(0)

    return _read(x, axis, line, position // divisor, 0, 1 if divisor > 1 else 0, between)


def _cubic(x: Any, axis: int, line: Line, a: Any) -> Any:
    position, divisor = line.whole()

    def between(read: Any, i: Any) -> Any:
        t = (position.substitute({POINT: affine(i)}) % divisor) * sympy.Rational(1, divisor)
        return sympy.Add(*(weight * read(offset) for offset, weight in enumerate(cubic_weights(t, a), -1)))

    return _read(x, axis, line, position // divisor, -1, 2, between)
