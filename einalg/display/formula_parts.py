"""A program as mathematics in which a browser can tell the parts that a session has moves for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree.ElementTree import Element

from derive.interactive.parts import Part
from einalg.display.mathml import block, mathml, plain
from einalg.language.ir.printing.latex import PRINTER_OPTIONS, PaperPrinter, latex
from einalg.language.ir.printing.text import text
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope, inner_scopes

PART = "data-part"  # the attribute of an element that is a part, with its number
FIRST_OPENING, FIRST_CLOSING = 0xF0000, 0x100000  # characters for private use: one for each part
MOST_PARTS = 0xFFFD


class PartPrinter(PaperPrinter):
    """The notation of the paper with a character before and one after each part."""

    def __init__(self, numbers: Mapping[tuple[Any, Any], int]):
        super().__init__(PRINTER_OPTIONS)
        self._numbers = numbers
        self._places: list[tuple[Any, Scope]] = []  # the scopes that are being printed

    def statement(self, name: str, scope: Scope) -> str:
        """Return the scope of a statement as LaTeX."""
        self._places = [((name,), scope)]
        return self._marked(self.doprint(scope), scope)

    def _marked(self, printed: str, node: Any) -> str:
        number = self._numbers.get((self._places[-1][0], node))
        if number is None or number >= MOST_PARTS:
            return printed
        return f"{{{chr(FIRST_OPENING + number)}{printed}{chr(FIRST_CLOSING + number)}}}"

    def _print_readable(self, node: Any) -> str:
        if not isinstance(node, Scope):
            return super()._print_readable(node)
        path, scope = self._places[-1]
        self._places.append(((*path, inner_scopes(scope).index(node)), node))
        printed = self._marked(super()._print_readable(node), node)
        self._places.pop()
        return printed

    def _print_Access(self, node: Any) -> str:
        return self._marked(super()._print_Access(node), node)

    def _sign(self, node: Any) -> str:
        return self._marked(super()._sign(node), node)


def formula_with_parts(program: Program, parts: Iterable[Part]) -> str:
    """Return a program as HTML like `formula`, each part an element with its number.

    Without latex2mathml, and where an expression is too deep, it is text without parts.

    >>> import einalg as ea
    >>> s = ea.Session("O[i] += A[i,k]", A=(4, 5))
    >>> formula_with_parts(s.expr, s.parts()).count("data-part")
    3
    """
    numbers = {(part.path, part.node): number for number, part in enumerate(parts)}
    printer = PartPrinter(numbers)
    return block(_line(printer, name, scope) for name, scope in program.statements)


def _line(printer: PartPrinter, name: str, scope: Scope) -> Element:
    left = latex(statement_tensor(name, scope))
    try:
        root = mathml(f"{left} = {printer.statement(name, scope)}")
    except RecursionError:
        root = None
    if root is None:
        return plain(f"{name} = {text(scope)}")
    for row in list(root.iter()):
        _gather(row)
    return root


def _gather(row: Element) -> None:
    """Put what stands between the two characters of a part into an element of its own."""
    opened: list[Element] = [Element("mrow")]
    for child in row:
        sign = ord(child.text) if child.text and len(child.text) == 1 else 0
        if FIRST_OPENING <= sign < FIRST_CLOSING:
            opened.append(Element("mrow", {PART: str(sign - FIRST_OPENING)}))
        elif sign >= FIRST_CLOSING and len(opened) > 1:
            part = opened.pop()
            opened[-1].append(part)
        else:
            opened[-1].append(child)
    row[:] = list(opened[0])
