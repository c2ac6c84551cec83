"""Verdicts on rules at numbers of taps: for all groups of convolutions, or under a condition on
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

import islpy as isl

from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED, UNKNOWN
from derive.substitutions.graphs.typed_rule import TypedRule
from derive.substitutions.sizes.building import NoExpression, programs
from derive.substitutions.sizes.conditions import GroupCondition, inferred, may_be_excluded
from derive.substitutions.sizes.equations import Unsolvable, Unsolved
from derive.substitutions.sizes.sizing import Group, OpenSizes, Sizing
from derive.substitutions.verification.comparing import (
    Effort,
    SizesComparison,
    Undecided,
    compared,
    refuted_or_proved,
)
from derive.substitutions.verification.counterexamples import with_sizes_of_leaves
from derive.substitutions.verification.verdict import (
    NO_EXPRESSION,
    NO_SIZES,
    UNNAMED,
    RuleVerdict,
)
from einalg.errors import ShapeError

NO_SIDES = (Unsolvable, Unsolved, NoExpression, ShapeError)
Point = tuple[Sizing, SizesComparison]  # a choice of groups, and both sides compared at it


def verdict_at_taps(rule: TypedRule, sizes: OpenSizes, effort: Effort) -> RuleVerdict:
    """Decide a rule for all numbers of groups at once, else for one group and for few. Raises
    `Undecided` where that takes more methods than those of an effort.
    """
    if not sizes.channels or sizes.is_of_one_group():
        with suppress(*NO_SIDES):  # else constants may have more rows than columns
            return _of_sizing(rule, sizes.of_one_group(), effort)
    general = _of_any_groups(rule, sizes)
    if general is not None and sizes.is_any_groups_complete():
        if general[1].verdict == PROVED:
            return RuleVerdict(UNNAMED, PROVED)
        verdict = _where_sizes_hold(rule, sizes, general)
        if verdict is not None:
            return verdict
    is_general = general is not None and general[1].verdict == PROVED
    return _of_groups(rule, sizes, effort, is_general)


def _of_sizing(rule: TypedRule, sizing: Sizing, effort: Effort) -> RuleVerdict:
    sides = programs(rule, sizing)
    verdict = compared(*sides, effort).verdict_on(UNNAMED)
    return with_sizes_of_leaves(verdict, rule, sizing)


def _of_any_groups(rule: TypedRule, sizes: OpenSizes) -> Point | None:
    """Compare both sides for all numbers of groups at once, by relations; None where that does not
    decide.
    """
    try:
        sizing = sizes.of_any_groups()
        if sizing is None:
            return None
        return sizing, compared(*programs(rule, sizing), Effort.RELATIONS)
    except (Undecided, *NO_SIDES):
        return None


def _where_sizes_hold(rule: TypedRule, sizes: OpenSizes, general: Point) -> RuleVerdict | None:
    """Return the verdict on a rule that holds for all groups where other sizes meet a condition,
    with the counterexample of one group; None where there is no such condition.
    """
    sizing, comparison = general
    if comparison.verdict != DIFFERENT or comparison.holding is None:
        return None
    condition = _without_channels(comparison, sizing.names_of_pairs)
    if condition is None:
        return None
    try:
        verdict = _of_sizing(rule, sizes.of_one_group(), Effort.RELATIONS)
    except (Undecided, *NO_SIDES):
        return None
    if verdict.condition is None:
        return None
    return replace(verdict, condition=condition)


def _without_channels(comparison: SizesComparison, names: frozenset[str]) -> isl.Set | None:
    """Return the condition under which both sides are equal without the sizes of channels, by their
    names; None where it is one on these.
    """
    kind = isl.dim_type.param
    condition, weakest = comparison.holding, comparison.holding.gist(comparison.allowed)
    for name in names:
        place = weakest.find_dim_by_name(kind, name)
        if place >= 0 and weakest.involves_dims(kind, place, 1):
            return None
        place = condition.find_dim_by_name(kind, name)
        if place >= 0:
            condition = condition.project_out(kind, place, 1)
    return condition


def _of_groups(rule: TypedRule, sizes: OpenSizes, effort: Effort, is_general: bool) -> RuleVerdict:
    """Compare both sides at few numbers of groups, and infer the condition on them; `is_general`
    where they are equal wherever channels are pairs of digits.
    """
    of_one = _of_one_group(rule, sizes, effort, is_general)
    known = _Known(of_one is not None and of_one.verdict == PROVED, is_general)
    points = _points(rule, sizes, effort, known)
    if of_one is None and not points:
        return _without_sides(sizes, effort)
    failing = [point for point in points if point[1].verdict == DIFFERENT]
    tested = [point for point in points if point[1].verdict == TESTED]
    if failing:
        verdict = _refuted(rule, failing, effort)
        condition = None if tested else _condition(points)
        if condition is None:
            return verdict
        is_proved = _is_proved_under(condition, sizes, known)
        return replace(
            verdict,
            verdict=PROVED,
            condition=condition.sizes,
            condition_text=condition.text,
            coverage="for all sizes" if is_proved else sizes.tried_text,
        )
    if tested:
        return RuleVerdict(UNNAMED, TESTED, coverage=tested[0][1].coverage)
    if of_one is not None and of_one.verdict != PROVED:
        return of_one.verdict_on(UNNAMED)
    return RuleVerdict(UNNAMED, PROVED, coverage=sizes.tried_text)


def _without_sides(sizes: OpenSizes, effort: Effort) -> RuleVerdict:
    """Return the verdict on a rule whose sides have no expression with open sizes."""
    if next(sizes.general(), None) is None:
        return RuleVerdict(UNNAMED, DIFFERENT, coverage=NO_SIZES)
    if effort is not Effort.SIZES:
        raise Undecided
    return RuleVerdict(UNNAMED, UNKNOWN, coverage=NO_EXPRESSION)


@dataclass(frozen=True)
class _Known:
    """The sizes of which a rule is proved at once: those of one group in each convolution, and
    those whose channels are pairs of digits.
    """

    of_one_group: bool
    of_pairs: bool

    def has(self, sizing: Sizing, sizes: OpenSizes) -> bool:
        """Return whether a choice of groups is among these sizes."""
        if self.of_one_group and _is_of_one_group(sizing):
            return True
        return self.of_pairs and sizes.are_pairs(sizing)


def _points(rule: TypedRule, sizes: OpenSizes, effort: Effort, known: _Known) -> list[Point]:
    """Return comparisons at few groups, no larger than a difference that no condition excludes."""
    points: list[Point] = []
    refuted: set[tuple[Group, ...]] = set()
    largest = inf
    for sizing in sizes.of_some_groups():
        if sizing.groups in refuted or _features(sizing) >= largest:
            continue
        comparison = _at_point(rule, sizing, sizes, effort, known)
        if comparison is None:
            continue
        points.append((sizing, comparison))
        if comparison.verdict == DIFFERENT:
            refuted.add(sizing.groups)
            if not may_be_excluded(sizing.groups):
                largest = min(largest, _total(sizing, comparison))
    return points


def _at_point(
    rule: TypedRule, sizing: Sizing, sizes: OpenSizes, effort: Effort, known: _Known
) -> SizesComparison | None:
    """Compare both sides at a choice of groups; None where they have no expression there."""
    if known.has(sizing, sizes):
        return SizesComparison(PROVED)
    try:
        return compared(*programs(rule, sizing), effort, refuted_or_proved)
    except (NoExpression, ShapeError):
        if effort in (Effort.PROOF, Effort.RELATIONS):
            raise Undecided from None  # of all groups that are tried, or of none
        return None


def _condition(points: Sequence[Point]) -> GroupCondition | None:
    """Return the condition on groups that tells what is proved from what differs."""
    refuted = {sizing.groups for sizing, comparison in points if comparison.verdict == DIFFERENT}
    proved = {sizing.groups for sizing, _ in points} - refuted
    return inferred(sorted(proved), sorted(refuted))


def _of_one_group(
    rule: TypedRule, sizes: OpenSizes, effort: Effort, is_general: bool
) -> SizesComparison | None:
    """Compare both sides for one group in each convolution; None where no sizes fit that."""
    try:
        sizing = sizes.of_one_group()
        if is_general and sizes.are_pairs(sizing):
            return SizesComparison(PROVED)
        return compared(*programs(rule, sizing), effort)
    except NO_SIDES:
        return None


def _is_proved_under(condition: GroupCondition, sizes: OpenSizes, known: _Known) -> bool:
    """Return whether a rule is proved for all sizes that meet a condition: by one of the proofs for
    sizes at once, which has each choice of few groups that meets it.
    """
    held = [sizing for sizing in sizes.of_some_groups() if condition.holds(sizing.groups)]
    if known.of_one_group and all(map(_is_of_one_group, held)):
        return True
    return known.of_pairs and all(map(sizes.are_pairs, held))


def _is_of_one_group(sizing: Sizing) -> bool:
    return all(count == 1 for count, _ in sizing.groups)


def _refuted(rule: TypedRule, failing: Sequence[Point], effort: Effort) -> RuleVerdict:
    """Return the verdict of the smallest counterexample, with the region of its differences."""
    sizing, comparison = min(failing, key=lambda point: _total(*point))
    if comparison.region is None:
        comparison = compared(*programs(rule, sizing), effort)
    example, region = comparison.counterexample, comparison.region
    verdict = RuleVerdict(UNNAMED, DIFFERENT, counterexample=example, region=region)
    return with_sizes_of_leaves(verdict, rule, sizing)


def _total(sizing: Sizing, comparison: SizesComparison) -> int:
    return _features(sizing) + sum(comparison.counterexample.values())


def _features(sizing: Sizing) -> int:
    return sum(groups * outputs for groups, outputs in sizing.groups)
