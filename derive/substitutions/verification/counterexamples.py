"""Counterexamples to rules of open sizes: numbers for the axes of all leaves."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from derive.proof.outcome.verdict import PROVED, TESTED
from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.taps import choices_of_taps
from derive.substitutions.graphs.typed_rule import TypedRule, typed, typed_apart
from derive.substitutions.sizes.building import NoExpression, programs
from derive.substitutions.sizes.equations import Unsolvable, Unsolved
from derive.substitutions.sizes.sizing import OpenSizes, Sizing
from derive.substitutions.verification.comparing import differ
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.errors import ShapeError
from einalg.language.index.convert import affine

FAILURES = (Unsolvable, Unsolved, NoExpression, ShapeError)


def differs_with(graph: RuleGraph, example: Mapping[str, int]) -> bool:
    """Return whether both sides differ where leaves have the sizes of an example: `x7_1` is axis 1
    of leaf 7.
    """
    with suppress(Unsolved):
        return _differs_with(typed(graph), example)
    with suppress(Unsolved):
        return _differs_with(typed_apart(graph), example)
    return False


def _differs_with(rule: TypedRule, example: Mapping[str, int]) -> bool:
    """Return the same of a rule with its axes. Raises `Unsolved` where its sizes are not solved."""
    numbers = {}
    for leaf in rule.graph.leaves:
        for place, axis in enumerate(rule.tensors[leaf]):
            number = example.get(f"{leaf.name}_{place}")
            if number is None:
                return False
            numbers[axis] = number
    for taps in choices_of_taps(rule):
        try:
            sizes = OpenSizes(rule, taps)
        except Unsolvable:
            continue
        try:
            sizing = sizes.at(numbers)
            if sizing is not None:
                return differ(*programs(rule, sizing))
        except FAILURES:
            continue
    return False


def confirmed(verdict: RuleVerdict, graph: RuleGraph) -> RuleVerdict:
    """Return a verdict without its counterexample where a proof for numbers does not confirm it."""
    if verdict.counterexample and not differs_with(graph, verdict.counterexample):
        return replace(verdict, counterexample=None)
    return verdict


def with_sizes_of_leaves(verdict: RuleVerdict, rule: TypedRule, sizing: Sizing) -> RuleVerdict:
    """Return a verdict whose counterexample has the sizes of all axes of all leaves, and the groups
    of convolutions.
    """
    if verdict.verdict == PROVED and verdict.condition is None or verdict.verdict == TESTED:
        return verdict
    values = verdict.counterexample or {}
    example: dict[str, int] = {}
    for leaf in rule.graph.leaves:
        for place, axis in enumerate(rule.tensors[leaf]):
            example[f"{leaf.name}_{place}"] = _number(sizing.digits(axis)[0], values)
    for place, (groups, outputs) in enumerate(sizing.groups):
        example |= {f"G{place + 1}": groups, f"P{place + 1}": outputs}
    ranks = {leaf.name: len(rule.tensors[leaf]) for leaf in rule.graph.leaves}
    return replace(verdict, counterexample=example, leaves=ranks)


def _number(extent: Any, values: Mapping[str, int]) -> int:
    """Return an extent at some sizes; sizes that are not there are 1."""
    if type(extent) is int:
        return extent
    form = extent.as_affine()
    numbers = {size: affine(values.get(size.name, 1)) for size in form.sizes}
    return int(form.substitute(numbers).const)
