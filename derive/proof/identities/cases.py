"""Whether a polynomial is 0: as it stands, or in every case of the choices in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil

from derive.proof.identities.forms.conditions import with_arguments
from derive.proof.identities.forms.polynomials.atoms import (
    Abs,
    Base,
    Extreme,
    IndexCondition,
    OpaqueFunction,
    TensorElement,
    elements_of,
    of_index,
    raised,
)
from derive.proof.identities.forms.polynomials.integers import Inequality
from derive.proof.identities.forms.polynomials.laurent import (
    ONE,
    ZERO,
    Atom,
    Poly,
    of_mono,
    spend,
    summed,
)
from derive.proof.identities.forms.signs import (
    Knowledge,
    contradictory,
    knowing,
    knowledge,
)
from derive.proof.identities.rewriting import choices, rewritten
from derive.proof.identities.rounded_cases import rounded_cases

MAX_DEPTH = 14  # of cases in cases
Case = tuple[Poly, list[Inequality]]  # what the choice is, and what holds there


def is_zero(polynomial: Poly, depth: int = 0) -> bool:
    """Return whether a polynomial is shown to be 0 wherever it has a value."""
    rest = without_denominators(polynomial)
    if not rest:
        return True
    if depth >= MAX_DEPTH:
        return False
    atoms = choices(rest)
    cases = rounded_cases(rest)
    if not atoms and not cases:
        return False
    parts = _independent_parts(rest)
    if len(parts) > 1:
        return all(is_zero(part, depth) for part in parts)
    spend(100)
    if not cases:
        cases = [({atoms[0]: value}, facts) for value, facts in _cases(atoms[0])]
    return all(_is_zero_in_case(rest, values, facts, depth) for values, facts in cases)


def without_denominators(polynomial: Poly) -> Poly:
    """Return a polynomial times its denominators."""
    has_denominators = True
    while has_denominators:
        has_denominators = False
        for atom in polynomial.atoms():
            least = min((dict(mono).get(atom, 0) for mono in polynomial.terms), default=0)
            if isinstance(atom, (Base, OpaqueFunction)) and least < 0:
                polynomial = raised(polynomial, atom, ceil(-least))
                has_denominators = True
    return polynomial


def _independent_parts(polynomial: Poly) -> list[Poly]:
    """Return sums of terms that share no element."""
    groups: list[tuple[frozenset[Atom], list[Poly]]] = []
    for mono, value in polynomial.terms.items():
        term = of_mono(mono, value)
        members, joined = [term], elements_of(term)
        others = []
        for group in groups:
            if group[0].isdisjoint(joined):
                others.append(group)
            else:
                joined = joined | group[0]
                members = [*group[1], *members]
        groups = [*others, (joined, members)]
    if not all(elements for elements, _ in groups):
        return [polynomial]
    return [summed(members) for _, members in groups]


def _cases(atom: Atom) -> Iterator[Case]:
    """Yield the values of a choice, with what holds where it has them."""
    if isinstance(atom, Extreme):
        values = [entry[2] for entry in atom.fields[0]]
        for value in values:
            yield value, [(value - other, False) for other in values if other is not value]
    elif isinstance(atom, Abs):
        (inner,) = atom.fields
        yield inner, [(inner, False)]
        yield -inner, [(-inner, True)]
    elif isinstance(atom, IndexCondition):
        (form,) = atom.fields
        yield ONE, [(of_index(form), False)]
        yield ZERO, [(of_index(-form - 1), False)]
    else:
        inner, strict = atom.fields
        yield ONE, [(inner, strict)]
        yield ZERO, [(-inner, not strict)]


def _is_zero_in_case(
    polynomial: Poly, values: Mapping[Atom, Poly], facts: Iterable[Inequality], depth: int
) -> bool:
    known = knowledge()
    facts = with_arguments(facts)
    together = (*known.facts, *facts)
    if contradictory(together):
        return True
    with knowing(Knowledge(known.ranges, together)):
        rest = rewritten(polynomial, values.get)
        for fact, strict in facts:
            if not strict and contradictory([*together, (fact, True)]):
                rest = _with_equation(rest, fact)
        return is_zero(rest, depth + 1)


def _with_equation(polynomial: Poly, equation: Poly) -> Poly:
    """Return a polynomial without an element that an equation determines."""
    if not all(isinstance(atom, TensorElement) for atom in equation.atoms()):
        return polynomial
    for mono, value in equation.terms.items():
        if len(mono) != 1 or mono[0][1] != 1:
            continue
        element = mono[0][0]
        solution = (equation - of_mono(mono, value)).scaled(Fraction(-1) / value)
        if all(element is not atom for atom in solution.atoms()):
            return rewritten(polynomial, {element: solution}.get)
    return polynomial
