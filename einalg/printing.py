"""Expressions as text that parses back, and as a tree (design §4)."""

from __future__ import annotations

import re
from typing import Any

import sympy
from sympy import Integer
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from einalg.access import Access, Padded, number_text, unpadded
from einalg.affine import IndexArithmetic
from einalg.errors import Error, underline
from einalg.scope import Iterator, Reduce, Scope, Twice

RANGE = re.compile(r"(?::-?\d+)+")  # of an index; there is no other colon
TOO_DEEP = "(an expression that is nested too deeply to be shown)"


class _TextPrinter(StrPrinter):
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
        top, bottom = (Integer(number.p), Integer(number.q)) if number.is_Rational else (number, Integer(1))
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
    """The terms of a sum as a person writes them: numbers last, and nothing negative first where there is a choice."""
    return sorted(total.args, key=lambda term: (bool(term.is_number), bool(term.as_coeff_Mul()[0].is_negative)))


def _parted(product: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """The factors of a product: those that are no sums, the sums, and what stands below the line."""
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
        return _TextPrinter({"order": "none"}).doprint(node)
    except RecursionError:
        return TOO_DEEP


def outline(node: Any) -> str:
    """The notation without the ranges of its indices.

    >>> import einalg as ea
    >>> outline(ea.parse("O[i] += A[i,k]*B[k]", A=(4, 5), B=(5,)))
    'L[i](Sum[k](A[i, k]*B[k]))'
    """
    return RANGE.sub("", text(node))


def latex(node: Any) -> str:
    """`node` as the EinNet paper writes it: `L` with its indices, `Σ`, braces for inner scopes."""
    from einalg.paper import PaperPrinter

    try:
        return PaperPrinter({"mul_symbol": r"\ ", "order": "none"}).doprint(node)
    except RecursionError:
        return rf"\text{{{TOO_DEEP}}}"


def iterators_text(iterators: tuple[Iterator, ...]) -> str:
    return ", ".join(map(str, iterators)) or "()"


def located(error: Error, iterators: Any, body: Any) -> Error:
    """The error with the expression above it in which what it is about is underlined."""
    if error.placed or error.about is None:
        return error
    about = error.about.index if isinstance(error.about, Twice) else error.about
    access, axis = about if isinstance(about, tuple) else (about, None)
    shown = f"L[{iterators_text(iterators)}]({text(body)})"
    found = re.search(rf"(?<!\w){re.escape(text(access))}", shown)
    if found is None:
        return error
    column, width = found.start(), found.end() - found.start()
    if axis is not None and isinstance(access, Access):
        subscripts = [str(s) for s in access.subscripts]
        column += width - len(", ".join(subscripts[axis:])) - 1
        width = len(subscripts[axis])
    return error.below(underline(shown, column, width))


def tree(node: Any) -> str:
    """`node` as an indented tree, one node a line."""
    try:
        return _tree(node, 0)
    except RecursionError:
        return TOO_DEEP


def _tree(node: Any, depth: int) -> str:
    pad = "  " * depth
    if isinstance(node, (Scope, Reduce)):
        op = "L" if isinstance(node, Scope) else node.op
        conditions = "".join(f" where {c}" for c in node.where)
        return f"{pad}{op}[{iterators_text(node.iterators)}]{conditions}\n{_tree(node.body, depth + 1)}"
    if isinstance(node, Access) and isinstance(unpadded(node.base), Scope):
        return f"{pad}[{', '.join(map(str, node.subscripts))}] of{_padding(node.base)}\n{_tree(unpadded(node.base), depth + 1)}"
    if isinstance(node, (Access, IndexArithmetic)) or not getattr(node, "args", ()):
        return f"{pad}{text(node)}"
    arguments = ordered_terms(node) if isinstance(node, sympy.Add) else node.args
    return "\n".join([f"{pad}{type(node).__name__}", *(_tree(a, depth + 1) for a in arguments)])


def _padding(base: Any) -> str:
    """The views of a scope, inner first, as they are written after it."""
    if not isinstance(base, Padded):
        return ""
    shown = text(base)
    return f"{_padding(base.base)} {shown[shown.rindex('.pad(') :]}"
