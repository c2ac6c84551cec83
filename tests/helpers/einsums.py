"""Einsums: networks of tensors to contract, fixed and random ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import einalg as ea
from derive.contraction.network import TensorNetwork

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
