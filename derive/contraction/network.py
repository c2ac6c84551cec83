"""Tensor networks: the factors of a sum of products, each as the indices that it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import sympy

from derive.rewriting.body_queries import enclosing_domain, is_empty, names_of
from einalg.errors import RuleError
from einalg.language.index.affine import Index
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import reductions

Indices = frozenset[str]


class ContractionStep(NamedTuple):
    """A step of an order: the factors that meet, and the indices that are summed away there."""

    factors: tuple[Indices, ...]
    summed: Indices

    @property
    def indices(self) -> Indices:
        """The indices of all factors, over which the step runs."""
        return union(self.factors)

    @property
    def result(self) -> Indices:
        """The indices of the factor that takes the place of those that meet."""
        return self.indices - self.summed


@dataclass(frozen=True)
class TensorNetwork:
    """The factors of a product by the names of their indices, and the indices that are `kept`.

    All others are summed. `sizes` are the extents of the indices. Factors without indices, which
    can be multiplied at any time, are left out.

    >>> import einalg as ea
    >>> A, B, C = ea.tensor("A", (2, 3)), ea.tensor("B", (3, 4)), ea.tensor("C", (4, 5))
    >>> chain = network_of(ea.einsum("ij,jk,kl->il", A, B, C), 0)
    >>> [sorted(factor) for factor in chain.factors], sorted(chain.kept)
    ([['i', 'j'], ['j', 'k'], ['k', 'l']], ['i', 'l'])
    >>> chain.points({"i", "k"})
    8
    """

    factors: tuple[Indices, ...]
    kept: Indices
    sizes: Mapping[str, int]

    @property
    def identity(self) -> Any:
        """The key of its orders of contractions: networks that differ in the order of their factors
        have the same.
        """
        factors = sorted(tuple(sorted(factor)) for factor in self.factors)
        sizes = tuple((name, self.sizes[name]) for name in sorted(union(self.factors)))
        return tuple(factors), self.kept, sizes

    def points(self, indices: Iterable[str]) -> int:
        """Return how many points some indices run over."""
        return prod(self.sizes[index] for index in indices)

    def single_sums(self) -> list[ContractionStep]:
        """Return the sums over indices that one factor alone has, a step for each such factor.

        >>> network = TensorNetwork((frozenset("ij"), frozenset("jk")), frozenset("j"), {})
        >>> [sorted(step.summed) for step in network.single_sums()]
        [['i'], ['k']]
        """
        uses = Counter(index for factor in self.factors for index in factor)
        steps = []
        for factor in self.factors:
            summed = frozenset(i for i in factor if uses[i] == 1 and i not in self.kept)
            if summed:
                steps.append(ContractionStep((factor,), summed))
        return steps

    def without_single_sums(self) -> TensorNetwork:
        """Return the network that is left after the sums over indices of one factor alone."""
        factors = list(self.factors)
        for step in self.single_sums():
            factors[factors.index(step.factors[0])] = step.result
        return TensorNetwork(tuple(filter(None, factors)), self.kept, self.sizes)


def union(factors: Iterable[Indices]) -> Indices:
    """Return the indices that occur in any of the factors."""
    return frozenset[str]().union(*factors)


def network_of(scope: Scope, position: int) -> TensorNetwork | None:
    """Return the network of a reduction of a body; None where it sums no product over points.

    Indices of a condition are kept: what it cuts away is known where all of them are.
    """
    node = list(reductions(scope.body))[position]
    if node.op != "Sum" or is_empty(scope.iterators) or is_empty(node.iterators):
        return None
    try:
        around, _ = enclosing_domain(scope, node)
    except RuleError:  # at several places
        return None
    sizes = {it.index.name: it.extent for it in (*around, *node.iterators)}
    factors = []
    for factor in factors_of(node):
        indices = index_names(factor)
        if not indices <= sizes.keys():
            return None
        if indices:
            factors.append(indices)
    summed = set(names_of(node.indices))
    for condition in node.where:
        summed -= set(names_of(condition.indices))
    kept = union(factors) - summed
    return TensorNetwork(tuple(factors), kept, sizes)


def factors_of(node: Reduce) -> tuple[Any, ...]:
    """Return what a sum multiplies."""
    return sympy.Mul.make_args(node.body)


def index_names(factor: Any) -> Indices:
    """Return the names of the indices that occur in a factor."""
    return frozenset(symbol.name for symbol in factor.free_symbols if isinstance(symbol, Index))
