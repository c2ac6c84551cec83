"""Pairs of programs that share work, in place of two that do not.

`split(concat(x1, x2))[0]` reads an input on which its value does not depend. No rule of one output
leads to such a program, as what it replaces does not say what else is read; another output does:
`relu(x1)` and `relu(x2)` are both parts of `split(relu(concat(x1, x2)))`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from derive.substitutions.generation.programs.growing import GoesOn
from derive.substitutions.generation.programs.movements import Movements
from derive.substitutions.generation.programs.space import (
    AppliedNode,
    ClassId,
    Operation,
    ProgramSpace,
)


class ValuedPrograms(NamedTuple):
    """Programs, one for each output, and the classes of their values."""

    nodes: tuple[AppliedNode, ...]
    places: tuple[ClassId, ...]


class JointEnumeration:
    """The pairs of programs of a space that share work, by the number of their operations."""

    def __init__(self, space: ProgramSpace) -> None:
        self.space = space
        self._movements = Movements(space)
        self._users: dict[Operation, dict[AppliedNode, None]] = {}
        self._open: dict[AppliedNode, frozenset[Operation]] = {}  # with what they share

    def add(self, repeated: Iterable[tuple[AppliedNode, ClassId]]) -> None:
        """Add programs of values that others had before."""
        for node, place in repeated:
            operations = self.space.operations_of(node)
            for operation in operations:
                self._users.setdefault(operation, {})[node] = None
            others = self._leaves(node) - set(self.space.classes[place].leaves)
            if others:
                self._open[node] = frozenset(
                    [one for one in operations if self._reads(one, others)]
                )

    def _leaves(self, node: AppliedNode) -> set[int]:
        return set(self.space.leaves_of(node.inputs))

    def _reads(self, operation: Operation, leaves: set[int]) -> bool:
        return not leaves.isdisjoint(self.space.leaves_of(operation[1]))

    def pairs(self, size: int, goes_on: GoesOn) -> Iterator[ValuedPrograms]:
        """Yield pairs of exactly so many operations, fewer of which compute than of the programs
        that stand for their classes.

        There are as many as are met while the search `goes_on`.
        """
        known = set()
        for node, operations in self._open.items():
            others: dict[AppliedNode, None] = {}
            for operation in sorted(operations):
                others.update(self._users[operation])
            if not goes_on(len(others)):
                return
            for other in others:
                nodes = (min(node, other), max(node, other))
                if nodes not in known:
                    known.add(nodes)
                    places = self.space.by_node[nodes[0]], self.space.by_node[nodes[1]]
                    if self._is_substitute(nodes, places, size):
                        yield ValuedPrograms(nodes, places)

    def _is_substitute(
        self, nodes: tuple[AppliedNode, AppliedNode], places: tuple[ClassId, ClassId], size: int
    ) -> bool:
        """Return whether two programs of so many operations read what those do that stand for their
        classes, and compute less.
        """
        one, two = nodes
        joint = self.space.operations_of(one) | self.space.operations_of(two)
        if len(joint) != size or places[0] == places[1]:
            return False
        first, second = [self.space.classes[place] for place in places]
        if not self._leaves(one) | self._leaves(two) <= {*first.leaves, *second.leaves}:
            return False
        apart = first.operations | second.operations
        return self._movements.computing(joint) < self._movements.computing(apart)
