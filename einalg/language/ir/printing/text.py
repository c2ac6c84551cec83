"""Expressions as text that parses back (design §4)."""

from __future__ import annotations

import re
from typing import Any

import sympy
from sympy import Integer
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from einalg.language.conditions import ORDERED

RANGE = re.compile(r"(?::-?\d+)+")  # of an index; there is no other colon
TOO_DEEP = "(an expression that is nested too deeply to be shown)"


class TextPrinter(StrPrinter):
    """Text that both doors read as the same expression; they evaluate it from left to right."""

    def _print_Float(self, expr: Any) -> str:
        return number_text(expr)

    def _print_Infinity(self, expr: Any) -> str:
        return "inf"

    def _print_NegativeInfinity(self, expr: Any) -> str:
        return "-inf"

    def _print_Not(self, expr: Any) -> str:
        """Return `Not(a < b)` for a negation that stays: `~(a < b)` is read as `a >= b`."""
        if isinstance(expr.args[0], ORDERED):
            return f"Not({self._print(expr.args[0])})"
        return super()._print_Not(expr)

    def _as_ordered_terms(self, expr: Any, order: Any = None) -> list[Any]:
        return ordered_terms(expr)

    def _print_Xor(self, expr: Any) -> str:
        """Return the sides as those of a function: `^` is no sign of the notation."""
        return f"Xor({', '.join(map(self._print, expr.args))})"

    def _print_Mul(self, expr: Any) -> str:
        """Return a product with sums last or in brackets: `2*(a + b)*c` would be `(2*a +
        2*b)*c`.
        """
        number, rest = expr.as_coeff_Mul()
        sign = ""
        if number.is_extended_negative:
            sign, number = "-", -number
        top, bottom = number, Integer(1)
        if number.is_Rational:
            top, bottom = Integer(number.p), Integer(number.q)
        factors, sums, divisors = _split_factors(rest)
        over = self._over(bottom, divisors)
        numerators = list(map(self._factor, factors))
        if top != 1:
            numerators.insert(0, self._factor(top))
        brackets = list(map(self._factor, sums))
        if factors or not sums:
            return sign + ("*".join(numerators + brackets) or "1") + over
        if not sign and top == 1:
            return "*".join(brackets) + over
        if divisors:
            return f"{sign}{self._print(top)}{over}*{'*'.join(brackets)}"
        return f"{sign}{'*'.join([*numerators, '(' + '*'.join(brackets) + ')'])}{over}"

    def _over(self, number: Any, divisors: list[Any]) -> str:
        """Return what a product is divided by, e.g. `/2` or `/(2*a)`.

        A number stands alone before sums: `/(2*(a + b))` would be `/(2*a + 2*b)`.
        """
        others = sorted(divisors, key=_is_sum)
        if number != 1 and others and _is_sum(others[0]):
            return self._over(number, []) + self._over(Integer(1), others)
        if number != 1:
            others.insert(0, number)
        if not others:
            return ""
        factors = "*".join(map(self._factor, others))
        if len(others) > 1:
            return f"/({factors})"
        return f"/{factors}"

    def _factor(self, factor: Any) -> str:
        return self.parenthesize(factor, PRECEDENCE["Mul"], strict=False)


def _is_sum(factor: Any) -> bool:
    return bool(factor.is_Add)


def ordered_terms(total: Any) -> list[Any]:
    """Return the terms of a sum as a person writes them: numbers last, and nothing negative first
    where there is a choice.
    """
    return sorted(total.args, key=_term_order)


def _term_order(term: Any) -> tuple[bool, bool]:
    return bool(term.is_number), bool(term.as_coeff_Mul()[0].is_negative)


def _split_factors(product: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the factors of a product: those that are no sums, the sums, and what stands below the
    line.
    """
    factors, sums, divisors = [], [], []
    for factor in sympy.Mul.make_args(product):
        if isinstance(factor, sympy.Pow) and factor.exp.is_Rational and factor.exp < 0:
            divisors.append(sympy.Pow(factor.base, -factor.exp))
        elif factor != 1:
            (sums if factor.is_Add else factors).append(factor)
    return factors, sums, divisors


def text(node: Any) -> str:
    """Return `node` in the notation, valid in both doors; printing never raises."""
    try:
        return TextPrinter({"order": "none"}).doprint(node)
    except RecursionError:
        return TOO_DEEP


def outline(node: Any) -> str:
    """Return a node in the notation without the ranges of its indices.

    >>> import einalg as ea
    >>> outline(ea.parse("O[i] += A[i,k]*B[k]", A=(4, 5), B=(5,)))
    'L[i](Sum[k](A[i, k]*B[k]))'
    """
    return RANGE.sub("", text(node))


class _NumberPrinter(StrPrinter):
    """Numbers with all digits of their floats, of which SymPy prints 15."""

    def _print_Float(self, expr: Any) -> str:
        return repr(float(expr))


def number_text(value: Any) -> str:
    """Return a constant as both doors read it."""
    if value == sympy.oo:
        return "inf"
    if value == -sympy.oo:
        return "-inf"
    return _NumberPrinter().doprint(value)
