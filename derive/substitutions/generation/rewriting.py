"""Which equalities follow from rules: programs of one value, connected by rewriting with these.

A rule is matched against classes, whose programs are all known, so that one step may use any number
of equalities of smaller programs. Rules apply in both directions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product

from derive.substitutions.generation.programs.operators import OperatorChoice
from derive.substitutions.generation.programs.space import AppliedNode, ClassId, ProgramSpace
from derive.substitutions.graphs.graph import Leaf, Operation, RuleGraph, Source
from derive.substitutions.graphs.kinds import KINDS, WrongOperation
from derive.substitutions.graphs.taps import axes_of_taps
from derive.substitutions.graphs.typed_rule import typed
from einalg.language.index.size import Size

MAX_VISITED = 500  # programs that are looked at from one
MAX_GRAPHS = 2**16  # whose axes are kept
Bindings = dict[int, ClassId]
PlaceOf = Callable[[AppliedNode], ClassId | None]  # the class of a program, None where unknown


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
    as the taps of a kernel. A rank of None is any; a symbolic size is any number that it may be,
    and the same one wherever it stands.
    """

    rank: int | None
    sizes: tuple[tuple[int, int | Size], ...] = ()

    def is_met(self, shape: Sequence[int], known: dict[Size, int]) -> bool:
        """Return whether a shape is allowed, where some sizes are known; add those that it has."""
        if self.rank is not None and len(shape) != self.rank:
            return False
        for axis, size in self.sizes:
            if isinstance(size, Size):
                if known.setdefault(size, shape[axis]) != shape[axis] or not _may_be(
                    size, shape[axis]
                ):
                    return False
            elif shape[axis] != size:
                return False
        return True


def _may_be(size: Size, number: int) -> bool:
    if number < size.at_least or number % size.multiple_of:
        return False
    return size.at_most is None or number <= size.at_most


def requirements(
    graph: RuleGraph, shapes: Sequence[Sequence[int | Size]]
) -> tuple[LeafRequirement, ...]:
    """Return what a proof says of the leaves of a rule, which had these shapes: at open sizes for
    operators of rule files.
    """
    operations = [*graph.before, *graph.after]
    if any(operation.operator not in KINDS for operation in operations):
        return tuple([LeafRequirement(len(shape), tuple(enumerate(shape))) for shape in shapes])
    if has_open_ranks(graph):
        return (LeafRequirement(None),) * len(shapes)
    taps = _axes_of_taps(RuleGraph(graph.before, graph.after, graph.outputs))
    needed = []
    for number, shape in enumerate(shapes, start=1):
        sizes = tuple([(axis, shape[axis]) for axis in taps.get(number, ())])
        needed.append(LeafRequirement(len(shape), sizes))
    return tuple(needed)


@lru_cache(maxsize=MAX_GRAPHS)
def _axes_of_taps(graph: RuleGraph) -> Mapping[int, tuple[int, ...]]:
    """Return the axes of leaves, by their numbers, that count taps."""
    try:
        rule = typed(graph)
    except WrongOperation:
        return {}
    taps = axes_of_taps(rule)
    places: dict[int, tuple[int, ...]] = {}
    for leaf in graph.leaves:
        axes = enumerate(rule.tensors[leaf])
        places[leaf.number] = tuple([place for place, axis in axes if rule.axes.root(axis) in taps])
    return places


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


@dataclass(frozen=True)
class JointRule:
    """A rule of several outputs: the patterns of both sides, one for each output."""

    before: tuple[Pattern, ...]
    after: tuple[Pattern, ...]
    requirements: tuple[LeafRequirement, ...]


class Rewriting:
    """Rules over a space, and what follows from them; `size` is that of the programs that are
    looked at.
    """

    def __init__(self, space: ProgramSpace, commutative: set[int]) -> None:
        self.space, self.commutative, self.size = space, commutative, 1
        self.refused: set[AppliedNode] = set()
        self._sizes: dict[AppliedNode, int] = {}
        self._rewrites: dict[int, list[DirectedRule]] = {}
        self._joint: list[JointRule] = []
        self._connected: dict[ClassId, set[AppliedNode]] = {}
        self._places: dict[tuple[str, object], list[int]] = {}
        for place, operator in enumerate(space.operators):
            self._places.setdefault(_key(operator), []).append(place)

    def add(self, graph: RuleGraph, needed: tuple[LeafRequirement, ...]) -> None:
        """Add a proved rule; one of several outputs leads from its left side to its right one."""
        befores = tuple([self._pattern(graph.before, source) for source, _ in graph.outputs])
        afters = tuple([self._pattern(graph.after, source) for _, source in graph.outputs])
        if len(graph.outputs) > 1:
            self._joint.append(JointRule(befores, afters, needed))
            return
        patterns = befores[0], afters[0]
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

    def connect(self, nodes: Sequence[AppliedNode], places: Sequence[ClassId]) -> None:
        """Say that a program equals the one that stands for its class, by the rules. What is said
        of several programs together says that of none.
        """
        if len(nodes) == 1:
            self._of(places[0]).add(self.normal(nodes[0]))

    def refuse(self, nodes: Sequence[AppliedNode]) -> None:
        """Say that the equality of a program and its class is not proved."""
        if len(nodes) == 1:
            self.refused.add(self.normal(nodes[0]))

    def _of(self, place: ClassId) -> set[AppliedNode]:
        if place not in self._connected:
            first = self.space.classes[place].node
            self._connected[place] = set() if first is None else {self.normal(first)}
        return self._connected[place]

    def follows(
        self,
        nodes: Sequence[AppliedNode],
        places: Sequence[ClassId],
        place_of: PlaceOf | None = None,
    ) -> bool:
        """Return whether the rules connect a program with the one that stands for its class, or
        lead from those of several classes to as many programs. On the way are programs of the
        space, or those that `place_of` knows.
        """
        if len(nodes) > 1:
            return self._follow_jointly(nodes, places)
        return self._follows(nodes[0], places[0], place_of or self.space.by_node.get)

    def _follows(self, node: AppliedNode, place: ClassId, place_of: PlaceOf) -> bool:
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
                if place_of(other) == place:
                    visited.add(other)
                    queue.append(other)
        return False

    def _follow_jointly(self, nodes: Sequence[AppliedNode], places: Sequence[ClassId]) -> bool:
        """Return whether a rule of several outputs leads from classes to these programs of them."""
        wanted = list(map(self.normal, nodes))
        for rule in self._joint:
            for order in permutations(range(len(places))):
                if len(rule.before) == len(order) and self._leads(
                    rule, [places[number] for number in order], [wanted[n] for n in order]
                ):
                    return True
        return False

    def _leads(
        self, rule: JointRule, places: Sequence[ClassId], nodes: Sequence[AppliedNode]
    ) -> bool:
        matches: list[Bindings] = [{}]
        for pattern, place in zip(rule.before, places):
            longer: list[Bindings] = []
            for bindings in matches:
                longer += self._class_matches(pattern, place, bindings)
            matches = longer
        for bindings in matches:
            if self._are_met(rule.requirements, bindings):
                roots = [self._roots(pattern, bindings) for pattern in rule.after]
                if all(node in one for node, one in zip(nodes, roots)):
                    return True
        return False

    def _rewritten(self, node: AppliedNode) -> Iterator[AppliedNode | ClassId]:
        """Yield what one step makes of a program: programs, or a class where that is a leaf."""
        for rewrite in self._rewrites.get(node.operator, ()):
            for bindings in self._matches(rewrite.before, node, {}):
                if self._are_met(rewrite.requirements, bindings):
                    yield from self._roots(rewrite.after, bindings)

    def _are_met(self, needed: Sequence[LeafRequirement], bindings: Bindings) -> bool:
        known: dict[Size, int] = {}
        for number, place in bindings.items():
            shape = self.space.types[self.space.classes[place].type].shape
            if not needed[number - 1].is_met(shape, known):
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
            if node.operator in pattern.operators and self._is_settled(node, place):
                yield from self._matches(pattern, node, bindings)

    def _is_settled(self, node: AppliedNode, place: ClassId) -> bool:
        """Return whether the rules say that a program equals the one that stands for its class; of
        programs as large as those that are looked at, some are not looked at yet.
        """
        if node in self.refused:
            return False
        if self._size_of(node) < self.size:
            return True
        return self.normal(node) in self._of(place)

    def _size_of(self, node: AppliedNode) -> int:
        if node not in self._sizes:
            self._sizes[node] = len(self.space.operations_of(node))
        return self._sizes[node]

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
            elif root in self.space.by_node and self._is_settled(root, self.space.by_node[root]):
                yield self.space.by_node[root]


def _key(operator: OperatorChoice) -> tuple[str, object]:
    return operator.name, operator.parameters


def _variables(pattern: Pattern) -> set[int]:
    if isinstance(pattern, PatternLeaf):
        return {pattern.number}
    return {number for inner in pattern.inputs for number in _variables(inner)}
