"""Verdicts on rules by those on more general ones, of which they are cases."""

from __future__ import annotations

from dataclasses import replace

from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.typed_rule import TypedRule, typed
from derive.substitutions.sizes.sizing import distinct_channels
from derive.substitutions.verification.counterexamples import differs_with
from derive.substitutions.verification.verdict import RuleVerdict


def of_case(verdict: RuleVerdict, general: RuleGraph, case: RuleGraph) -> RuleVerdict | None:
    """Return the verdict on a case of a rule by that on the rule, some of whose leaves are tensors
    that the case computes, the others its own; None where it does not follow: where the sizes that
    the verdict names are none of the leaves of the case, its convolutions are not the same, or its
    counterexample is none.
    """
    if verdict.is_unconditional:
        return verdict
    rule, of = typed(general), typed(case)
    example = dict(verdict.counterexample or {})
    for leaf in set(general.leaves) - set(case.leaves):
        for place in range(len(rule.tensors[leaf])):
            example.pop(f"{leaf.name}_{place}", None)
    if not example or not _have_same_convolutions(rule, of) or not differs_with(case, example):
        return None
    names = _names_of_axes(rule, case)
    ranks = {leaf.name: len(of.tensors[leaf]) for leaf in case.leaves}
    try:
        verdict = replace(verdict, counterexample=example, leaves=ranks)
        return verdict.with_axes(lambda leaf, axis: names[leaf, axis])
    except KeyError:
        return None


def _names_of_axes(rule: TypedRule, case: RuleGraph) -> dict[tuple[int, int], str]:
    """Return names of the axes of the leaves of a rule, by their numbers and places, after leaves
    of a case: those of other leaves have the name of an axis that has to be equal.
    """
    leaves = sorted(rule.graph.leaves, key=lambda leaf: leaf not in case.leaves)
    names: dict[tuple[int, int], str] = {}
    by_class: dict[int, str] = {}
    for leaf in leaves:
        for place, axis in enumerate(rule.tensors[leaf]):
            root = rule.axes.root(axis)
            if leaf in case.leaves:
                names[leaf.number, place] = f"{leaf.name}_{place}"
                by_class.setdefault(root, f"{leaf.name}_{place}")
            elif root in by_class:
                names[leaf.number, place] = by_class[root]
    return names


def _have_same_convolutions(one: TypedRule, two: TypedRule) -> bool:
    """Return whether a rule and a case of it have as many convolutions, in one order then, and as
    many that differ.
    """
    for counted in (lambda axes: axes.channels, distinct_channels):
        if len(counted(one.axes)) != len(counted(two.axes)):
            return False
    return True
