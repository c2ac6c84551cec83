"""Ranges of an index that conditions on others leave, as `k <= i` does (design §10)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from codegen.kernels.strided_axes import StridedAxis
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

MAX_PLACES = 64  # of other indices, at which the length of a range is told


@dataclass(frozen=True)
class RangeBound:
    """A linear form of indices, divided by a positive number: a bound of another index."""

    form: Affine
    divisor: int = 1

    def above(self, values: Mapping[Index, Affine]) -> Affine:
        """Return the least integer that is not below it, at values of some indices."""
        return -((-self.form.substitute(values)) // self.divisor)

    def below(self, values: Mapping[Index, Affine]) -> Affine:
        """Return the largest integer that is not above it, at values of some indices."""
        return self.form.substitute(values) // self.divisor

    def at_largest(self, places: IndexPlaces) -> dict[Index, Affine]:
        """Return the one of some places at which the bound is largest."""
        if self.form.coefficient(places.index) > 0:
            return {places.index: places.last}
        return {places.index: places.first}

    def at_smallest(self, places: IndexPlaces) -> dict[Index, Affine]:
        """Return the one of some places at which the bound is smallest."""
        if self.form.coefficient(places.index) > 0:
            return {places.index: places.first}
        return {places.index: places.last}


@dataclass(frozen=True)
class IndexPlaces:
    """An index at neighbouring places, from the first to the last."""

    index: Index
    first: Affine
    last: Affine


@dataclass(frozen=True)
class IndexRange:
    """The values of an index that are not below any of `lows`, and not above any of `highs`.

    >>> i, k = Index("i"), Index("k")
    >>> triangle = IndexRange(k, (), (RangeBound(affine(i)),))
    >>> rows = IndexPlaces(i, affine(3), affine(5))
    >>> triangle.ends({i: affine(3)}), triangle.common_ends(rows), triangle.widest_ends(rows)
    ([4], [4], [6])
    """

    index: Index
    lows: tuple[RangeBound, ...]
    highs: tuple[RangeBound, ...]

    @classmethod
    def of(cls, conditions: Sequence[Constraint], among: Collection[Index]) -> IndexRange | None:
        """Return what conditions leave of the one index `among` some that they have.

        None where they are no linear bounds of one such index.

        >>> import einalg as ea
        >>> body = ea.parse("O[i] = Sum[k](A[i, k], where=2*k <= i)", A=(4, 4)).body
        >>> IndexRange.of(body.where, body.indices).highs
        (RangeBound(form=i, divisor=2),)
        """
        found = {index for each in conditions for index in each.indices if index in among}
        if len(found) != 1:
            return None
        (index,) = found
        lows: list[RangeBound] = []
        highs: list[RangeBound] = []
        for form in _forms(conditions):
            factor = form.coefficient(index)
            if not form.is_affine() or not factor:
                return None
            rest = form.substitute({index: affine(0)})
            if factor > 0:
                lows.append(RangeBound(rest.scaled(-1), factor))
            else:
                highs.append(RangeBound(rest, -factor))
        return cls(index, tuple(lows), tuple(highs))

    @property
    def others(self) -> frozenset[Index]:
        """Return the indices on which the range depends."""
        return frozenset().union(*(bound.form.indices for bound in (*self.lows, *self.highs)))

    def starts(self, values: Mapping[Index, Affine]) -> list[Affine]:
        """Return numbers of which the largest is the first value."""
        return [bound.above(values) for bound in self.lows]

    def ends(self, values: Mapping[Index, Affine]) -> list[Affine]:
        """Return numbers of which the smallest is the end of the values."""
        return [bound.below(values) + 1 for bound in self.highs]

    def common_starts(self, places: IndexPlaces) -> list[Affine]:
        """Return the same of the values that are in the ranges of all places."""
        return [bound.above(bound.at_largest(places)) for bound in self.lows]

    def common_ends(self, places: IndexPlaces) -> list[Affine]:
        """Return the same of the values that are in the ranges of all places."""
        return [bound.below(bound.at_smallest(places)) + 1 for bound in self.highs]

    def widest_starts(self, places: IndexPlaces) -> list[Affine]:
        """Return the same of values among which are those of the ranges of all places."""
        return [bound.above(bound.at_smallest(places)) for bound in self.lows]

    def widest_ends(self, places: IndexPlaces) -> list[Affine]:
        """Return the same of values among which are those of the ranges of all places."""
        return [bound.below(bound.at_largest(places)) + 1 for bound in self.highs]


def _forms(conditions: Sequence[Constraint]) -> list[Affine]:
    """Return what is not negative where all conditions hold, and only there."""
    forms: list[Affine] = []
    for condition in conditions:
        forms.append(condition.form)
        if condition.relation == "==":
            forms.append(condition.form.scaled(-1))
    return forms


@lru_cache(maxsize=4096)
def share_in_range(within: IndexRange, axes: tuple[StridedAxis, ...]) -> float:
    """Return the part of the values of an index that is in its range, on average over some places.

    >>> i, k = StridedAxis(Index("i"), 8), StridedAxis(Index("k"), 8)
    >>> share_in_range(IndexRange(k.index, (), (RangeBound(affine(i.index)),)), (i, k))
    0.5625
    """
    extents = {axis.index: axis.extent for axis in axes}
    others = sorted(within.others, key=str)
    most = MAX_PLACES // max(1, len(others))
    inside = places = 0
    for place in product(*(_some_places(extents[index], most) for index in others)):
        values = {index: affine(value) for index, value in zip(others, place)}
        start = max([0, *(form.const for form in within.starts(values))])
        end = min([extents[within.index], *(form.const for form in within.ends(values))])
        inside += max(0, end - start)
        places += 1
    return inside / (places * extents[within.index])


def _some_places(extent: int, most: int) -> list[int]:
    """Return places of an axis that lie apart evenly, all of a short one."""
    count = min(extent, most)
    return [(2 * number + 1) * extent // (2 * count) for number in range(count)]
