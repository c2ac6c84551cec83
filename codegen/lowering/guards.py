"""Conditions on indices in a loop nest.

These say when a padded read is inside its tensor, and where a loop may be cut so that it always is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from codegen.ir.nodes import Bound, MinMax
from einalg.language.analysis.simplify import simplify
from einalg.language.index.affine import Affine, Index, floordiv
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor
from einalg.language.ir.traversal import accesses

PHASES = 4  # up to so many remainders of an index are written out side by side
Range = tuple[int, int]  # low <= value < high
Layer = tuple[tuple[Constraint, ...], Any]


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


def in_box(subscripts: Sequence[Affine], box: Sequence[Range]) -> tuple[Constraint, ...]:
    """Return the conditions under which subscripts are inside a box."""
    conditions = []
    for form, (low, high) in zip(subscripts, box):
        conditions += [Constraint(form - low, ">="), Constraint(-form + (high - 1), ">=")]
    return tuple(conditions)


def layers(access: Access, statements: Mapping[str, Scope]) -> list[Layer]:
    """Return what a padded access reads, as (conditions, value), the first whose conditions hold.

    That is the tensor (None), else the fills. `statements` are the scopes of other statements, some
    of which have no value at some points of their box.
    """
    views: list[Padded] = []
    base = access.base
    while isinstance(base, Padded):
        views.insert(0, base)
        base = base.base
    if not views:
        return [((), None)]
    inside = in_box(access.subscripts, base.box)
    statement = statements.get(base.name)
    if statement is not None:
        names = dict(zip(statement.indices, access.subscripts))
        inside += tuple(condition.substitute(names) for condition in statement.where)
    results: list[Layer] = [(inside, None)]
    reach = base.box
    for view in views[:-1]:
        reach = _padded(reach, view.amounts)
        results.append((in_box(access.subscripts, reach), view.fill))
    results.append(((), views[-1].fill))
    return results


def _padded(box: Sequence[Range], amounts: Sequence[tuple[int, int]]) -> tuple[Range, ...]:
    """Return a box with so many elements before and after each axis."""
    return tuple((low - before, high + after) for (low, high), (before, after) in zip(box, amounts))


def fills_gaps(scope: Scope, known: Mapping[str, Scope]) -> bool:
    """Tell whether a scope reads something else than 0 where a statement of `known` has no value.

    Memory holds 0 there, which is what an operator sees that knows nothing of conditions.
    """
    for access in accesses(scope.body):
        innermost, base = None, access.base
        while isinstance(base, Padded):
            innermost, base = base, base.base
        if innermost is None or innermost.fill == 0 or not isinstance(base, Tensor):
            continue
        read = known.get(base.name)
        if read is not None and read.where:
            return True
    return False


def skipping(reduce: Reduce, statements: Mapping[str, Scope]) -> tuple[Constraint, ...]:
    """Return conditions outside of which a point of a reduction contributes nothing.

    They are its own, and those of fills that are absorbed, as 0 is by a sum.
    """
    conditions = list(reduce.where)
    for access in dict.fromkeys(direct_accesses(reduce.body)):
        inside, *fills = layers(access, statements)
        if fills and all(_absorbs(reduce, access, fill) for _, fill in fills):
            conditions += inside[0]
    return tuple(dict.fromkeys(conditions))


def _absorbs(reduce: Reduce, access: Access, fill: Any) -> bool:
    """Whether a point of a reduction contributes nothing where an access reads a fill."""

    def read(node: Any) -> Any:
        if node == access:
            return fill
        return node

    return rebuild(reduce.body, read) == reduce.identity


def direct_accesses(body: Any) -> list[Access]:
    """Return the accesses of a body that are in no reduction."""
    results: list[Access] = []

    def see(node: Any) -> Any:
        if isinstance(node, Access):
            results.append(node)
        return node

    rebuild(body, see)
    return results


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
