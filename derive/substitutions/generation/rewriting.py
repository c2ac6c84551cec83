"""Which equalities follow from rules: programs of one value, connected by rewriting with these.

A rule is matched against classes, whose programs are all known, so that one step may use any number
of equalities of smaller programs. Rules apply in both directions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from derive.substitutions.generation.programs.operators import OperatorChoice
from derive.substitutions.generation.programs.space import AppliedNode, ClassId, ProgramSpace
from derive.substitutions.graphs.graph import Leaf, Operation, RuleGraph, Source
from derive.substitutions.graphs.kinds import KINDS, WrongOperation
from derive.substitutions.graphs.typed_rule import typed

MAX_VISITED = 500  # programs that are looked at from one
Bindings = dict[int, ClassId]


@dataclass(frozen=True)
class PatternLeaf:
    """A leaf of a pattern."""

    number: int


@dataclass(frozen=True)
class PatternNode:
    """An operator of a pattern: the places of those that it may be."""

    operators: tuple[int, ...]
    inputs: tuple[Pattern, ...]
    output: int


Pattern = PatternLeaf | PatternNode


@dataclass(frozen=True)
class LeafRequirement:
    """The tensors that a leaf of a proved rule may be: their rank, and the sizes of some axes, such
    as the taps of a kernel. A rank of None is any.
    """

    rank: int | None
    sizes: tuple[tuple[int, int], ...] = ()

    def is_met(self, shape: Sequence[int]) -> bool:
        if self.rank is not None and len(shape) != self.rank:
            return False
        return all(shape[axis] == size for axis, size in self.sizes)


def requirements(graph: RuleGraph, shapes: Sequence[Sequence[int]]) -> tuple[LeafRequirement, ...]:
    """Return what a proof at open sizes says of the leaves of a rule, which had these shapes."""
    operations = [*graph.before, *graph.after]
    if any(operation.operator not in KINDS for operation in operations):
        return tuple([LeafRequirement(len(shape), tuple(enumerate(shape))) for shape in shapes])
    open_graph = RuleGraph(graph.before, graph.after, graph.outputs)
    try:
        rule = typed(open_graph)
    except WrongOperation:
        return tuple([LeafRequirement(len(shape)) for shape in shapes])
    if has_open_ranks(graph):
        return (LeafRequirement(None),) * len(shapes)
    taps = set(map(rule.axes.root, rule.axes.taps))
    needed = []
    for number, shape in enumerate(shapes):
        sizes = []
        for place, axis in enumerate(rule.tensors.get(Leaf(number + 1), ())):
            if rule.axes.root(axis) in taps:
                sizes.append((place, shape[place]))
        needed.append(LeafRequirement(len(shape), tuple(sizes)))
    return tuple(needed)


def has_open_ranks(graph: RuleGraph) -> bool:
    """Return whether no operator of a rule says how many axes its tensors have."""
    for operation in [*graph.before, *graph.after]:
        kind = KINDS[operation.operator]
        if kind.inputs is not None or kind.rank(dict(operation.parameters)) is not None:
            return False
    return True


def taps_text(graph: RuleGraph, needed: Sequence[LeafRequirement]) -> str:
    """Return the numbers of taps of the leaves that are kernels: `x2: 3x3 taps`."""
    if any(operation.operator not in KINDS for side in graph.sides for operation in side):
        return ""
    texts = []
    for number, requirement in enumerate(needed, start=1):
        if requirement.sizes:
            taps = "x".join([str(size) for _, size in requirement.sizes])
            texts.append(f"x{number}: {taps} taps")
    return ", ".join(texts)


@dataclass(frozen=True)
class DirectedRule:
    """A rule in one direction."""

    before: PatternNode
    after: Pattern
    requirements: tuple[LeafRequirement, ...]


class Rewriting:
    """Rules over a space, and what follows from them."""

    def __init__(self, space: ProgramSpace, commutative: set[int]) -> None:
        self.space, self.commutative = space, commutative
        self.refused: set[AppliedNode] = set()
        self._rewrites: dict[int, list[DirectedRule]] = {}
        self._connected: dict[ClassId, set[AppliedNode]] = {}
        self._places: dict[tuple[str, object], list[int]] = {}
        for place, operator in enumerate(space.operators):
            self._places.setdefault(_key(operator), []).append(place)

    def add(self, graph: RuleGraph, needed: tuple[LeafRequirement, ...]) -> None:
        """Add a proved rule of one output."""
        ((one, two),) = graph.outputs
        patterns = self._pattern(graph.before, one), self._pattern(graph.after, two)
        for before, after in (patterns, patterns[::-1]):
            if isinstance(before, PatternNode) and _variables(after) <= _variables(before):
                for place in before.operators:
                    self._rewrites.setdefault(place, []).append(DirectedRule(before, after, needed))

    def _pattern(self, operations: Sequence[Operation], source: Source) -> Pattern:
        if isinstance(source, Leaf):
            return PatternLeaf(source.number)
        operation = operations[source.operation]
        places = self._places[operation.operator, operation.parameters]
        inputs = tuple([self._pattern(operations, inner) for inner in operation.inputs])
        return PatternNode(tuple(places), inputs, source.output)

    def places(self, operator: str, parameters: object) -> Sequence[int]:
        """Return the places of the operators of a name with some parameters: none, one, or those of
        the shapes of a constant.
        """
        return self._places.get((operator, parameters), ())

    def normal(self, node: AppliedNode) -> AppliedNode:
        """Return a program with its inputs in order where the operator is commutative."""
        if node.operator in self.commutative and node.inputs[0] > node.inputs[1]:
            one, two = node.inputs
            if self.space.classes[one].type == self.space.classes[two].type:
                return AppliedNode(node.operator, (two, one), node.output)
        return node

    def connect(self, node: AppliedNode, place: ClassId) -> None:
        """Say that a program equals the one that stands for its class, by the rules."""
        self._of(place).add(self.normal(node))

    def refuse(self, node: AppliedNode) -> None:
        """Say that the equality of a program and its class is not proved."""
        self.refused.add(self.normal(node))

    def _of(self, place: ClassId) -> set[AppliedNode]:
        if place not in self._connected:
            first = self.space.classes[place].node
            self._connected[place] = set() if first is None else {self.normal(first)}
        return self._connected[place]

    def follows(self, node: AppliedNode, place: ClassId) -> bool:
        """Return whether the rules connect a program with the one that stands for its class."""
        connected = self._of(place)
        start = self.normal(node)
        if start in connected:
            return True
        visited = {start}
        queue = deque([start])
        while queue and len(visited) < MAX_VISITED:
            for other in self._rewritten(queue.popleft()):
                if other == place or other in connected:
                    connected.add(start)
                    return True
                if other in visited or not isinstance(other, AppliedNode):
                    continue
                if self.space.by_node.get(other) == place:
                    visited.add(other)
                    queue.append(other)
        return False

    def _rewritten(self, node: AppliedNode) -> Iterator[AppliedNode | ClassId]:
        """Yield what one step makes of a program: programs, or a class where that is a leaf."""
        for rewrite in self._rewrites.get(node.operator, ()):
            for bindings in self._matches(rewrite.before, node, {}):
                if self._is_allowed(rewrite, bindings):
                    yield from self._roots(rewrite.after, bindings)

    def _is_allowed(self, rewrite: DirectedRule, bindings: Mapping[int, ClassId]) -> bool:
        for number, place in bindings.items():
            shape = self.space.types[self.space.classes[place].type].shape
            if not rewrite.requirements[number - 1].is_met(shape):
                return False
        return True

    def _matches(
        self, pattern: PatternNode, node: AppliedNode, bindings: Bindings
    ) -> Iterator[Bindings]:
        """Yield the classes for variables with which a pattern is a program."""
        if node.output != pattern.output or node.operator not in pattern.operators:
            return
        orders = [node.inputs]
        if node.operator in self.commutative:
            orders.append(node.inputs[::-1])
        for inputs in orders:
            yield from self._inputs_match(pattern.inputs, inputs, bindings)

    def _inputs_match(
        self, patterns: Sequence[Pattern], inputs: Sequence[ClassId], bindings: Bindings
    ) -> Iterator[Bindings]:
        if not patterns:
            yield bindings
            return
        for extended in self._class_matches(patterns[0], inputs[0], bindings):
            yield from self._inputs_match(patterns[1:], inputs[1:], extended)

    def _class_matches(
        self, pattern: Pattern, place: ClassId, bindings: Bindings
    ) -> Iterator[Bindings]:
        if isinstance(pattern, PatternLeaf):
            known = bindings.get(pattern.number)
            if known is None:
                yield {**bindings, pattern.number: place}
            elif known == place:
                yield bindings
            return
        for node in self.space.classes[place].nodes:
            if node.operator in pattern.operators and node not in self.refused:
                yield from self._matches(pattern, node, bindings)

    def _roots(self, pattern: Pattern, bindings: Bindings) -> Iterator[AppliedNode | ClassId]:
        """Yield the programs that a pattern is, where its parts are known."""
        if isinstance(pattern, PatternLeaf):
            yield bindings[pattern.number]
            return
        parts = [list(self._classes_of(inner, bindings)) for inner in pattern.inputs]
        for inputs in product(*parts):
            for operator in pattern.operators:
                yield self.normal(AppliedNode(operator, inputs, pattern.output))

    def _classes_of(self, pattern: Pattern, bindings: Bindings) -> Iterator[ClassId]:
        for root in self._roots(pattern, bindings):
            if not isinstance(root, AppliedNode):
                yield root
            elif root in self.space.by_node and root not in self.refused:
                yield self.space.by_node[root]


def _key(operator: OperatorChoice) -> tuple[str, object]:
    return operator.name, operator.parameters


def _variables(pattern: Pattern) -> set[int]:
    if isinstance(pattern, PatternLeaf):
        return {pattern.number}
    return {number for inner in pattern.inputs for number in _variables(inner)}
