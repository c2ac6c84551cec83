"""The kinds of atoms, and integer powers of polynomials (the laws of powers that atoms obey).

Every field of an atom is a text, a number, an index form, a polynomial or a tuple of such, so that
`with_fields` maps all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import floor, gcd, lcm
from typing import Any

from derive.proof.identities.forms.polynomials.laurent import (
    ONE,
    ZERO,
    Atom,
    Mono,
    NoValue,
    Number,
    Poly,
    TooLarge,
    mapped,
    number,
    of_atom,
    of_mono,
    product,
    reduced,
    spend,
    summed,
)
from einalg.language.index.affine import Affine, Index, IndexArithmetic

MAX_DIVISIONS = 40  # of the numerators of one polynomial
MAX_POWER = 12  # of a sum that is multiplied out


class TensorElement(Atom):
    """An element of a tensor: its name and its subscripts."""

    __slots__ = ()
    rank = 1


class WholeElement(TensorElement):
    """An element of a tensor of integers or truth values."""

    __slots__ = ()


class IndexAtom(Atom):
    """An index, a quotient or a remainder of indices in the place of a number."""

    __slots__ = ()
    rank = 2


class PositiveNumber(Atom):
    """A positive number that is not rational: `pi`."""

    __slots__ = ()
    rank = 3


class Infinity(Atom):
    """Infinity, which stands only in extremes and under `exp`."""

    __slots__ = ()
    rank = 4


class Surd(Atom):
    """A prime number under a root."""

    __slots__ = ()
    rank = 5

    def settle(self, exponent: Number) -> tuple[Number, Poly | None]:
        whole = floor(exponent)
        if not whole:
            return exponent, None
        return exponent - whole, number(Fraction(self.fields[0]) ** whole)


class Exp(Atom):
    """`exp` of a monomial."""

    __slots__ = ()
    rank = 6


class OpaqueFunction(Atom):
    """A function of which little but its arguments is known: its name, and a tuple of
    polynomials. Squares of sines are written by cosines.
    """

    __slots__ = ()
    rank = 7

    def settle(self, exponent: Number) -> tuple[Number, Poly | None]:
        name, arguments = self.fields
        if name != "sin" or not isinstance(exponent, int) or exponent < 2:
            return exponent, None
        square = ONE - of_atom(OpaqueFunction("cos", arguments), 2)
        return exponent % 2, whole_power(square, exponent // 2)


class Base(Atom):
    """A polynomial that is not multiplied out: under a root, or as a denominator."""

    __slots__ = ()
    rank = 8

    def settle(self, exponent: Number) -> tuple[Number, Poly | None]:
        whole = floor(exponent)
        (base,) = self.fields
        if not whole or (whole < 0 and len(base.terms) > 1):
            return exponent, None
        return exponent - whole, whole_power(base, whole)


class Abs(Atom):
    """An absolute value of a polynomial whose sign is not known."""

    __slots__ = ()
    rank = 9

    def settle(self, exponent: Number) -> tuple[Number, Poly | None]:
        even = 2 * floor(Fraction(exponent) / 2)
        if not even:
            return exponent, None
        return exponent - even, whole_power(self.fields[0], even)


class Condition(Atom):
    """1 where a polynomial is at least 0 (`False`), or above 0 (`True`); else 0."""

    __slots__ = ()
    rank = 10

    def settle(self, exponent: Number) -> tuple[Number, Poly | None]:
        return 1, None

    def absorbed(self) -> Atom | None:
        polynomial, is_strict = self.fields
        return Condition(polynomial, False) if is_strict else None


class IndexCondition(Atom):
    """1 where an index form is at least 0; else 0."""

    __slots__ = ()
    rank = 11

    def settle(self, exponent: Number) -> tuple[Number, Poly | None]:
        return 1, None


class Extreme(Atom):
    """The maximum of entries `(iterators, guards, polynomial)`.

    Iterators are `(index, low, high)`; guards are pairs of a condition and its truth value.
    """

    __slots__ = ()
    rank = 12


class Prefix(Atom):
    """The sum (`"Sum"`) or product (`"Prod"`) of a polynomial over an index from 0 to a form, which
    is not reached: the difference or quotient of two is the reduction of a range.
    """

    __slots__ = ()
    rank = 13


CONDITIONS = (Condition, IndexCondition)


def of_index(form: Affine) -> Poly:
    """Return an index form as a number."""
    total: dict[Mono, Number] = {(): form.const} if form.const else {}
    for atom, coefficient in form.terms:
        total[((IndexAtom(atom), 1),)] = coefficient
    return Poly(total)


def inverse_of_mono(polynomial: Poly, exponent: int) -> Poly:
    """Return a power of a single term."""
    ((mono, value),) = polynomial.terms.items()
    power = number(Fraction(value) ** exponent)
    for atom, its_exponent in mono:
        power = power * of_atom(atom, its_exponent * exponent)
    return power


def whole_power(polynomial: Poly, exponent: int) -> Poly:
    """Return an integer power; sums stay denominators."""
    if exponent == 0:
        return ONE
    if not polynomial:
        if exponent < 0:
            raise NoValue
        return ZERO
    if len(polynomial.terms) == 1:
        return inverse_of_mono(polynomial, exponent)
    if exponent < 0:
        return _inverse_of_sum(polynomial, exponent)
    if exponent > MAX_POWER:
        raise TooLarge
    power = polynomial
    for _ in range(exponent - 1):
        power = power * polynomial
    return power


def _inverse_of_sum(polynomial: Poly, exponent: int) -> Poly:
    """Return a negative power of a sum: a power of its content times one of the primitive rest."""
    value, mono, rest = content(polynomial)
    return inverse_of_mono(of_mono(mono, value), exponent) * of_atom(Base(rest), exponent)


def content(polynomial: Poly) -> tuple[Number, Mono, Poly]:
    """Return a rational number, a monomial and a primitive sum whose product is the polynomial; the
    leading coefficient of the sum is positive. Denominators count as factors of the monomial.

    Raise `NoValue` for 0, also where terms cancel only over a common denominator.
    """
    total: Number = 1
    powers: dict[Atom, Number] = {}
    rest = polynomial
    has_denominators = True
    while has_denominators:
        if not rest:
            raise NoValue
        value = rational_content(rest)
        if rest.sorted_terms()[0][1] < 0:
            value = -value
        mono = common_mono(rest)
        total = reduced(total * Fraction(value))
        for atom, exponent in mono:
            powers[atom] = powers.get(atom, 0) + exponent
        rest = divided(rest.scaled(Fraction(1) / value), mono)
        # Where denominators were multiplied out, there may be common factors again.
        has_denominators = any(isinstance(atom, Base) and power < 0 for atom, power in mono)
    return total, tuple((atom, power) for atom, power in powers.items() if power), rest


def divided(polynomial: Poly, mono: Mono) -> Poly:
    """Return a polynomial over a monomial, exponent by exponent."""
    for atom, exponent in mono:
        polynomial = raised(polynomial, atom, -exponent)
    return polynomial


def raised(polynomial: Poly, atom: Atom, by: Number) -> Poly:
    """Return a polynomial times a power of an atom, which is added to its exponents."""
    parts = []
    spend(len(polynomial.terms))
    for mono, value in polynomial.terms.items():
        rest = tuple([factor for factor in mono if factor[0] is not atom])
        exponent = dict(mono).get(atom, 0) + by
        parts.append(of_mono(rest, value) * of_atom(atom, exponent))
    return summed(parts)


def with_reduced_fractions(polynomial: Poly) -> Poly:
    """Return a polynomial whose numerators are remainders of division by their denominators: with
    `q = x + 1`, `x/q` is `1 - 1/q`.
    """
    for _ in range(MAX_DIVISIONS):
        parts, is_changed = [], False
        for mono, value in polynomial.terms.items():
            divided_term = _division(mono)
            is_changed |= divided_term is not None
            term = of_mono(mono) if divided_term is None else divided_term
            parts.append(term.scaled(value))
        if not is_changed:
            return polynomial
        polynomial = summed(parts)
    raise TooLarge


def _division(mono: Mono) -> Poly | None:
    """Return a term whose numerator has the leading monomial of a denominator, divided once."""
    powers = dict(mono)
    for atom, exponent in mono:
        if not isinstance(atom, Base) or exponent > 0:
            continue
        (base,) = atom.fields
        leading, value = _leading_term(base)
        if all(powers.get(other, 0) >= power for other, power in leading):
            rest = {other: powers.get(other, 0) - power for other, power in leading}
            others = {**powers, **rest}
            del others[atom]
            factor = product([of_atom(other, power) for other, power in others.items()])
            whole = of_atom(atom, exponent + 1)
            remainder = (base - of_mono(leading, value)) * of_atom(atom, exponent)
            return factor * (whole - remainder).scaled(Fraction(1) / value)
    return None


def _leading_term(base: Poly) -> tuple[Mono, Number]:
    """Return the term of the highest degree, the first one in order among equals."""

    def order(term: tuple[Mono, Number]) -> Any:
        mono = term[0]
        return sum(power for _, power in mono), [(atom.order, power) for atom, power in mono]

    return max(base.terms.items(), key=order)


def rational_content(polynomial: Poly) -> Number:
    """Return the positive rational number whose quotients are integers without common divisor."""
    values = [Fraction(value) for value in polynomial.terms.values()]
    above = gcd(*(value.numerator for value in values))
    return Fraction(above, lcm(*(value.denominator for value in values)))


def common_mono(polynomial: Poly) -> Mono:
    """Return the powers that divide every term: the least exponent of every atom that is in all of
    them, or that has a negative one; conditions, which have no inverse, left out.
    """
    monos = [dict(mono) for mono in polynomial.terms]
    powers: dict[Atom, Number] = {}
    for atom in polynomial.atoms():
        if isinstance(atom, (*CONDITIONS, Infinity, Surd)):
            continue
        least = min(mono.get(atom, 0) for mono in monos)
        if least:
            powers[atom] = least
    return tuple((atom, power) for atom, power in powers.items())


def with_fields(value: Any, on_poly: Callable[[Poly], Poly], on_form: Callable[[Any], Any]) -> Any:
    """Return a field with its polynomials and index forms mapped."""
    if isinstance(value, Poly):
        return on_poly(value)
    if isinstance(value, IndexArithmetic):
        return on_form(value)
    if isinstance(value, Atom):
        return type(value)(*with_fields(value.fields, on_poly, on_form))
    if isinstance(value, tuple):
        return tuple([with_fields(part, on_poly, on_form) for part in value])
    return value


def replaced(polynomial: Poly, mapping: dict[Atom, Poly]) -> Poly:
    """Return the polynomial with others in the places of atoms, inside of atoms too; the atoms
    around them stay of their kind.
    """

    def change(atom: Atom) -> Poly | None:
        if atom in mapping:
            return mapping[atom]
        fields = with_fields(atom.fields, inside, _unchanged)
        return of_atom(type(atom)(*fields))

    def inside(part: Poly) -> Poly:
        return mapped(part, change, simple_power)

    return inside(polynomial)


def simple_power(polynomial: Poly, exponent: Number) -> Poly:
    """Return a power: an integer one, or a root of a single atom or of anything as a whole."""
    if isinstance(exponent, int):
        return whole_power(polynomial, exponent)
    if not polynomial:
        return whole_power(ZERO, 1 if exponent > 0 else -1)
    ((mono, value), *others) = polynomial.terms.items()
    if others or value != 1 or len(mono) != 1:
        return of_atom(Base(polynomial), exponent)
    ((atom, its_exponent),) = mono
    return of_atom(atom, its_exponent * exponent)


def _unchanged(form: Any) -> Any:
    return form


def leaves(value: Any) -> frozenset[Atom]:
    """Return the atoms that functions are made of: elements, extremes, prefixes, `exp`; not the
    functions, roots and denominators around them.
    """
    if isinstance(value, Poly):
        return _union(map(leaves, value.atoms()))
    if isinstance(value, tuple):
        return _union(map(leaves, value))
    if not isinstance(value, Atom):
        return frozenset()
    if "leaves" not in value.facts:
        if isinstance(value, (OpaqueFunction, Base, Abs, *CONDITIONS)):
            value.facts["leaves"] = leaves(value.fields)
        else:
            return frozenset([value])
    return value.facts["leaves"]


def arguments_of(value: Any) -> frozenset[Atom]:
    """Return the leaves of a value, those of the exponents in the place of each `exp`."""
    opened = []
    for leaf in leaves(value):
        if isinstance(leaf, Exp):
            opened.append(arguments_of(leaf.fields))
        else:
            opened.append(frozenset([leaf]))
    return _union(opened)


def _union(sets: Iterable[frozenset[Any]]) -> frozenset[Any]:
    return frozenset().union(*sets)


def indices_of(value: Any) -> frozenset[Index]:
    """Return the indices that are free in a polynomial, an atom or a field; sizes are none."""
    if isinstance(value, Poly):
        return _union(map(indices_of, value.atoms()))
    if isinstance(value, Atom):
        if "indices" not in value.facts:
            value.facts["indices"] = _indices_of_atom(value)
        return value.facts["indices"]
    if isinstance(value, tuple):
        return _union(map(indices_of, value))
    if isinstance(value, IndexArithmetic):
        return frozenset(value.as_affine().indices)
    return frozenset()


def _indices_of_atom(atom: Atom) -> frozenset[Index]:
    if isinstance(atom, Extreme):
        return _union(map(_indices_of_entry, atom.fields[0]))
    if isinstance(atom, Prefix):
        _, body, index, upper = atom.fields
        return (indices_of(body) - {index}) | indices_of(upper)
    return indices_of(atom.fields)


def _indices_of_entry(entry: Any) -> frozenset[Index]:
    iterators, guards, polynomial = entry
    bound = {index for index, _, _ in iterators}
    return (indices_of(guards) | indices_of(polynomial)) - bound


def elements_of(value: Any) -> frozenset[Atom]:
    """Return the elements of tensors in a polynomial, an atom or a field."""
    if isinstance(value, Poly):
        return _union(map(elements_of, value.atoms()))
    if isinstance(value, tuple):
        return _union(map(elements_of, value))
    if not isinstance(value, Atom):
        return frozenset()
    if isinstance(value, TensorElement):
        return frozenset([value])
    if "elements" not in value.facts:
        value.facts["elements"] = elements_of(value.fields)
    return value.facts["elements"]
