"""Integers among polynomials: elements of integers, indices, and numbers that are rounded down."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from derive.proof.identities.forms.polynomials.atoms import (
    CONDITIONS,
    Abs,
    Extreme,
    IndexAtom,
    OpaqueFunction,
    WholeElement,
    rational_content,
)
from derive.proof.identities.forms.polynomials.laurent import (
    ONE,
    Atom,
    Mono,
    Number,
    Poly,
    number,
    of_atom,
)

FLOOR = "floor"
Inequality = tuple[Poly, bool]  # the polynomial is at least 0, or above 0


def is_whole(value: Poly) -> bool:
    """Return whether a polynomial is known to be an integer."""
    if any(Fraction(coefficient).denominator != 1 for coefficient in value.terms.values()):
        return False
    return all(map(is_whole_product, value.terms))


def is_whole_product(mono: Mono) -> bool:
    """Return whether a product of powers is known to be an integer."""
    return all(_is_whole_power(atom, exponent) for atom, exponent in mono)


def _is_whole_power(atom: Atom, exponent: Number) -> bool:
    if not isinstance(exponent, int) or exponent < 0:
        return False
    if isinstance(atom, Abs):
        return is_whole(atom.fields[0])
    if isinstance(atom, Extreme):
        return all(is_whole(value) for _, _, value in atom.fields[0])
    return isinstance(atom, (WholeElement, IndexAtom, *CONDITIONS)) or is_rounded(atom)


def is_rounded(atom: Atom) -> bool:
    """Return whether an atom is a number that is rounded down."""
    return isinstance(atom, OpaqueFunction) and atom.fields[0] == FLOOR


def tightened(polynomial: Poly, strict: bool) -> Inequality:
    """Return an inequality of integers without a gap: `2*n > 1` is `n - 1 >= 0`."""
    varying = polynomial - number(polynomial.number)
    if not varying.terms:
        return polynomial, strict
    unit = varying.scaled(1 / Fraction(rational_content(varying)))
    if not is_whole(unit):
        return polynomial, strict
    constant = Fraction(polynomial.number) / Fraction(rational_content(varying))
    whole = floor(constant)
    if strict and whole == constant:
        whole -= 1
    return unit + number(whole), False


def around_rounded(polynomials: list[Poly]) -> list[Inequality]:
    """Return between which numbers the rounded ones in some polynomials are: `floor(u) <= u` and
    `u < floor(u) + 1`.
    """
    inequalities: list[Inequality] = []
    seen: set[Atom] = set()
    waiting = list(polynomials)
    while waiting:
        for atom in _terms_rounded(waiting.pop()):
            if atom not in seen:
                seen.add(atom)
                part = atom.fields[1][0] - of_atom(atom)
                inequalities += [(part, False), (ONE - part, True)]
                waiting.append(part)
    return inequalities


def _terms_rounded(polynomial: Poly) -> list[Atom]:
    """Return the rounded numbers that are factors of terms."""
    atoms = {atom for mono in polynomial.terms for atom, _ in mono if is_rounded(atom)}
    return sorted(atoms, key=lambda atom: atom.order)
