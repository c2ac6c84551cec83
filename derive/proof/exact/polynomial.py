"""Polynomials over tensor elements, with guards: what an expression is after inlining (design §9).

A polynomial is a sum of terms; a term is `coefficient · Σ[iterators where guards] product of factors`. A factor is an element of
a tensor, or an *opaque* value, of which only what it is made of is known: a function, a maximum, an irrational constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.iterator import LoopIndex


class OutsideFragment(Exception):
    """The expression has no exact form of a reasonable size; it can still be tested."""


@dataclass(frozen=True)
class ElementFactor:
    """The elements of a tensor."""

    tensor: str

    def __str__(self) -> str:
        return self.tensor


@dataclass(frozen=True)
class ConstantElements:
    """The elements of a constant tensor: exact values in row-major order."""

    shape: tuple[int, ...]
    values: tuple[Fraction, ...]

    def __str__(self) -> str:
        return f"constant {self.shape} {' '.join(map(str, self.values))}"


@dataclass(frozen=True)
class ConstantFactor:
    """A number that is not rational, or the number that a reduction other than a sum meets."""

    value: str

    def __str__(self) -> str:
        return f"number {self.value}"


@dataclass(frozen=True)
class IndexValue:
    """The integers: an index in the place of a number."""

    def __str__(self) -> str:
        return "index value"


@dataclass(frozen=True, eq=False)
class FunctionFactor:
    """A function of polynomials. `idempotent`: its argument is a set of values (maxima), without multiplicity."""

    function: str
    arguments: tuple[Polynomial, ...]
    commutative: bool = False
    idempotent: bool = False

    @property
    def free(self) -> tuple[Index, ...]:
        """The indices that the value depends on, in order of name."""
        found = set().union(*(free_indices(argument) for argument in self.arguments))
        return tuple(sorted(found, key=lambda i: (i.name[0] != "x", len(i.name), i.name)))


Head = ElementFactor | ConstantElements | ConstantFactor | IndexValue | FunctionFactor


@dataclass(frozen=True)
class Factor:
    head: Head
    subscripts: tuple[Affine, ...] = ()


@dataclass(frozen=True)
class Term:
    coefficient: Fraction
    iterators: tuple[LoopIndex, ...] = ()
    where: tuple[Constraint, ...] = ()
    factors: tuple[Factor, ...] = ()

    @property
    def bound(self) -> frozenset[Index]:
        return frozenset(it.index for it in self.iterators)

    def guarded(self, conditions: Iterable[Constraint]) -> Term:
        added = [c for c in conditions if c not in self.where]
        return replace(self, where=(*self.where, *added)) if added else self

    def free_indices(self) -> set[Index]:
        used = {i for f in self.factors for s in f.subscripts for i in s.indices}
        return used.union(*(c.indices for c in self.where)) - self.bound


Polynomial = tuple[Term, ...]


def free_indices(polynomial: Polynomial) -> set[Index]:
    return set().union(*(term.free_indices() for term in polynomial))


def constant(value: Any) -> Polynomial:
    value = Fraction(value)
    return (Term(value),) if value else ()


def of_factor(factor: Factor) -> Polynomial:
    return (Term(Fraction(1), factors=(factor,)),)


def guarded(polynomial: Polynomial, conditions: Iterable[Constraint]) -> Polynomial:
    conditions = tuple(conditions)
    return tuple(term.guarded(conditions) for term in polynomial)


def summed(polynomial: Polynomial, iterators: tuple[LoopIndex, ...]) -> Polynomial:
    """`Σ[iterators] polynomial`; an iterator that a term does not use multiplies its coefficient."""
    result = []
    for term in polynomial:
        used = term.free_indices()
        coefficient = term.coefficient
        for it in iterators:
            coefficient *= 1 if it.index in used else it.extent
        if coefficient:
            kept = tuple(it for it in iterators if it.index in used)
            result.append(
                replace(term, coefficient=coefficient, iterators=(*term.iterators, *kept))
            )
    return tuple(result)


def multiplied(polynomials: Iterable[Polynomial], most_terms: int) -> Polynomial:
    """The product of polynomials that share no bound index. Raises `OutsideFragment` beyond `most_terms` terms."""
    result: Polynomial = (Term(Fraction(1)),)
    for polynomial in polynomials:
        if len(result) * len(polynomial) > most_terms:
            raise OutsideFragment(f"more than {most_terms} terms")
        result = tuple(_joined(a, b) for a, b in product(result, polynomial))
    return result


def _joined(a: Term, b: Term) -> Term:
    joined = Term(
        a.coefficient * b.coefficient,
        (*a.iterators, *b.iterators),
        a.where,
        (*a.factors, *b.factors),
    )
    return joined.guarded(b.where)


def constant_value(polynomial: Polynomial) -> Fraction | None:
    """The rational number that a polynomial is, or None."""
    if any(term.factors or term.iterators or term.where for term in polynomial):
        return None
    return sum((term.coefficient for term in polynomial), Fraction(0))


def single_factor(polynomial: Polynomial) -> Factor | None:
    """The factor that a polynomial is, or None."""
    if len(polynomial) == 1:
        term = polynomial[0]
        if (
            term.coefficient == 1
            and len(term.factors) == 1
            and not term.iterators
            and not term.where
        ):
            return term.factors[0]
    return None
