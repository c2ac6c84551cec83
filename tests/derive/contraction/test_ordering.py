"""Products of many tensors: orders of contractions, and the programs that follow them."""

from __future__ import annotations

import random

import opt_einsum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.contraction.contraction_tree import TreeBuilder
from derive.contraction.network import network_of
from derive.contraction.ordering import contracted
from derive.contraction.orders import orders
from derive.cost.model import operations
from derive.rewriting.moves import apply
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Budget, search
from derive.search.cleanup import fissioned
from derive.search.expansion import total_operations
from einalg.language.ir.program import as_program
from tests.helpers.batches import examples
from tests.helpers.einsums import (
    Einsum,
    agrees,
    chain,
    einsums,
    grid,
    ladder,
    ring,
    tree,
    vector_chain,
)


@given(einsums(), st.sets(st.integers(0, 11)))
@settings(max_examples=examples(20, at_night=400))
def test_a_program_in_order_is_equal(einsum, shared):
    start = as_program(einsum.expression(shared))
    for program, moves in contracted(start, ALL):
        assert agrees(start, program)
        replayed = start
        for move in moves:
            replayed = apply(replayed, move, ALL)
        assert replayed == program


@given(einsums(), st.sets(st.integers(0, 11)))
@settings(max_examples=12)
def test_every_candidate_is_equal(einsum, shared):
    start = as_program(einsum.expression(shared))
    for candidate in search(start, Budget(states=3))[0]:
        assert agrees(start, candidate.program)


@given(einsums(most_tensors=9))
@settings(max_examples=40)
def test_no_order_of_opt_einsum_takes_less_arithmetic(einsum):
    network = einsum.network
    least = min(sum(network.points(step.indices) for step in o) for o in orders(network))
    rest = network.without_single_sums()
    for finder in ("auto", "dp"):
        assert least <= cost_by(finder, rest) + single_sums(network)


def single_sums(network):
    return sum(network.points(step.indices) for step in network.single_sums())


def cost_by(finder, network):
    """The points of the order that a path finder of opt_einsum gives."""
    if len(network.factors) < 2:
        return 0
    shapes = [tuple(network.sizes[index] for index in sorted(f)) for f in network.factors]
    equation = ",".join("".join(sorted(factor)) for factor in network.factors)
    equation += "->" + "".join(sorted(network.kept & frozenset("".join(equation))))
    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=finder)
    builder = TreeBuilder(network)
    return builder.cost(builder.tree(path))


@pytest.mark.parametrize(
    "einsum", [ring(40), ladder(20), grid(5), tree(40)], ids=["ring", "ladder", "grid", "tree"]
)
def test_large_networks_have_an_order_that_is_as_good_as_that_of_opt_einsum(einsum):
    network = einsum.network
    least = min(sum(network.points(step.indices) for step in o) for o in orders(network))
    assert least <= cost_by("auto-hq", network)


def test_the_random_numbers_of_the_user_stay():
    random.seed(7)
    expected = random.random()
    random.seed(7)
    list(orders(ring(20).network))
    assert random.random() == expected


@pytest.mark.parametrize(
    ("einsum", "products"),
    [(chain(6), 5), (chain(12), 11), (vector_chain(7), 6), (ring(10), 10), (ladder(4), 8)],
    ids=["chain of 6", "chain of 12", "chain with a vector", "ring", "ladder"],
)
def test_the_search_starts_with_an_order(einsum, products):
    candidates, stats, _ = search(einsum.expression(), Budget(states=0, seconds=60.0))
    best = candidates[0]
    assert best.moves and stats.candidates
    assert sum(kernel.op != "eop" for kernel in best.kernels) >= products - 2
    assert len(best.kernels) <= products


def test_a_product_inside_a_larger_body_is_ordered():
    text = "O[i,j] = exp(B[i,j]) + Sum[a,b,c](P[i,a]*Q[a,b]*exp(R[b,c])*S[c,j])"
    start = as_program(ea.parse(text, **dict.fromkeys("BPQRS", (5, 5))))
    program, moves = next(contracted(start, ALL))
    assert len(moves) == 2
    assert ea.prove(start, program).verdict == "proved"


def test_indices_of_a_condition_are_summed_last():
    text = "O[i] = Sum[j,k,l](A[i,j]*B[j,k]*C[k,l]*D[l], where=(j + k < 4,))"
    scope = ea.parse(text, A=(4, 4), B=(4, 4), C=(4, 4), D=4)
    network = network_of(scope, 0)
    assert network is not None and network.kept == {"i", "j", "k"}
    for program, _ in contracted(as_program(scope), ALL):
        assert agrees(as_program(scope), program)


def test_factors_meet_before_a_sum_where_that_is_cheaper():
    """The product of rows over a shared index (Khatri and Rao) is one matrix for the next step."""
    einsum = Einsum(("ar", "br", "abc"), "cr", dict(a=5, b=6, c=7, r=3))
    start = as_program(einsum.expression())
    for program, _ in contracted(start, ALL):
        assert agrees(start, program)


def test_a_search_without_candidates_does_not_say_that_none_is_better():
    product = ea.parse("O[i,j] = Prod[k](A[i,k] + B[k,j] + C[i])", A=(9, 9), B=(9, 9), C=9)
    _, stats, _ = search(product, Budget(patience=0, states=2))
    assert not stats.candidates
    assert "no better candidate" not in stats.stopped


def test_products_that_read_each_other_are_ordered_together():
    lines = ["T1[i,j] += A0[i,k]*A1[k,j]"]
    for number in range(2, 8):
        lines.append(f"T{number}[i,j] += T{number - 1}[i,k]*A{number}[k,j]")
    lines.append("O[i] += T7[i,k]*v[k]")
    shapes = {f"A{number}": (24, 24) for number in range(8)}
    program = as_program(ea.parse("\n".join(lines), **shapes, v=24))
    candidates, _, _ = search(program, Budget(states=0, seconds=60.0))
    best = candidates[0].program
    assert total_operations(best) == 8 * 2 * 24**2
    assert ea.prove(program, best).verdict == "proved"


@pytest.mark.parametrize(
    "text",
    [
        "T[i,k] += A[i,j]*B[j,k]\nO[()] = Sum[i:90,k:80](T[i,k]*T[i,k])",
        "O[()] = Sum[i:90,k:80](Sum[j:7](A[i,j]*B[j,k])**2)",
        "O[()] = Sum[i:90,k:80]((L[x:90,y:80](Sum[j:7](A[x,j]*B[j,y])))[i,k]**2)",
    ],
)
def test_a_power_of_a_sum_is_a_product_of_sums(text):
    """The norm of a product is the product of what both factors are with themselves."""
    program = as_program(ea.parse(text, A=(90, 7), B=(7, 80)))
    candidates, _, _ = search(program, Budget(states=0, seconds=60.0))
    best = candidates[0].program
    assert total_operations(best) <= 2 * 7 * 7 * (90 + 80 + 7)
    assert ea.prove(program, best).verdict == "proved"


def test_each_product_of_a_body_has_its_own_order():
    """Their places change with what they become, so that a step might be taken in another one."""
    product = "(A[i,j]*B[j,k]*C[k,l]*D[l,m]*E[m,i])"
    text = f"O[()] = Sum[i:8,j,k,l,m]{product} + Sum[i:8:16,j,k,l,m]{product}"
    start = as_program(ea.parse(text, **dict.fromkeys("ABCDE", (16, 16))))
    for program, moves in contracted(fissioned(start, ALL)[0], ALL):
        assert len(moves) == 6
        for _, scope in lifted(program).statements:
            assert operations(scope) <= 2 * 8 * 16**2


def test_equal_names_of_indices_have_the_sizes_of_their_sums():
    text = "O[()] = Sum[i:3](A[i]) + Sum[i:9,j:9](B[i,j]*A[i]*C[j])"
    scope = ea.parse(text, A=9, B=(9, 9), C=9)
    networks = [network_of(scope, position) for position in (0, 1)]
    assert sorted(network.sizes["i"] for network in networks if network) == [3, 9]
