"""Conditions on indices in a loop nest, and where a loop may be cut so that they always hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from codegen.ir.nodes import Bound, MinMax
from einalg.language.analysis.simplify import simplify
from einalg.language.index.affine import Affine, Index, floordiv
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

PHASES = 4  # up to so many remainders of an index are written out side by side
Range = tuple[int, int]  # low <= value < high


@dataclass(frozen=True)
class Place:
    """A point of a loop nest under construction, and what is known there.

    `ranges` encloses every index that is not `fixed` to one value, as in `{i: (0, 8)}`; `bound` are
    those whose loop is already open; `known` are conditions that hold.
    """

    ranges: Mapping[Index, Range]
    fixed: Mapping[Index, Affine] = field(default_factory=dict)
    bound: frozenset[Index] = frozenset()
    known: frozenset[Constraint] = frozenset()

    def form(self, form: Affine) -> Affine:
        """Return an index expression as it is here."""
        return simplify(form.substitute(self.fixed), self.ranges)

    def condition(self, condition: Constraint) -> Constraint:
        """Return a condition as it is here."""
        form = self.form(condition.form)
        if form is condition.form:
            return condition
        return Constraint(form, condition.relation)

    def decide(self, condition: Constraint) -> bool | None:
        """Tell whether a condition holds everywhere here, or nowhere; None where that depends."""
        return self._decide(self.condition(condition))

    def _decide(self, condition: Constraint) -> bool | None:
        """Decide a condition as it is here."""
        if condition.truth is not None or condition in self.known:
            return condition.truth is not False
        low, high = condition.form.interval(self.ranges)
        if condition.relation == ">=":
            holds, fails = low >= 0, high < 0
        else:
            holds, fails = low == high == 0, low > 0 or high < 0
        if holds:
            return True
        if fails:
            return False
        return None

    def undecided(self, conditions: Iterable[Constraint]) -> tuple[Constraint, ...] | None:
        """Return the conditions, as they are here, that may or may not hold.

        None where one never holds.
        """
        pending: dict[Constraint, None] = {}
        for condition in map(self.condition, conditions):
            truth = self._decide(condition)
            if truth is False:
                return None
            if truth is None:
                pending[condition] = None
        return tuple(pending)

    def bounded(self, bound: Bound) -> Bound:
        """Return a loop bound as it is here."""
        if isinstance(bound, Affine):
            return self.form(bound)
        return extreme(bound.op, [self.bounded(part) for part in bound.of], self)

    def is_bound(self, condition: Constraint) -> bool:
        """Whether the loops of all indices of a condition are open."""
        return self.condition(condition).indices <= self.bound

    def fix(self, index: Index, value: int | Affine) -> Place:
        """Return the place inside a loop over one value only."""
        known = {index: affine(value)}
        fixed = {i: form.substitute(known) for i, form in self.fixed.items()}
        return replace(self, fixed={**fixed, **known})

    def loop(self, index: Index, low: int, high: int) -> Place:
        """Return the place inside a loop over `index`, whose values `[low, high)` encloses."""
        return replace(self, ranges={**self.ranges, index: (low, high)}, bound=self.bound | {index})

    def within(self, index: Index, low: int, high: int) -> Place:
        """Return the place inside `[low, high)`: the index is fixed where that is one value."""
        if high - low == 1:
            return self.fix(index, low)
        return self.loop(index, low, high)

    def assuming(self, conditions: Iterable[Constraint]) -> Place:
        """Return the place where some conditions hold."""
        return replace(self, known=self.known | set(map(self.condition, conditions)))


@dataclass(frozen=True)
class _LinearCondition:
    """A condition as `step*index + rest`."""

    step: int
    rest: Affine


def _in_index(place: Place, index: Index, condition: Constraint) -> _LinearCondition:
    """Return a condition by an index; `rest` may still depend on it under `//` or `%`."""
    form = place.form(condition.form)
    step = form.coefficient(index)
    return _LinearCondition(step, form - affine(index) * step)


def narrowed(
    place: Place, index: Index, low: Bound, high: Bound, conditions: Sequence[Constraint]
) -> tuple[Bound, Bound, tuple[Constraint, ...]]:
    """Return bounds of a loop inside which conditions hold, and the conditions that are left.

    Those hold that are linear in the index of the loop, and otherwise depend on outer loops alone.
    """
    lows, highs, left = [low], [high], []
    for condition in conditions:
        linear = _in_index(place, index, condition)
        step, rest = linear.step, linear.rest
        is_outer = rest.indices <= place.bound
        if not step or not is_outer or (condition.relation == "==" and abs(step) != 1):
            left.append(condition)
        elif condition.relation == "==":
            value = -rest * step
            lows.append(value)
            highs.append(value + 1)
        elif step > 0:
            lows.append(-floordiv(rest, step))
        else:
            highs.append(floordiv(rest, -step) + 1)
    return extreme("max", lows, place), extreme("min", highs, place), tuple(left)


def extreme(op: str, of: Sequence[Bound], place: Place) -> Bound:
    """Return the largest or smallest of some bounds, without superfluous ones."""
    needed: list[Bound] = []
    for bound in map(place.bounded, of):
        if any(_covers(other, bound, op, place) for other in needed):
            continue
        needed = [other for other in needed if not _covers(bound, other, op, place)]
        needed.append(bound)
    if len(needed) == 1:
        return needed[0]
    return MinMax(op, tuple(needed))


def _covers(one: Bound, two: Bound, op: str, place: Place) -> bool:
    """Whether `one` is at least as strict as `two` wherever the indices are in their ranges."""
    if one == two:
        return True
    (low1, high1), (low2, high2) = enclosure(one, place.ranges), enclosure(two, place.ranges)
    if op == "max":
        return low1 >= high2
    return high1 <= low2


def enclosure(bound: Bound, ranges: Mapping[Index, Range]) -> Range:
    """Return closed bounds of a bound's value."""
    if isinstance(bound, Affine):
        return bound.interval(ranges)
    lows, highs = zip(*(enclosure(part, ranges) for part in bound.of))
    pick = {"max": max, "min": min}[bound.op]
    return pick(lows), pick(highs)


def cuts(
    place: Place, index: Index, low: int, high: int, conditions: Iterable[Constraint]
) -> list[int]:
    """Return where to cut `[low, high)` so that in each part many conditions are decided.

    Between all values of a short range, where the index stands under `//` or `%`.
    """
    places: set[int] = set()
    for condition in conditions:
        linear = _in_index(place, index, condition)
        if index in linear.rest.indices:
            if high - low <= PHASES and place.decide(condition) is None:
                places.update(range(low, high))
        elif linear.step:
            places.update(_changes(place, condition.relation, linear))
    return sorted(cut for cut in places if low < cut < high)


def _changes(place: Place, relation: str, linear: _LinearCondition) -> tuple[int, ...]:
    """Return the values of an index at which a condition begins to hold, or no longer holds."""
    step = linear.step
    first, last = linear.rest.interval(place.ranges)
    if relation == ">=":
        return _first_true(step, first), _first_true(step, last)
    if first == last and first % step == 0:
        return -first // step, -first // step + 1
    return ()


def _first_true(step: int, rest: int) -> int:
    """Return the index at which `step*index + rest >= 0` begins to hold, or no longer holds.

    The former where the step is positive.
    """
    if step > 0:
        return -(rest // step)
    return rest // -step + 1
