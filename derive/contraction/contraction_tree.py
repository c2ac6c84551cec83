"""Contraction trees: which factors of a network meet, as nested pairs, with the cost of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from derive.contraction.network import ContractionStep, Indices, TensorNetwork, union

MAX_REFINED_LEAVES = 9  # of a part of a tree that is ordered anew
MAX_ROUNDS = 4  # of refinement

Path = Collection[Collection[int]]
PathFinder = Callable[[TensorNetwork], Path | None]


@dataclass(frozen=True)
class ContractionTree:
    """A factor of a network by its number, or the result of the `parts` that meet.

    `leaves` are the numbers of all factors in it, `indices` those of its value.
    """

    leaves: frozenset[int]
    indices: Indices
    parts: tuple[ContractionTree, ...] = ()

    @property
    def step(self) -> ContractionStep:
        """The step that makes its value of those of its parts."""
        meeting = tuple(part.indices for part in self.parts)
        return ContractionStep(meeting, union(meeting) - self.indices)

    def steps(self) -> Iterator[ContractionStep]:
        """Yield all steps, each after those that it needs."""
        for part in self.parts:
            yield from part.steps()
        if self.parts:
            yield self.step


@dataclass(frozen=True)
class TreeBuilder:
    """The trees of one network, with the cost of their steps.

    A step costs its points, and those of its result `write_cost` times.

    >>> factors = frozenset("ij"), frozenset("jk")
    >>> network = TensorNetwork(factors, frozenset("ik"), dict(i=2, j=3, k=4))
    >>> builder = TreeBuilder(network)
    >>> tree = builder.tree([(0, 1)])
    >>> sorted(tree.step.summed), builder.cost(tree)
    (['j'], 24)
    """

    network: TensorNetwork
    write_cost: int = 0

    def leaf(self, number: int) -> ContractionTree:
        """Return a factor as it is."""
        return ContractionTree(frozenset([number]), self.network.factors[number])

    def join(self, parts: Iterable[ContractionTree]) -> ContractionTree:
        """Return the tree of parts that meet: what no other factor has is summed away."""
        parts = tuple(parts)
        leaves = frozenset[int]().union(*(part.leaves for part in parts))
        others = []
        for number, factor in enumerate(self.network.factors):
            if number not in leaves:
                others.append(factor)
        remaining = self.network.kept | union(others)
        return ContractionTree(leaves, union(part.indices for part in parts) & remaining, parts)

    def tree(self, path: Path, parts: Sequence[ContractionTree] | None = None) -> ContractionTree:
        """Return the tree of a path, which names parts by their positions, as opt_einsum does.

        The parts are the factors, if none are given. A result comes last among those that remain.
        """
        if parts is None:
            parts = [self.leaf(number) for number in range(len(self.network.factors))]
        remaining = list(parts)
        for positions in path:
            meeting = [remaining.pop(position) for position in sorted(positions, reverse=True)]
            remaining.append(self.join(meeting))
        return remaining[0] if len(remaining) == 1 else self.join(remaining)

    def cost(self, tree: ContractionTree) -> int:
        """Return what all steps of a tree cost."""
        return sum(map(self._step_cost, tree.steps()))

    def most_points(self, tree: ContractionTree) -> int:
        """Return the points of the largest result of a step before the last one."""
        inner = list(tree.steps())[:-1]
        return max((self.network.points(step.result) for step in inner), default=0)

    def _step_cost(self, step: ContractionStep) -> int:
        points = self.network.points
        return points(step.indices) + self.write_cost * points(step.result)

    def refined(self, tree: ContractionTree, find_path: PathFinder) -> ContractionTree:
        """Return a tree that costs no more: small parts of it are ordered anew until none gains.

        `find_path` gives the best order of a few factors, or None.
        """
        for _ in range(MAX_ROUNDS):
            better = self._refined_once(tree, find_path)
            if better is tree:
                break
            tree = better
        return tree

    def _refined_once(self, tree: ContractionTree, find_path: PathFinder) -> ContractionTree:
        if len(tree.leaves) <= 2:
            return tree
        tree = self._reordered(tree, find_path)
        parts = tuple(self._refined_once(part, find_path) for part in tree.parts)
        if all(one is other for one, other in zip(parts, tree.parts)):
            return tree
        return ContractionTree(tree.leaves, tree.indices, parts)

    def _reordered(self, tree: ContractionTree, find_path: PathFinder) -> ContractionTree:
        """Return the tree with the steps next to its root in the best order."""
        frontier = self._frontier(tree)
        factors = tuple(part.indices for part in frontier)
        path = find_path(TensorNetwork(factors, tree.indices, self.network.sizes))
        if path is None:
            return tree
        other = self.tree(path, frontier)
        return other if self.cost(other) < self.cost(tree) else tree

    def _frontier(self, tree: ContractionTree) -> list[ContractionTree]:
        """Return a few parts of which a tree consists: those of the largest results are opened."""
        frontier = list(tree.parts)
        while len(frontier) < MAX_REFINED_LEAVES:
            inner = [part for part in frontier if part.parts]
            if not inner:
                break
            largest = max(inner, key=self._size)
            position = frontier.index(largest)
            frontier[position : position + 1] = largest.parts
        return frontier

    def _size(self, tree: ContractionTree) -> int:
        return self.network.points(tree.indices)
