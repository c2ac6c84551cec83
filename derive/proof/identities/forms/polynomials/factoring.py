"""Irreducible factors of polynomials: `x**2 - y**2` is `(x - y)*(x + y)`."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from sympy.polys.domains import ZZ
from sympy.polys.orderings import lex
from sympy.polys.rings import PolyElement, PolyRing

from derive.proof.identities.forms.polynomials.atoms import rational_content
from derive.proof.identities.forms.polynomials.laurent import Atom, Number, Poly, reduced, spend

MAX_TERMS_FACTORED = 24
MAX_ATOMS_FACTORED = 8
MAX_DEGREE_FACTORED = 8
FACTORING_COST = 50  # of one polynomial, in products of monomials
Factors = tuple[tuple[Poly, int], ...]


def irreducible_factors(polynomial: Poly) -> tuple[Number, Factors]:
    """Return a number and the irreducible factors, with exponents, whose product a polynomial is;
    the leading coefficient of each factor is positive.

    A polynomial that is large, or that has roots or denominators in it, is its only factor.
    """
    if polynomial.is_number:
        return polynomial.number, ()
    if not _has_degree_above_one(polynomial):
        return 1, ((polynomial, 1),)
    spend(FACTORING_COST)
    return _factored(polynomial)


def _has_degree_above_one(polynomial: Poly) -> bool:
    """Return whether a polynomial is small, without roots and denominators, and not linear."""
    if not 1 < len(polynomial.terms) <= MAX_TERMS_FACTORED:
        return False
    degrees = []
    for mono in polynomial.terms:
        exponents = [exponent for _, exponent in mono]
        if not all(isinstance(exponent, int) and exponent > 0 for exponent in exponents):
            return False
        degrees.append(sum(exponents))
    if not 1 < max(degrees) <= MAX_DEGREE_FACTORED:
        return False
    return len(polynomial.atoms()) <= MAX_ATOMS_FACTORED


@lru_cache(maxsize=4096)
def _factored(polynomial: Poly) -> tuple[Number, Factors]:
    atoms = polynomial.atoms()
    content = Fraction(rational_content(polynomial))
    ring = PolyRing([f"x{place}" for place in range(len(atoms))], ZZ, lex)
    coefficients = {}
    for mono, value in polynomial.terms.items():
        powers = dict(mono)
        whole = Fraction(value) / content
        coefficients[tuple([powers.get(atom, 0) for atom in atoms])] = ZZ(whole.numerator)
    value, parts = ring.from_dict(coefficients).factor_list()
    total = content * int(value)
    factors = []
    for part, exponent in parts:
        factor = _of_ring(part, atoms)
        if factor.sorted_terms()[0][1] < 0:
            factor, total = -factor, total * (-1) ** exponent
        factors.append((factor, exponent))
    factors.sort(key=lambda factor: factor[0].digest)
    return reduced(total), tuple(factors)


def _of_ring(element: PolyElement, atoms: list[Atom]) -> Poly:
    terms = {}
    for powers, value in element.terms():
        mono = [(atom, power) for atom, power in zip(atoms, powers) if power]
        terms[tuple(mono)] = int(value)
    return Poly(terms)
