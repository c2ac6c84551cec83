"""Rules as graphs of operators whose sizes are left open: what rule files hold (design §14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Leaf:
    """An input of both sides, by its number."""

    number: int

    @property
    def name(self) -> str:
        return f"x{self.number}"


@dataclass(frozen=True)
class Port:
    """An output of an operation: the place of the operation in its side, and of the output."""

    operation: int
    output: int = 0


Source = Leaf | Port


@dataclass(frozen=True)
class Operation:
    """An operator of `kinds`, its parameters as sorted pairs, and what it reads."""

    operator: str
    parameters: tuple[tuple[str, Any], ...]
    inputs: tuple[Source, ...]

    @property
    def result_count(self) -> int:
        """The number of its results: of the parts of a split, else one."""
        return dict(self.parameters).get("n", 1)

    def results(self, place: int) -> list[Port]:
        """Return its results where it stands in a place of its side."""
        return [Port(place, number) for number in range(self.result_count)]


@dataclass(frozen=True)
class RuleGraph:
    """Two lists of operations, each of which reads leaves and earlier ones, and the pairs of what
    must be equal. `shapes` are those that a file gives for leaves: the rank of a leaf whose rank is
    open, and its axes that count taps, are taken from there.
    """

    before: tuple[Operation, ...]
    after: tuple[Operation, ...]
    outputs: tuple[tuple[Source, Source], ...]
    shapes: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def sides(self) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
        return self.before, self.after

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves that are read, in order of first use."""
        leaves: dict[Leaf, None] = {}
        for operations in self.sides:
            for operation in operations:
                leaves.update(dict.fromkeys(_leaves(operation.inputs)))
        for pair in self.outputs:
            leaves.update(dict.fromkeys(_leaves(pair)))
        return tuple(leaves)


def _leaves(sources: Sequence[Source]) -> list[Leaf]:
    return [source for source in sources if isinstance(source, Leaf)]
