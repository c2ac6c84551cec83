"""Sums and products over a range of an index, as differences and quotients of prefixes.

`Prefix("Sum", m, j, n)` is the sum of a monomial m over j from 0 on, n not reached. The sum over
`low <= j < high` is the prefix of high minus that of low, so that a range may be split anywhere.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, isinf
from typing import Any

from derive.proof.identities.forms.conditions import index_at_least
from derive.proof.identities.forms.entries import counted_from_first_use, substituted_poly
from derive.proof.identities.forms.functions import exponential, logarithm
from derive.proof.identities.forms.polynomials.atoms import (
    CONDITIONS,
    Base,
    Exp,
    IndexAtom,
    IndexCondition,
    PositiveNumber,
    Prefix,
    Surd,
    TensorElement,
    indices_of,
    of_index,
    whole_power,
    with_reduced_fractions,
)
from derive.proof.identities.forms.polynomials.laurent import (
    ONE,
    ZERO,
    Atom,
    Mono,
    Number,
    Poly,
    TooLarge,
    number,
    of_atom,
    of_mono,
    product,
    spend,
    summed,
)
from derive.proof.identities.forms.signs import (
    POSITIVE,
    Knowledge,
    interval,
    interval_of_sizes,
    knowing,
    knowledge,
    sign,
)
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.size import Extent, is_always_at_most, least

MAX_EXPONENT = 8  # of an index that is summed
WITH_INVERSE = (TensorElement, IndexAtom, PositiveNumber, Surd, Exp)
MAX_BETWEEN = 4  # values between the end of a range and a form without constant
Bounds = tuple[Affine, Affine]


def with_range(index: Index, low: Extent, high: Extent) -> Knowledge:
    """Return what is known, with the range of one more index."""
    known = knowledge()
    return Knowledge({**known.ranges, index: (low, high)}, known.facts)


def reach(bounds: Bounds) -> tuple[Extent, Extent]:
    """Return the range in which an index with such bounds lies."""
    low, high = interval_of_sizes(bounds[0]), interval_of_sizes(bounds[1])
    if low is None or high is None:
        raise TooLarge
    return low[0], high[1]


def reach_of_prefix(upper: Affine) -> tuple[Extent, Extent]:
    """Return the range in which the index of a prefix lies: from 0 to its end, or from its end to 0
    where that is negative.
    """
    low, high = reach((upper, upper))
    if not is_always_at_most(low, 0):
        low = min(_least_number(low), 0)
    return low, high - min(_least_number(high), 0)


def _least_number(extent: Extent) -> int:
    number = least(extent)
    if isinf(number):
        raise TooLarge
    return int(number)


def total(polynomial: Poly, index: Index, bounds: Bounds) -> Poly:
    """Return the sum over a range of an index."""
    parts = []
    with knowing(with_range(index, *reach(bounds))):
        for mono, value in with_reduced_fractions(polynomial).terms.items():
            parts.append(_total_of_term(mono, index, bounds).scaled(value))
    return summed(parts)


def _total_of_term(mono: Mono, index: Index, bounds: Bounds) -> Poly:
    """Return the sum of a monomial: factors without the index are outside of it."""
    mono, bounds = _bounded(mono, index, bounds)
    low, high = bounds
    outside, inside = [], []
    for atom, exponent in mono:
        side = inside if index in indices_of(atom) else outside
        side.append((atom, exponent))
    factor = of_mono(tuple(outside))
    if not inside:
        return factor * of_index(high - low)
    if all(isinstance(atom, IndexAtom) for atom, _ in inside):
        sums = _of_index_values(inside, index, bounds)
        if sums is not None:
            return factor * sums
    body = of_mono(tuple(inside))
    return factor * _between("Sum", body, index, bounds)


def _bounded(mono: Mono, index: Index, bounds: Bounds) -> tuple[Mono, Bounds]:
    """Return a monomial without the conditions that are bounds of the index."""
    left = []
    low, high = bounds
    for atom, exponent in mono:
        narrowed = None
        if isinstance(atom, IndexCondition):
            narrowed = _narrowed(atom.fields[0], index, (low, high))
        if narrowed is None:
            left.append((atom, exponent))
        else:
            low, high = narrowed
    return tuple(left), (low, high)


def _narrowed(form: Affine, index: Index, bounds: Bounds) -> Bounds | None:
    """Return narrower bounds of an index where a form is at least 0; None where they are not
    always ordered.
    """
    coefficient = form.coefficient(index)
    rest = form - affine(index).scaled(coefficient)
    if abs(coefficient) != 1 or index in rest.indices:
        return None
    low, high = bounds
    if coefficient == 1:
        candidate = -rest, high
        ordered = _is_at_most(low, -rest) and _is_at_most(-rest, high)
    else:
        candidate = low, rest + 1
        ordered = _is_at_most(low, rest + 1) and _is_at_most(rest + 1, high)
    return candidate if ordered else None


def _is_at_most(one: Affine, two: Affine) -> bool:
    low, _ = interval(two - one)
    return low is not None and low >= 0


def _of_index_values(factors: Any, index: Index, bounds: Bounds) -> Poly | None:
    """Return the sum of a power of an index; None for other functions of it."""
    if len(factors) != 1 or not isinstance(factors[0][0].fields[0], Index):
        return None
    ((_, exponent),) = factors
    if not isinstance(exponent, int) or not 0 < exponent <= MAX_EXPONENT:
        return None
    low, high = bounds
    return _power_sum(exponent, of_index(high)) - _power_sum(exponent, of_index(low))


def _power_sum(exponent: int, upper: Poly) -> Poly:
    """Return `0**p + 1**p + ... + (n-1)**p` as a polynomial in n (Faulhaber)."""
    parts = []
    for k, value in enumerate(_bernoulli(exponent)):
        scale = Fraction(comb(exponent + 1, k), exponent + 1) * value
        if scale and (upper or exponent + 1 - k == 0):
            parts.append(whole_power(upper, exponent + 1 - k).scaled(scale))
    return summed(parts)


def _bernoulli(count: int) -> list[Fraction]:
    numbers = [Fraction(1)]
    for n in range(1, count + 1):
        rest = sum((comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0))
        numbers.append(-rest / (n + 1))
    return numbers


def _between(op: str, body: Poly, index: Index, bounds: Bounds) -> Poly:
    """Return the reduction over a range by the prefixes of its ends."""
    spend(4)
    place = Index(f"p{_depth(body)}")
    form, low, high = counted_from_first_use(body, index, place, *bounds)
    moved = substituted_poly(body, {index: form})
    low, high = affine(low), affine(high)
    if op == "Sum":
        return _prefix(op, moved, place, high) - _prefix(op, moved, place, low)
    if not _has_inverse(moved):
        return _prefix(op, substituted_poly(moved, {place: place + low}), place, high - low)
    return _prefix(op, moved, place, high) * whole_power(_prefix(op, moved, place, low), -1)


def _has_inverse(polynomial: Poly) -> bool:
    """Return whether products may be divided by a polynomial: what then cancels is equal also where
    it is 0.

    That is so of letters that obey no law but those of powers. A condition is its own square, and
    an extreme absorbs conditions.
    """
    for atom in polynomial.atoms():
        inside = isinstance(atom, Base) and _has_inverse(atom.fields[0])
        if not inside and not isinstance(atom, WITH_INVERSE):
            return False
    return True


def _prefix(op: str, body: Poly, index: Index, upper: Affine) -> Poly:
    """Return a prefix: up to a form without constant where that is near, and what is between."""
    end = upper - upper.const
    if not upper.terms and upper.const == 0:
        return ZERO if op == "Sum" else ONE
    is_divided = op == "Prod" and upper.const < 0
    if abs(upper.const) > MAX_BETWEEN or is_divided and not _has_inverse(body):
        return of_atom(Prefix(op, body, index, upper))
    values = []
    for place in range(min(upper.const, 0), max(upper.const, 0)):
        values.append(substituted_poly(body, {index: end + place}))
    whole = _prefix(op, body, index, end) if upper.const else of_atom(Prefix(op, body, index, end))
    if op == "Sum":
        between = summed(values)
        return whole + between if upper.const > 0 else whole - between
    return whole * whole_power(product(values), 1 if upper.const > 0 else -1)


def _depth(value: Any) -> int:
    """Return how many reductions are in each other."""
    if isinstance(value, Poly):
        return max(map(_depth, value.atoms()), default=0)
    if isinstance(value, tuple):
        return max(map(_depth, value), default=0)
    if not isinstance(value, Atom):
        return 0
    if "depth" not in value.facts:
        value.facts["depth"] = _depth(value.fields) + isinstance(value, Prefix)
    return value.facts["depth"]


def total_product(polynomial: Poly, index: Index, bounds: Bounds) -> Poly:
    """Return the product over a range of an index."""
    low, high = bounds
    if not polynomial and _is_at_most(low, high):
        return ONE - index_at_least(high - low - 1)
    if len(polynomial.terms) == 1:
        ((mono, value),) = polynomial.terms.items()
        factors = [_repeated(number(value), index, bounds)]
        for atom, exponent in mono:
            factors.append(_product_of_powers(atom, exponent, index, bounds))
        return product(factors)
    if index in indices_of(polynomial):
        return _between("Prod", polynomial, index, bounds)
    return _repeated(polynomial, index, bounds)


def _product_of_powers(atom: Atom, exponent: Number, index: Index, bounds: Bounds) -> Poly:
    count = bounds[1] - bounds[0]
    is_constant = index not in indices_of(atom)
    if is_constant and not count.terms:
        return of_atom(atom, exponent * count.const)
    if is_constant and isinstance(exponent, int) and not isinstance(atom, CONDITIONS):
        return whole_power(_repeated(of_atom(atom), index, bounds), exponent)
    if isinstance(atom, Exp):
        return exponential(total(atom.fields[0], index, bounds).scaled(exponent))
    if isinstance(atom, CONDITIONS) or not isinstance(exponent, int):
        return _between("Prod", of_atom(atom, exponent), index, bounds)
    inner = atom.fields[0] if isinstance(atom, Base) else of_atom(atom)
    return whole_power(_between("Prod", inner, index, bounds), exponent)


def _is_size(atom: Any) -> bool:
    return isinstance(atom, Index) and atom.is_size


def _repeated(factor: Poly, index: Index, bounds: Bounds) -> Poly:
    """Return the product over a range of what has no index: of `2*N + M` factors, twice that of N
    and that of M.
    """
    count = bounds[1] - bounds[0]
    if factor == ONE:
        return ONE
    if not count.terms:
        return whole_power(factor, count.const)
    if sign(factor) == POSITIVE:
        return exponential(of_index(count) * logarithm(factor))
    if count.const < 0 or not all(_is_size(a) and c > 0 for a, c in count.terms):
        return _between("Prod", factor, index, bounds)
    parts = [whole_power(factor, count.const)]
    for atom, coefficient in count.terms:
        once = _between("Prod", factor, index, (affine(0), affine(atom)))
        parts.append(whole_power(once, coefficient))
    return product(parts)
