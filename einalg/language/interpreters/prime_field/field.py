"""Arithmetic modulo a prime: an exact test of identities at random points (design §9).

Equal values for equal expressions. Expressions that are equal by these identities always get equal
values:

- those of a field for + - * / and integer powers; division by 0 is *undefined*, and so is what is
  computed from it;
- `exp`, `tanh`, … are functions: equal arguments give equal values. Besides, tanh, erf, sin, tan,
  sinh, asin, atan, asinh and atanh are odd, cos and cosh even, `erfc(x) = 1 - erf(x)`, `ceiling(x)
  = -floor(-x)`, `Mod(a, b) = a - b*floor(a/b)`, `exp(0) = cos(0) = cosh(0) = 1`, `log(1) = acos(1)
  = acosh(1) = floor(0) = 0`, and at an infinity they have their limits;
- `x**(n/d)` is the n-th power of the d-th root; square roots are multiplicative and `sqrt(x)**4 =
  x**2` (modulus 3 modulo 4);
- `Max`, `Min`, `Abs`, `sign` and `< <= > >=` follow one total order with `-inf` first and `inf`
  last: maxima are associative, commutative, idempotent, distribute over minima, and agree as
  functions, as reductions and as `Piecewise`; `Max(-a, -b) = -Min(a, b)`, `Abs(x) = Max(x, -x) =
  sign(x)*x`;
- `Eq(a, b)` holds where a and b are equal, and at a pseudo-random half of the other pairs but 0 and
  1, so that both cases are met;
- what depends on indices only is compared, rounded and bounded as the number that it is;
- infinities behave as in IEEE arithmetic, where the sign of an element is its sign in the order.

Other identities of the reals are *not* respected, and expressions that are equal by them look
different: `exp(a + b) = exp(a)*exp(b)`, `sqrt(x)**2 = x`, `sqrt(x**2) = Abs(x)`, `floor(x + 1) =
floor(x) + 1`, `Max(a + c, b + c) = Max(a, b) + c`, `Max(2*a, 2*b) = 2*Max(a, b)`, `x*x >= 0`,
transitivity of `Eq`.

Different values for different expressions. Two polynomials with rational coefficients whose
denominators the modulus does not divide, and that differ modulo it, agree at a uniformly random
point with probability at most degree/modulus (Schwartz and Zippel). Functions are drawn by the
seed. Where the order decides, each case is met at a fraction of the points: half for `x > 0`, and
about c/300 (by the seed: c/1200 to c/150) for `0 < x < c`. Constants up to 150 (75 to 600) are in
their order: integers, and fractions whose denominators divide 2**9 * 3**2 * 5 * 7 * 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any

import numpy as np
import sympy

from einalg.errors import NotationError, ShapeError
from einalg.language.conditions import TESTS, isfinite, isinf, isnan
from einalg.language.conversion import Conversion
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.interpreters.exact_values import UNDEFINED
from einalg.language.interpreters.numpy.arithmetic import FLOAT, Array
from einalg.language.interpreters.numpy.functions import COMPARISONS, FUNCTIONS, as_number
from einalg.language.interpreters.prime_field.extended import Extended
from einalg.language.interpreters.prime_field.modular import (
    inverse,
    matmul,
    power,
    product_along,
    residues,
)
from einalg.language.interpreters.prime_field.uninterpreted import pseudo_random, uninterpreted

MERSENNE = 2**31 - 1


@dataclass(frozen=True)
class PrimeField:
    """Residues modulo an odd prime below 2**31, as int64; `-inf` is -1, `inf` the modulus,
    *undefined* the modulus + 1.

    Inputs are integers, floats (the binary fractions that they are), or objects with a numerator
    and a denominator; where it `holds_elements`, integers are elements of the field already. `seed`
    draws the functions that a field does not have, and the order. Raises `NotationError` for a bad
    modulus.

    >>> field = PrimeField(101)
    >>> field.number(sympy.Rational(1, 2)), int(field.divide(1, 2)), field.number(-sympy.oo)
    (51, 51, -1)
    """

    modulus: int = MERSENNE
    seed: int = 0
    holds_elements: bool = False

    def __post_init__(self) -> None:
        if not (2 < self.modulus < 2**31 and sympy.isprime(self.modulus)):
            raise NotationError(
                f"{self.modulus} is not an odd prime below 2**31\n  use PrimeField() for 2**31 - 1"
            )

    @property
    def order(self) -> int:
        """The number of elements, which are the integers below it."""
        return self.modulus

    @cached_property
    def extended(self) -> Extended:
        return Extended.of(self.order, self.seed, self.modulus)

    def load(self, arrays: Mapping[str, Array], dtypes: Mapping[str, str]) -> dict[str, Array]:
        return {name: self._loaded(name, array) for name, array in arrays.items()}

    def _loaded(self, name: str, array: Array) -> Array:
        if array.dtype.kind == "f":
            return self.extended.from_reals(array)
        if array.dtype.kind == "O" and all(hasattr(v, "denominator") for v in array.flat):
            numbers = [self._fraction(v.numerator, v.denominator) for v in array.flat]
            return np.array(numbers, np.int64).reshape(array.shape)
        if array.dtype.kind not in "biu":
            raise ShapeError(
                f"{name} holds {array.dtype}, which is not a number\n"
                "  pass an array of integers, floats or fractions"
            )
        if self.holds_elements and array.dtype.kind != "b":
            return array.astype(np.int64, copy=False)
        return residues(array, self.modulus)

    def stored(self, values: Array) -> Array:
        return values.astype(np.int64, copy=False)

    def finish(self, values: Array, dtype: str, exact: bool) -> Array:
        return values

    def number(self, value: Any) -> Any:
        if value is sympy.true or value is sympy.false:
            return bool(value)
        if value == sympy.oo:
            return self.extended.highest
        if value == -sympy.oo:
            return self.extended.lowest
        if value.is_Rational:
            return self._fraction(value.p, value.q)
        if value.is_Float:
            return self._fraction(*Fraction(float(value)).as_integer_ratio())
        if value in UNDEFINED:
            return self.extended.undefined
        return int(pseudo_random(str(value), [], self.order, self.seed))

    def _fraction(self, numerator: Any, denominator: Any) -> int:
        if int(denominator) % self.modulus == 0:
            return self.extended.undefined
        return int(numerator) * pow(int(denominator), -1, self.modulus) % self.modulus

    def index(self, values: Any) -> Any:
        return values % self.modulus

    def add(self, values: Sequence[Any]) -> Any:
        return self.extended.arithmetic(
            lambda *v: self._plus(v), lambda *v: reduce(np.add, v), values
        )

    def _plus(self, values: Sequence[Any]) -> Any:
        return reduce(np.add, values) % self.modulus

    def multiply(self, values: Sequence[Any]) -> Any:
        ordered = sorted(values, key=np.size)
        return self.extended.arithmetic(
            lambda *v: reduce(self._times, v), lambda *v: reduce(np.multiply, v), ordered
        )

    def _times(self, left: Any, right: Any) -> Any:
        return np.multiply(left, right) % self.modulus

    def divide(self, numerator: Any, denominator: Any) -> Any:
        return self.multiply([numerator, self._inverse(denominator)])

    def _inverse(self, values: Any) -> Any:
        inverses = self.extended.function(self._reciprocal, np.reciprocal, [values])
        return np.where(np.equal(values, 0), self.extended.undefined, inverses)

    def _reciprocal(self, values: Any) -> Any:
        return inverse(values, self.modulus)

    def power(self, base: Any, exponent: Any) -> Any:
        if isinstance(exponent, sympy.Rational):
            return self.power(self._root(base, int(exponent.q)), int(exponent.p))
        if np.min(exponent) < 0:
            positive = self.power(base, np.abs(exponent))
            return np.where(np.less(exponent, 0), self._inverse(positive), positive)
        return self.extended.arithmetic(
            lambda v: power(v, exponent, self._times), lambda v: np.power(v, exponent), [base]
        )

    def _root(self, base: Any, degree: int) -> Any:
        def root(values: Any) -> Any:
            if degree == 2 and self.order % 4 == 3:
                return power(values, (self.order + 1) // 4, self._times)
            roots = pseudo_random(f"root {degree}", [values], self.order, self.seed)
            return np.where(np.less(values, 2), values, roots)

        return self.extended.function(root, lambda v: np.power(v, 1 / degree), [base])

    def function(self, function: type, values: Sequence[Any]) -> Any:
        if issubclass(function, Conversion):
            return values[0]
        return self._function(function, values)

    def _function(self, function: type, values: Sequence[Any]) -> Any:
        if function in (sympy.Max, sympy.Min):
            return reduce(lambda a, b: self._extremum_of_two(function.__name__, a, b), values)
        if function is sympy.Abs:
            return self._extremum_of_two("Max", values[0], self._negative(values[0]))
        if function is sympy.sign:
            return self.extended.from_reals(np.sign(self.extended.as_reals(values[0])))
        if function is sympy.erfc:
            return self._minus(1, self.function(sympy.erf, values))
        if function is sympy.ceiling:
            return self._negative(self.function(sympy.floor, [self._negative(values[0])]))
        if function in TESTS:
            return self._test(function, values[0])
        if function in (Quotient, Mod):
            return self._division(function, *values)
        if function is not sympy.Pow and function not in FUNCTIONS:
            raise NotationError(
                f"the executor has no value for {function.__name__}\n"
                "  write it with functions of the notation: exp, log, erf, …"
            )
        return self.extended.function(
            lambda *v: uninterpreted(function, v, self._opposite, self.order, self.seed),
            lambda *v: FLOAT.function(function, v),
            values,
        )

    def _opposite(self, values: Any) -> Any:
        return -np.asarray(values) % self.modulus

    def _test(self, function: type, value: Any) -> Any:
        """Return a test for NaN or infinities: a pseudo-random half of the elements pass one, so
        that both cases are met.
        """
        if function is isfinite:
            return ~(self._test(isnan, value) | self._test(isinf, value))
        half = pseudo_random(function.__name__, [value], self.order, self.seed) % 2 == 1
        return half & self.extended.is_element(value)

    def _division(self, function: type, dividend: Any, divisor: Any) -> Any:
        """Return the whole quotient of a division, or its remainder."""
        quotient = self.function(sympy.floor, [self.divide(dividend, divisor)])
        if function is Quotient:
            return quotient
        return self._minus(dividend, self.multiply([divisor, quotient]))

    def _negative(self, values: Any) -> Any:
        return self.multiply([values, self.modulus - 1])

    def _minus(self, left: Any, right: Any) -> Any:
        return self.add([left, self._negative(right)])

    def _extremum_of_two(self, op: str, left: Any, right: Any) -> Any:
        in_order = self.extended.order(left) <= self.extended.order(right)
        if op == "Max":
            left, right = right, left
        extremum = np.where(in_order, left, right)
        return np.where(self._any_undefined(left, right), self.extended.undefined, extremum)

    def _any_undefined(self, left: Any, right: Any) -> Any:
        undefined = self.extended.undefined
        return np.equal(left, undefined) | np.equal(right, undefined)

    def compare(self, relation: type, left: Any, right: Any) -> Any:
        if relation in (sympy.Eq, sympy.Ne):
            equal = self._equal(left, right)
            return equal if relation is sympy.Eq else ~equal
        holds = COMPARISONS[relation](self.extended.order(left), self.extended.order(right))
        return holds & ~self._any_undefined(left, right)

    def _equal(self, left: Any, right: Any) -> Any:
        """Return where values are equal, and at a pseudo-random half of the other pairs of
        elements, but for 0 and 1, which truth values are.
        """
        pair = [np.minimum(left, right), np.maximum(left, right)]
        half = pseudo_random("Eq", pair, self.order, self.seed) % 2 == 1
        elements = self.extended.is_element(left) & self.extended.is_element(right)
        truths = np.less(left, 2) & np.less(right, 2)
        return np.equal(left, right) | (half & elements & ~truths)

    def select(self, condition: Any, value: Any, otherwise: Any) -> Any:
        return np.where(condition, value, otherwise)

    def reduce(self, op: str, values: Array, axes: tuple[int, ...], mask: Array | None) -> Array:
        values = as_number(values)
        if op in ("Max", "Min"):
            return self._extremum(op, values, axes, mask)
        if mask is not None:
            values = np.where(mask, values, 0 if op == "Sum" else 1)
        if op == "Sum":
            return self.extended.arithmetic(
                lambda v: self._sum_along(v, axes),
                lambda v: np.sum(v, axis=axes),
                [values],
            )
        return self.extended.arithmetic(
            lambda v: product_along(v, axes, self._times),
            lambda v: np.prod(v, axis=axes),
            [values],
        )

    def _sum_along(self, values: Array, axes: tuple[int, ...]) -> Array:
        return np.sum(values, axis=axes) % self.modulus

    def _extremum(self, op: str, values: Array, axes: tuple[int, ...], mask: Array | None) -> Array:
        take, identity = np.min, self.extended.highest
        if op == "Max":
            take, identity = np.max, self.extended.lowest
        within = np.True_ if mask is None else mask
        initial = int(self.extended.order(identity))
        place = take(self.extended.order(values), axis=axes, initial=initial, where=within)
        unknown = np.any(np.equal(values, self.extended.undefined), axis=axes, where=within)
        return np.where(unknown, self.extended.undefined, self.extended.at(place))

    def combine(self, op: str, left: Any, right: Any) -> Any:
        if op in ("Max", "Min"):
            return self._extremum_of_two(op, left, right)
        if op == "Sum":
            return self.add([left, right])
        return self.multiply([left, right])

    def reduced(self, op: str, value: Any) -> Any:
        return value

    def matmul(self, left: Array, right: Array) -> Array:
        return self._matrix_product(left, right)

    def _matrix_product(self, left: Array, right: Array) -> Array:
        return matmul(left, right, self.modulus)

    def finite(self, values: Any) -> bool:
        return self.extended.finite(values)
