"""Resampling of an axis to another size: by the nearest element, or between elements by straight
lines or cubics.

Where an element of the result lies in the input is a quotient `(factor·i + start) / divisor` of
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

from einalg.errors import ShapeError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.size import is_number
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant
from einalg.language.notation.builders import L, Sum
from einalg.language.ops.definition.axes import result_indices, with_entries
from einalg.language.ops.definition.operands import Pair, operand, spans
from einalg.language.ops.shape.concatenation import pad

MAX_DIVISOR, MAX_SIZE = 1 << 12, 1 << 31
SCALE_TOLERANCE = 1e-6  # relative, of a scale that is stored as a float
HALF = Fraction(1, 2)
POINT, r = Index("point"), Index("r")
Read = Callable[[int], Any]  # the element so many places after the one that a position names


@dataclass(frozen=True)
class Line:
    """Positions `slope·i + start` of the elements of an axis that has `old` elements and gets `new`
    ones.
    """

    old: int
    new: int
    slope: Fraction
    start: Fraction = Fraction(0)

    @property
    def stays(self) -> bool:
        """Return whether every element is where it was."""
        return (self.old, self.slope, self.start) == (self.new, 1, 0)

    @property
    def is_inside(self) -> bool:
        """Return whether no position lies outside those of the input's elements."""
        return self.start >= 0 and self.slope * (self.new - 1) + self.start <= self.old - 1

    def whole(self) -> tuple[Affine, int]:
        """Return the positions times their common divisor, and that; `ShapeError` for a large
        one.
        """
        divisor = lcm(self.slope.denominator, self.start.denominator)
        most = MAX_DIVISOR
        if is_number(self.new):
            most = max(most, min(self.new, MAX_SIZE))
        if divisor > 2 * most:
            scale = float(1 / self.slope) if self.slope else 0
            raise ShapeError(f"a scale of {scale:g} is no small fraction\n  give a size instead")
        return POINT * int(self.slope * divisor) + int(self.start * divisor), divisor


def middles(old: int, new: int, scale: Fraction) -> Line:
    """Return positions where elements lie in their middles, so that the edges of both axes lie on
    each other.
    """
    return Line(old, new, 1 / scale, 1 / scale / 2 - HALF)


def corners(old: int, new: int) -> Line:
    """Return positions where the first and last elements of both axes lie on each other."""
    return Line(old, new, Fraction(old - 1, max(new - 1, 1)))


def fraction(scale: float) -> Fraction:
    """Return a scale as the small fraction that it stands for, where there is one.

    >>> fraction(1.7), fraction(float(2 / 3))
    (Fraction(17, 10), Fraction(2, 3))
    """
    small = Fraction(scale).limit_denominator(MAX_DIVISOR)
    if small and abs(float(small) - scale) <= SCALE_TOLERANCE * abs(scale):
        return small
    return Fraction(scale)


class Interpolation(NamedTuple):
    """A rule by which a value comes from elements around a position: from the `first` to the `last`
    place after the one that `place` names.

    `place(position, divisor)` is its number for the position `position/divisor`; `between(read,
    rest, divisor, dtype)` gives the value where that lies `rest/divisor` behind `read(0)`. `sharp`:
    an element that is a whole place away has no weight.
    """

    first: int = 0
    last: int = 0
    place: Callable[[Affine, int], Affine] = lambda position, divisor: position // divisor
    between: Callable[[Read, Any, int, str], Any] = lambda read, rest, divisor, dtype: read(0)
    sharp: bool = False


NEAREST = {
    "floor": Interpolation(),
    "ceil": Interpolation(place=lambda position, divisor: (position + divisor - 1) // divisor),
    "round_prefer_floor": Interpolation(
        place=lambda position, divisor: (position * 2 + divisor - 1) // (2 * divisor)
    ),
    "round_prefer_ceil": Interpolation(
        place=lambda position, divisor: (position * 2 + divisor) // (2 * divisor)
    ),
}


def _linear(read: Read, rest: Any, divisor: int, _: str) -> Any:
    if divisor == 1:
        return read(0)
    return ((divisor - rest) * read(0) + rest * read(1)) / divisor


LINEAR = Interpolation(0, 1, between=_linear, sharp=True)


def cubic_weights(t: Any, a: Any) -> tuple[Any, Any, Any, Any]:
    """Return the weights of four neighbours for a position `t` behind the second of them, by cubics
    that the number `a` chooses (Keys, 1981).
    """

    def near(t: Any) -> Any:
        return ((a + 2) * t - (a + 3)) * t**2 + 1

    def far(t: Any) -> Any:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def cubic(a: Fraction) -> Interpolation:
    """Return cubic convolution with a number that chooses its cubics, usually -3/4 or -1/2."""

    def between(read: Read, rest: Any, divisor: int, dtype: str) -> Any:
        values: list[Fraction] = []
        for t in range(divisor):
            values += cubic_weights(Fraction(t, divisor), a)
        sign = "minus_" if a < 0 else ""
        name = f"cubic_{divisor}_{dtype}_{sign}{abs(a.numerator)}_{a.denominator}_"
        weights = Constant(name, (divisor, 4), dtype, values)
        return Sum[r:4](weights[rest, r] * read(r - 1))

    return Interpolation(-1, 2, between=between)


def resampled(x: Any, lines: Mapping[int, Line], interpolation: Interpolation) -> Any:
    """Return axes of `x` at the positions of lines, all at once where elements are read alone, else
    one after another; edges continue beyond the ends.

    Raises `ShapeError` for a scale that is no small fraction.
    """
    if not lines:
        return x
    if interpolation.first == interpolation.last:
        return _along(x, lines, interpolation)
    for axis, line in lines.items():
        x = _along(x, {axis: line}, interpolation)
    return x


def _along(x: Any, lines: Mapping[int, Line], interpolation: Interpolation) -> Scope:
    view = operand(x, "x", least=1, dtype="any")
    at = result_indices(view.rank)
    places, rest, divisor = dict[int, Any](), affine(0), 1
    around, inside = dict[int, Pair](), True
    for axis, line in lines.items():
        position, divisor = line.whole()
        place = interpolation.place(position, divisor)
        point = {POINT: affine(at[axis])}
        places[axis], rest = place.substitute(point), (position % divisor).substitute(point)
        around[axis] = _outside(place, line, interpolation, divisor)
        inside = inside and interpolation.sharp and line.is_inside
    amounts = with_entries(((0, 0),) * view.rank, around)
    if inside or not any(map(any, amounts)):
        # Elements outside have no weight.
        source = view.padded(amounts)
    else:
        source = operand(pad(x, amounts, "edge"), "x", dtype="any")
        for axis, (before, _) in around.items():
            places[axis] = places[axis] + before

    def read(offset: Any) -> Any:
        subscripts = {axis: place + offset for axis, place in places.items()}
        return source[with_entries(at, subscripts)]

    shape = with_entries(view.shape, {axis: line.new for axis, line in lines.items()})
    return L[spans(at, shape)](interpolation.between(read, rest, divisor, view.dtype))


def _outside(place: Affine, line: Line, interpolation: Interpolation, divisor: int) -> Pair:
    """Return how many elements before and after an axis are read.

    None are read for the element before a position, whatever the symbolic size of the axis.
    """
    if not is_number(line.old) and interpolation == NEAREST["floor"]:
        return 0, 0
    ends = place.evaluate({POINT: 0}), place.evaluate({POINT: line.new - 1})
    last = 0 if interpolation.sharp and divisor == 1 else interpolation.last
    return max(0, -(min(ends) + interpolation.first)), max(0, max(ends) + last - line.old + 1)
