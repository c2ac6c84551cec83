"""A quick look for sizes at which a rule does not hold, before a proof is sought."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from derive.proof.outcome.verdict import DIFFERENT
from derive.proof.random.refutation import is_refuted
from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.kinds import WrongOperation
from derive.substitutions.graphs.taps import choices_of_taps
from derive.substitutions.graphs.typed_rule import typed
from derive.substitutions.sizes.building import NoExpression, programs
from derive.substitutions.sizes.equations import Unsolvable, Unsolved
from derive.substitutions.sizes.sizing import OpenSizes
from derive.substitutions.verification.comparing import Sides, at_sizes
from derive.substitutions.verification.counterexamples import with_sizes_of_leaves
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.errors import ShapeError

NUMBER = 4  # for every size: rules under the condition that some are equal hold there
REASON = "different at random inputs"
FAILURES = (NoExpression, ShapeError, Unsolvable, Unsolved, WrongOperation, ValueError)


def quick_refutation(name: str, graph: RuleGraph, seed: int = 0) -> RuleVerdict | None:
    """Return the verdict on a rule whose sides differ at random inputs where all sizes are equal
    and each convolution has one group; None where they agree there, or have no such sizes.

    It may be one that holds for smaller sizes, or under a condition that one group does not meet.
    """
    for example, sides in _sides_of_one_group(graph):
        one, two = [[side[output] for output in side.outputs] for side in sides]
        for ours, theirs in zip(one, two):
            if ours.shape == theirs.shape and is_refuted(ours, theirs, seed):
                return replace(example, rule=name)
        return None
    return None


def _sides_of_one_group(graph: RuleGraph) -> Iterator[tuple[RuleVerdict, Sides]]:
    """Yield both sides at numbers for their sizes, with the verdict where they differ."""
    try:
        rule = typed(graph)
    except WrongOperation:
        return
    for taps in choices_of_taps(rule):
        try:
            sizing = OpenSizes(rule, taps).of_one_group()
            sides = programs(rule, sizing)
            numbers = dict.fromkeys({**sides[0].sizes, **sides[1].sizes}, NUMBER)
            different = RuleVerdict("", DIFFERENT, counterexample=numbers, coverage=REASON)
            yield with_sizes_of_leaves(different, rule, sizing), at_sizes(sides, numbers)
        except FAILURES:
            continue
