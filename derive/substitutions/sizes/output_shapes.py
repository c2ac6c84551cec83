"""The sizes at which both sides of a rule have outputs of one shape.

Sides are compared at these. Where the operators of a rule do not demand them, they are a condition:
a window without padding gives as much as one with padding where it has one tap.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.taps import stated_taps
from derive.substitutions.graphs.typed_rule import TypedRule, typed_apart
from derive.substitutions.sizes.equations import Equations, Unsolvable, Unsolved
from derive.substitutions.sizes.sizing import OpenSizes, Sizing
from einalg.language.analysis.sizes import where_all_hold
from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.size import Size


@dataclass(frozen=True, eq=False)
class OutputShapes:
    """A rule of whose outputs nothing is demanded, and its sizes: those that are `allowed` by its
    operators, and of these the `equal` ones, at which both sides have outputs of one shape; both
    are isl sets.
    """

    rule: TypedRule
    sizing: Sizing
    allowed: Any
    equal: Any


def output_shapes(graph: RuleGraph) -> OutputShapes | None:
    """Return the sizes at which both sides of a rule have outputs of one shape; None where that is
    so at all sizes that its operators allow, or this is not known.

    >>> from derive.substitutions.files.checking import checked_graph, operation
    >>> from derive.substitutions.graphs.graph import Leaf, Port
    >>> x = Leaf(1)
    >>> sides = [operation("transpose", {"perm": [1, 0]}, [x])], [operation("relu", {}, [x])]
    >>> graph = checked_graph("square", sides, [(Port(0), Port(0))], {})
    >>> output_shapes(graph).equal.gist(output_shapes(graph).allowed)
    Set("[x1_1, x1_0] -> {  : x1_0 = x1_1 }")
    """
    with suppress(Unsolvable, Unsolved):
        rule = typed_apart(graph)
        sizes = OpenSizes(rule, stated_taps(rule))
        of_leaves = _sizes_of_leaves(rule, sizes)
        pairs = list(_open_pairs(rule, sizes, of_leaves))
        sizing = next(sizes.general(), None)
        if pairs and sizing is not None:
            extents = [sizes.form(axis) for axes in rule.tensors.values() for axis in axes]
            known = [form for form in extents if form.sizes <= of_leaves]
            allowed = where_all_hold([Constraint(affine(form - 1), ">=") for form in known])
            alike = [Constraint(affine(one - two), "==") for one, two in pairs]
            return OutputShapes(rule, sizing, allowed, allowed.intersect(where_all_hold(alike)))
    return None


def _sizes_of_leaves(rule: TypedRule, sizes: OpenSizes) -> frozenset[Size]:
    """Return the sizes that the shapes of the leaves consist of."""
    found: set[Size] = set()
    for leaf in rule.graph.leaves:
        for axis in rule.tensors[leaf]:
            found |= sizes.form(axis).sizes
    return frozenset(found)


def has_sizes_of_leaves(rule: TypedRule, sizes: OpenSizes) -> bool:
    """Return whether the shapes of all tensors of a rule consist of sizes that leaves have."""
    of_leaves = _sizes_of_leaves(rule, sizes)
    axes = [axis for tensor in rule.tensors.values() for axis in tensor]
    return all(sizes.form(axis).sizes <= of_leaves for axis in axes)


def _open_pairs(
    rule: TypedRule, sizes: OpenSizes, of_leaves: frozenset[Size]
) -> Iterator[tuple[Affine, Affine]]:
    """Yield the sizes of an axis of both sides that the sizes of the leaves may make different.

    Constants have the sizes that make them equal.
    """
    equations: Equations = sizes.equations.copy()
    equations.fixed |= of_leaves
    for before, after in rule.graph.outputs:
        for axes in zip(rule.of(0, before), rule.of(1, after), strict=True):
            one, two = (sizes.form(axis, equations) for axis in axes)
            if one == two:
                continue
            if one.sizes | two.sizes <= of_leaves:
                yield one, two
            else:
                equations.require(one, two)
