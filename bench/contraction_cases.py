"""Tensor networks of many tensors: chains, rings, trees, ladders, grids, random ones.

A network is given by its tensors, each a list of the indices of its axes, as einsum takes it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import opt_einsum

import einalg as ea

Edge = tuple[int, int]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NetworkCase:
    """A network: the indices of every tensor by number, those of the result, and all sizes.

    >>> case = chain(3, 4)
    >>> case.terms, case.output, case.shapes[0]
    (((0, 1), (1, 2), (2, 3)), (0, 3), (4, 4))
    """

    name: str
    terms: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    sizes: dict[int, int] = field(hash=False)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the tensors."""
        return [tuple(self.sizes[index] for index in term) for term in self.terms]

    @property
    def expression(self) -> Any:
        """The expression: one sum over all indices that the result does not have."""
        names = {number: ea.indices(f"x{number}") for number in self.sizes}
        factors = []
        for position, (term, shape) in enumerate(zip(self.terms, self.shapes)):
            tensor = ea.tensor(f"T{position}", shape)
            factors.append(tensor[tuple(names[index] for index in term)])
        summed = tuple(names[index] for index in self.sizes if index not in self.output)
        total = ea.Sum[summed](prod(factors))
        return ea.L[tuple(names[index] for index in self.output)](total)

    @property
    def equation(self) -> str:
        """The network as opt_einsum takes it, with letters beyond the alphabet if need be.

        >>> chain(3, 4).equation
        'ab,bc,cd->ad'
        """
        terms = ["".join(map(opt_einsum.get_symbol, term)) for term in self.terms]
        return ",".join(terms) + "->" + "".join(map(opt_einsum.get_symbol, self.output))

    def arrays(self, seed: int = 0) -> list[Array]:
        """Return random arrays whose contraction is about 1 in size."""
        rng = np.random.default_rng(seed)
        summed = prod(size for index, size in self.sizes.items() if index not in self.output)
        scale = summed ** (-0.5 / len(self.terms))
        arrays = []
        for shape in self.shapes:
            arrays.append(rng.standard_normal(shape, np.float32) * np.float32(scale))
        return arrays


def chain(count: int, size: int) -> NetworkCase:
    """A product of square matrices."""
    terms = tuple((k, k + 1) for k in range(count))
    sizes = dict.fromkeys(range(count + 1), size)
    return NetworkCase(f"chain of {count}, {size}", terms, (0, count), sizes)


def vector_chain(count: int, size: int) -> NetworkCase:
    """A product of square matrices and, at the end, a vector."""
    matrices = chain(count - 1, size)
    terms = (*matrices.terms, (count - 1,))
    return NetworkCase(f"chain of {count} with a vector, {size}", terms, (0,), matrices.sizes)


def ring(count: int, size: int) -> NetworkCase:
    """The trace of a product of square matrices."""
    edges = [(k, (k + 1) % count) for k in range(count)]
    return of_edges(f"ring of {count}, {size}", count, edges, [size])


def ladder(rungs: int, size: int) -> NetworkCase:
    """Two chains with an index between each two tensors that stand side by side."""
    edges = [(k, k + rungs) for k in range(rungs)]
    for k in range(rungs - 1):
        edges += [(k, k + 1), (rungs + k, rungs + k + 1)]
    return of_edges(f"ladder of {2 * rungs}, {size}", 2 * rungs, edges, [size])


def tree(count: int, size: int) -> NetworkCase:
    """A binary tree, each tensor with an index for its parent."""
    edges = [(node, (node - 1) // 2) for node in range(1, count)]
    return of_edges(f"tree of {count}, {size}", count, edges, [size])


def grid(side: int, size: int) -> NetworkCase:
    """A square grid."""
    edges: list[Edge] = []
    for row in range(side):
        for column in range(side):
            node = side * row + column
            if column + 1 < side:
                edges.append((node, node + 1))
            if row + 1 < side:
                edges.append((node, node + side))
    return of_edges(f"grid {side}x{side}, {size}", side * side, edges, [size])


def regular(count: int, degree: int, sizes: Sequence[int], seed: int) -> NetworkCase:
    """A random network in which every tensor shares an index with `degree` others."""
    generator = random.Random(seed)
    while True:
        ends = [node for node in range(count) for _ in range(degree)]
        generator.shuffle(ends)
        edges = [(ends[k], ends[k + 1]) for k in range(0, len(ends), 2)]
        distinct = {frozenset(edge) for edge in edges}
        if len(distinct) == len(edges) and all(one != other for one, other in edges):
            break
    name = f"random of {count}, degree {degree}"
    drawn = [generator.choice(sizes) for _ in edges]
    return of_edges(name, count, edges, drawn)


def of_edges(name: str, count: int, edges: Iterable[Edge], sizes: Sequence[int]) -> NetworkCase:
    """Return the network of a graph: a tensor for a node, an index for an edge, a number as result.

    The sizes of the indices are those that are given, in turn.
    """
    terms: list[list[int]] = [[] for _ in range(count)]
    extents = {}
    for number, edge in enumerate(edges):
        extents[number] = sizes[number % len(sizes)]
        for node in edge:
            terms[node].append(number)
    return NetworkCase(name, tuple(map(tuple, terms)), (), extents)


CASES = (
    lambda: chain(6, 24),
    lambda: chain(7, 24),
    lambda: chain(12, 24),
    lambda: chain(6, 200),
    lambda: vector_chain(8, 24),
    lambda: vector_chain(8, 200),
    lambda: ring(10, 24),
    lambda: ladder(4, 8),
    lambda: tree(15, 8),
    lambda: grid(4, 6),
    lambda: regular(10, 3, [4, 6, 8], 0),
    lambda: regular(20, 3, [4, 6], 0),
    lambda: regular(30, 3, [3, 4], 0),
    lambda: chain(40, 24),
    lambda: regular(40, 3, [3, 4], 0),
)
