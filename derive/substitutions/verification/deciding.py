"""Verdicts on rules of open sizes as they stand: each once for all names of its leaves, and for
each choice of the taps that it leaves open.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED, UNKNOWN
from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.kinds import WrongOperation
from derive.substitutions.graphs.ordered_leaves import with_ordered_leaves, without_sizes
from derive.substitutions.graphs.taps import choices_of_taps, open_taps
from derive.substitutions.graphs.typed_rule import TypedRule, typed, typed_apart
from derive.substitutions.sizes.building import programs
from derive.substitutions.sizes.equations import Unsolvable, Unsolved
from derive.substitutions.sizes.output_shapes import has_sizes_of_leaves
from derive.substitutions.sizes.sizing import OpenSizes
from derive.substitutions.verification.comparing import Effort, Undecided
from derive.substitutions.verification.groups import NO_SIDES, verdict_at_taps
from derive.substitutions.verification.verdict import (
    NO_SIZES,
    UNNAMED,
    UNSOLVED,
    RuleVerdict,
)

MAX_KNOWN = 2**14  # rules whose verdicts are kept


def attempted(name: str, graph: RuleGraph, effort: Effort) -> RuleVerdict | None:
    """Decide a rule; None where an effort is too small for that, or ranks do not fit."""
    try:
        return decided(name, graph, effort)
    except WrongOperation:
        return None


def decided(name: str, graph: RuleGraph, effort: Effort) -> RuleVerdict | None:
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
    with suppress(Undecided, *NO_SIDES):
        sizes = OpenSizes(rule, {})
        for sizing in islice(sizes.general(), 1):
            programs(rule, sizing)  # has an expression
        verdict = verdict_at_taps(rule, sizes, Effort.PROOF)
        if verdict.is_unconditional:
            return verdict
    return None


@lru_cache(maxsize=MAX_KNOWN)
def _of_ordered_leaves(graph: RuleGraph, effort: Effort) -> RuleVerdict | None:
    try:
        return _at_all_taps(graph, effort)
    except Undecided:
        return None


def _at_all_taps(graph: RuleGraph, effort: Effort) -> RuleVerdict:
    """Decide a rule for every choice of taps that it leaves open: where sizes at which both sides
    have outputs of one shape are not solved, at those that its operators alone demand.
    """
    with suppress(Unsolved):
        return _of_all_taps(typed(graph), effort)
    with suppress(Unsolved):
        return _of_all_taps(typed_apart(graph), effort, are_outputs_apart=True)
    if effort is not Effort.SIZES:
        raise Undecided
    return RuleVerdict(UNNAMED, UNKNOWN, coverage=UNSOLVED)


def _of_all_taps(rule: TypedRule, effort: Effort, are_outputs_apart: bool = False) -> RuleVerdict:
    """Decide a rule whose outputs have axes in common, or are apart. Raises `Unsolved` where the
    sizes are not solved; outputs that are apart need sizes that the leaves have.
    """
    tried, verdicts = [], []
    for taps in choices_of_taps(rule):
        try:
            sizes = OpenSizes(rule, taps)
        except Unsolvable:
            continue
        if are_outputs_apart and not has_sizes_of_leaves(rule, sizes):
            raise Unsolved
        tried.append(taps)
        verdicts.append(verdict_at_taps(rule, sizes, effort))
        if verdicts[-1].verdict == DIFFERENT:
            break
    if not verdicts:
        return RuleVerdict(UNNAMED, DIFFERENT, coverage=NO_SIZES)
    worst = max(verdicts, key=_weakness)
    if len(tried) > 1 and worst.verdict != DIFFERENT:
        kernels = ", ".join(sorted({"x".join(map(str, choice.values())) for choice in tried}))
        coverage = f"{worst.coverage}; " if worst.coverage else ""
        worst = replace(worst, coverage=f"{coverage}kernels {kernels} tried")
    return worst


def _weakness(verdict: RuleVerdict) -> tuple[int, bool]:
    return [PROVED, TESTED, UNKNOWN, DIFFERENT].index(
        verdict.verdict
    ), verdict.condition is not None
