"""The ranks and axes of the tensors of a rule, from its operators alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from derive.substitutions.graphs.axes import Axes, Axis
from derive.substitutions.graphs.graph import Leaf, Operation, Port, RuleGraph, Source
from derive.substitutions.graphs.kinds import KINDS, SCALAR_INPUTS, WrongOperation

# Of tensors of which every operator takes any number of axes: what is equal at this rank is so at
# any, as no operator tells axes apart but those that it names.
DEFAULT_RANK = 2
MAX_TYPED = 2**12
Key = Leaf | tuple[int, Port]  # a port with the number of its side


@dataclass(frozen=True)
class TypedRule:
    """A rule with the axes of each tensor."""

    graph: RuleGraph
    axes: Axes
    tensors: Mapping[Key, list[Axis]]

    def of(self, side: int, source: Source) -> list[Axis]:
        return self.tensors[key_of(side, source)]


def key_of(side: int, source: Source) -> Key:
    return source if isinstance(source, Leaf) else (side, source)


def operations(graph: RuleGraph) -> Iterator[tuple[int, int, Operation]]:
    """Yield the operations with their side and their place in it."""
    for side, operations in enumerate(graph.sides):
        for place, operation in enumerate(operations):
            yield side, place, operation


@lru_cache(maxsize=MAX_TYPED)  # each step of a proof asks for it
def typed(graph: RuleGraph) -> TypedRule:
    """Return the axes of all tensors of a rule, whose sides have outputs of one shape. Raises
    `WrongOperation` where ranks or axes do not fit.
    """
    axes, tensors = _axes_of_sides(graph)
    for before, after in graph.outputs:
        axes.equate_all(tensors[key_of(0, before)], tensors[key_of(1, after)])
    axes.close()
    return TypedRule(graph, axes, tensors)


def typed_apart(graph: RuleGraph) -> TypedRule:
    """Return the same where nothing is demanded but by the operators of either side."""
    axes, tensors = _axes_of_sides(graph)
    axes.close()
    return TypedRule(graph, axes, tensors)


def _axes_of_sides(graph: RuleGraph) -> tuple[Axes, dict[Key, list[Axis]]]:
    """Return the axes of the tensors of both sides, with what the operators demand of them."""
    ranks = _ranks(graph)
    axes = Axes()
    tensors: dict[Key, list[Axis]] = {}
    for leaf in graph.leaves:
        tensors[leaf] = axes.several(ranks[leaf])
    for side, place, operation in operations(graph):
        parameters = dict(operation.parameters)
        if operation.operator == "const_one":
            parameters["ndim"] = ranks[side, Port(place)]
        inputs = [tensors[key_of(side, source)] for source in operation.inputs]
        try:
            results = KINDS[operation.operator].axes(axes, parameters, inputs)
        except WrongOperation as error:
            raise WrongOperation(f"{operation.operator} {error}") from None
        for number, result in enumerate(results):
            tensors[side, Port(place, number)] = result
    return axes, tensors


class _Ranks:
    """Classes of tensors of one rank."""

    def __init__(self) -> None:
        self._parents: dict[Key, Key] = {}
        self.numbers: dict[Key, int] = {}

    def root(self, key: Key) -> Key:
        while self._parents.get(key, key) != key:
            key = self._parents[key]
        return key

    def set(self, key: Key, rank: int) -> None:
        known = self.numbers.setdefault(self.root(key), rank)
        if known != rank:
            raise WrongOperation(f"a tensor has {known} axes in one place and {rank} in another")

    def equate(self, one: Key, two: Key) -> None:
        first, second = self.root(one), self.root(two)
        if first == second:
            return
        self._parents[second] = first
        if second in self.numbers:
            self.set(first, self.numbers.pop(second))


def _ranks(graph: RuleGraph) -> dict[Key, int]:
    """Return the rank of every tensor."""
    ranks = _Ranks()
    keys: dict[Key, None] = dict.fromkeys(graph.leaves)
    least: list[tuple[Key, int]] = []
    for side, place, operation in operations(graph):
        results = list(_results(side, place, operation))
        inputs = [key_of(side, source) for source in operation.inputs]
        keys.update(dict.fromkeys(results))
        _relate(ranks, operation, inputs, results)
        if "axis" in dict(operation.parameters):
            least.append((results[0], dict(operation.parameters)["axis"] + 1))
    for before, after in graph.outputs:
        ranks.equate(key_of(0, before), key_of(1, after))
    for number, shape in graph.shapes:
        if Leaf(number) in keys and ranks.root(Leaf(number)) not in ranks.numbers:
            ranks.set(Leaf(number), len(shape))
    for key in keys:
        if ranks.root(key) not in ranks.numbers:
            wanted = [rank for other, rank in least if ranks.root(other) == ranks.root(key)]
            ranks.set(key, max([DEFAULT_RANK, *wanted]))
    return {key: ranks.numbers[ranks.root(key)] for key in keys}


def _results(side: int, place: int, operation: Operation) -> Iterator[Key]:
    for port in operation.results(place):
        yield side, port


def _relate(ranks: _Ranks, operation: Operation, inputs: list[Key], results: list[Key]) -> None:
    """Say what an operator demands of the ranks of what it reads and gives."""
    kind = KINDS[operation.operator]
    if kind.inputs is not None:
        for key, rank in zip(inputs, kind.inputs):
            ranks.set(key, rank)
        if kind.result is not None:
            ranks.set(results[0], kind.result)
        return
    scalar = SCALAR_INPUTS.get(operation.operator)
    for position, key in enumerate(inputs):
        if position == scalar:
            ranks.set(key, 0)
        else:
            ranks.equate(results[0], key)
    for other in results[1:]:
        ranks.equate(results[0], other)
    rank = kind.rank(dict(operation.parameters))
    if rank is not None:
        ranks.set(results[0], rank)
