"""Expressions as LaTeX in the notation of the EinNet paper (design §4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sympy.core.relational import Relational
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from einalg.language.index.affine import Index, Modulo
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.size import Extent, is_number
from einalg.language.ir.printing.kinds import accesses_in, is_reduction, is_scope, is_view
from einalg.language.ir.printing.text import TOO_DEEP, ordered_terms

SIGNS = {"Sum": r"\sum", "Prod": r"\prod", "Max": r"\max", "Min": r"\min"}
PRINTER_OPTIONS = {"mul_symbol": r"\ ", "order": "none"}


class PaperPrinter(LatexPrinter):
    """`L` and `Σ` with their indices below; ranges only where they are not `0..size`; braces around
    inner scopes.
    """

    def _as_ordered_terms(self, expr: Any, order: Any = None) -> list[Any]:
        return ordered_terms(expr)

    def _needs_mul_brackets(self, expr: Any, first: bool = False, last: bool = False) -> bool:
        """Return whether a factor needs brackets; what follows a `Σ` would be read as a part of
        it.
        """
        if isinstance(expr, Modulo) or (is_reduction(expr) and not last):
            return True
        return super()._needs_mul_brackets(expr, first, last)

    def _needs_add_brackets(self, expr: Any) -> bool:
        return isinstance(expr, Modulo) or super()._needs_add_brackets(expr)

    def parenthesize(
        self, item: Any, level: int, is_neg: bool = False, strict: bool = False
    ) -> str:
        if is_reduction(item) and level > PRECEDENCE["Mul"]:
            return rf"\left({self._print(item)}\right)"
        return super().parenthesize(item, level, is_neg, strict)

    def _print_Not(self, node: Any) -> str:
        """Write brackets around a comparison: `¬ a < 0` could be read as `(¬ a) < 0`."""
        if isinstance(node.args[0], Relational):
            return rf"\neg \left({self._print(node.args[0])}\right)"
        return super()._print_Not(node)

    def _print_Tensor(self, node: Any) -> str:
        if len(node.name) == 1:
            return node.name
        return rf"\mathrm{{{_escaped(node.name)}}}"

    def _print_Padded(self, node: Any) -> str:
        fill = "" if node.fill == 0 else rf"\,{self._print(node.fill)}"
        base = self._print_readable(node.base)
        if is_view(node.base):
            base = f"{{{base}}}"
        return rf"{base}^{{\mathrm{{pad}}{fill}}}"

    def _print_readable(self, node: Any) -> str:
        if is_scope(node):
            return rf"\left\{{{self._print(node)}\right\}}"
        return self._print(node)

    def _print_Access(self, node: Any) -> str:
        subscripts = ", ".join(map(self._print, node.subscripts))
        return f"{self._print_readable(node.base)}[{subscripts}]"

    def _print_Reduce(self, node: Any) -> str:
        body = self._print(node.body)
        if node.body.is_Add:
            body = rf"\left({body}\right)"
        return f"{self._sign(node)} {body}"

    def _sign(self, node: Any) -> str:
        """Return the sign of a reduction with what stands below it."""
        return rf"{SIGNS[node.op]}_{{{self._below(node)}}}"

    def _print_Scope(self, node: Any) -> str:
        return rf"\mathop{{L}}_{{{self._below(node)}}}\ {self._print(node.body)}"

    def _below(self, node: Any) -> str:
        """Return the ranges and conditions that stand below `L` and `Σ`."""
        ranges = ", ".join(self._range(it, node.body) for it in node.iterators)
        return r",\ ".join([ranges, *map(self._print, node.where)])

    def _range(self, it: LoopIndex, body: Any) -> str:
        name = self._print(it.index)
        if it.low == 0 and (it.low, it.high) in _axes_of(body, it.index):
            return name
        return rf"{name}={self._limit(it.low)}..{self._limit(it.high - 1)}"

    def _limit(self, limit: Extent) -> str:
        return str(limit) if is_number(limit) else self._print(affine(limit))


def _axes_of(body: Any, index: Index) -> Iterator[tuple[int, int]]:
    """Yield the axes along which an index runs, one element at a step."""
    for access in accesses_in(body):
        for subscript, axis in zip(access.subscripts, access.base.box):
            if subscript.coefficient(index) == 1:
                yield axis


def _escaped(name: str) -> str:
    return name.replace("_", r"\_")


def latex(node: Any) -> str:
    """Return `node` as the EinNet paper writes it: `L` with its indices, `Σ`, braces for inner
    scopes.
    """
    try:
        return PaperPrinter(PRINTER_OPTIONS).doprint(node)
    except RecursionError:
        return rf"\text{{{TOO_DEEP}}}"
