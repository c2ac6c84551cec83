"""Conditions on indices in a loop nest: when a padded read is inside its tensor, and where a loop may be cut so that it always is."""

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
Range = tuple[int, int]
Layer = tuple[tuple[Constraint, ...], Any]


@dataclass(frozen=True)
class Place:
    """A point of a loop nest under construction, and what is known there.

    `ranges` encloses every index that is not `fixed` to one value; `bound` are those whose loop is already open; `known` are
    conditions that hold.
    """

    ranges: Mapping[Index, Range]
    fixed: Mapping[Index, Affine] = field(default_factory=dict)
    bound: frozenset[Index] = frozenset()
    known: frozenset[Constraint] = frozenset()

    def form(self, form: Affine) -> Affine:
        """An index expression as it is here."""
        return simplify(form.substitute(self.fixed), self.ranges)

    def condition(self, condition: Constraint) -> Constraint:
        """A condition as it is here."""
        form = self.form(condition.form)
        return condition if form is condition.form else Constraint(form, condition.relation)

    def decide(self, condition: Constraint) -> bool | None:
        """Whether a condition holds everywhere here (True), nowhere (False), or that depends (None)."""
        condition = self.condition(condition)
        if condition.truth is not None or condition in self.known:
            return condition.truth is not False
        low, high = condition.form.interval(self.ranges)
        if condition.relation == ">=":
            return True if low >= 0 else False if high < 0 else None
        return True if low == high == 0 else False if low > 0 or high < 0 else None

    def open(self, conditions: Iterable[Constraint]) -> tuple[Constraint, ...] | None:
        """The conditions, as they are here, that are not known to hold; None where one never holds."""
        found: dict[Constraint, None] = {}
        for condition in conditions:
            truth = self.decide(condition)
            if truth is False:
                return None
            if truth is None:
                found[self.condition(condition)] = None
        return tuple(found)

    def bounded(self, bound: Bound) -> Bound:
        """A loop bound as it is here."""
        return (
            self.form(bound)
            if isinstance(bound, Affine)
            else extreme(bound.op, [self.bounded(b) for b in bound.of], self)
        )

    def is_bound(self, condition: Constraint) -> bool:
        return self.condition(condition).indices <= self.bound

    def fix(self, index: Index, value: int | Affine) -> Place:
        """Inside a loop over one value only."""
        known = {index: affine(value)}
        return replace(
            self, fixed={**{i: form.substitute(known) for i, form in self.fixed.items()}, **known}
        )

    def loop(self, index: Index, low: int, high: int) -> Place:
        """Inside a loop over `index`, whose values `[low, high)` encloses."""
        return replace(self, ranges={**self.ranges, index: (low, high)}, bound=self.bound | {index})

    def within(self, index: Index, low: int, high: int) -> Place:
        """Inside `[low, high)` of an index: fixed where that is one value, else a loop."""
        return self.fix(index, low) if high - low == 1 else self.loop(index, low, high)

    def given(self, conditions: Iterable[Constraint]) -> Place:
        """Where the conditions hold."""
        return replace(self, known=self.known | {self.condition(c) for c in conditions})


def in_box(subscripts: Sequence[Affine], box: Sequence[Range]) -> tuple[Constraint, ...]:
    """The conditions under which subscripts are inside a box."""
    found = []
    for form, (low, high) in zip(subscripts, box):
        found += [Constraint(form - low, ">="), Constraint(-form + (high - 1), ">=")]
    return tuple(found)


def layers(access: Access, holes: Mapping[str, Scope]) -> list[Layer]:
    """What a padded access reads: the tensor (None) under some conditions, else the first fill whose conditions hold.

    `holes` gives the scopes of statements that have no value at some points of their box.
    """
    views: list[Padded] = []
    base = access.base
    while isinstance(base, Padded):
        views.insert(0, base)
        base = base.base
    if not views:
        return [((), None)]
    inside = in_box(access.subscripts, base.box)
    hole = holes.get(base.name)
    if hole is not None:
        names = dict(zip(hole.indices, access.subscripts))
        inside += tuple(c.substitute(names) for c in hole.where)
    reach = base.box
    found: list[Layer] = [(inside, None)]
    for view in views:
        reach = tuple((low - a, high + b) for (low, high), (a, b) in zip(reach, view.amounts))
        found.append((in_box(access.subscripts, reach) if view is not views[-1] else (), view.fill))
    return found


def fills_gaps(scope: Scope, known: Mapping[str, Scope]) -> bool:
    """Tell whether a scope reads something else than 0 where a statement of `known` has no value.

    Memory holds 0 there, which is what an operator sees that knows nothing of conditions.
    """
    for access in accesses(scope.body):
        innermost, base = None, access.base
        while isinstance(base, Padded):
            innermost, base = base, base.base
        read = known.get(base.name) if isinstance(base, Tensor) else None
        if innermost is not None and innermost.fill != 0 and read is not None and read.where:
            return True
    return False


def skipping(reduce: Reduce, holes: Mapping[str, Scope]) -> tuple[Constraint, ...]:
    """Conditions outside of which a point of a reduction contributes nothing: its own, and those of fills that are absorbed."""
    found = list(reduce.where)
    for access in dict.fromkeys(direct_accesses(reduce.body)):
        inside, *fills = layers(access, holes)
        if fills and all(
            _replaced(reduce.body, access, fill) == reduce.identity for _, fill in fills
        ):
            found += inside[0]
    return tuple(dict.fromkeys(found))


def direct_accesses(body: Any) -> list[Access]:
    """The accesses of a body that are in no reduction."""
    found: list[Access] = []

    def see(node: Any) -> Any:
        if isinstance(node, Access):
            found.append(node)
        return node

    rebuild(body, see)
    return found


def _replaced(body: Any, access: Access, fill: Any) -> Any:
    return rebuild(body, lambda node: fill if node == access else node)


def narrowed(
    place: Place, index: Index, low: Bound, high: Bound, conditions: Sequence[Constraint]
) -> tuple[Bound, Bound, tuple[Constraint, ...]]:
    """Bounds of a loop over `index` inside which the conditions that are linear in it hold; and the conditions that are left."""
    lows, highs, left = [low], [high], []
    for condition in conditions:
        form = place.form(condition.form)
        step = form.coefficient(index)
        rest = form - affine(index) * step
        if (
            not step
            or not rest.indices <= place.bound
            or (condition.relation == "==" and abs(step) != 1)
        ):
            left.append(condition)
            continue
        if condition.relation == "==":
            value = -rest * step
            lows.append(value)
            highs.append(value + 1)
        elif step > 0:
            lows.append(-floordiv(rest, step))
        else:
            highs.append(floordiv(rest, -step) + 1)
    return extreme("max", lows, place), extreme("min", highs, place), tuple(left)


def extreme(op: str, of: Sequence[Bound], place: Place) -> Bound:
    """The largest or smallest of some bounds, without those that another one makes superfluous."""
    kept: list[Bound] = []
    for bound in map(place.bounded, of):
        if not any(_covers(other, bound, op, place) for other in kept):
            kept = [other for other in kept if not _covers(bound, other, op, place)] + [bound]
    return kept[0] if len(kept) == 1 else MinMax(op, tuple(kept))


def _covers(one: Bound, two: Bound, op: str, place: Place) -> bool:
    """Whether `one` is at least as strict as `two` wherever the indices are in their ranges."""
    (low1, high1), (low2, high2) = enclosure(one, place.ranges), enclosure(two, place.ranges)
    return one == two or (low1 >= high2 if op == "max" else high1 <= low2)


def enclosure(bound: Bound, ranges: Mapping[Index, Range]) -> Range:
    """Closed bounds of a bound's value."""
    if isinstance(bound, Affine):
        return bound.interval(ranges)
    lows, highs = zip(*(enclosure(b, ranges) for b in bound.of))
    pick = max if bound.op == "max" else min
    return pick(lows), pick(highs)


def cuts(
    place: Place, index: Index, low: int, high: int, conditions: Iterable[Constraint]
) -> list[int]:
    """Where to cut `[low, high)` so that in each part as many conditions as possible are decided.

    Between all values of a short range, where the index stands under `//` or `%`.
    """
    found: set[int] = set()
    for condition in conditions:
        form = place.form(condition.form)
        step = form.coefficient(index)
        rest = form - affine(index) * step
        if index in rest.indices:
            if high - low <= PHASES and place.decide(condition) is None:
                found |= set(range(low, high))
            continue
        if not step:
            continue
        first, last = rest.interval(place.ranges)
        if condition.relation == ">=":
            found |= {_first_true(step, first), _first_true(step, last)}
        elif first == last and first % step == 0:
            found |= {-first // step, -first // step + 1}
    return sorted(c for c in found if low < c < high)


def _first_true(step: int, rest: int) -> int:
    """The index at which `step*index + rest >= 0` begins to hold (step > 0), or no longer holds (step < 0)."""
    return -(rest // step) if step > 0 else rest // -step + 1
