"""The best order of a few factors, beside that of opt_einsum's dynamic programming."""

from __future__ import annotations

import opt_einsum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.contraction.contraction_tree import TreeBuilder
from derive.contraction.exact import exact_path
from derive.contraction.network import TensorNetwork
from einalg.runtime.clock import Clock, OutOfTime
from tests.helpers.batches import examples
from tests.helpers.einsums import LETTERS, chain, grid, ring, uniform

MINIMIZE = {0: "flops", 16: "combo-16"}


@st.composite
def networks(draw, most=9):
    """Networks whose factors have no index of their own that is summed."""
    letters = LETTERS[: draw(st.integers(2, 8))]
    sizes = {letter: draw(st.sampled_from([1, 2, 3, 5])) for letter in letters}
    terms = draw(st.lists(st.sets(st.sampled_from(letters), min_size=1, max_size=3), max_size=most))
    kept = draw(st.sets(st.sampled_from(letters), max_size=3))
    whole = TensorNetwork(tuple(map(frozenset, terms)), frozenset(kept), sizes)
    return whole.without_single_sums()


def cost_of_opt_einsum(network, write_cost):
    """The cost of the order of opt_einsum's own search, which tries no outer products."""
    inputs = [frozenset(factor) for factor in network.factors]
    finder = opt_einsum.DynamicProgramming(minimize=MINIMIZE[write_cost], cost_cap=False)
    path = finder(inputs, network.kept, dict(network.sizes))
    builder = TreeBuilder(network, write_cost)
    return builder.cost(builder.tree(path))


@given(networks(), st.sampled_from(sorted(MINIMIZE)))
@settings(max_examples=examples(75, at_night=1500))
def test_no_order_costs_less(network, write_cost):
    if len(network.factors) < 2:
        assert exact_path(network, write_cost) == []
        return
    builder = TreeBuilder(network, write_cost)
    path = exact_path(network, write_cost)
    assert path is not None
    assert all(len(pair) == 2 for pair in path) and len(path) == len(network.factors) - 1
    assert builder.cost(builder.tree(path)) <= cost_of_opt_einsum(network, write_cost)


@given(networks(), st.integers(1, 30))
@settings(max_examples=100)
def test_results_keep_within_the_points(network, most_points):
    builder = TreeBuilder(network)
    free, bounded = exact_path(network), exact_path(network, most_points=most_points)
    if free is not None and builder.most_points(builder.tree(free)) <= most_points:
        assert bounded is not None
        assert builder.cost(builder.tree(bounded)) == builder.cost(builder.tree(free))
    elif bounded is not None:
        assert builder.most_points(builder.tree(bounded)) <= most_points


def test_empty_indices_have_orders():
    sizes = dict(a=0, b=3, c=4, d=0)
    terms = tuple(map(frozenset, ("ab", "bc", "cd", "da", "ac", "bd", "ab", "cd", "ad")))
    path = exact_path(TensorNetwork(terms, frozenset("a"), sizes))
    assert path is not None and len(path) == 8


def test_what_takes_long_is_given_up():
    """Every two of these factors share an index."""
    count = 11
    terms = [""] * count
    letters = iter(map(opt_einsum.get_symbol, range(count * count)))
    for one in range(count):
        for other in range(one):
            letter = next(letters)
            terms[one] += letter
            terms[other] += letter
    sizes = dict.fromkeys("".join(terms), 2)
    network = TensorNetwork(tuple(map(frozenset, terms)), frozenset(), sizes)
    assert exact_path(network) is None


def test_long_chains_are_no_trouble():
    assert exact_path(chain(20).network) is not None
    assert exact_path(grid(6).network) is None


@pytest.mark.parametrize("einsum", [ring(30), uniform(["ab", "cd"] * 6, "")])
def test_it_asks_the_clock(einsum):
    with pytest.raises(OutOfTime), Clock.of(0.0).limiting():
        exact_path(einsum.network)
