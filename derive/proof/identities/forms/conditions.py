"""Normal forms of conditions, as numbers that are 1 where they hold and 0 elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

from derive.proof.identities.forms.calculus import monotone
from derive.proof.identities.forms.functions import (
    absolute,
    by_conditions,
    infinite_sign,
    logarithm,
    power,
    without_logarithms,
)
from derive.proof.identities.forms.polynomials.atoms import (
    Condition,
    Exp,
    IndexCondition,
    Prefix,
    arguments_of,
    content,
    leaves,
    replaced,
)
from derive.proof.identities.forms.polynomials.factoring import irreducible_factors
from derive.proof.identities.forms.polynomials.integers import (
    Inequality,
    is_rounded,
    is_whole,
    tightened,
)
from derive.proof.identities.forms.polynomials.laurent import (
    ONE,
    ZERO,
    Atom,
    Number,
    Poly,
    TooLarge,
    number,
    of_atom,
    of_mono,
    product,
)
from derive.proof.identities.forms.signs import (
    NEGATIVE,
    POSITIVE,
    above_zero,
    interval,
    knowledge,
    sign,
)
from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint

MAX_FACTORS = 4  # of a product whose sign is told by theirs
Factor = tuple[Poly, Number]
SIGNED = POSITIVE, NEGATIVE


def at_least(argument: Poly, strict: bool) -> Poly:
    """Return 1 where a polynomial is at least 0, or above 0, and 0 elsewhere."""
    return by_conditions((argument,), lambda parts: _at_least(parts[0], strict))


def _at_least(argument: Poly, strict: bool) -> Poly:
    infinite = infinite_sign(argument)
    if infinite:
        return ONE if infinite > 0 else ZERO
    decided = _decided(argument, strict)
    if decided is not None:
        return decided
    if _divides_a_product(argument):
        raise TooLarge
    is_positive, factors = _factors_of_unknown_sign(argument)
    if not is_positive:
        return ONE - _product_at_least(factors, not strict)
    return _product_at_least(factors, strict)


def _divides_a_product(argument: Poly) -> bool:
    """Return whether a product over a range is divided by what may be 0.

    So `Prod[k:N-1](A[k])` is written, which has a sign where `A[N-1]` is 0: not that of the
    quotient.
    """
    for mono in argument.terms:
        if any(exponent < 0 and sign(of_atom(atom)) not in SIGNED for atom, exponent in mono):
            return _has_product(argument)
    return False


def _has_product(value: Any) -> bool:
    """Return whether a product over a range is in a field."""
    if isinstance(value, Poly):
        return any(map(_has_product, value.atoms()))
    if isinstance(value, tuple):
        return any(map(_has_product, value))
    if not isinstance(value, Atom):
        return False
    return isinstance(value, Prefix) and value.fields[0] == "Prod" or _has_product(value.fields)


def _factors_of_unknown_sign(argument: Poly) -> tuple[bool, list[Factor]]:
    """Return whether the sign of a polynomial is that of a product, and not the opposite, with the
    factors of that product: those that are not known to be positive or negative.
    """
    value, mono, rest = content(argument)
    constant, irreducible = 1, ((rest, 1),)
    if rest.is_number or difference_of_arguments(rest) is None:
        constant, irreducible = irreducible_factors(rest)
    is_positive = (value > 0) == (constant > 0)
    factors = []
    single = [(of_atom(atom), exponent) for atom, exponent in mono]
    for factor, exponent in [*single, *irreducible]:
        its_sign = sign(factor)
        if its_sign == NEGATIVE and exponent % 2 == 1:
            is_positive = not is_positive
        if its_sign not in (POSITIVE, NEGATIVE):
            factors.append((factor, exponent))
    return is_positive, factors


def _product_at_least(factors: Sequence[Factor], strict: bool) -> Poly:
    """Return 1 where a product of powers is at least 0, or above 0: where an even number of its
    factors is below 0.
    """
    if len(factors) == 1 and factors[0][1] % 2 == 1:
        return _factor_at_least(factors[0][0], strict)
    if len(factors) > MAX_FACTORS:
        whole = product([power(factor, exponent) for factor, exponent in factors])
        return _factor_at_least(whole, strict)
    above, below = ONE, ZERO
    for factor, exponent in factors:
        positive, negative = _factor_at_least(factor, True), ZERO
        if exponent % 2 == 1:
            negative = _factor_at_least(-factor, True)
        elif exponent % 2 == 0:
            positive = positive + _factor_at_least(-factor, True)
        above, below = above * positive + below * negative, above * negative + below * positive
    return above if strict else ONE - below


def _factor_at_least(factor: Poly, strict: bool) -> Poly:
    """Return 1 where a polynomial that is not taken apart any more is at least 0, or above 0."""
    reduced_argument = difference_of_arguments(factor)
    if reduced_argument is not None:
        return _at_least(reduced_argument, strict)
    decided = _decided(factor, strict)
    if decided is not None:
        return decided
    without_rounding = _without_rounding(factor, strict)
    if without_rounding is not None:
        return at_least(*without_rounding)
    tight = tightened(factor, strict)
    if tight != (factor, strict):
        return _factor_at_least(*tight)
    if is_whole(factor) and factor.sorted_terms()[0][1] < 0:
        return ONE - of_atom(Condition(-factor - ONE, False))
    if factor.sorted_terms()[0][1] < 0:
        return ONE - of_atom(Condition(-factor, not strict))
    return of_atom(Condition(factor, strict))


def _decided(argument: Poly, strict: bool) -> Poly | None:
    its_sign = sign(argument)
    if its_sign is None:
        return None
    if its_sign == POSITIVE or (its_sign >= 0 and not strict):
        return ONE
    if its_sign == NEGATIVE or (its_sign <= 0 and strict):
        return ZERO
    return None


def _without_rounding(argument: Poly, strict: bool) -> Inequality | None:
    """Return an inequality of the number that is rounded in the place of one of a rounded number
    and a number: `floor(u) >= 3/2` is `u >= 2`. None for anything else.
    """
    varying = argument - number(argument.number)
    ((mono, slope), *others) = varying.terms.items()
    if others or len(mono) != 1 or mono[0][1] != 1 or not is_rounded(mono[0][0]):
        return None
    (inner,) = mono[0][0].fields[1]
    bound = Fraction(-argument.number) / Fraction(slope)
    if slope > 0:
        least = floor(bound) + 1 if strict else ceil(bound)
        return inner - number(least), False
    most = ceil(bound) if strict else floor(bound) + 1
    return number(most) - inner, True


def absolute_in_case(argument: Poly) -> Poly:
    """Return an absolute value: of `f(u) - f(v)` with a monotone f where facts tell the order of u
    and v.
    """
    if knowledge().facts and not argument.is_number:
        difference = difference_of_arguments(argument)
        its_sign = None if difference is None else sign(difference)
        if its_sign is not None:
            return argument if its_sign >= 0 else -argument
    return absolute(argument)


def with_arguments(facts: Iterable[Inequality]) -> list[Inequality]:
    """Return inequalities, with those of the arguments of monotone functions: with `exp(x) > 1`
    there is `x > 0`.
    """
    extended = []
    for inequality in facts:
        fact, strict = tightened(*inequality)
        extended.append((fact, strict))
        difference = None if fact.is_number else difference_of_arguments(fact)
        if difference is not None:
            extended.append((difference, strict))
    return extended


def difference_of_arguments(argument: Poly) -> Poly | None:
    """Return `u - v` for `f(u) - f(v)` with an increasing f, `v - u` with a decreasing one; None
    for anything else.
    """
    for difference in (_difference_of_logs, _above_zero, without_logarithms):
        reduced_argument = difference(argument)
        if reduced_argument is not None:
            return reduced_argument
    for inside in (leaves, arguments_of):
        ends = sorted(inside(argument), key=lambda atom: atom.order)
        if len(ends) == 2 and isinstance(ends[0], Exp) == isinstance(ends[1], Exp):
            return _difference_of_ends(argument, ends[0], ends[1], inside)
    return None


def _above_zero(argument: Poly) -> Poly | None:
    """Return `u - v` for `f(u)` with an increasing f whose zero is v."""
    ((mono, value), *others) = argument.terms.items()
    if others or len(mono) != 1 or mono[0][1] != 1:
        return None
    difference = above_zero(mono[0][0])
    if difference is None:
        return None
    return difference if value > 0 else -difference


def _difference_of_ends(
    argument: Poly, one: Atom, two: Atom, inside: Callable[[Any], frozenset[Atom]]
) -> Poly | None:
    """Return the difference of the only leaves of two functions, as above."""
    ours, theirs = {}, {}
    for mono, value in argument.terms.items():
        present = inside(of_mono(mono))
        if len(present) != 1:
            return None
        (ours if one in present else theirs)[mono] = value
    swapped = replaced(-Poly(theirs), {two: of_atom(one)})
    if swapped != Poly(ours):
        return None
    direction = monotone(Poly(ours), one)
    if direction is None or (ours and one == two):
        return None
    difference = _logs_of_leaf(one) - _logs_of_leaf(two)
    if difference == argument or -difference == argument:
        return None
    return difference.scaled(direction)


def _logs_of_leaf(atom: Atom) -> Poly:
    return atom.fields[0] if isinstance(atom, Exp) else of_atom(atom)


def _difference_of_logs(argument: Poly) -> Poly | None:
    """Return `log u - log v` of a difference `u - v` of products of exponentials."""
    if len(argument.terms) != 2:
        return None
    (one, a), (two, b) = argument.terms.items()
    if a < 0:
        (one, a), (two, b) = (two, b), (one, a)
    if a < 0 or b > 0:
        return None
    if not all(isinstance(atom, Exp) for atom, _ in (*one, *two)):
        return None
    return logarithm(of_mono(one, a)) - logarithm(of_mono(two, -b))


def index_at_least(form: Affine) -> Poly:
    """Return 1 where an index form is at least 0, and 0 elsewhere."""
    low, high = interval(form)
    if low is not None and low >= 0:
        return ONE
    if high is not None and high < 0:
        return ZERO
    condition = Constraint(form, ">=").form
    if condition.terms[0][1] < 0:
        opposite = Constraint(-condition - 1, ">=").form
        return ONE - of_atom(IndexCondition(opposite))
    return of_atom(IndexCondition(condition))


def index_equal(form: Affine) -> Poly:
    """Return 1 where an index form is 0, and 0 elsewhere."""
    return index_at_least(form) - index_at_least(form - 1)
