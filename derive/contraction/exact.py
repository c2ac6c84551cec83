"""The best order of a few factors, by dynamic programming over their subsets.

A part is a set of factors, made of two smaller parts at the least cost. The parts of so many
factors come of all that are smaller. Costs are bounded, first by little and then by more, so that
most parts are never made.

See Pfeifer, Haegeman and Verstraete, "Faster identification of optimal contraction sequences for
tensor networks" (Phys. Rev. E 90, 2014). opt_einsum has the same method; here its work is bounded
as well, and what a result costs to write counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import inf, prod
from typing import NamedTuple

from opt_einsum.paths import ssa_to_linear

from derive.contraction.contraction_tree import Path, TreeBuilder
from derive.contraction.network import TensorNetwork, union
from einalg.runtime.clock import check_time

MAX_WITH_OUTER_PRODUCTS = 7  # factors of which every pair is tried, related or not
MAX_COMPARISONS = 50_000  # of pairs that may meet: some tenths of a second
MAX_PAIRS = 4_000_000  # that are looked at

Pair = tuple[int, int]  # sets of factors, a bit for each


class _Subset(NamedTuple):
    """The indices of the product of some factors, a bit for each, its least cost, and of what."""

    indices: int
    cost: int
    halves: Pair | None = None


_Level = dict[int, _Subset]  # by the set of factors


class _TakesLong(Exception):
    """Many pairs were compared."""


def exact_path(
    network: TensorNetwork,
    write_cost: int = 0,
    first_cap: int | None = None,
    most_points: float = inf,
) -> Path | None:
    """Return a path of the least cost, or None where to find it takes long, or where there is none.

    A step costs its points, and those of its result `write_cost` times. With more than a few
    factors, those that share no index that is summed do not meet before all others have. Results
    but for the last have `most_points` at most. Paths that cost more than `first_cap` are looked
    for if there is none that costs less.

    >>> factors = frozenset("ij"), frozenset("jk"), frozenset("k")
    >>> exact_path(TensorNetwork(factors, frozenset("i"), dict.fromkeys("ijk", 24)))
    [(1, 2), (0, 1)]
    """
    count = len(network.factors)
    if count < 2:
        return []
    subsets = _Subsets(network, write_cost, most_points)
    components = subsets.components()
    halves: dict[int, Pair] = {}
    try:
        for component in components:
            best = subsets.best(component, first_cap)
            if best is None:
                return None
            halves.update(best)
    except _TakesLong:
        return None
    path = ssa_to_linear(list(_steps(halves, components, count)))
    builder = TreeBuilder(network)
    if builder.most_points(builder.tree(path)) > most_points:  # of parts that no sum relates
        return None
    return path


def _steps(halves: dict[int, Pair], components: Sequence[int], count: int) -> Iterator[Pair]:
    """Yield the pairs that meet, where each result has the next number after the factors."""
    numbers = {1 << position: position for position in range(count)}
    number = count

    def steps_of(part: int) -> Iterator[Pair]:
        nonlocal number
        if part in numbers:
            return
        one, other = halves[part]
        yield from chain(steps_of(one), steps_of(other))
        yield numbers[one], numbers[other]
        numbers[part] = number
        number += 1

    whole = components[0]
    yield from steps_of(whole)
    for component in components[1:]:
        yield from steps_of(component)
        halves[whole | component] = (whole, component)
        whole |= component
        yield from steps_of(whole)


class _Subsets:
    """The sets of factors of a network, with the indices that each has to others."""

    def __init__(self, network: TensorNetwork, write_cost: int, most_points: float):
        self.write_cost, self.most_points = write_cost, most_points
        self._names = sorted(union(network.factors))
        self._sizes = [network.sizes[name] for name in self._names]
        self._factors = [self._bits(factor) for factor in network.factors]
        self._kept = self._bits(network.kept)
        self._points: dict[int, int] = {0: 1}
        self._outsides: dict[int, int] = {}
        self._comparisons, self._pairs = MAX_COMPARISONS, MAX_PAIRS

    def _bits(self, indices: frozenset[str]) -> int:
        return sum(1 << position for position, name in enumerate(self._names) if name in indices)

    def points(self, indices: int) -> int:
        """Return how many points some indices run over."""
        if indices not in self._points:
            lowest = indices & -indices
            size = self._sizes[lowest.bit_length() - 1]
            self._points[indices] = size * self.points(indices ^ lowest)
        return self._points[indices]

    def components(self) -> list[int]:
        """Return the sets of factors that are ordered by themselves, those of small results first.

        All few factors are ordered together; of more those that sums relate.
        """
        whole = (1 << len(self._factors)) - 1
        if len(self._factors) <= MAX_WITH_OUTER_PRODUCTS:
            return [whole]
        components = list[int]()
        while whole:
            component = self._related(whole & -whole)
            components.append(component)
            whole &= ~component
        return sorted(components, key=lambda part: self.points(self._union(part) & self._kept))

    def _related(self, part: int) -> int:
        """Return the factors that are related to some by sums, and these."""
        while True:
            summed = self._union(part) & ~self._kept
            larger = part
            for position, factor in enumerate(self._factors):
                if factor & summed:
                    larger |= 1 << position
            if larger == part:
                return part
            part = larger

    def _union(self, part: int) -> int:
        """Return the indices of some factors."""
        indices = 0
        for position in _positions(part):
            indices |= self._factors[position]
        return indices

    def best(self, component: int, first_cap: int | None) -> dict[int, Pair] | None:
        """Return the halves of all parts of a set of factors in its cheapest order, and of others.

        None where no order keeps within the points.
        """
        levels = self._levels(component)
        everything = self._union(component)
        sizes = [max(1, self._sizes[position]) for position in _positions(everything)]
        most = (1 + self.write_cost) * len(levels) * prod(sizes)
        cap = first_cap
        if cap is None:
            cap = self.points(everything & self._outside(component))
        while True:
            self._fill(levels, cap)
            if levels[-1]:
                break
            if cap > most:
                return None
            cap = max(2, min(sizes, default=2)) * max(cap, 1)
        halves = dict[int, Pair]()
        for level in levels:
            for part, value in level.items():
                if value.halves is not None:
                    halves[part] = value.halves
        return halves

    def _levels(self, component: int) -> list[_Level]:
        """Return the parts of one factor, and room for those of two, of three, and so on."""
        single: _Level = {}
        for position in _positions(component):
            single[1 << position] = _Subset(self._factors[position], 0)
        return [single, *({} for _ in range(len(single) - 1))]

    def _outside(self, part: int) -> int:
        """Return the indices that a result has to keep if it has them."""
        if part not in self._outsides:
            everything = (1 << len(self._factors)) - 1
            self._outsides[part] = self._kept | self._union(everything & ~part)
        return self._outsides[part]

    def _fill(self, levels: Sequence[_Level], cap: float) -> None:
        """Make the parts of each number of factors of two smaller ones, up to a cost."""
        everything = (1 << len(self._factors)) - 1
        for number in range(1, len(levels)):
            level = levels[number]
            for one, other, indices, cost in self._meeting(levels, number):
                part = one | other
                bound = cap
                if part in level:
                    bound = min(cap, level[part].cost - 1)
                cost += self.points(indices)
                if cost > bound:
                    continue
                result = indices & self._outside(part)
                size = self.points(result)
                cost += self.write_cost * size
                if cost <= bound and (size <= self.most_points or part == everything):
                    level[part] = _Subset(result, cost, (one, other))

    def _meeting(
        self, levels: Sequence[_Level], number: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield the pairs that make a part of one factor more than `number`.

        With them come the indices of both, and the cost of making both.
        """
        any_pair = len(self._factors) <= MAX_WITH_OUTER_PRODUCTS
        for smaller in range((number + 1) // 2):
            larger = levels[number - 1 - smaller]
            is_same = larger is levels[smaller]
            for one, (indices_one, cost_one, _) in levels[smaller].items():
                self._look_at(len(larger))
                for other, (indices_other, cost_other, _) in larger.items():
                    if one & other or (is_same and one > other):
                        continue
                    if any_pair or indices_one & indices_other & ~self._kept:
                        self._compare()
                        yield one, other, indices_one | indices_other, cost_one + cost_other

    def _look_at(self, pairs: int) -> None:
        self._pairs -= pairs
        if self._pairs < 0:
            raise _TakesLong

    def _compare(self) -> None:
        self._comparisons -= 1
        if self._comparisons < 0:
            raise _TakesLong
        if self._comparisons % 1024 == 0:
            check_time()


def _positions(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
