"""Orders in which the factors of a network meet, by the path finders of opt_einsum.

A path finder sees sets of indices and their sizes, and gives a list of pairs. The exact one,
dynamic programming, takes exponential time. A network that is large for it is ordered by random
greedy trials, and then small parts of that order exactly.

See Pfeifer, Haegeman and Verstraete, "Faster identification of optimal contraction sequences for
tensor networks" (Phys. Rev. E 90, 2014).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

from opt_einsum.path_random import RandomGreedy
from opt_einsum.paths import DynamicProgramming

from derive.contraction.contraction_tree import ContractionTree, Path, TreeBuilder
from derive.contraction.network import ContractionStep, TensorNetwork, union
from einalg.runtime.clock import check_time

WRITE_COSTS = (0, 16)  # multiplications that an element of a result counts as: an order for each
MAX_WITH_OUTER_PRODUCTS = 7  # factors of which every pair is tried, related or not
MAX_AT_ONCE = 16  # factors that are ordered well in no time
MAX_COMPARISONS = 50_000  # of dynamic programming: some tenths of a second
GREEDY_TRIALS = 64

Order = tuple[ContractionStep, ...]


def orders(network: TensorNetwork) -> Iterator[Order]:
    """Yield orders, each better than those before: by arithmetic, or with what is written too.

    The arithmetic of a step is the number of its points. The first order of a large network is one
    that is there at once.

    >>> factors = frozenset("ij"), frozenset("jk"), frozenset("k")
    >>> chain = TensorNetwork(factors, frozenset("i"), dict.fromkeys("ijk", 24))
    >>> [[sorted(step.summed) for step in order] for order in orders(chain)]
    [[['k'], ['j']]]
    """
    first = network.single_sums()
    rest = network.without_single_sums()
    if not rest.factors:
        yield tuple(first)
        return
    builders = [TreeBuilder(rest, write_cost) for write_cost in WRITE_COSTS]
    least = dict.fromkeys(WRITE_COSTS, inf)
    for tree in _trees(builders):
        costs = {builder.write_cost: builder.cost(tree) for builder in builders}
        if any(costs[kind] < least[kind] for kind in WRITE_COSTS):
            yield (*first, *tree.steps())
        for kind in WRITE_COSTS:
            least[kind] = min(least[kind], costs[kind])


def _trees(builders: Sequence[TreeBuilder]) -> Iterator[ContractionTree]:
    """Yield trees that may be good: one that is there at once, and the best by each builder."""
    network, tree = builders[0].network, builders[0].tree
    if len(network.factors) <= MAX_WITH_OUTER_PRODUCTS:
        for builder in builders:
            yield tree(_exact_path(network, builder.write_cost) or ())
        return
    if len(network.factors) > MAX_AT_ONCE:
        yield tree(_greedy_path(network, 1))
    best = tree(_greedy_path(network, GREEDY_TRIALS))
    for builder in builders:
        best = _best_tree(builder, best)
        yield best


def _best_tree(builder: TreeBuilder, trial: ContractionTree) -> ContractionTree:
    """Return the best tree where it is found soon, else one that is better than a trial."""
    write_cost = builder.write_cost
    path = _exact_path(builder.network, write_cost, builder.cost(trial))
    if path is not None:
        return min(trial, builder.tree(path), key=builder.cost)
    return builder.refined(trial, lambda part: _exact_path(part, write_cost))


def _greedy_path(network: TensorNetwork, trials: int) -> Path:
    check_time()
    with _restored_random_state():
        return RandomGreedy(max_repeats=trials, minimize="flops")(*_numbered(network))


def _numbered(network: TensorNetwork) -> tuple[list[Any], Any, dict[Any, int]]:
    """Return a network as path finders take it, with numbers for indices.

    Sets of numbers have the same order in every process, and what is found does not vary.
    """
    numbers: dict[str, int] = {}
    for factor in network.factors:
        for name in sorted(factor):
            numbers.setdefault(name, len(numbers))
    factors = [frozenset(map(numbers.__getitem__, sorted(factor))) for factor in network.factors]
    kept = frozenset(number for name, number in numbers.items() if name in network.kept)
    sizes = {number: network.sizes[name] for name, number in numbers.items()}
    return factors, kept, sizes


@contextmanager
def _restored_random_state() -> Iterator[None]:
    """Leave the random numbers of the user as they are: the greedy trials seed them."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


def _exact_path(network: TensorNetwork, write_cost: int, limit: int | None = None) -> Path | None:
    """Return a path of the least cost, or None where to find it takes long.

    One that costs more than the `limit` may be missed.
    """
    if len(network.factors) < 2:
        return []
    finder = DynamicProgramming(
        minimize=_BoundedComparison(write_cost),  # pyright: ignore[reportArgumentType] - or a function
        cost_cap=True if limit is None else limit,
        search_outer=len(network.factors) <= MAX_WITH_OUTER_PRODUCTS,
    )
    try:
        return finder(*_numbered(network))
    except _TakesLong:
        return None


class _TakesLong(Exception):
    """Dynamic programming has compared many pairs."""


class _BoundedComparison:
    """The comparison that opt_einsum's dynamic programming makes of every pair of parts.

    It notes the pair where no cheaper one of the same factors is known, and counts.
    """

    def __init__(self, write_cost: int):
        self.write_cost, self.left = write_cost, MAX_COMPARISONS

    def __call__(self, *arguments: Any) -> None:
        """Take the arguments that opt_einsum gives to its `minimize`."""
        cost_one, cost_two, indices, sizes, limit, one, two, best, all_parts = arguments[:9]
        _, factors, shared, _, path_one, path_two = arguments[9:]
        self.left -= 1
        if self.left < 0:
            raise _TakesLong
        if self.left % 1024 == 0:
            check_time()
        parts = one | two
        bound = best[parts][1] if parts in best else inf
        cost = cost_one + cost_two + _points(indices, sizes)
        if cost > limit or cost >= bound:
            return
        result = indices - (shared - union(_members(factors, all_parts & ~parts)))
        cost += self.write_cost * _points(result, sizes)
        if cost <= limit and cost < bound:
            best[parts] = (result, cost, (path_one, path_two))


def _points(indices: Any, sizes: Any) -> int:
    points = 1
    for index in indices:
        points *= sizes[index]
    return points


def _members(factors: Any, bits: int) -> Iterator[Any]:
    """Yield the factors whose bits are set."""
    while bits:
        lowest = bits & -bits
        yield factors[lowest.bit_length() - 1]
        bits ^= lowest
