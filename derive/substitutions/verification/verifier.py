"""Verdicts on substitutions: proved, proved under a condition that is inferred, or different
(design §14).

Both sides are programs, and `prove` decides; no axiom is assumed. What a proof for all sizes leaves
undecided is tried as a case of a more general rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from derive.proof.outcome.verdict import DIFFERENT, UNKNOWN
from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.kinds import WrongOperation
from derive.substitutions.graphs.taps import stated_taps
from derive.substitutions.graphs.typed_rule import typed
from derive.substitutions.sizes.equations import Unsolvable, Unsolved
from derive.substitutions.sizes.output_shapes import output_shapes
from derive.substitutions.sizes.sizing import OpenSizes
from derive.substitutions.verification.comparing import (
    Effort,
    Sides,
    at_sizes,
    compared,
    differs_at,
)
from derive.substitutions.verification.counterexamples import confirmed, with_sizes_of_leaves
from derive.substitutions.verification.deciding import attempted, decided
from derive.substitutions.verification.function_sides import verdict_on_functions
from derive.substitutions.verification.general_rules import decided_by_relations
from derive.substitutions.verification.rule import Substitution
from derive.substitutions.verification.verdict import NO_SIZES, RuleVerdict
from einalg.language.analysis.sizes import conditions_text, smallest
from einalg.options import SECONDS, Kind, Misfit, checked, instance_of, optional
from einalg.runtime.clock import Clock, OutOfTime
from einalg.runtime.garbage import with_few_full_collections


def _sizes(value: Any) -> Any:
    if value != "any" and not isinstance(value, Mapping):
        raise Misfit
    return value


@checked(
    rule=instance_of(
        Substitution, "a rule", "make one: ea.substitutions.Rule(name, before, after)"
    ),
    sizes=Kind('"any", or numbers by the names of sizes', _sizes, 'e.g. {name}="any"'),
    seconds=optional(SECONDS),
)
@with_few_full_collections
def verify(rule: Substitution, sizes: Any = "any", seconds: float | None = None) -> RuleVerdict:
    """Decide whether both sides of a substitution are equal for all inputs and all sizes at which
    both have a meaning, and under which condition if not for all.

    With numbers for some sizes (`sizes={"N": 8}`), for these. Rules of files have open sizes:
    convolutions have any numbers of groups there, and the condition on them is inferred. Where
    that is not decided within some `seconds`, the verdict is "unknown". Raises `UseError` for
    anything but a rule, and for a size that it does not have; `ShapeError` for a number that
    the size may not be.

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
    if seconds is None:
        return _verdict(rule, sizes)
    try:
        with Clock.of(seconds).limiting():
            return _verdict(rule, sizes)
    except OutOfTime:
        return RuleVerdict(rule.name, UNKNOWN, coverage=f"not decided in {seconds:g} s")


def _verdict(rule: Substitution, sizes: Any) -> RuleVerdict:
    if rule.graph is not None and sizes == "any":
        return _verdict_of_graph(rule.name, rule.graph)
    if rule.functions is not None and sizes == "any":
        return verdict_on_functions(rule.name, rule.functions)
    sides = _sides_at(rule, sizes)
    verdict = compared(*sides).verdict_on(rule.name)
    example = verdict.counterexample
    if example and not differs_at(sides, example):
        return replace(verdict, counterexample=None)
    return verdict


def _sides_at(rule: Substitution, sizes: Any) -> Sides:
    """Return both sides of a rule with numbers for some sizes."""
    if sizes == "any":
        return rule.sides
    if rule.functions is not None:
        return rule.functions.at(sizes)
    return at_sizes(rule.sides, sizes)


def _verdict_of_graph(name: str, graph: RuleGraph) -> RuleVerdict:
    """Decide a rule of open sizes: by relations, else by laws of functions and at some sizes."""
    verdict = _by_relations(name, graph)
    if verdict is None:
        verdict = decided(name, graph, Effort.SIZES)
        assert verdict is not None  # nothing is left undecided there
    return _where_shapes_are_equal(confirmed(verdict, graph), graph)


def verdict_for_all_sizes(name: str, graph: RuleGraph) -> RuleVerdict | None:
    """Return the verdict on a rule of open sizes by relations, else by laws of functions; None
    where these do not decide.
    """
    verdict = _by_relations(name, graph)
    if verdict is None:
        verdict = attempted(name, graph, Effort.LAWS)
    if verdict is None:
        return None
    return _where_shapes_are_equal(confirmed(verdict, graph), graph)


def _where_shapes_are_equal(verdict: RuleVerdict, graph: RuleGraph) -> RuleVerdict:
    """Return a verdict under the condition that both sides have outputs of one shape, where their
    operators do not demand that.
    """
    if verdict.verdict == DIFFERENT:
        return verdict
    shapes = output_shapes(graph)
    if shapes is None:
        return verdict
    known = shapes.allowed
    if verdict.condition is not None:
        known = known.intersect(verdict.condition)
    text = conditions_text(shapes.equal.gist(known))
    if verdict.condition_text:
        text = " and ".join(filter(None, [verdict.condition_text, text]))
    condition = shapes.equal
    if verdict.condition is not None:
        condition = condition.intersect(verdict.condition)
    if verdict.counterexample is None:
        other = smallest(shapes.allowed.subtract(shapes.equal))
        example = RuleVerdict(verdict.rule, DIFFERENT, counterexample=other)
        example = with_sizes_of_leaves(example, shapes.rule, shapes.sizing)
        verdict = replace(verdict, counterexample=example.counterexample, leaves=example.leaves)
    return replace(verdict, condition=condition, condition_text=text)


def _by_relations(name: str, graph: RuleGraph) -> RuleVerdict | None:
    verdict = _at_no_sizes(name, graph)
    return decided_by_relations(name, graph) if verdict is None else verdict


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
