"""Expressions as text that parses back, as LaTeX in the paper's notation, and as a tree (design §4)."""

from __future__ import annotations

from typing import Any

from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from einalg.affine import IndexArithmetic
from einalg.scope import Iterator, Reduce, Scope
from einalg.access import Access, Padded, Tensor, number_text, unpadded


class _TextPrinter(StrPrinter):
    def _print_Float(self, expr: Any) -> str:
        return number_text(expr)

    def _print_Infinity(self, expr: Any) -> str:
        return "inf"

    def _print_NegativeInfinity(self, expr: Any) -> str:
        return "-inf"


def text(node: Any) -> str:
    """`node` in the notation, valid in both doors."""
    return _TextPrinter({"order": "none"}).doprint(node)


def iterators_text(iterators: tuple[Iterator, ...]) -> str:
    return ", ".join(map(str, iterators)) or "()"


class _PaperPrinter(LatexPrinter):
    def _print_Tensor(self, node: Tensor) -> str:
        return node.name if len(node.name) == 1 else rf"\mathrm{{{node.name.replace('_', chr(92) + '_')}}}"

    def _print_Padded(self, node: Padded) -> str:
        base = self._print(node.base) if not isinstance(node.base, Scope) else rf"\left\{{{self._print(node.base)}\right\}}"
        return rf"{base}^{{\mathrm{{pad}}}}" if node.fill == 0 else rf"{base}^{{\mathrm{{pad}}\,{self._print(node.fill)}}}"

    def _print_Access(self, node: Access) -> str:
        base = self._print(node.base)
        if isinstance(node.base, Scope):
            base = rf"\left\{{{base}\right\}}"
        return f"{base}[{', '.join(self._print(s) for s in node.subscripts)}]"

    def _print_Reduce(self, node: Reduce) -> str:
        sign = {"Sum": r"\sum", "Prod": r"\prod", "Max": r"\max", "Min": r"\min"}[node.op]
        conditions = [self._print(c) for c in node.where]
        below = ",\\ ".join([self._ranges(node.iterators, node.body), *conditions])
        body = self._print(node.body)
        return rf"{sign}_{{{below}}} {rf'{chr(92)}left({body}{chr(92)}right)' if node.body.is_Add else body}"

    def _print_Scope(self, node: Scope) -> str:
        conditions = "".join(rf",\ {self._print(c)}" for c in node.where)
        return rf"\mathop{{L}}_{{{self._ranges(node.iterators, node.body)}{conditions}}}\ {self._print(node.body)}"

    def _ranges(self, iterators: tuple[Iterator, ...], body: Any) -> str:
        """Names; ranges only where they are not `0..size` of an axis that the index reads bare."""
        shown = []
        for it in iterators:
            name = self._print(it.index)
            obvious = it.low == 0 and it.high in _bare_sizes(body, it.index)
            shown.append(name if obvious or it.high is None else rf"{name}={it.low}..{it.high - 1}" if it.low is not None else name)
        return ", ".join(shown)


def _bare_sizes(body: Any, index: Any) -> set[int]:
    from einalg.traverse import accesses

    return {high for a in accesses(body) for s, (low, high) in zip(a.subscripts, a.tensor.box) if s.as_index() == index and low == 0}


def latex(node: Any) -> str:
    """`node` as the EinNet paper writes it: `L` with its indices, `Σ`, braces for inner scopes."""
    return _PaperPrinter({"mul_symbol": r"\ "}).doprint(node)


def tree(node: Any, depth: int = 0) -> str:
    """`node` as an indented tree, one node a line."""
    pad = "  " * depth
    if isinstance(node, Scope):
        head = f"L[{iterators_text(node.iterators)}]" + "".join(f" where {c}" for c in node.where)
        return f"{pad}{head}\n{tree(node.body, depth + 1)}"
    if isinstance(node, Reduce):
        head = f"{node.op}[{iterators_text(node.iterators)}]" + "".join(f" where {c}" for c in node.where)
        return f"{pad}{head}\n{tree(node.body, depth + 1)}"
    if isinstance(node, Access):
        subscripts = ", ".join(map(str, node.subscripts))
        views = "" if not isinstance(node.base, Padded) else " padded"
        inner = unpadded(node.base)
        if isinstance(inner, Scope):
            return f"{pad}[{subscripts}] of{views}\n{tree(inner, depth + 1)}"
        return f"{pad}{text(node)}"
    if isinstance(node, IndexArithmetic) or not getattr(node, "args", ()):
        return f"{pad}{text(node)}"
    return "\n".join([f"{pad}{type(node).__name__}", *(tree(a, depth + 1) for a in node.args)])
