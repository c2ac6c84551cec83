"""Orders in which the factors of a network meet: exact ones, and those of opt_einsum.

The exact path finder takes exponential time. A network that is large for it is ordered by the
random greedy trials of opt_einsum, and then small parts of that order exactly.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

from opt_einsum.path_random import RandomGreedy

from derive.contraction.contraction_tree import ContractionTree, Path, TreeBuilder
from derive.contraction.exact import MAX_WITH_OUTER_PRODUCTS, exact_path
from derive.contraction.network import ContractionStep, TensorNetwork
from einalg.runtime.clock import check_time

WRITE_COSTS = (0, 16)  # multiplications that an element of a result counts as: an order for each
MAX_AT_ONCE = 16  # factors that are ordered well in no time
GREEDY_TRIALS = 64

Order = tuple[ContractionStep, ...]


def orders(network: TensorNetwork, most_points: float = inf) -> Iterator[Order]:
    """Yield orders, each better than those before: by arithmetic, or with what is written too.

    The arithmetic of a step is the number of its points. The first order of a large network is one
    that is there at once. Results of steps but for the last have `most_points` at most; there may
    be no such order.

    >>> factors = frozenset("ij"), frozenset("jk"), frozenset("k")
    >>> chain = TensorNetwork(factors, frozenset("i"), dict.fromkeys("ijk", 24))
    >>> [[sorted(step.summed) for step in order] for order in orders(chain)]
    [[['k'], ['j']]]
    >>> list(orders(chain, 23))
    []
    """
    yield from improving(network, all_orders(network, most_points), most_points)


def improving(
    network: TensorNetwork, candidates: Iterable[Order], most_points: float = inf
) -> Iterator[Order]:
    """Yield those orders that keep within a bound, and are better than all before in some way."""
    least = dict.fromkeys(WRITE_COSTS, inf)
    for order in candidates:
        if excess(network, order, most_points):
            continue
        costs = {kind: _cost(network, order, kind) for kind in WRITE_COSTS}
        if any(costs[kind] < least[kind] for kind in WRITE_COSTS):
            yield order
        for kind in WRITE_COSTS:
            least[kind] = min(least[kind], costs[kind])


def excess(network: TensorNetwork, order: Order, most_points: float) -> float:
    """Return by how many points, in all, the results before the last one exceed a bound."""
    points = 0.0
    for step in order[:-1]:
        points += max(0.0, network.points(step.result) - most_points)
    return points


def _cost(network: TensorNetwork, order: Order, write_cost: int) -> int:
    cost = 0
    for step in order:
        cost += network.points(step.indices) + write_cost * network.points(step.result)
    return cost


def all_orders(network: TensorNetwork, most_points: float = inf) -> Iterator[Order]:
    """Yield orders that may be good; where results are bounded, some may exceed the bound."""
    first = network.single_sums()
    rest = network.without_single_sums()
    if not rest.factors:
        yield tuple(first)
        return
    builders = [TreeBuilder(rest, write_cost) for write_cost in WRITE_COSTS]
    for tree in _trees(builders, most_points):
        yield (*first, *tree.steps())


def _trees(builders: Sequence[TreeBuilder], most_points: float = inf) -> Iterator[ContractionTree]:
    """Yield trees that may be good: one that is there at once, and the best by each builder.

    Where the points of results are bounded, those that exceed the bound may be among them.
    """
    network, tree = builders[0].network, builders[0].tree
    if len(network.factors) <= MAX_WITH_OUTER_PRODUCTS:
        for builder in builders:
            path = exact_path(network, builder.write_cost, most_points=most_points)
            if path is not None:
                yield tree(path)
        return
    if len(network.factors) > MAX_AT_ONCE:
        yield tree(_greedy_path(network, 1))
    trials = [tree(_greedy_path(network, GREEDY_TRIALS))]
    if most_points != inf:
        trials.append(tree(_greedy_path(network, GREEDY_TRIALS, "size")))
    for best in trials:
        for builder in builders:
            best = _best_tree(builder, best, most_points)
            yield best


def _best_tree(builder: TreeBuilder, trial: ContractionTree, most_points: float) -> ContractionTree:
    """Return the best tree where it is found soon, else one that is better than a trial."""
    write_cost = builder.write_cost
    fits = builder.most_points(trial) <= most_points
    cap = builder.cost(trial) if fits else None
    path = exact_path(builder.network, write_cost, cap, most_points)
    if path is not None:
        tree = builder.tree(path)
        return min(trial, tree, key=builder.cost) if fits else tree
    return builder.refined(
        trial, lambda part: exact_path(part, write_cost, most_points=most_points)
    )


def _greedy_path(network: TensorNetwork, trials: int, minimize: str = "flops") -> Path:
    check_time()
    with _restored_random_state():
        return RandomGreedy(max_repeats=trials, minimize=minimize)(*_numbered(network))


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
