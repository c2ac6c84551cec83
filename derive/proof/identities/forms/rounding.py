"""Normal forms of numbers that are rounded down: integers stand outside, and a number that is
rounded twice is rounded once.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor, lcm
from typing import Any

from derive.proof.identities.forms.functions import by_conditions, infinite_sign
from derive.proof.identities.forms.polynomials.atoms import OpaqueFunction
from derive.proof.identities.forms.polynomials.integers import (
    FLOOR,
    is_rounded,
    is_whole,
    is_whole_product,
)
from derive.proof.identities.forms.polynomials.laurent import (
    ZERO,
    NoValue,
    Poly,
    number,
    of_atom,
    of_mono,
    reduced,
    summed,
)


def rounded_up(argument: Poly) -> Poly:
    """Return a polynomial rounded up: the opposite of its opposite rounded down."""
    return -rounded_down(-argument)


def rounded_down(argument: Poly) -> Poly:
    """Return a polynomial rounded down."""
    return by_conditions((argument,), lambda parts: _rounded_down(parts[0]))


def _rounded_down(argument: Poly) -> Poly:
    if infinite_sign(argument):
        raise NoValue
    outside, inside = [], []
    for mono, value in argument.terms.items():
        if is_whole_product(mono):
            whole = floor(value)
            outside.append(of_mono(mono, whole))
            value = reduced(value - whole)
        inside.append(of_mono(mono, value))
    return summed(outside) + _of_fractions(summed(inside))


def _of_fractions(argument: Poly) -> Poly:
    """Return a sum rounded down whose integers have coefficients from 0 to below 1."""
    if argument.is_number:
        return ZERO
    once = _rounded_once(argument)
    if once is not None:
        return rounded_down(once)
    step = _denominator(argument - number(argument.number))
    if not is_whole(argument.scaled(step * Fraction(argument.number).denominator)):
        return of_atom(OpaqueFunction(FLOOR, (argument,)))
    return _of_fractions_of_integers(argument, step)


def _of_fractions_of_integers(argument: Poly, step: int) -> Poly:
    """Return fractions of integers rounded down, all multiples of `1/step` but for a number.

    `floor(-n/k)` is `-floor((n + k - 1)/k)`: the one of the two with the smaller coefficients
    stays.
    """
    constant = Fraction(floor(argument.number * step), step)
    parts = argument - number(argument.number)
    integers = summed([of_mono(mono) for mono in parts.terms])
    opposite, its_constant = integers - parts, Fraction(step - 1, step) - constant
    if _coefficients(opposite, its_constant) < _coefficients(parts, constant):
        inside = opposite + number(reduced(its_constant))
        return integers - of_atom(OpaqueFunction(FLOOR, (inside,)))
    return of_atom(OpaqueFunction(FLOOR, (parts + number(reduced(constant)),)))


def _coefficients(parts: Poly, constant: Fraction) -> list[Any]:
    return [*(value for _, value in parts.sorted_terms()), constant]


def _rounded_once(argument: Poly) -> Poly | None:
    """Return the argument without a rounding inside of it: `floor((floor(u) + n)/k)` is
    `floor((u + n)/k)`. None where it has none.
    """
    for mono, value in argument.terms.items():
        value = Fraction(value)
        if len(mono) != 1 or mono[0][1] != 1 or value.numerator != 1:
            continue
        atom = mono[0][0]
        rest = argument - of_mono(mono, reduced(value))
        if is_rounded(atom) and is_whole(rest.scaled(value.denominator)):
            return atom.fields[1][0].scaled(reduced(value)) + rest
    return None


def _denominator(value: Poly) -> int:
    """Return the least common denominator of the coefficients."""
    return lcm(*(Fraction(coefficient).denominator for coefficient in value.terms.values()))
