"""Rules up to the names of their leaves: those that differ by these only are decided once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.substitutions.graphs.graph import Leaf, Operation, RuleGraph, Source
from derive.substitutions.graphs.taps import axes_of_taps
from derive.substitutions.graphs.typed_rule import typed

Shapes = tuple[tuple[int, tuple[int, ...]], ...]


def with_ordered_leaves(graph: RuleGraph) -> tuple[RuleGraph, dict[int, int]]:
    """Return a rule whose leaves are numbered from 1 in the order in which they are read, and the
    number that each of these had. Of shapes there is what a proof depends on: ranks, and taps.
    Raises `WrongOperation` where ranks or axes do not fit.

    >>> from derive.substitutions.graphs.graph import Port
    >>> add = Operation("ewadd", (), (Leaf(7), Leaf(3)))
    >>> rule = RuleGraph((add,), (add,), ((Port(0), Port(0)),), ((3, (2, 4)), (7, (2, 4))))
    >>> ordered, numbers = with_ordered_leaves(rule)
    >>> ordered.before[0].inputs, ordered.shapes, numbers
    ((Leaf(number=1), Leaf(number=2)), ((1, (1, 1)), (2, (1, 1))), {1: 7, 2: 3})
    """
    numbers = {leaf: place for place, leaf in enumerate(graph.leaves, start=1)}
    before, after = [_renamed(operations, numbers) for operations in graph.sides]
    outputs = []
    for one, two in graph.outputs:
        outputs.append((_source(one, numbers), _source(two, numbers)))
    ordered = RuleGraph(before, after, tuple(outputs), _shapes(graph, numbers))
    return ordered, {place: leaf.number for leaf, place in numbers.items()}


def without_sizes(graph: RuleGraph) -> RuleGraph:
    """Return a rule whose shapes say how many axes leaves have, and nothing of their sizes."""
    shapes = tuple([(number, (1,) * len(shape)) for number, shape in graph.shapes])
    return RuleGraph(graph.before, graph.after, graph.outputs, shapes)


def _renamed(operations: Sequence[Operation], numbers: Mapping[Leaf, int]) -> tuple[Operation, ...]:
    renamed = []
    for one in operations:
        inputs = tuple([_source(source, numbers) for source in one.inputs])
        parameters = tuple([pair for pair in one.parameters if pair != ("act", "none")])
        renamed.append(Operation(one.operator, parameters, inputs))
    return tuple(renamed)


def _source(source: Source, numbers: Mapping[Leaf, int]) -> Source:
    return Leaf(numbers[source]) if isinstance(source, Leaf) else source


def _shapes(graph: RuleGraph, numbers: Mapping[Leaf, int]) -> Shapes:
    """Return the shapes of leaves with 1 for the sizes of axes that count no taps."""
    given = dict(graph.shapes)
    rule = typed(graph)
    taps = axes_of_taps(rule)
    shapes = []
    for leaf, number in numbers.items():
        if leaf.number not in given:
            continue
        shape = given[leaf.number]
        roots = list(map(rule.axes.root, rule.tensors[leaf]))
        if len(roots) == len(shape):
            shape = tuple([size if root in taps else 1 for root, size in zip(roots, shape)])
        shapes.append((number, shape))
    return tuple(shapes)
