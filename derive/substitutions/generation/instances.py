"""Rules of others over a space: whether they follow from those that were generated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from operator import attrgetter
from typing import Any

import numpy as np

from derive.substitutions.generation.programs.evaluating import is_defined
from derive.substitutions.generation.programs.space import AppliedNode, ClassId, ProgramSpace
from derive.substitutions.generation.rewriting import Rewriting
from derive.substitutions.graphs.graph import Leaf, Operation, Port, RuleGraph, Source
from einalg.language.interpreters.prime_field.modular import Array

Derived = tuple[ClassId, bool]  # a class, and whether rules connect the program with it


class RuleInstances:
    """Rules over the inputs of a space, each leaf an input of its shape. Programs that the space
    does not have are evaluated, and put into it.
    """

    def __init__(self, space: ProgramSpace, rewriting: Rewriting) -> None:
        self.space, self.rewriting = space, rewriting

    def follows(self, graph: RuleGraph) -> bool | None:
        """Return whether each output of a rule follows from the rules of the space; None where the
        space has no program of the rule: it is of other operators or inputs.
        """
        verdicts = [self._output_follows(graph, pair) for pair in graph.outputs]
        return None if None in verdicts else all(verdicts)

    def _output_follows(self, graph: RuleGraph, pair: tuple[Source, Source]) -> bool | None:
        """Return whether an output follows: for some order of the inputs of each shape, as programs
        are looked at for one order only.
        """
        is_known = False
        for leaves in self._choices_of_leaves(graph, pair):
            sides = []
            for side, operations in enumerate(graph.sides):
                sides.append(self._connections(operations, pair[side], leaves))
            is_known |= all(map(bool, sides))
            common = sides[0].keys() & sides[1].keys()
            if any(sides[0][place] and sides[1][place] for place in common):
                return True
        return False if is_known else None

    def _choices_of_leaves(
        self, graph: RuleGraph, pair: tuple[Source, Source]
    ) -> Iterator[dict[Leaf, ClassId]]:
        """Yield inputs for the leaves that an output reads, whose shapes the rule has to give: the
        first ones of each shape, in every order.
        """
        shapes = dict(graph.shapes)
        leaves: dict[Any, list[Leaf]] = {}
        for side in (0, 1):
            for leaf in sorted(_leaves_of(graph.sides[side], pair[side]), key=attrgetter("number")):
                same = leaves.setdefault(shapes.get(leaf.number), [])
                if leaf not in same:
                    same.append(leaf)
        orders = []
        for shape, same in leaves.items():
            fitting = [place for place, one in enumerate(self.space.inputs) if one == shape]
            orders.append(list(permutations(fitting[: len(same)], len(same))))
        for order in product(*orders):
            chosen = [place for part in order for place in part]
            yield dict(zip([leaf for same in leaves.values() for leaf in same], chosen))

    def _connections(
        self, operations: Sequence[Operation], source: Source, leaves: Mapping[Leaf, ClassId]
    ) -> dict[ClassId, bool]:
        """Return the classes that a tensor may be, and whether rules connect with each."""
        connections: dict[ClassId, bool] = {}
        for place, is_connected in self._classes(operations, source, leaves):
            connections[place] = is_connected or connections.get(place, False)
        return connections

    def _classes(
        self, operations: Sequence[Operation], source: Source, leaves: Mapping[Leaf, ClassId]
    ) -> Iterator[Derived]:
        """Yield the classes that a tensor of a side may be: a constant has any shape."""
        if not isinstance(source, Port):
            yield leaves[source], True
            return
        operation = operations[source.operation]
        places = self.rewriting.places(operation.operator, operation.parameters)
        inputs = []
        for inner in operation.inputs:
            inputs.append(list(self._connections(operations, inner, leaves).items()))
        for parts in product(*inputs):
            ids = tuple([place for place, _ in parts])
            for operator in places:
                node = self.rewriting.normal(AppliedNode(operator, ids, source.output))
                place = self._place_of(node)
                if place is not None:
                    is_connected = all(connected for _, connected in parts)
                    yield (
                        place,
                        is_connected and self.rewriting.follows([node], [place], self._place_of),
                    )

    def _place_of(self, node: AppliedNode) -> ClassId | None:
        """Return the class of a program, in which it is then; None where it has no value."""
        space = self.space
        if node not in space.by_node:
            types = tuple([space.classes[place].type for place in node.inputs])
            application = space.application(node.operator, types)
            if application is None:
                return None
            kind = application.results[node.output]
            values = self._evaluated(node)
            if not is_defined(values, space.field).all():
                return None
            (key,) = space.random.fingerprints(kind, values)
            space.add(node, kind, int(key), values[0])
        return space.by_node[node]

    def _evaluated(self, node: AppliedNode) -> Array:
        """Return the value of a program, as that of one: values of the largest programs are kept
        when they are first read.
        """
        space = self.space
        for place in node.inputs:
            one = space.classes[place]
            if one.values is None:
                assert one.node is not None
                (one.values,) = self._evaluated(one.node)
        types = tuple([space.classes[place].type for place in node.inputs])
        application = space.application(node.operator, types)
        assert application is not None
        return space.evaluated(application, [np.array([place]) for place in node.inputs])[
            node.output
        ]


def _leaves_of(operations: Sequence[Operation], source: Source) -> set[Leaf]:
    if isinstance(source, Leaf):
        return {source}
    inputs = operations[source.operation].inputs
    return {leaf for inner in inputs for leaf in _leaves_of(operations, inner)}
