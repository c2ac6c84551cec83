"""Expressions as text that parses back, and as a tree (design §4)."""

from __future__ import annotations

import re
from typing import Any

import sympy
from sympy import Integer
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

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

    def _as_ordered_terms(self, expr: Any, order: Any = None) -> list[Any]:
        return ordered_terms(expr)

    def _print_Mul(self, expr: Any) -> str:
        """Sums last or in brackets of their own: `2*(a + b)*c` would be `(2*a + 2*b)*c`."""
        number, rest = expr.as_coeff_Mul()
        sign, number = ("-", -number) if number.is_extended_negative else ("", number)
        top, bottom = (
            (Integer(number.p), Integer(number.q)) if number.is_Rational else (number, Integer(1))
        )
        factors, sums, divisors = _parted(rest)
        below = [self._factor(d) for d in ([bottom] if bottom != 1 else []) + divisors]
        over = f"/({'*'.join(below)})" if len(below) > 1 else f"/{below[0]}" if below else ""
        above = [self._factor(f) for f in ([top] if top != 1 else []) + factors]
        brackets = [self._factor(s) for s in sums]
        if factors or not sums:
            return sign + ("*".join(above + brackets) or "1") + over
        if not sign and top == 1:
            return "*".join(brackets) + over
        if divisors:
            return f"{sign}{self._print(top)}{over}*{'*'.join(brackets)}"
        return f"{sign}{'*'.join([*above, '(' + '*'.join(brackets) + ')'])}{over}"

    def _factor(self, factor: Any) -> str:
        return self.parenthesize(factor, PRECEDENCE["Mul"], strict=False)


def ordered_terms(total: Any) -> list[Any]:
    """The terms of a sum as a person writes them: numbers last, and nothing negative first where
    there is a choice.
    """
    return sorted(
        total.args,
        key=lambda term: (bool(term.is_number), bool(term.as_coeff_Mul()[0].is_negative)),
    )


def _parted(product: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """The factors of a product: those that are no sums, the sums, and what stands below the
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
    """`node` in the notation, valid in both doors; printing never raises."""
    try:
        return TextPrinter({"order": "none"}).doprint(node)
    except RecursionError:
        return TOO_DEEP


def outline(node: Any) -> str:
    """The notation without the ranges of its indices.

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
    """A constant as both doors read it."""
    if value in (sympy.oo, -sympy.oo):
        return "inf" if value == sympy.oo else "-inf"
    return _NumberPrinter().doprint(value)
