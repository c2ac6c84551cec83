"""Polynomials over tensor elements, with guards: what an expression is after inlining (design §9).

A polynomial is a sum of terms; a term is `coefficient · Σ[iterators where guards] product of
factors`. A factor is an element of a tensor, or an *opaque* value, of which only what it is made of
is known: a function, a maximum, an irrational constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from einalg.language.index.affine import Affine, Index, whole_quotient
from einalg.language.index.constraint import Constraint
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.size import Size, is_number

MAX_SIZE_TERMS = 512  # of the product of a term and the extents that multiply it


def output_index(axis: int) -> Index:
    """Return the name of an axis of the output, in which everything is written."""
    return Index(f"x{axis}")


class OutsideFragment(Exception):
    """The expression has no exact form of a reasonable size; it can still be tested."""


@dataclass(frozen=True)
class ElementFactor:
    """The elements of a tensor; a name is one tensor, whose type gives its range."""

    tensor: str
    dtype: str = field(default="f32", compare=False)

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


@dataclass(frozen=True)
class SizeFactor:
    """A symbolic size in the place of a number: the same number at every point."""

    size: Size

    def __str__(self) -> str:
        return f"size {self.size}"


@dataclass(frozen=True, eq=False)
class FunctionFactor:
    """A function of polynomials. `idempotent`: its argument is a set of values (maxima), without
    multiplicity.
    """

    function: str
    arguments: tuple[Polynomial, ...]
    commutative: bool = False
    idempotent: bool = False

    @property
    def free(self) -> tuple[Index, ...]:
        """The indices that the value depends on: those of the output first, in order of name."""
        indices = set().union(*map(free_indices, self.arguments))
        return tuple(sorted(indices, key=lambda i: (i.name[0] != "x", len(i.name), i.name)))


Head = ElementFactor | ConstantElements | ConstantFactor | IndexValue | SizeFactor | FunctionFactor


@dataclass(frozen=True)
class Factor:
    """The element of a head at some subscripts: `A[i, j+1]`."""

    head: Head
    subscripts: tuple[Affine, ...] = ()

    def indices(self) -> set[Index]:
        """Return the indices in the subscripts."""
        indices: set[Index] = set()
        for subscript in self.subscripts:
            indices |= subscript.indices
        return indices

    def substitute(self, mapping: Mapping[Index, Affine]) -> Factor:
        """Return the factor with forms in the places of indices."""
        subscripts = tuple([form.substitute(mapping) for form in self.subscripts])
        return replace(self, subscripts=subscripts)


@dataclass(frozen=True)
class Term:
    """`coefficient · Σ[iterators where …] product of factors`; indices that no iterator binds are
    those of the output, or of what the term is a part of.
    """

    coefficient: Fraction
    iterators: tuple[LoopIndex, ...] = ()
    where: tuple[Constraint, ...] = ()
    factors: tuple[Factor, ...] = ()

    @property
    def bound(self) -> frozenset[Index]:
        return frozenset(it.index for it in self.iterators)

    def without_iterators(self, indices: Set[Index]) -> Term:
        """Return the term without the sums over some indices."""
        iterators = tuple([it for it in self.iterators if it.index not in indices])
        return replace(self, iterators=iterators)

    def guarded(self, conditions: Iterable[Constraint]) -> Term:
        added = [condition for condition in conditions if condition not in self.where]
        return replace(self, where=(*self.where, *added)) if added else self

    def free_indices(self) -> set[Index]:
        used: set[Index] = set()
        for factor in self.factors:
            used |= factor.indices()
        for condition in self.where:
            used |= condition.indices
        return used - self.bound


Polynomial = tuple[Term, ...]


def free_indices(polynomial: Polynomial) -> set[Index]:
    """Return the indices that a polynomial depends on."""
    indices: set[Index] = set()
    for term in polynomial:
        indices |= term.free_indices()
    return indices


def constant(value: Any) -> Polynomial:
    """Return a rational number as a polynomial."""
    value = Fraction(value)
    return (Term(value),) if value else ()


def of_factor(factor: Factor) -> Polynomial:
    """Return a factor as a polynomial."""
    return (Term(Fraction(1), factors=(factor,)),)


def guarded(polynomial: Polynomial, conditions: Iterable[Constraint]) -> Polynomial:
    """Return a polynomial that is 0 where a condition fails."""
    conditions = tuple(conditions)
    return tuple(term.guarded(conditions) for term in polynomial)


def collected(polynomial: Polynomial, iterators: tuple[LoopIndex, ...]) -> Polynomial:
    """Return the values that another reduction meets, as terms; an iterator that a term does not
    use multiplies its coefficient, which counts how often, where its extent is a number.
    """
    values = []
    for term in polynomial:
        used = term.free_indices()
        unused = [it for it in iterators if it.index not in used and is_number(it.extent)]
        coefficient = term.coefficient * prod(it.extent for it in unused)
        if coefficient:
            met = (*term.iterators, *(it for it in iterators if it not in unused))
            values.append(replace(term, coefficient=coefficient, iterators=met))
    return tuple(values)


def summed(polynomial: Polynomial, iterators: tuple[LoopIndex, ...]) -> Polynomial:
    """Return `Σ[iterators] polynomial`; an iterator that a term does not use multiplies it by its
    extent.
    """
    sums: list[Term] = []
    for term in polynomial:
        used = term.free_indices()
        coefficient, summed_over = term.coefficient, list(term.iterators)
        extents: list[Affine] = []
        for it in iterators:
            if it.index in used:
                summed_over.append(it)
            elif is_number(it.extent):
                coefficient *= it.extent
            else:
                extents.append(it.extent)
        if coefficient:
            total = replace(term, coefficient=coefficient, iterators=tuple(summed_over))
            sums += multiplied([(total,), *map(of_sizes, extents)], MAX_SIZE_TERMS)
    return tuple(sums)


def of_sizes(form: Affine) -> Polynomial:
    """Return a form of sizes as a number: a polynomial in the sizes, what is under `//` or `%` as
    one index value where its divisor does not always divide it.
    """
    terms = list(constant(form.const))
    for atom, coefficient in form.terms:
        size, divisor = whole_quotient(atom) or (None, 1)
        if size is not None:
            factor = Factor(SizeFactor(size))
        else:
            factor = Factor(IndexValue(), (atom.as_affine(),))
        terms.append(Term(Fraction(coefficient, divisor), factors=(factor,)))
    return tuple(terms)


def multiplied(polynomials: Iterable[Polynomial], max_terms: int) -> Polynomial:
    """Return the product of polynomials that share no bound index. Raises `OutsideFragment` beyond
    `max_terms` terms.
    """
    result: Polynomial = (Term(Fraction(1)),)
    for polynomial in polynomials:
        if len(result) * len(polynomial) > max_terms:
            raise OutsideFragment(f"more than {max_terms} terms")
        result = tuple(_term_product(a, b) for a, b in product(result, polynomial))
    return result


def _term_product(a: Term, b: Term) -> Term:
    coefficient, iterators = a.coefficient * b.coefficient, (*a.iterators, *b.iterators)
    return Term(coefficient, iterators, a.where, (*a.factors, *b.factors)).guarded(b.where)


def constant_value(polynomial: Polynomial) -> Fraction | None:
    """Return the rational number that a polynomial is, or None."""
    value = Fraction(0)
    for term in polynomial:
        if term.factors or term.iterators or term.where:
            return None
        value += term.coefficient
    return value


def single_factor(polynomial: Polynomial) -> Factor | None:
    """Return the factor that a polynomial is, or None."""
    if len(polynomial) != 1:
        return None
    (term,) = polynomial
    if term.coefficient != 1 or len(term.factors) != 1 or term.iterators or term.where:
        return None
    return term.factors[0]
