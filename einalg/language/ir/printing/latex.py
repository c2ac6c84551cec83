"""Expressions as LaTeX in the notation of the EinNet paper (design §4)."""

from __future__ import annotations

from typing import Any

from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from einalg.language.index.affine import Index, Modulo
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.printing.kinds import accesses_in, is_reduction, is_scope, is_view
from einalg.language.ir.printing.text import TOO_DEEP, ordered_terms

SIGNS = {"Sum": r"\sum", "Prod": r"\prod", "Max": r"\max", "Min": r"\min"}


class PaperPrinter(LatexPrinter):
    """`L` and `Σ` with their indices below; ranges only where they are not `0..size`; braces around
    inner scopes.
    """

    def _as_ordered_terms(self, expr: Any, order: Any = None) -> list[Any]:
        return ordered_terms(expr)

    def _needs_mul_brackets(self, expr: Any, first: bool = False, last: bool = False) -> bool:
        """What follows a `Σ` in a product would be read as a part of it."""
        return (
            is_reduction(expr)
            and not last
            or isinstance(expr, Modulo)
            or super()._needs_mul_brackets(expr, first, last)
        )

    def _needs_add_brackets(self, expr: Any) -> bool:
        return isinstance(expr, Modulo) or super()._needs_add_brackets(expr)

    def parenthesize(
        self, item: Any, level: int, is_neg: bool = False, strict: bool = False
    ) -> str:
        if is_reduction(item) and level > PRECEDENCE["Mul"]:
            return rf"\left({self._print(item)}\right)"
        return super().parenthesize(item, level, is_neg, strict)

    def _print_Tensor(self, node: Any) -> str:
        return node.name if len(node.name) == 1 else rf"\mathrm{{{_escaped(node.name)}}}"

    def _print_Padded(self, node: Any) -> str:
        fill = "" if node.fill == 0 else rf"\,{self._print(node.fill)}"
        base = self._print_readable(node.base)
        return (
            rf"{{{base}}}^{{\mathrm{{pad}}{fill}}}"
            if is_view(node.base)
            else rf"{base}^{{\mathrm{{pad}}{fill}}}"
        )

    def _print_readable(self, node: Any) -> str:
        return rf"\left\{{{self._print(node)}\right\}}" if is_scope(node) else self._print(node)

    def _print_Access(self, node: Any) -> str:
        return f"{self._print_readable(node.base)}[{', '.join(self._print(s) for s in node.subscripts)}]"

    def _print_Reduce(self, node: Any) -> str:
        body = self._print(node.body)
        brackets = rf"\left({body}\right)" if node.body.is_Add else body
        return rf"{SIGNS[node.op]}_{{{self._below(node)}}} {brackets}"

    def _print_Scope(self, node: Any) -> str:
        return rf"\mathop{{L}}_{{{self._below(node)}}}\ {self._print(node.body)}"

    def _below(self, node: Any) -> str:
        return r",\ ".join(
            [
                ", ".join(self._range(it, node.body) for it in node.iterators),
                *map(self._print, node.where),
            ]
        )

    def _range(self, it: LoopIndex, body: Any) -> str:
        name = self._print(it.index)
        return (
            name
            if (it.low, it.high) in _axes_of(body, it.index) and it.low == 0
            else rf"{name}={it.low}..{it.high - 1}"
        )


def _axes_of(body: Any, index: Index) -> LoopIndex[tuple[int, int]]:
    """The axes along which an index runs, one element at a step."""
    for access in accesses_in(body):
        for subscript, axis in zip(access.subscripts, access.base.box):
            if subscript.coefficient(index) == 1:
                yield axis


def _escaped(name: str) -> str:
    return name.replace("_", r"\_")


def latex(node: Any) -> str:
    """`node` as the EinNet paper writes it: `L` with its indices, `Σ`, braces for inner scopes."""
    try:
        return PaperPrinter({"mul_symbol": r"\ ", "order": "none"}).doprint(node)
    except RecursionError:
        return rf"\text{{{TOO_DEEP}}}"
