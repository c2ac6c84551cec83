"""Products of many tensors: orders of contractions, and the programs that follow them."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import opt_einsum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.contraction.contraction_tree import TreeBuilder
from derive.contraction.network import TensorNetwork, network_of
from derive.contraction.ordering import contracted
from derive.contraction.orders import orders
from derive.rewriting.moves import apply
from derive.rules import ALL
from derive.search.best_first import Budget, search
from derive.search.expansion import total_operations
from einalg.language.ir.program import as_program

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Einsum(NamedTuple):
    """An equation by its terms, with the sizes of its indices."""

    terms: tuple[str, ...]
    output: str
    sizes: dict[str, int]

    @property
    def equation(self) -> str:
        return f"{','.join(self.terms)}->{self.output}"

    def expression(self, shared=()):
        """The expression; terms of the same shape at `shared` positions read one tensor."""
        tensors = []
        for position, term in enumerate(self.terms):
            shape = tuple(self.sizes[index] for index in term)
            name = f"T{position}"
            if position in shared:
                name = "S" + "x".join(map(str, shape))
            tensors.append(ea.tensor(name, shape))
        return ea.einsum(self.equation, *tensors)

    @property
    def network(self):
        factors = tuple(frozenset(term) for term in self.terms if term)
        return TensorNetwork(factors, frozenset(self.output), self.sizes)


def uniform(terms, output, size=24):
    return Einsum(tuple(terms), output, dict.fromkeys(LETTERS, size))


def chain(count, size=24):
    terms = [LETTERS[k] + LETTERS[k + 1] for k in range(count)]
    return uniform(terms, LETTERS[0] + LETTERS[count], size)


def ring(count, size=24):
    return uniform([LETTERS[k] + LETTERS[(k + 1) % count] for k in range(count)], "", size)


def vector_chain(count):
    matrices = chain(count - 1)
    return uniform([*matrices.terms, LETTERS[count - 1]], LETTERS[0])


def of_edges(count, edges, size):
    """A network with a tensor for each of `count` nodes, and an index for each edge."""
    terms = [""] * count
    for letter, edge in zip(LETTERS, edges):
        for node in edge:
            terms[node] += letter
    return uniform(terms, "", size)


def ladder(rungs, size=4):
    edges = [(k, k + rungs) for k in range(rungs)]
    for k in range(rungs - 1):
        edges += [(k, k + 1), (rungs + k, rungs + k + 1)]
    return of_edges(2 * rungs, edges, size)


def grid(side, size=4):
    edges = []
    for row in range(side):
        for column in range(side):
            node = side * row + column
            edges += [(node, node + 1)] * (column + 1 < side)
            edges += [(node, node + side)] * (row + 1 < side)
    return of_edges(side * side, edges, size)


def tree(count, size=6):
    return of_edges(count, [(node, (node - 1) // 2) for node in range(1, count)], size)


@st.composite
def einsums(draw, most_tensors=12):
    """Networks with repeated, kept and shared indices, unit and prime sizes, and scalars."""
    letters = LETTERS[: draw(st.integers(1, 7))]
    sizes = {letter: draw(st.sampled_from([1, 2, 2, 3])) for letter in letters}
    term = st.text(letters, max_size=3)
    terms = draw(st.lists(term, min_size=2, max_size=most_tensors))
    used = sorted(set("".join(terms)))
    output = ""
    if used:
        output = "".join(draw(st.lists(st.sampled_from(used), max_size=3, unique=True)))
    return Einsum(tuple(terms), output, sizes)


def values(program, seed=0):
    generator = np.random.default_rng(seed)
    return {name: generator.integers(-3, 4, t.shape) for name, t in program.tensors.items()}


def agrees(start, program):
    arrays = values(start)
    return np.array_equal(ea.evaluate(start, **arrays), ea.evaluate(program, **arrays))


@given(einsums(), st.sets(st.integers(0, 11)))
@settings(max_examples=40)
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
