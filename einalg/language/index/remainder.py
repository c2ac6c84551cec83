"""Remainders and whole parts in a body, which are evaluated by einalg and never by SymPy (design
§2).

SymPy joins a remainder with what stands around it, and does so wrongly where numbers are whole: its
`Mod(4*Mod(i, 3), 6)` is `4*Mod(i, 3)`, which is 8 at `i = 2` (sympy issues 28744 and 29757). A
remainder is therefore a node of einalg's own, which only numbers evaluate. Index arithmetic that is
typed with `//` and `%` has rows of integers (`einalg.language.index.affine`).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import sympy
from sympy import Expr, Integer, sympify
from sympy.functions.elementary.piecewise import ExprCondPair

from einalg.boundary import public
from einalg.errors import NotationError
from einalg.language.conditions import disjunction, exclusive, negation
from einalg.language.index.affine import Affine, as_form, modulo
from einalg.language.index.cases import Case, Piecewise
from einalg.language.index.operators import IndexArithmetic, has_index, is_value


class ZeroModulus(NotationError, ZeroDivisionError):
    """A remainder modulo 0, which has no value."""


@public
class Mod(sympy.Function):
    """`dividend - modulus*floor(dividend/modulus)`: what Python's `%` gives, with the sign of the
    modulus.

    Raises `ZeroModulus` for the modulus 0, `NotationError` for what is no number.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (8,)), ea.indices("i")
    >>> Mod(4*Mod(A[i], 3), 6), Mod(4*Mod(i, 3), 6), Mod(-7, 3)
    (Mod(4*(Mod(A[i], 3)), 6), Mod(4*(Mod(i, 3)), 6), 2)
    """

    nargs = (2,)
    is_extended_real = True

    def __new__(cls, dividend: Any, modulus: Any, **options: Any) -> Any:
        try:
            operands = [sympify(dividend, strict=True), sympify(modulus, strict=True)]
        except (sympy.SympifyError, TypeError, AttributeError):
            raise NotationError(
                "a remainder is of expressions and numbers\n  e.g. Mod(A[i], 3)"
            ) from None
        return super().__new__(cls, *operands, **options)

    @classmethod
    def eval(cls, dividend: Any, modulus: Any) -> Any:
        """Return the value of numbers; None leaves the node as it is."""
        for operand in (dividend, modulus):
            if not isinstance(operand, Expr) or operand.is_extended_real is False:
                raise NotationError(
                    f"a remainder is of numbers, and {operand} is none\n  e.g. Mod(A[i], 3)"
                )
        if modulus.is_zero:
            raise ZeroModulus("a remainder modulo 0 has no value\n  e.g. Mod(A[i], 3)")
        if dividend.is_Number and modulus.is_Number:
            return remainder_of_numbers(dividend, modulus)
        return None

    def __mod__(self, other: Any) -> Any:
        return remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return remainder(other, self)


class Quotient(sympy.Function):
    """How often a number holds another one, rounded down: `floor(dividend/divisor)` of the exact
    quotient.

    Of floats `dividend/divisor` is rounded, to 10 for 1 and 0.1; the float 0.1 is above a tenth,
    and 1 holds it 9 times. Modulo 0 it is the quotient of IEEE arithmetic.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (8,)), ea.indices("i")
    >>> Quotient(A[i], 3), Quotient(-7, 3), Quotient(1, sympy.Float(0.1))
    (Quotient(A[i], 3), -3, 9)
    """

    nargs = (2,)
    is_extended_real = True

    @classmethod
    def eval(cls, dividend: Any, divisor: Any) -> Any:
        """Return the value of numbers; None leaves the node as it is."""
        for operand in (dividend, divisor):
            if not isinstance(operand, Expr):
                raise NotationError(
                    f"a quotient is of numbers, and {operand} is none\n  e.g. Quotient(A[i], 3)"
                )
        if divisor.is_zero:
            raise ZeroModulus("a quotient by 0 has no value\n  e.g. Quotient(A[i], 3)")
        if not (dividend.is_Number and divisor.is_Number):
            return None
        if not (dividend.is_finite and divisor.is_finite):
            return None
        return Integer(Fraction(_exact(dividend) / _exact(divisor)).__floor__())


def _exact(number: Any) -> Fraction:
    """Return a number of SymPy as the fraction that it is."""
    if number.is_Rational:
        return Fraction(int(number.p), int(number.q))
    return Fraction(float(number))


def remainder(dividend: Any, modulus: Any) -> Any:
    """Return `dividend % modulus`; numbers of Python and index arithmetic have an operator of their
    own.

    >>> from einalg.language.index.affine import Index
    >>> i, j = Index("i"), Index("j")
    >>> remainder(-7, 3), remainder(i, 3), remainder(i, j), remainder(sympy.Rational(-1, 2), 3)
    (2, i%3, Mod(i, j), 5/2)
    """
    plain = isinstance(dividend, (int, float)) and isinstance(modulus, (int, float))
    if plain or (isinstance(dividend, IndexArithmetic) and not _is_number_in_body(modulus)):
        return dividend % modulus
    return Mod(sympy.sympify(dividend, strict=True), sympy.sympify(modulus, strict=True))


def quotient(dividend: Any, divisor: Any) -> Any:
    """Return `dividend // divisor`, which for two indices is a number in a body.

    >>> from einalg.language.index.affine import Index
    >>> i, j = Index("i"), Index("j")
    >>> quotient(-7, 3), quotient(i, 3), quotient(i, j + 1)
    (-3, i//3, floor(i/(j + 1)))
    """
    if isinstance(dividend, IndexArithmetic) and has_index(divisor):
        return sympy.floor(sympy.Mul(dividend, sympy.Pow(divisor, -1)))  # pyright: ignore
    return dividend // divisor


def _is_number_in_body(divisor: Any) -> bool:
    """Return whether what is divided by an operand is no row of integers."""
    return is_value(divisor) or has_index(divisor)


def remainder_of_numbers(dividend: Any, modulus: Any) -> Any:
    """Return the remainder of two SymPy numbers, exact where both are fractions; NaN where one is
    infinite.
    """
    if not (dividend.is_finite and modulus.is_finite):
        return sympy.nan
    if not (dividend.is_Rational and modulus.is_Rational):
        return sympy.Float(float(dividend) % float(modulus))
    whole = (dividend.p * modulus.q) // (dividend.q * modulus.p)
    return dividend - whole * modulus


def remainder_of_form(form: Affine, modulus: int) -> Affine:
    """Return a row modulo a whole number that is not 0; `e % -k` is `-((-e) % k)`."""
    if modulus > 0:
        return modulo(form, modulus)
    return modulo(form.scaled(-1), -modulus).scaled(-1)


def rounded(function: Any, value: Any) -> Any:
    """Return `floor` or `ceiling` of a value: itself where it is index arithmetic, which is whole,
    else what SymPy makes.

    SymPy takes whole numbers out of a sum, and rounds numbers; both hold for all real numbers.

    >>> from einalg.language.index.affine import Index
    >>> i = Index("i")
    >>> rounded(sympy.floor, (i + 5)/3), rounded(sympy.ceiling, sympy.Mul(2, i))
    (floor((i + 5)/3), 2*i)
    """
    if index_form(value) is not None:
        return value
    return function(value)


ORDERINGS = {  # and what they are with their sides exchanged
    sympy.StrictGreaterThan: sympy.StrictLessThan,
    sympy.StrictLessThan: sympy.StrictGreaterThan,
    sympy.GreaterThan: sympy.LessThan,
    sympy.LessThan: sympy.GreaterThan,
}
EXTREMES = (sympy.Max, sympy.Min)
# So many in each other SymPy compares; it takes time that is exponential in their number.
MAX_EVALUATED = 6
MAX_SETTLED = 4096
_settled: set[Any] = set()  # extremes, by their form, that SymPy leaves as they are
ROUNDING = (sympy.Mod, Mod, sympy.floor, sympy.ceiling)


def applied(function: Any, operands: Any) -> Any:
    """Apply a SymPy function to its operands.

    What rounds numbers, and what would take elements for real numbers, is evaluated here; cases
    stay where they stand, and a comparison with a number has that on the right, where Python puts
    it. A comparison with NaN is false; SymPy refuses it.
    """
    if function in ORDERINGS and sympy.nan in operands:
        return sympy.false
    if function in ORDERINGS and operands[0].is_Number and not operands[1].is_Number:
        return ORDERINGS[function](operands[1], operands[0])
    if function in EXTREMES and any(extremes_inside(o) >= MAX_EVALUATED for o in operands):
        return function(*operands, evaluate=False)
    if function in EXTREMES:
        return _extreme(function, tuple(operands))
    evaluated = EVALUATED.get(function)
    if evaluated is None:
        return function(*operands)
    return evaluated(*operands)


def _extreme(function: Any, operands: tuple[Any, ...]) -> Any:
    """Return `Max` or `Min` of operands as SymPy evaluates it.

    It compares all of them, which takes tens of milliseconds, though it knows of no element more
    than that it is real. So operands of a form that stayed as they were do so again.
    """
    form = _form(operands, {})
    if form is not None and (function, form) in _settled:
        return function(*operands, evaluate=False)
    result = function(*operands)
    if form is not None and isinstance(result, function) and set(result.args) == set(operands):
        if len(_settled) >= MAX_SETTLED:
            _settled.clear()
        _settled.add((function, form))
    return result


def _form(value: Any, elements: dict[Any, int]) -> Any:
    """Return the operations of a body on its elements, which are numbered by their first use.

    None where there are indices in it, of which SymPy knows that they are whole.
    """
    if isinstance(value, tuple):
        forms = tuple(_form(part, elements) for part in value)
        return None if None in forms else forms
    if getattr(value, "is_access", False) or getattr(value, "is_reduction", False):
        return "element", elements.setdefault(value, len(elements))
    if isinstance(value, IndexArithmetic):
        return None
    if not value.args:
        return value
    operands = _form(value.args, elements)
    return None if operands is None else (value.func, operands)


def extremes_inside(value: Any) -> int:
    """Return how many `Max` and `Min` of elements stand in each other at most.

    >>> x, y = sympy.symbols("x y")
    >>> extremes_inside(sympy.Max(2*sympy.Min(x, y) + 1, 0)), extremes_inside(x)
    (2, 0)
    """
    if not isinstance(value, sympy.Basic) or not value.args:
        return 0
    if getattr(value, "is_access", False) or getattr(value, "is_reduction", False):
        return 0
    return isinstance(value, EXTREMES) + max(map(extremes_inside, value.args))


def _power(base: Any, exponent: Any) -> Any:
    """Return a power: cases that divide by 0 are infinite, as they are in floating point. SymPy's
    are infinite in the complex plane, which is no number here.

    >>> x = sympy.Symbol("x")
    >>> _power(2 * Piecewise((x, x > 1), (0, True)), -1)
    Piecewise((1/x, x > 1), (oo, True))/2
    """
    result = sympy.Pow(base, exponent)
    if result.args and base.has(sympy.Piecewise) and result.has(sympy.zoo):
        return _with_infinite_cases(result)
    return result


def _with_infinite_cases(value: Any) -> Any:
    if value is sympy.zoo:
        return sympy.oo
    operands = tuple(map(_with_infinite_cases, value.args))
    if operands == value.args:
        return value
    return applied(value.func, operands)


def _absolute(value: Any) -> Any:
    """Return `Abs` of a value, whose factors SymPy does not look at again once it has split it."""
    result = sympy.Abs(value)
    if not isinstance(result, sympy.Mul):
        return result
    factors = []
    for factor in result.args:
        factors.append(factor.func(*factor.args) if isinstance(factor, sympy.Abs) else factor)
    return sympy.Mul(*factors)


# What is evaluated here in the place of SymPy's functions.
EVALUATED: dict[Any, Callable[..., Any]] = {
    sympy.Mod: Mod,
    sympy.Piecewise: Piecewise,
    ExprCondPair: Case,
    sympy.Abs: _absolute,
    sympy.Pow: _power,
    sympy.floor: partial(rounded, sympy.floor),
    sympy.ceiling: partial(rounded, sympy.ceiling),
    sympy.Not: negation,
    sympy.Or: disjunction,
    sympy.Xor: exclusive,
}


def index_form(value: Any) -> Affine | None:
    """Return the row that a part of a body is, where it is a sum of whole multiples of indices,
    quotients and remainders.

    >>> from einalg.language.index.affine import Index
    >>> i, j = Index("i"), Index("j")
    >>> index_form(sympy.Add(sympy.Mul(2, i), j % 3, 1)), index_form(i * j), index_form(i / 2)
    (2*i + j%3 + 1, None, None)
    """
    total = as_form(0)
    for term in sympy.Add.make_args(value):
        coefficient, atom = term, Integer(1)
        if not term.is_Rational:
            coefficient, atom = term.as_coeff_Mul()
        if not coefficient.is_Integer or not isinstance(atom, (IndexArithmetic, Integer)):
            return None
        total = total.plus(as_form(atom), int(coefficient))
    return total


def as_number(form: Affine) -> Expr:
    """Return an affine form in the place of a number in a body: SymPy's own sum of indices and
    quotients.
    """
    return sympy.Add(form.const, *(sympy.Mul(c, atom) for atom, c in form.terms))
