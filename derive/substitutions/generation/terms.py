"""Programs of a space as graphs: the two sides of a rule, with leaves in the order of first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derive.substitutions.generation.programs.space import AppliedNode, ClassId, ProgramSpace
from derive.substitutions.graphs.graph import Leaf, Operation, Port, RuleGraph, Source


@dataclass(frozen=True)
class ProgramPair:
    """Two programs of one value as a graph, and the shapes of its leaves, which are numbered from 1
    in the order in which they are first used: pairs that are renamings of each other are equal.
    """

    graph: RuleGraph
    shapes: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        before, after = _texts(self.graph)
        return f"{before} => {after}"


Program = ClassId | AppliedNode  # the program that stands for a class, or another one


def pair_of(
    space: ProgramSpace,
    before: Sequence[Program],
    after: Sequence[Program],
    cut: frozenset[ClassId] = frozenset(),
) -> ProgramPair:
    """Return programs, one for each output, and others of the same values as a pair; with leaves in
    the places of the classes that are `cut`.
    """
    writer = _Writer(space, cut)
    sides, sources = [], []
    for programs in (before, after):
        writer.begin()
        sources.append([writer.written(program) for program in programs])
        sides.append(tuple(writer.operations))
    shapes = tuple([space.types[space.classes[inner].type].shape for inner in writer.leaves])
    outputs = tuple(zip(*sources, strict=True))
    return ProgramPair(RuleGraph(sides[0], sides[1], outputs), shapes)


class _Writer:
    """Writes programs of a space as operations."""

    def __init__(self, space: ProgramSpace, cut: frozenset[ClassId]) -> None:
        self.space, self.cut = space, cut
        self.leaves: dict[ClassId, Leaf] = {}
        self.operations: list[Operation] = []
        self._places: dict[tuple[int, tuple[ClassId, ...]], int] = {}

    def begin(self) -> None:
        """Begin a side: it shares leaves with what was written before."""
        self.operations, self._places = [], {}

    def written(self, program: Program) -> Source:
        if not isinstance(program, AppliedNode):
            node = self.space.classes[program].node
            if node is None or program in self.cut:
                return self.leaves.setdefault(program, Leaf(len(self.leaves) + 1))
            program = node
        if program.operation not in self._places:
            inputs = tuple([self.written(place) for place in program.inputs])
            operator = self.space.operators[program.operator]
            self._places[program.operation] = len(self.operations)
            self.operations.append(Operation(operator.name, operator.parameters, inputs))
        return Port(self._places[program.operation], program.output)


def common_parts(
    space: ProgramSpace, nodes: Sequence[AppliedNode], places: Sequence[ClassId]
) -> frozenset[ClassId]:
    """Return the classes that both some programs and those that stand for classes compute."""
    ours: set[ClassId] = set()
    for node in nodes:
        ours = ours.union(*[_computed(space, inner) for inner in node.inputs])
    theirs: set[ClassId] = set()
    for place in places:
        theirs |= _computed(space, place)
    return frozenset(ours & theirs)


def _computed(space: ProgramSpace, place: ClassId) -> set[ClassId]:
    """Return the classes of operations in the program that stands for a class."""
    node = space.classes[place].node
    if node is None:
        return set()
    return {place}.union(*[_computed(space, inner) for inner in node.inputs])


def _texts(graph: RuleGraph) -> list[str]:
    """Return both sides as formulas: `matmul(x1, relu(x2))`."""
    texts = []
    for side, operations in enumerate(graph.sides):
        outputs = [_formula(operations, pair[side]) for pair in graph.outputs]
        texts.append(", ".join(outputs))
    return texts


def _formula(operations: Sequence[Operation], source: Source) -> str:
    if isinstance(source, Leaf):
        return source.name
    operation = operations[source.operation]
    arguments = [_formula(operations, inner) for inner in operation.inputs]
    arguments += [f"{name}={value}" for name, value in operation.parameters if value != "none"]
    text = f"{operation.operator}({', '.join(arguments)})"
    if dict(operation.parameters).get("n", 1) > 1:
        text += f"[{source.output}]"
    return text


def is_in_order(leaves: Sequence[int], shapes: Sequence[object]) -> bool:
    """Return whether the inputs of each shape are used in their order, the first one first.

    >>> is_in_order([2, 0], ["a", "b", "b", "a"]), is_in_order([1, 0], ["a", "b", "b", "a"])
    (False, True)
    """
    places: dict[object, list[int]] = {}
    for number, shape in enumerate(shapes):
        places.setdefault(shape, []).append(number)
    counts: dict[object, int] = {}
    for leaf in leaves:
        shape = shapes[leaf]
        if leaf != places[shape][counts.get(shape, 0)]:
            return False
        counts[shape] = counts.get(shape, 0) + 1
    return True
