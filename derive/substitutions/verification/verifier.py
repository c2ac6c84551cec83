"""Verdicts on substitutions: proved, proved under a condition that is inferred, or different
(design §14).

Both sides are programs, and `prove` decides; no axiom is assumed. What a proof for all sizes leaves
undecided is tried as a case of a more general rule: with common subexpressions as leaves, and with
a leaf for each occurrence of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED
from derive.substitutions.graphs.graph import Port, RuleGraph
from derive.substitutions.graphs.kinds import WrongOperation
from derive.substitutions.graphs.ordered_leaves import with_ordered_leaves, without_sizes
from derive.substitutions.graphs.reduction import (
    nests_sums,
    parts,
    reduced,
    renamed_apart,
    single_outputs,
    without_activation,
)
from derive.substitutions.graphs.taps import choices_of_taps, open_taps, stated_taps
from derive.substitutions.graphs.typed_rule import TypedRule, typed
from derive.substitutions.sizes.building import NoExpression, programs
from derive.substitutions.sizes.conditions import GroupCondition, inferred
from derive.substitutions.sizes.equations import Unsolvable, Unsolved
from derive.substitutions.sizes.sizing import (
    Group,
    OpenSizes,
    Sizing,
)
from derive.substitutions.verification.comparing import (
    Effort,
    SizesComparison,
    Undecided,
    at_sizes,
    compared,
    differs_at,
)
from derive.substitutions.verification.counterexamples import (
    differs_with,
    with_sizes_of_leaves,
)
from derive.substitutions.verification.generalisation import is_unconditional, of_case
from derive.substitutions.verification.refuting import quick_refutation
from derive.substitutions.verification.rule import Substitution
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.errors import ShapeError
from einalg.language.analysis.sizes import conditions_text
from einalg.options import Kind, Misfit, checked, instance_of

NO_SIZES = "at no sizes do both sides have a meaning"
UNNAMED = ""  # a rule whose verdict is that of others too
MAX_KNOWN = 2**14  # rules whose verdicts are kept
Point = tuple[Sizing, SizesComparison]  # a choice of groups, and both sides compared at it
FAILURES = (Unsolvable, Unsolved, NoExpression, ShapeError)


def _sizes(value: Any) -> Any:
    if value != "any" and not isinstance(value, Mapping):
        raise Misfit
    return value


@checked(
    rule=instance_of(
        Substitution, "a rule", "make one: ea.substitutions.Rule(name, before, after)"
    ),
    sizes=Kind('"any", or numbers by the names of sizes', _sizes, 'e.g. {name}="any"'),
)
def verify(rule: Substitution, sizes: Any = "any") -> RuleVerdict:
    """Decide whether both sides of a substitution are equal for all inputs and all sizes at which
    both have a meaning, and under which condition if not for all.

    With numbers for some sizes (`sizes={"N": 8}`), for these. Rules of files have open sizes:
    convolutions have any numbers of groups there, and the condition on them is inferred. Raises
    `UseError` for anything but a rule, and for a size that it does not have; `ShapeError` for a
    number that the size may not be.

    >>> import einalg as ea
    >>> add, mul = ea.ops.add, ea.ops.mul
    >>> a, b, c = (ea.tensor(name, ("N", "M")) for name in "abc")
    >>> rule = ea.substitutions.Rule("distributive", mul(add(a, b), c), add(mul(a, c), mul(b, c)))
    >>> ea.substitutions.verify(rule)
    distributive: proved
    >>> first = ea.substitutions.Rule("first", "O[i] += A[i,k]", "O[i] = A[i,0]", A=("N", "K"))
    >>> ea.substitutions.verify(first)
    first: proved where K = 1
      different at K = 2, N = 1, where [K, N] -> { [i] : K >= 2 and 0 <= i < N }
    """
    if rule.graph is not None and sizes == "any":
        return _verdict_of_graph(rule.name, rule.graph)
    sides = rule.sides
    if sizes != "any":
        sides = at_sizes(sides, sizes)
    verdict = _verdict(rule.name, compared(*sides))
    example = verdict.counterexample
    if example and not differs_at(sides, example):
        return replace(verdict, counterexample=None)
    return verdict


def _verdict(name: str, comparison: SizesComparison) -> RuleVerdict:
    """Return the verdict that follows from one comparison."""
    if comparison.verdict == TESTED:
        return RuleVerdict(name, TESTED, coverage=comparison.coverage)
    if comparison.verdict == PROVED:
        return RuleVerdict(name, PROVED)
    holding, example = comparison.holding, comparison.counterexample
    rest = {"counterexample": example or None, "region": comparison.region}
    if holding is None:
        return RuleVerdict(name, DIFFERENT, **rest)
    text = conditions_text(holding.gist(comparison.allowed))
    return RuleVerdict(name, PROVED, holding, text, **rest)


def _verdict_of_graph(name: str, graph: RuleGraph) -> RuleVerdict:
    """Decide a rule of open sizes: by relations, else by laws of functions and at some sizes."""
    for decided in (_at_no_sizes, _by_relations):
        verdict = decided(name, graph)
        if verdict is not None:
            return verdict
    verdict = _decided(name, graph, Effort.SIZES)
    assert verdict is not None  # nothing is left undecided there
    return _confirmed(verdict, graph)


def verdict_for_all_sizes(name: str, graph: RuleGraph) -> RuleVerdict | None:
    """Return the verdict on a rule of open sizes by relations, else by laws of functions; None
    where these do not decide.
    """
    for decided in (_at_no_sizes, _by_relations):
        verdict = decided(name, graph)
        if verdict is not None:
            return verdict
    verdict = _attempt(name, graph, Effort.LAWS)
    return None if verdict is None else _confirmed(verdict, graph)


def _at_no_sizes(name: str, graph: RuleGraph) -> RuleVerdict | None:
    """Return the verdict on a rule that has no sizes: what its operators demand and its file states
    excludes one another; None for others.
    """
    try:
        rule = typed(graph)
        sizes = OpenSizes(rule, stated_taps(rule))
        if next(sizes.general(), None) is not None:
            return None
    except Unsolvable:
        pass
    except (Unsolved, WrongOperation):
        return None
    return RuleVerdict(name, DIFFERENT, coverage=NO_SIZES)


def _by_relations(name: str, graph: RuleGraph) -> RuleVerdict | None:
    """Decide a rule of open sizes by exact comparisons, as a case of more general rules where these
    are simpler; None where these do not decide.
    """
    if len(graph.outputs) > 1:
        verdict = _of_each_output(name, graph)
        if verdict is not None:
            return verdict
    for general in _generalisations(graph):
        verdict = _attempt(name, general, Effort.RELATIONS)
        if verdict is not None and general is not graph:
            verdict = of_case(verdict, general, graph)
        if verdict is not None:
            return _confirmed(verdict, graph)
    return None


def _of_each_output(name: str, graph: RuleGraph) -> RuleVerdict | None:
    """Return the verdict on a rule each of whose outputs is proved alone, without a condition; None
    where one is not.
    """
    coverages = []
    for rule in single_outputs(graph):
        verdict = _by_relations(name, rule)
        if verdict is None or not is_unconditional(verdict):
            return None
        coverages.append(verdict.coverage)
    coverage = "; ".join(dict.fromkeys(filter(None, coverages)))
    return RuleVerdict(name, PROVED, coverage=coverage)


def _confirmed(verdict: RuleVerdict, graph: RuleGraph) -> RuleVerdict:
    """Return a verdict without its counterexample where a proof for numbers does not confirm it."""
    if verdict.counterexample and not differs_with(graph, verdict.counterexample):
        return replace(verdict, counterexample=None)
    return verdict


def _generalisations(graph: RuleGraph) -> Iterator[RuleGraph]:
    """Yield the rule itself, and rules of which it is a case: what costs least first. Sums inside
    sums are many terms, and of a leaf that is read twice there are more, so that equal parts and
    other leaves are tried first where both sides nest sums.
    """
    smaller = reduced(graph)
    if smaller is not None:
        yield smaller
    is_deep = nests_sums(graph)
    if is_deep:
        yield from _joined(graph)
        yield from renamed_apart(graph)
    inner = without_activation(graph)
    while inner is not None:
        yield inner
        inner = without_activation(inner)
    yield graph
    if not is_deep:
        yield from renamed_apart(graph)
        yield from _joined(graph)


def _joined(graph: RuleGraph) -> Iterator[RuleGraph]:
    """Yield the rule with a leaf for tensors inside both sides that are proved to be equal, if
    there are any.
    """
    equal: dict[Port, Port] = {}
    for before, after, part in parts(graph):
        if after not in equal and _is_proved(part):
            equal[after] = before
    if equal:
        joined = reduced(graph, equal)
        if joined is not None:
            yield joined


def _is_proved(graph: RuleGraph) -> bool:
    """Return whether a rule is proved for all sizes, and holds at random inputs first."""
    try:
        return _is_ordered_proved(with_ordered_leaves(graph)[0])
    except (WrongOperation, ValueError):
        return False


@lru_cache(maxsize=MAX_KNOWN)
def _is_ordered_proved(graph: RuleGraph) -> bool:
    if quick_refutation(UNNAMED, graph) is not None:
        return False
    verdict = _attempt(UNNAMED, graph, Effort.RELATIONS)
    return verdict is not None and is_unconditional(verdict) and not verdict.coverage


def _attempt(name: str, graph: RuleGraph, effort: Effort) -> RuleVerdict | None:
    """Decide a rule; None where an effort is too small for that, or ranks do not fit."""
    try:
        return _decided(name, graph, effort)
    except WrongOperation:
        return None


def _decided(name: str, graph: RuleGraph, effort: Effort) -> RuleVerdict | None:
    """Decide a rule, once for all that differ by the names of leaves; None where an effort is too
    small for that.
    """
    ordered, numbers = with_ordered_leaves(graph)
    verdict = _of_any_taps(without_sizes(ordered))
    if verdict is None:
        verdict = _of_ordered_leaves(ordered, effort)
    return None if verdict is None else replace(verdict.with_leaves(numbers), rule=name)


@lru_cache(maxsize=MAX_KNOWN)
def _of_any_taps(graph: RuleGraph) -> RuleVerdict | None:
    """Return the verdict on a rule that is proved without a condition with sizes for the taps of
    kernels that it leaves open; None for others.
    """
    rule = typed(graph)
    if not open_taps(rule):
        return None
    with suppress(Undecided, *FAILURES):
        sizes = OpenSizes(rule, {})
        for sizing in islice(sizes.general(), 1):
            programs(rule, sizing)  # has an expression
        verdict = _at_taps(rule, sizes, Effort.PROOF)
        if is_unconditional(verdict):
            return verdict
    return None


@lru_cache(maxsize=MAX_KNOWN)
def _of_ordered_leaves(graph: RuleGraph, effort: Effort) -> RuleVerdict | None:
    try:
        return _at_all_taps(graph, effort)
    except Undecided:
        return None


def _at_all_taps(graph: RuleGraph, effort: Effort) -> RuleVerdict:
    """Decide a rule for every choice of taps that it leaves open."""
    rule = typed(graph)
    choices = list(choices_of_taps(rule))
    verdicts = []
    for taps in choices:
        try:
            sizes = OpenSizes(rule, taps)
        except (Unsolvable, Unsolved):
            continue
        verdicts.append(_at_taps(rule, sizes, effort))
        if verdicts[-1].verdict == DIFFERENT:
            break
    if not verdicts:
        return RuleVerdict(UNNAMED, DIFFERENT, coverage=NO_SIZES)
    worst = max(verdicts, key=_weakness)
    if len(choices) > 1 and worst.verdict != DIFFERENT:
        kernels = ", ".join(sorted({"x".join(map(str, choice.values())) for choice in choices}))
        coverage = f"{worst.coverage}; " if worst.coverage else ""
        worst = replace(worst, coverage=f"{coverage}kernels {kernels} tried")
    return worst


def _weakness(verdict: RuleVerdict) -> tuple[int, bool]:
    return [PROVED, TESTED, DIFFERENT].index(verdict.verdict), verdict.condition is not None


def _at_taps(rule: TypedRule, sizes: OpenSizes, effort: Effort) -> RuleVerdict:
    if not sizes.channels or sizes.is_of_one_group():
        with suppress(*FAILURES):  # else constants may have more rows than columns
            return _of_sizing(rule, sizes.of_one_group(), effort)
    is_general = _is_proved_of_any_groups(rule, sizes)
    if is_general and sizes.is_any_groups_complete():
        return RuleVerdict(UNNAMED, PROVED)
    return _of_groups(rule, sizes, effort, is_general)


def _of_sizing(rule: TypedRule, sizing: Sizing, effort: Effort) -> RuleVerdict:
    sides = programs(rule, sizing)
    verdict = _verdict(UNNAMED, compared(*sides, effort))
    return with_sizes_of_leaves(verdict, rule, sizing)


def _is_proved_of_any_groups(rule: TypedRule, sizes: OpenSizes) -> bool:
    """Return whether both sides are proved to be equal for all numbers of groups at once."""
    try:
        sizing = sizes.of_any_groups()
        if sizing is None:
            return False
        return compared(*programs(rule, sizing), Effort.RELATIONS).verdict == PROVED
    except (Undecided, *FAILURES):
        return False


def _of_groups(rule: TypedRule, sizes: OpenSizes, effort: Effort, is_general: bool) -> RuleVerdict:
    """Compare both sides at few numbers of groups, and infer the condition on them; `is_general`
    where they are equal wherever channels are pairs of digits.
    """
    of_one = _of_one_group(rule, sizes, effort, is_general)
    known = _Known(of_one is not None and of_one.verdict == PROVED, is_general)
    points = list(_points(rule, sizes, effort, known))
    if of_one is None and not points:
        return RuleVerdict(UNNAMED, DIFFERENT, coverage=NO_SIZES)
    failing = [point for point in points if point[1].verdict == DIFFERENT]
    tested = [point for point in points if point[1].verdict == TESTED]
    if failing:
        verdict = _refuted(rule, failing)
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
        return _verdict(UNNAMED, of_one)
    return RuleVerdict(UNNAMED, PROVED, coverage=sizes.tried_text)


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


def _points(rule: TypedRule, sizes: OpenSizes, effort: Effort, known: _Known) -> Iterator[Point]:
    """Yield comparisons at few groups."""
    refuted: set[tuple[Group, ...]] = set()
    for sizing in sizes.of_some_groups():
        if sizing.groups in refuted:
            continue
        if known.has(sizing, sizes):
            yield sizing, SizesComparison(PROVED)
            continue
        try:
            comparison = compared(*programs(rule, sizing), effort)
        except (NoExpression, ShapeError):
            if effort in (Effort.PROOF, Effort.RELATIONS):
                raise Undecided from None  # of all groups that are tried, or of none
            continue
        if comparison.verdict == DIFFERENT:
            refuted.add(sizing.groups)
        yield sizing, comparison


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
    except FAILURES:
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


def _refuted(rule: TypedRule, failing: Sequence[Point]) -> RuleVerdict:
    """Return the verdict of the smallest counterexample."""
    verdicts = []
    for sizing, comparison in failing:
        verdict = RuleVerdict(
            UNNAMED, DIFFERENT, counterexample=comparison.counterexample, region=comparison.region
        )
        verdicts.append((_total(sizing, comparison), len(verdicts), verdict, sizing))
    _, _, verdict, sizing = min(verdicts, key=lambda entry: entry[:2])
    return with_sizes_of_leaves(verdict, rule, sizing)


def _total(sizing: Sizing, comparison: SizesComparison) -> int:
    features = sum(groups * outputs for groups, outputs in sizing.groups)
    return features + sum(comparison.counterexample.values())
