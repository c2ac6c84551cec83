"""Expressions as text that parses back, and as a tree (design §4)."""

from __future__ import annotations

import re
from typing import Any

import sympy
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from einalg.access import Access, Padded, number_text, unpadded
from einalg.affine import IndexArithmetic
from einalg.errors import Error, underline
from einalg.scope import Iterator, Reduce, Scope


class _TextPrinter(StrPrinter):
    """Text that both doors read as the same expression; they evaluate it from left to right."""

    def _print_Float(self, expr: Any) -> str:
        return number_text(expr)

    def _print_Infinity(self, expr: Any) -> str:
        return "inf"

    def _print_NegativeInfinity(self, expr: Any) -> str:
        return "-inf"

    def _print_Mul(self, expr: Any) -> str:
        """Sums last, for `2*(a + b)*c` is `(2*a + 2*b)*c`."""
        sums = [factor for factor in expr.args if factor.is_Add]
        others = [factor for factor in expr.args if not factor.is_Add]
        if not sums or not others:
            return super()._print_Mul(expr)
        first = super()._print_Mul(sympy.Mul(*others)) if len(others) > 1 else self.parenthesize(others[0], PRECEDENCE["Mul"])
        brackets = "*".join(f"({self._print(s)})" for s in sums)
        if others[0].is_Number and len(others) == 1:
            sign, number = ("-", -others[0]) if others[0] < 0 else ("", others[0])
            first = sign + ("" if number == 1 else f"{self._print(number)}*")
            return f"{first}({brackets})"
        return f"{first}*{brackets}"


def text(node: Any) -> str:
    """`node` in the notation, valid in both doors."""
    return _TextPrinter({"order": "none"}).doprint(node)


def latex(node: Any) -> str:
    """`node` as the EinNet paper writes it: `L` with its indices, `Σ`, braces for inner scopes."""
    from einalg.paper import PaperPrinter

    return PaperPrinter({"mul_symbol": r"\ "}).doprint(node)


def iterators_text(iterators: tuple[Iterator, ...]) -> str:
    return ", ".join(map(str, iterators)) or "()"


def located(error: Error, iterators: Any, body: Any) -> Error:
    """The error with the expression above it in which what it is about is underlined."""
    access, axis = error.about if isinstance(error.about, tuple) else (error.about, None)
    if error.placed or access is None:
        return error
    shown = f"L[{iterators_text(iterators)}]({text(body)})"
    found = re.search(rf"(?<!\w){re.escape(text(access))}", shown)
    if found is None:
        return error
    column, width = found.start(), found.end() - found.start()
    if axis is not None:
        subscripts = [str(s) for s in access.subscripts]
        column += width - len(", ".join(subscripts[axis:])) - 1
        width = len(subscripts[axis])
    return error.below(underline(shown, column, width))


def tree(node: Any, depth: int = 0) -> str:
    """`node` as an indented tree, one node a line."""
    pad = "  " * depth
    if isinstance(node, (Scope, Reduce)):
        op = "L" if isinstance(node, Scope) else node.op
        conditions = "".join(f" where {c}" for c in node.where)
        return f"{pad}{op}[{iterators_text(node.iterators)}]{conditions}\n{tree(node.body, depth + 1)}"
    if isinstance(node, Access) and isinstance(unpadded(node.base), Scope):
        return f"{pad}[{', '.join(map(str, node.subscripts))}] of{_padding(node.base)}\n{tree(unpadded(node.base), depth + 1)}"
    if isinstance(node, (Access, IndexArithmetic)) or not getattr(node, "args", ()):
        return f"{pad}{text(node)}"
    return "\n".join([f"{pad}{type(node).__name__}", *(tree(a, depth + 1) for a in node.args)])


def _padding(base: Any) -> str:
    """The views of a scope, inner first, as they are written after it."""
    if not isinstance(base, Padded):
        return ""
    shown = text(base)
    return f"{_padding(base.base)} {shown[shown.rindex('.pad(') :]}"
