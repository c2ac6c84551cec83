"""Normal forms of functions of polynomials: `exp`, `log`, powers, absolute values.

Each takes and returns polynomials; the laws that they apply are rows of `identities.laws`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from derive.proof.identities.forms.polynomials.atoms import (
    CONDITIONS,
    Abs,
    Base,
    Exp,
    Infinity,
    OpaqueFunction,
    PositiveNumber,
    Surd,
    content,
    whole_power,
    with_reduced_fractions,
)
from derive.proof.identities.forms.polynomials.factoring import irreducible_factors
from derive.proof.identities.forms.polynomials.laurent import (
    ONE,
    ZERO,
    Atom,
    Mono,
    NoValue,
    Number,
    Poly,
    TooLarge,
    number,
    of_atom,
    of_mono,
    product,
    reduced,
    summed,
)
from derive.proof.identities.forms.signs import (
    NEGATIVE,
    NONNEGATIVE,
    POSITIVE,
    Sign,
    roots_and_rests,
    sign,
    sign_of_power,
)

MAX_CHOICES = 6  # conditions on which the argument of one function depends
MAX_FACTORED = 10**6  # a number that is taken apart into primes
INFINITY = Infinity()
PI: Mono = ((PositiveNumber("pi"), 1),)
Polys = Sequence[Poly]
MAX_ANGLES = 6  # of which the sum is taken apart under a sine or cosine
ODD = ("erf", "atan", "asinh", "sin", "asin", "atanh")
EVEN = ("cos",)
# Of pi, by the denominator of the multiple.
SINE_AND_COSINE_OF_PI = {1: (ZERO, -ONE), 2: (ONE, ZERO)}


def by_conditions(arguments: Polys, apply: Callable[[Polys], Poly], depth: int = 0) -> Poly:
    """Return a function of arguments that depend on conditions: a sum over the truth values."""
    condition = _first_condition(arguments)
    if condition is None:
        return apply([with_reduced_fractions(argument) for argument in arguments])
    if depth >= MAX_CHOICES:
        raise TooLarge
    chosen = []
    for value in (ONE, ZERO):
        cases = [replaced_condition(argument, condition, value) for argument in arguments]
        chosen.append(by_conditions(cases, apply, depth + 1))
    holds = of_atom(condition)
    return holds * chosen[0] + (ONE - holds) * chosen[1]


def _first_condition(arguments: Polys) -> Atom | None:
    for argument in arguments:
        for atom in argument.atoms():
            if isinstance(atom, CONDITIONS):
                return atom
    return None


def replaced_condition(polynomial: Poly, condition: Atom, value: Poly) -> Poly:
    """Return a polynomial where a condition has a truth value; conditions inside functions stay."""
    parts = []
    for mono, coefficient in polynomial.terms.items():
        rest = tuple([factor for factor in mono if factor[0] is not condition])
        if len(rest) == len(mono):
            parts.append(of_mono(mono, coefficient))
        elif value:
            parts.append(of_mono(rest, coefficient))
    return summed(parts)


def infinite_sign(polynomial: Poly) -> int:
    """Return 1 or -1 where a polynomial is infinite, 0 where it is finite."""
    if INFINITY not in polynomial.atoms():
        return 0
    infinite = {}
    for mono, value in polynomial.terms.items():
        if any(atom is INFINITY for atom, _ in mono):
            infinite[mono] = value
    its_sign = sign(Poly(infinite))
    if its_sign not in (POSITIVE, NEGATIVE):
        raise NoValue
    return 1 if its_sign > 0 else -1


def exponential(argument: Poly) -> Poly:
    """Return `exp` of a polynomial: a product over its terms."""
    return by_conditions((argument,), lambda parts: _exponential(parts[0]))


def _exponential(argument: Poly) -> Poly:
    infinite = infinite_sign(argument)
    if infinite > 0:
        raise NoValue
    if infinite < 0:
        return ZERO
    factors = []
    for mono, value in argument.terms.items():
        inner = _argument_of_log(mono)
        if inner is not None:
            factors.append(power(inner, value))
        else:
            factors.append(of_atom(Exp(of_mono(mono)), value))
    return product(factors)


def _argument_of_log(mono: Any) -> Poly | None:
    if len(mono) != 1:
        return None
    ((atom, exponent),) = mono
    if exponent == 1 and isinstance(atom, OpaqueFunction) and atom.fields[0] == "log":
        return atom.fields[1][0]
    return None


def logarithm(argument: Poly) -> Poly:
    """Return `log` of a polynomial: a sum over the factors that are known to be positive."""
    return by_conditions((argument,), lambda parts: _logarithm(parts[0]))


@dataclass(frozen=True)
class _Factors:
    """The factors of what stands under a root or a logarithm, which is not negative: a positive
    number, powers of what is not negative, even powers of others, and the rest.
    """

    number: Number
    positive: list[tuple[Poly, Number]]
    even: list[tuple[Poly, Number]]
    rest: Poly


def _factors(argument: Poly) -> _Factors:
    value, mono, rest = content(argument)
    constant, irreducible = irreducible_factors(rest)
    value, rest = reduced(value * constant), ONE
    if value < 0:
        rest, value = -rest, -value
    positive, even = [], []
    for factor, exponent in [*((of_atom(atom), power) for atom, power in mono), *irreducible]:
        is_root = not isinstance(exponent, int)
        if is_root or sign(factor) in (POSITIVE, NONNEGATIVE):
            positive.append((factor, exponent))
        elif exponent % 2 == 0:
            even.append((factor, exponent))
        else:
            rest = rest * whole_power(factor, exponent)
    if rest.is_number and rest != ONE:
        raise NoValue
    return _Factors(value, positive, even, rest)


def _logarithm(argument: Poly) -> Poly:
    if not argument or infinite_sign(argument):
        raise NoValue
    factors = _factors(argument)
    terms = []
    for prime, exponent in _primes(factors.number):
        terms.append(of_atom(OpaqueFunction("log", (number(prime),))).scaled(exponent))
    for factor, exponent in factors.positive:
        terms.append(_logarithm_of_factor(factor).scaled(exponent))
    for factor, exponent in factors.even:
        terms.append(_logarithm(absolute(factor)).scaled(exponent))
    if factors.rest != ONE:
        terms.append(of_atom(OpaqueFunction("log", (factors.rest,))))
    return summed(terms)


def _logarithm_of_factor(factor: Poly) -> Poly:
    atom = _only_atom(factor)
    if isinstance(atom, Exp):
        return atom.fields[0]
    for root, rest in roots_and_rests(factor):
        square = root * root - rest * rest
        if square.is_number and square.number > 0:
            scale = _root(square, Fraction(-1, 2))
            return other_function("asinh", [rest * scale]) - logarithm(scale)
    return of_atom(OpaqueFunction("log", (factor,)))


def _only_atom(polynomial: Poly) -> Atom | None:
    """Return the atom that a polynomial is; None where it is none."""
    ((mono, value), *others) = polynomial.terms.items()
    if others or value != 1 or len(mono) != 1 or mono[0][1] != 1:
        return None
    return mono[0][0]


def _primes(value: Number) -> list[tuple[int, int]]:
    """Return the prime factors of a positive rational number, with exponents; large numbers
    count as primes.
    """
    value = Fraction(value)
    factors = []
    for whole, direction in ((value.numerator, 1), (value.denominator, -1)):
        divisor = 2
        while whole > 1:
            if divisor * divisor > whole or divisor > MAX_FACTORED:
                divisor = whole
            exponent = 0
            while whole % divisor == 0:
                whole //= divisor
                exponent += 1
            if exponent:
                factors.append((divisor, direction * exponent))
            divisor += 1
    return factors


def power(argument: Poly, exponent: Number) -> Poly:
    """Return a power with a rational exponent."""
    exponent = reduced(exponent)
    if isinstance(exponent, int):
        return whole_power(argument, exponent)
    return by_conditions((argument,), lambda parts: _root(parts[0], exponent))


def _root(argument: Poly, exponent: Number) -> Poly:
    if not argument:
        return whole_power(ZERO, 1 if exponent > 0 else -1)
    factors = _factors(argument)
    parts = []
    for prime, times in _primes(factors.number):
        parts.append(of_atom(Surd(prime), times * exponent))
    for factor, times in factors.positive:
        parts.append(_power_of_factor(factor, times * exponent))
    for factor, times in factors.even:
        parts.append(power(absolute(factor), times * exponent))
    if factors.rest != ONE:
        parts.append(_power_of_factor(factors.rest, exponent))
    return product(parts)


def _power_of_factor(factor: Poly, exponent: Number) -> Poly:
    """Return a power of what has no factor that is taken out."""
    atom = _only_atom(factor)
    return of_atom(Base(factor) if atom is None else atom, exponent)


def absolute(argument: Poly) -> Poly:
    """Return an absolute value: a product over the factors."""
    return by_conditions((argument,), lambda parts: _absolute(parts[0]))


def _absolute(argument: Poly) -> Poly:
    if infinite_sign(argument):
        raise NoValue
    whole_sign = sign(argument)
    if whole_sign is not None:
        return argument if whole_sign >= 0 else -argument
    value, mono, rest = content(argument)
    constant, irreducible = irreducible_factors(rest)
    factors = [number(abs(value * constant))]
    for atom, exponent in mono:
        if sign_of_power(atom, exponent) in (POSITIVE, NONNEGATIVE):
            factors.append(of_atom(atom, exponent))
        elif isinstance(atom, Base):
            factors.append(power(_absolute(atom.fields[0]), exponent))
        else:
            factors.append(of_atom(Abs(of_atom(atom)), exponent))
    for factor, exponent in irreducible:
        factors.append(whole_power(_absolute_of_factor(factor), exponent))
    return product(factors)


def sign_with_logarithms(polynomial: Poly) -> Sign:
    """Return the sign of a polynomial: with logarithms in it, that of its `exp` less 1."""
    its_sign = sign(polynomial)
    if its_sign is None:
        raised = without_logarithms(polynomial)
        if raised is not None:
            return sign(raised)
    return its_sign


def without_logarithms(polynomial: Poly) -> Poly | None:
    """Return `exp` of a polynomial less 1, which has its sign; None where it has no logarithms."""
    if any(_argument_of_log(mono) is not None for mono in polynomial.terms):
        return exponential(polynomial) - ONE
    return None


def _absolute_of_factor(factor: Poly) -> Poly:
    """Return the absolute value of a polynomial that is not taken apart any more."""
    its_sign = sign_with_logarithms(factor)
    if its_sign is None:
        return of_atom(Abs(factor))
    return factor if its_sign >= 0 else -factor


def hyperbolic(name: str, argument: Poly) -> Poly:
    """Return a hyperbolic function by `exp`."""

    def apply(parts: Polys) -> Poly:
        raised = exponential(parts[0])
        inverse = exponential(-parts[0])
        if name == "sinh":
            return (raised - inverse).scaled(Fraction(1, 2))
        if name == "cosh":
            return (raised + inverse).scaled(Fraction(1, 2))
        square = raised * raised
        return (square - ONE) * whole_power(square + ONE, -1)

    return by_conditions((argument,), apply)


def sine(argument: Poly) -> Poly:
    """Return the sine of a polynomial, by those of its terms."""
    return by_conditions((argument,), lambda parts: _sine_and_cosine(parts[0])[0])


def cosine(argument: Poly) -> Poly:
    """Return the cosine of a polynomial, by those of its terms."""
    return by_conditions((argument,), lambda parts: _sine_and_cosine(parts[0])[1])


def _sine_and_cosine(argument: Poly) -> tuple[Poly, Poly]:
    if infinite_sign(argument):
        raise NoValue
    angles = sum(abs(Fraction(value).numerator) for value in argument.terms.values())
    if angles > MAX_ANGLES:
        return _with_parity("sin", argument), _with_parity("cos", argument)
    whole = ZERO, ONE
    for mono, value in argument.terms.items():
        value = Fraction(value)
        sin, cos = _of_unit(mono, value.denominator)
        if value < 0:
            sin = -sin
        for _ in range(abs(value.numerator)):
            whole = whole[0] * cos + whole[1] * sin, whole[1] * cos - whole[0] * sin
    return whole


def _of_unit(mono: Mono, denominator: int) -> tuple[Poly, Poly]:
    """Return the sine and cosine of a monomial over a number."""
    if mono == PI and denominator in SINE_AND_COSINE_OF_PI:
        return SINE_AND_COSINE_OF_PI[denominator]
    unit = of_mono(mono, reduced(Fraction(1, denominator)))
    return of_atom(OpaqueFunction("sin", (unit,))), of_atom(OpaqueFunction("cos", (unit,)))


def other_function(name: str, arguments: Polys) -> Poly:
    """Return a function of which no more is known than that it is odd or even."""

    def apply(parts: Polys) -> Poly:
        if any(map(infinite_sign, parts)):
            raise NoValue
        if name in (*ODD, *EVEN):
            return _with_parity(name, parts[0])
        return of_atom(OpaqueFunction(name, tuple(parts)))

    return by_conditions(arguments, apply)


def _with_parity(name: str, argument: Poly) -> Poly:
    if not argument:
        return ONE if name in EVEN else ZERO
    if argument.sorted_terms()[0][1] < 0:
        value = of_atom(OpaqueFunction(name, (-argument,)))
        return value if name in EVEN else -value
    return of_atom(OpaqueFunction(name, (argument,)))
