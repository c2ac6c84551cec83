"""Rules of others over a space: whether they follow from those that were generated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from derive.substitutions.generation.programs.space import AppliedNode, ClassId, ProgramSpace
from derive.substitutions.generation.rewriting import Rewriting
from derive.substitutions.graphs.graph import Leaf, Operation, Port, RuleGraph, Source

Derived = tuple[ClassId, bool]  # a class, and whether rules connect the program with it


class RuleInstances:
    """Rules over the inputs of a space, each leaf an input of its shape."""

    def __init__(self, space: ProgramSpace, rewriting: Rewriting) -> None:
        self.space, self.rewriting = space, rewriting

    def follows(self, graph: RuleGraph) -> bool | None:
        """Return whether each output of a rule follows from the rules of the space; None where the
        space has no program of the rule: it is too large, or of other operators or inputs.
        """
        results = []
        for pair in graph.outputs:
            leaves = self._leaves(graph, pair)
            if leaves is None:
                return None
            sides = []
            for side, operations in enumerate(graph.sides):
                sides.append(dict(self._classes(operations, pair[side], leaves)))
            if not all(sides):
                return None
            common = sides[0].keys() & sides[1].keys()
            results.append(any(sides[0][place] and sides[1][place] for place in common))
        return all(results)

    def _leaves(self, graph: RuleGraph, pair: tuple[Source, Source]) -> dict[Leaf, ClassId] | None:
        """Return an input for each leaf that an output reads, whose shapes the rule has to give:
        the first ones for those that both sides read.
        """
        shapes = dict(graph.shapes)
        free = dict(enumerate(self.space.inputs))
        one, two = [_leaves_of(graph.sides[side], pair[side]) for side in (0, 1)]
        leaves: dict[Leaf, ClassId] = {}
        for leaf in sorted(one | two, key=lambda leaf: (leaf not in one & two, leaf.number)):
            fitting = [number for number, shape in free.items() if shape == shapes.get(leaf.number)]
            if not fitting:
                return None
            leaves[leaf] = fitting[0]
            del free[fitting[0]]
        return leaves

    def _classes(
        self, operations: Sequence[Operation], source: Source, leaves: Mapping[Leaf, ClassId]
    ) -> Iterator[Derived]:
        """Yield the classes that a tensor of a side may be: a constant has any shape."""
        if not isinstance(source, Port):
            yield leaves[source], True
            return
        operation = operations[source.operation]
        places = self.rewriting.places(operation.operator, operation.parameters)
        inputs = [list(self._classes(operations, inner, leaves)) for inner in operation.inputs]
        for parts in product(*inputs):
            ids = tuple([place for place, _ in parts])
            for operator in places:
                node = self.rewriting.normal(AppliedNode(operator, ids, source.output))
                place = self.space.by_node.get(node)
                if place is not None:
                    is_connected = all(connected for _, connected in parts)
                    yield place, is_connected and self.rewriting.follows([node], [place])


def _leaves_of(operations: Sequence[Operation], source: Source) -> set[Leaf]:
    if isinstance(source, Leaf):
        return {source}
    inputs = operations[source.operation].inputs
    return {leaf for inner in inputs for leaf in _leaves_of(operations, inner)}
