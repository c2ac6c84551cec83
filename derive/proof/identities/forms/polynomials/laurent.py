"""Laurent polynomials over atoms: sums of a rational coefficient times powers of atoms.

An atom is what no ring operation takes apart: an element of a tensor, `exp` of a monomial, an
extreme. Equal atoms are one object. An atom that obeys a law of powers (`abs(x)**2` is `x**2`) says
so in `settle`, so that every product is in normal form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from einalg.language.index.operators import IndexArithmetic
from einalg.runtime.clock import check_time
from einalg.runtime.live_entries import LiveEntries

Number = int | Fraction
MAX_TERMS = 4000  # of one polynomial


class TooLarge(Exception):
    """The normal form has no reasonable size."""


class NoValue(Exception):
    """The expression has no finite value, or none that the normal form can say."""


_effort: ContextVar[list[int]] = ContextVar("effort")


@contextmanager
def effort(products: int) -> Iterator[list[int]]:
    """Raise `TooLarge` inside where more products of monomials are made; an inner limit counts
    against the outer one.
    """
    outer = _effort.get(None)
    left = [products if outer is None else min(products, outer[0])]
    first = left[0]
    token = _effort.set(left)
    try:
        yield left
    finally:
        _effort.reset(token)
        if outer is not None:
            outer[0] -= first - left[0]


def spend(products: int) -> None:
    """Count products of monomials; they end with the time for the proof."""
    check_time()
    left = _effort.get(None)
    if left is None:
        return
    left[0] -= products
    if left[0] < 0:
        raise TooLarge


def reduced(value: Number) -> Number:
    """Return a rational number as an integer where it is one."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    return value


def digest(value: Any) -> bytes:
    """Return a digest of the value of a field, the same in every process."""
    if isinstance(value, (Atom, Poly)):
        return value.digest
    if isinstance(value, (tuple, list)):
        return b"(" + b",".join(map(digest, value)) + b")"
    if isinstance(value, IndexArithmetic) and value.as_affine().sizes:
        return str(value.as_affine().sort_tuple).encode()  # an index may have the name of a size
    return str(value).encode()


class Atom:
    """A factor of monomials; subclasses name their `fields`."""

    __slots__ = ("__weakref__", "digest", "facts", "fields", "order")
    rank = 0  # of its kind in the order of atoms
    fields: tuple[Any, ...]
    digest: bytes
    order: tuple[int, bytes]
    facts: dict[str, Any]  # what was computed of it
    _known: LiveEntries[Atom, None] = LiveEntries()  # by kind and fields

    def __new__(cls, *fields: Any) -> Any:
        key = (cls, fields)
        known = Atom._known.get(key)
        if known is not None:
            return known[0]
        atom = object.__new__(cls)
        atom.fields, atom.facts = fields, {}
        text = cls.__name__.encode() + digest(fields)
        atom.digest = blake2b(text, digest_size=12).digest()
        atom.order = (cls.rank, atom.digest)
        Atom._known.put(key, atom, None)
        return atom

    def settle(self, exponent: Number) -> tuple[Number, Poly | None]:
        """Return the exponent that stays, and the factor that the rest of the power is."""
        return exponent, None

    def absorbed(self) -> Atom | None:
        """Return an atom that changes nothing in a product with this one, if there is one."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.fields))})"


Mono = tuple[tuple[Atom, Number], ...]


class Poly:
    """A sum of monomials with coefficients that are not 0."""

    __slots__ = ("__weakref__", "_digest", "_hash", "terms")

    def __init__(self, terms: Mapping[Mono, Number]):
        self.terms = dict(terms)
        self._hash: int | None = None
        self._digest: bytes | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Poly) and self.terms == other.terms

    def __bool__(self) -> bool:
        return bool(self.terms)

    @property
    def digest(self) -> bytes:
        """A digest that does not depend on the order of the terms."""
        if self._digest is None:
            parts = []
            for mono, coefficient in self.terms.items():
                factors = [atom.digest + f"^{power}".encode() for atom, power in mono]
                parts.append(str(coefficient).encode() + b"*".join(factors))
            self._digest = blake2b(b"+".join(sorted(parts)), digest_size=12).digest()
        return self._digest

    def __add__(self, other: Poly) -> Poly:
        if not other.terms:
            return self
        return summed((self, other))

    def __neg__(self) -> Poly:
        return self.scaled(-1)

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def scaled(self, factor: Number) -> Poly:
        """Return the polynomial times a rational number."""
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Poly({mono: reduced(value * factor) for mono, value in self.terms.items()})

    def __mul__(self, other: Poly) -> Poly:
        if other.is_number:
            return self.scaled(other.number)
        if self.is_number:
            return other.scaled(self.number)
        spend(len(self.terms) * len(other.terms))
        total: dict[Mono, Number] = {}
        for one, a in self.terms.items():
            for two, b in other.terms.items():
                _add_product(total, one, two, a * b)
        return _without_zeros(total)

    @property
    def is_number(self) -> bool:
        """Whether the polynomial is a rational number."""
        return not self.terms or (len(self.terms) == 1 and () in self.terms)

    @property
    def number(self) -> Number:
        """The constant term."""
        return self.terms.get((), 0)

    def sorted_terms(self) -> list[tuple[Mono, Number]]:
        """Return the terms in the order of their monomials, the constant last."""
        return sorted(self.terms.items(), key=_mono_order, reverse=True)

    def atoms(self) -> list[Atom]:
        """Return the atoms of all monomials, each once, in order."""
        atoms = {atom for mono in self.terms for atom, _ in mono}
        return sorted(atoms, key=_atom_order)

    def __repr__(self) -> str:
        parts = []
        for mono, value in self.sorted_terms():
            factors = [str(value)]
            for atom, power in mono:
                factors.append(f"{atom!r}^{power}" if power != 1 else repr(atom))
            parts.append("*".join(factors))
        return " + ".join(parts) or "0"


def _atom_order(atom: Atom) -> tuple[int, bytes]:
    return atom.order


def _mono_order(term: tuple[Mono, Number]) -> Any:
    return [(atom.order, power) for atom, power in term[0]]


def _factor_order(factor: tuple[Atom, Number]) -> tuple[int, bytes]:
    return factor[0].order


def _add_product(total: dict[Mono, Number], one: Mono, two: Mono, value: Number) -> None:
    mono, extra = mono_product(one, two)
    if extra is None:
        total[mono] = total.get(mono, 0) + value
        return
    for other, factor in (of_mono(mono) * extra).terms.items():
        total[other] = total.get(other, 0) + value * factor
    if len(total) > MAX_TERMS:
        raise TooLarge


def _without_zeros(total: dict[Mono, Number]) -> Poly:
    if len(total) > MAX_TERMS:
        raise TooLarge
    return Poly({mono: reduced(value) for mono, value in total.items() if value})


def mono_product(one: Mono, two: Mono) -> tuple[Mono, Poly | None]:
    """Return a product of monomials as a monomial and, where an atom's law says so, a factor."""
    if not one:
        return two, None
    if not two:
        return one, None
    powers = dict(one)
    extra: Poly | None = None
    for atom, power in two:
        total = powers.get(atom, 0) + power
        if atom in powers:
            total, factor = atom.settle(total)
            if factor is not None:
                extra = factor if extra is None else extra * factor
        powers[atom] = total
        if not total:
            del powers[atom]
    for atom in list(powers):
        weaker = atom.absorbed()
        if weaker is not None:
            powers.pop(weaker, None)
    return tuple(sorted(powers.items(), key=_factor_order)), extra


def summed(polynomials: Iterable[Poly]) -> Poly:
    """Return a sum."""
    total: dict[Mono, Number] = {}
    for polynomial in polynomials:
        spend(len(polynomial.terms) // 2)
        for mono, value in polynomial.terms.items():
            total[mono] = total.get(mono, 0) + value
    return _without_zeros(total)


def product(polynomials: Iterable[Poly]) -> Poly:
    """Return a product."""
    whole = ONE
    for polynomial in polynomials:
        whole = whole * polynomial
    return whole


def number(value: Number) -> Poly:
    """Return a rational number as a polynomial."""
    return Poly({(): reduced(value)}) if value else ZERO


def of_mono(mono: Mono, coefficient: Number = 1) -> Poly:
    """Return one term."""
    return Poly({mono: coefficient})


def of_atom(atom: Atom, exponent: Number = 1) -> Poly:
    """Return a power of an atom in normal form."""
    if not exponent:
        return ONE
    exponent, factor = atom.settle(reduced(exponent))
    power = of_mono(((atom, exponent),)) if exponent else ONE
    return power if factor is None else power * factor


def mapped(polynomial: Poly, change: Callable[[Atom], Poly | None], power: Any) -> Poly:
    """Return the polynomial with others in the places of atoms; `power` raises those to exponents,
    and None leaves an atom as it is.
    """
    images: dict[Atom, Poly | None] = {}
    for atom in polynomial.atoms():
        image = change(atom)
        images[atom] = None if image is not None and image == of_atom(atom) else image
    if not any(image is not None for image in images.values()):
        return polynomial
    parts = []
    for mono, value in polynomial.terms.items():
        part = number(value)
        for atom, exponent in mono:
            image = images[atom]
            part = part * (of_atom(atom, exponent) if image is None else power(image, exponent))
        parts.append(part)
    return summed(parts)


ZERO = Poly({})
ONE = Poly({(): 1})
