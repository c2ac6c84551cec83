"""How large the degree and the coefficients of an expression are, and so how often a random point
of a random field misses that two expressions differ (design §9).

An element is a rational function of the inputs, and of the values that functions such as exp have,
each of which is one more variable. Two of them differ if a polynomial with integer coefficients is
not 0. A test in a field misses that where the prime divides all coefficients, which few primes do,
or where the point is a root, of which there are few: at most the degree in as many as the field has
elements (Schwartz and Zippel).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm, log2, prod
from typing import Any

import sympy
from sympy.functions.elementary.piecewise import ExprCondPair

from derive.proof.random.operations import FIELD_REDUCTIONS, ORDERED_FUNCTIONS, is_whole
from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.interpreters.prime_field.primes import COUNT, LOWEST
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Padded
from einalg.language.ir.traversal import accesses

Ranges = Mapping[Index, tuple[int, int]]
MAX_SCALE_BITS = 10**5  # of the common denominator of the constants of an element


class Unbounded(Exception):
    """There is no bound: a root, a choice by order or truth values are met too rarely or too
    often.
    """


@dataclass(frozen=True)
class Degree:
    """The degrees of an element P/(s·Q), where P and Q are polynomials with integer coefficients
    and s is a whole number; bits are logarithms of the sums of their absolute values.

    For `exp(A[i]**2)/(3*B[i])` the numerator has degree 1, the denominator 1, the scale is 3, and
    exp, applied once, has an argument of degree 2. `poles` is the degree of all that is divided by.
    """

    numerator: int = 0
    numerator_bits: float = 0.0
    denominator: int = 0
    denominator_bits: float = 0.0
    scale: int = 1
    poles: int = 0
    divided_bits: float = 0.0  # of all numbers that are divided by, powers of 2 left out
    applications: int = 0
    argument: int = 0  # the largest sum of both degrees of an argument of a function
    argument_bits: float = 0.0

    def times(self, count: int) -> Degree:
        """Return the degree of the product of `count` such elements."""
        return replace(
            self.repeated(count),
            numerator=self.numerator * count,
            numerator_bits=self.numerator_bits * count,
            scale=_power(self.scale, count),
        )

    def repeated(self, count: int) -> Degree:
        """Return all that adds up over `count` such elements, whatever joins them."""
        return replace(
            self,
            denominator=self.denominator * count,
            denominator_bits=self.denominator_bits * count,
            poles=self.poles * count,
            divided_bits=self.divided_bits * count,
            applications=self.applications * count,
        )

    @property
    def inverse(self) -> Degree:
        return replace(
            self,
            numerator=self.denominator,
            numerator_bits=self.denominator_bits + log2(self.scale),
            denominator=self.numerator,
            denominator_bits=self.numerator_bits,
            scale=1,
            poles=self.poles + self.numerator,
            divided_bits=self.divided_bits + self.numerator_bits,
        )

    def scaled_to(self, scale: int) -> Degree:
        """Return the same element with another, multiple number below the fraction."""
        bits = self.numerator_bits + log2(scale // self.scale)
        return replace(self, numerator_bits=bits, scale=scale)


VARIABLE = Degree(numerator=1)


@dataclass(frozen=True)
class MissBound:
    """A bound of the probability that a test at one random point misses a difference: `roots` of a
    field of that many elements, and `primes` of those that are drawn.
    """

    roots: int
    primes: int

    def probability(self, elements: int = LOWEST, drawn: int = COUNT) -> float:
        """Return the bound for a field of at least so many elements, and so many primes to draw."""
        return min(1.0, self.roots / elements + self.primes / drawn)


def miss_bound(one: Scope, two: Scope, smallest: int = LOWEST) -> MissBound | None:
    """Return how often one random point misses that elements of two scopes differ, where no prime
    below `smallest` is drawn; None where no bound is known.

    A function such as exp is as good as random where it is applied, so that besides no two of its
    different arguments may meet, up to their signs, nor one of the few where it has a value of its
    own.
    """
    try:
        a, b = [_of_scope(scope, {}) for scope in (one, two)]
    except Unbounded:
        return None
    applications = a.applications + b.applications
    pairs = applications * (applications - 1) // 2
    argument = max(a.argument, b.argument)
    argument_bits = max(a.argument_bits, b.argument_bits)
    meetings = pairs * 4 * argument + applications * 2 * argument
    degree = max(a.numerator + b.denominator, b.numerator + a.denominator)
    bits = 1 + max(
        a.numerator_bits + b.denominator_bits + log2(b.scale),
        b.numerator_bits + a.denominator_bits + log2(a.scale),
    )
    prime_bits = log2(smallest)
    primes = int(bits / prime_bits) + int(min(a.divided_bits, b.divided_bits) / prime_bits)
    primes += pairs * 2 * int((2 * argument_bits + 1) / prime_bits)
    primes += applications * 2 * int((argument_bits + 1) / prime_bits)
    return MissBound(degree + min(a.poles, b.poles) + meetings, primes)


def _of_scope(scope: Scope, known: dict[int, Degree]) -> Degree:
    """Return the degree of an element; `known` are those of scopes by identity."""
    if id(scope) not in known:
        ranges = {it.index: (it.low, it.high) for it in scope.iterators}
        known[id(scope)] = _degree(scope.body, ranges, known)
    return known[id(scope)]


def _degree(body: Any, ranges: Ranges, known: dict[int, Degree]) -> Degree:
    if isinstance(body, Access):
        return _of_view(body.base, known)
    if isinstance(body, IndexArithmetic):
        return _of_index(body, ranges)
    if not body.args:
        return _of_constant(body)
    for kind, degree_of in BY_KIND.items():
        if isinstance(body, kind):
            return degree_of(body, ranges, known)
    parts = [_degree(part, ranges, known) for part in body.args]
    if isinstance(body, sympy.Add):
        return _of_sum(parts)
    if isinstance(body, sympy.Mul):
        return _of_product(parts)
    return _of_function(parts)


def _of_view(view: Any, known: dict[int, Degree]) -> Degree:
    if isinstance(view, Padded):
        return _either([_of_view(view.base, known), _of_constant(view.fill)])
    if isinstance(view, Scope):
        return _either([_of_scope(view, known), Degree()])
    if isinstance(view, Constant):
        return _of_numbers([Fraction(int(v.p), int(v.q)) for v in view.values])
    if view.dtype == "bool":
        raise Unbounded  # drawn from two values, which have more roots
    return VARIABLE


def _of_constant(value: Any) -> Degree:
    if value in (sympy.true, sympy.false):
        return Degree()
    if value.is_Rational:
        return _of_numbers([Fraction(int(value.p), int(value.q))])
    if value.is_Float:
        return _of_numbers([Fraction(float(value))])
    if value.is_finite:
        return VARIABLE  # an irrational number is drawn, like the value of a function
    raise Unbounded


def _of_numbers(numbers: Sequence[Fraction]) -> Degree:
    """Return the degree of an element that is one of some numbers."""
    scale = lcm(*[number.denominator for number in numbers])
    largest = max((abs(number * scale) for number in numbers), default=Fraction(0))
    odd = scale // (scale & -scale)  # primes that are drawn divide no power of 2
    return Degree(numerator_bits=_bits(int(largest)), scale=_small(scale), divided_bits=_bits(odd))


def _of_index(form: Any, ranges: Ranges) -> Degree:
    low, high = _interval(form, ranges)
    return Degree(numerator_bits=_bits(max(abs(low), abs(high))))


def _interval(form: Any, ranges: Ranges) -> tuple[int, int]:
    return affine(form).interval(ranges)


def _of_index_function(body: Any, ranges: Ranges, known: dict[int, Degree]) -> Degree:
    """Return the degree of a maximum, a remainder or a comparison of indices: a whole number that
    is hardly larger than they are.
    """
    if next(accesses(body), None) is not None or not is_whole(body):
        raise Unbounded
    parts = [_degree(part, ranges, known) for part in body.args]
    return Degree(numerator_bits=1 + max(part.numerator_bits for part in parts))


def _of_choice(body: Any, ranges: Ranges, known: dict[int, Degree]) -> Degree:
    """Return the degree of what is chosen by conditions on indices alone: one value at a point."""
    values = []
    for pair in body.args:
        assert isinstance(pair, ExprCondPair)
        if next(accesses(pair.cond), None) is not None:
            raise Unbounded
        values.append(_degree(pair.expr, ranges, known))
    return _either(values)


def _of_power(body: Any, ranges: Ranges, known: dict[int, Degree]) -> Degree:
    low, high = _exponents(body.exp, ranges)
    base = _degree(body.base, ranges, known)
    powers = []
    if high > 0:
        powers.append(base.times(high))
    if low < 0:
        powers.append(base.times(-low).inverse)
    return _either([*powers, Degree()])


def _exponents(exponent: Any, ranges: Ranges) -> tuple[int, int]:
    """Return the least and the largest exponent; those of one power of a number may differ by
    point.
    """
    if exponent.is_Integer:
        return int(exponent), int(exponent)
    if isinstance(exponent, IndexArithmetic):
        return _interval(exponent, ranges)
    raise Unbounded


def _of_reduction(node: Reduce, ranges: Ranges, known: dict[int, Degree]) -> Degree:
    if node.op not in FIELD_REDUCTIONS:
        raise Unbounded
    inner = {**ranges, **{it.index: (it.low, it.high) for it in node.iterators}}
    element = _degree(node.body, inner, known)
    count = prod(it.extent for it in node.iterators)
    if count == 0:
        return Degree()
    if node.op == "Prod":
        return _either([element.times(count), Degree()])
    return _sum_of_many(element, count)


def _sum_of_many(element: Degree, count: int) -> Degree:
    """Return the degree of the sum of `count` elements, all denominators different."""
    others = count - 1
    return replace(
        element.repeated(count),
        numerator=element.numerator + others * element.denominator,
        numerator_bits=element.numerator_bits + others * element.denominator_bits + log2(count),
    )


def _of_sum(parts: Sequence[Degree]) -> Degree:
    """Return the degree of a sum of unlike elements, all denominators different."""
    scale = _small(lcm(*[part.scale for part in parts]))
    parts = [part.scaled_to(scale) for part in parts]
    total = _joined(parts)
    degrees, bits = [0], [0.0]
    for part in parts:
        degrees.append(part.numerator + total.denominator - part.denominator)
        bits.append(part.numerator_bits + total.denominator_bits - part.denominator_bits)
    return replace(
        total,
        numerator=max(degrees),
        numerator_bits=max(bits) + log2(len(parts)),
        scale=scale,
    )


def _of_product(parts: Sequence[Degree]) -> Degree:
    return replace(
        _joined(parts),
        numerator=sum(part.numerator for part in parts),
        numerator_bits=sum(part.numerator_bits for part in parts),
        scale=_small(prod(part.scale for part in parts)),
    )


def _of_function(parts: Sequence[Degree]) -> Degree:
    """Return the degree of a function's value: a variable of its own."""
    together = _of_product(parts)
    both = together.numerator + together.denominator
    bits = together.numerator_bits + together.denominator_bits + log2(together.scale)
    return Degree(
        numerator=1,
        poles=together.poles,
        divided_bits=together.divided_bits,
        applications=together.applications + 1,
        argument=max(together.argument, both),
        argument_bits=max(together.argument_bits, bits),
    )


def _joined(parts: Sequence[Degree]) -> Degree:
    """Return all that adds up over several elements, whatever joins them."""
    return Degree(
        denominator=sum(part.denominator for part in parts),
        denominator_bits=sum(part.denominator_bits for part in parts),
        poles=sum(part.poles for part in parts),
        divided_bits=sum(part.divided_bits for part in parts),
        applications=sum(part.applications for part in parts),
        argument=max((part.argument for part in parts), default=0),
        argument_bits=max((part.argument_bits for part in parts), default=0.0),
    )


def _either(parts: Iterable[Degree]) -> Degree:
    """Return the degree of an element that is one of several."""
    parts = list(parts)
    scale = _small(lcm(*[part.scale for part in parts]))
    parts = [part.scaled_to(scale) for part in parts]
    return Degree(
        numerator=max(part.numerator for part in parts),
        numerator_bits=max(part.numerator_bits for part in parts),
        denominator=max(part.denominator for part in parts),
        denominator_bits=max(part.denominator_bits for part in parts),
        scale=scale,
        poles=max(part.poles for part in parts),
        divided_bits=max(part.divided_bits for part in parts),
        applications=max(part.applications for part in parts),
        argument=max(part.argument for part in parts),
        argument_bits=max(part.argument_bits for part in parts),
    )


def _bits(number: int) -> float:
    return log2(number) if number > 1 else 0.0


def _power(base: int, exponent: int) -> int:
    if base > 1 and exponent * log2(base) > MAX_SCALE_BITS:
        raise Unbounded
    return base**exponent


def _small(scale: int) -> int:
    if scale.bit_length() > MAX_SCALE_BITS:
        raise Unbounded
    return scale


BY_KIND: Mapping[Any, Callable[[Any, Ranges, dict[int, Degree]], Degree]] = {
    Reduce: _of_reduction,
    sympy.Piecewise: _of_choice,
    ORDERED_FUNCTIONS: _of_index_function,
    sympy.Pow: _of_power,
}
