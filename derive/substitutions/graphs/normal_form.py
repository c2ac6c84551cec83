"""Rules up to the numbers of their leaves and the sizes that are left open: equal forms have equal
verdicts.
"""

from __future__ import annotations

from dataclasses import replace

from derive.substitutions.graphs.graph import Leaf, Operation, RuleGraph, Source
from derive.substitutions.graphs.taps import stated_taps
from derive.substitutions.graphs.typed_rule import TypedRule

OPEN = 0  # for a size that the file gives, and that the rule leaves open


def normal_form(rule: TypedRule) -> RuleGraph:
    """Return the graph of a rule with its leaves numbered in the order of their first use, and in
    the shapes of leaves nothing but what the rule takes from there: their ranks, and taps.
    """
    graph = rule.graph
    leaves: dict[Source, Leaf] = {}
    shapes = []
    for number, leaf in enumerate(graph.leaves, 1):
        leaves[leaf] = Leaf(number)
        shapes.append((number, _shape(rule, leaf)))
    before, after = [_renamed(operations, leaves) for operations in graph.sides]
    outputs = tuple([(leaves.get(one, one), leaves.get(two, two)) for one, two in graph.outputs])
    return RuleGraph(before, after, outputs, tuple(shapes))


def _shape(rule: TypedRule, leaf: Leaf) -> tuple[int, ...]:
    stated = stated_taps(rule)
    return tuple([stated.get(rule.axes.root(axis), OPEN) for axis in rule.tensors[leaf]])


def _renamed(
    operations: tuple[Operation, ...], leaves: dict[Source, Leaf]
) -> tuple[Operation, ...]:
    renamed = []
    for operation in operations:
        inputs = tuple([leaves.get(source, source) for source in operation.inputs])
        renamed.append(replace(operation, inputs=inputs))
    return tuple(renamed)
