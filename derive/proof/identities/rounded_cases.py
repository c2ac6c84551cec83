"""Cases in which rounded numbers are one of them plus a number.

`floor(2*x)` and `floor(x + 1/2)` are told by the fraction `x - floor(x)`: on either side of 1/2.
`floor(n/2)` of an integer is told by its remainder: `n` is `2*m` or `2*m + 1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm
from typing import Any

from derive.proof.identities.forms.polynomials.atoms import (
    WholeElement,
    rational_content,
)
from derive.proof.identities.forms.polynomials.integers import (
    Inequality,
    is_rounded,
)
from derive.proof.identities.forms.polynomials.laurent import (
    Atom,
    Poly,
    digest,
    number,
    of_atom,
    reduced,
)
from derive.proof.identities.forms.rounding import rounded_down
from derive.proof.identities.rewriting import is_bound

MAX_FRACTIONS = 24  # at which rounded numbers jump, of one number
MAX_REMAINDERS = 12
Case = tuple[dict[Atom, Poly], list[Inequality]]  # the values of atoms, and what holds there


def rounded_cases(polynomial: Poly) -> list[Case]:
    """Return cases in each of which some rounded numbers have simpler values; none where there are
    no such numbers.
    """
    innermost, others = _rounded_numbers(polynomial)
    return (
        _by_remainder(innermost, _is_element)
        or _by_fraction(innermost)
        or _by_remainder(others, is_rounded)
    )


def _rounded_numbers(polynomial: Poly) -> tuple[list[Atom], list[Atom]]:
    """Return the rounded numbers of no bound index: those without others inside, and the others."""
    atoms: dict[Atom, bool] = {}

    def visit(value: Any) -> bool:
        """Return whether a rounded number is in a field."""
        if isinstance(value, Poly):
            return max(map(visit, value.atoms()), default=False)
        if isinstance(value, tuple):
            return max(map(visit, value), default=False)
        if not isinstance(value, Atom):
            return False
        if value not in atoms:
            has_others = visit(value.fields)
            atoms[value] = has_others or is_rounded(value)
            if is_rounded(value) and not is_bound(value):
                (others if has_others else innermost).append(value)
        return atoms[value]

    innermost: list[Atom] = []
    others: list[Atom] = []
    visit(polynomial)
    innermost.sort(key=lambda atom: atom.order)
    others.sort(key=lambda atom: atom.order)
    return innermost, others


def _is_element(atom: Atom) -> bool:
    return isinstance(atom, WholeElement)


def _by_remainder(rounded: Sequence[Atom], is_integer: Callable[[Atom], bool]) -> list[Case]:
    """Return the cases of the remainder of an integer of some kind by its denominators."""
    denominators: dict[Atom, int] = {}
    for atom in rounded:
        (argument,) = atom.fields[1]
        for mono, value in argument.terms.items():
            for whole, _ in mono:
                if is_integer(whole):
                    divisor = Fraction(value).denominator
                    denominators[whole] = lcm(denominators.get(whole, 1), divisor)
    for whole, divisor in denominators.items():
        if 1 < divisor <= MAX_REMAINDERS:
            quotient = of_atom(WholeElement(f"quotient {digest(whole).hex()}", ()))
            multiple = quotient.scaled(divisor)
            return [({whole: multiple + number(rest)}, []) for rest in range(divisor)]
    return []


@dataclass(frozen=True)
class _Multiple:
    """A number that is rounded down: `factor*unit + shift`."""

    atom: Atom
    factor: Fraction
    shift: Fraction


def _by_fraction(rounded: Sequence[Atom]) -> list[Case]:
    """Return the cases of the fraction of a number of which several rounded ones are multiples; the
    only one of a number that is known.
    """
    groups: dict[Poly, list[_Multiple]] = {}
    for atom in rounded:
        (argument,) = atom.fields[1]
        shift = Fraction(argument.number)
        direction = argument - number(argument.number)
        if not direction.terms:
            return [({atom: number(floor(shift))}, [])]
        factor = Fraction(rational_content(direction))
        if direction.sorted_terms()[0][1] < 0:
            factor = -factor
        unit = direction.scaled(1 / factor)
        groups.setdefault(unit, []).append(_Multiple(atom, factor, shift))
    for unit, multiples in groups.items():
        cases = list(_of_multiples(unit, multiples)) if len(multiples) > 1 else []
        if cases:
            return cases
    return []


def _of_multiples(unit: Poly, multiples: Sequence[_Multiple]) -> Iterator[Case]:
    divisor = lcm(*(multiple.factor.denominator for multiple in multiples))
    unit = unit.scaled(reduced(Fraction(1, divisor)))
    scaled = [_Multiple(m.atom, m.factor * divisor, m.shift) for m in multiples]
    places = _jumps(scaled)
    if len(places) > MAX_FRACTIONS:
        return
    whole = rounded_down(unit)
    fraction = unit - whole
    for low, high in zip(places, [*places[1:], Fraction(1)]):
        at_low = fraction - number(low)
        below_high = number(high) - fraction, True
        if all(multiple.factor > 0 for multiple in scaled):
            yield _values(scaled, whole, low), [(at_low, False), below_high]
        else:
            yield _values(scaled, whole, low), [(at_low, False), (-at_low, False)]
            middle = (low + high) / 2
            yield _values(scaled, whole, middle), [(at_low, True), below_high]


def _jumps(multiples: Sequence[_Multiple]) -> list[Fraction]:
    """Return the fractions from 0 to below 1 at which a multiple of them is an integer."""
    places = {Fraction(0)}
    for multiple in multiples:
        ends = sorted((multiple.shift, multiple.shift + multiple.factor))
        for integer in range(floor(ends[0]), floor(ends[1]) + 1):
            place = (integer - multiple.shift) / multiple.factor
            if 0 <= place < 1:
                places.add(place)
        if len(places) > MAX_FRACTIONS:
            break
    return sorted(places)


def _values(multiples: Sequence[_Multiple], whole: Poly, fraction: Fraction) -> dict[Atom, Poly]:
    """Return the rounded multiples of a number with this fraction."""
    values = {}
    for multiple in multiples:
        rest = floor(multiple.factor * fraction + multiple.shift)
        value = whole.scaled(reduced(multiple.factor)) + number(rest)
        if value != of_atom(multiple.atom):
            values[multiple.atom] = value
    return values
