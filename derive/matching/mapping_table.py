"""The iterator mapping table (design §7, EinNet §5): which tensors every index runs over, along
which axis, in which steps.
"""

from __future__ import annotations

from typing import Any

from derive.matching.patterns.normal_form import (
    OUTPUT,
    NormalForm,
    ReadAxis,
    TensorRead,
    normal_form,
)
from einalg.language.index.affine import Index
from einalg.language.ir.program import as_program, inlined
from einalg.language.ir.scope import Scope
from einalg.language.notation.text_arguments import reads_text
from einalg.text.tables import aligned


class MappingTable:
    """The table of one scope, as text and in Jupyter as a table; `rows` are the indices with their
    cells.
    """

    def __init__(self, scope: Scope):
        normalized = normal_form(scope)
        self.scope = normalized.scope
        self.head = ("index", "range", "output", *(read.name for read in normalized.reads))
        self.rows = [_row(index, normalized) for index in normalized.extents]

    def __str__(self) -> str:
        lines: list[tuple[str, ...]] = [self.head]
        for index, values, *cells in self.rows:
            lines.append((index, values, *(cell or "–" for cell in cells)))
        return aligned(lines)

    __repr__ = __str__


def _row(index: Index, normalized: NormalForm) -> tuple[str, ...]:
    """Return the cells of one index: `("h", "0..4", "axis 2", "axis 2 by 2", "")`."""
    low, high = normalized.ranges[index]
    output = ""
    if OUTPUT in normalized.rows[index]:
        output = f"axis {normalized.scope.indices.index(index)}"
    cells = [_cell(read, index) for read in normalized.reads]
    return index.name, f"{low}..{high - 1}", output, *cells


def _cell(read: TensorRead, index: Index) -> str:
    """Return the axes of a read along which an index moves, and the elements of a step where that
    is not one.
    """
    return ", ".join(_along(axis, index) for axis in read.axes if index in axis.form.indices)


def _along(axis: ReadAxis, index: Index) -> str:
    step = axis.form.coefficient(index)
    if step == 1:
        return f"axis {axis.position}"
    if step:
        return f"axis {axis.position} by {step}"
    return f"axis {axis.position} in {axis.form}"


@reads_text("expr")
def mapping_table(expr: Any, **tensors: Any) -> MappingTable:
    """Return the iterator mapping table (EinNet §5) of an expression, as the operator matcher sees
    it: ranges from 0, no index of one point.

    A program of several statements counts as one expression. Text is read with the shapes that are
    given by name, as by `einalg.parse`. Raises `NotationError` for anything
    but an expression, or where it has several outputs.

    >>> import einalg as ea
    >>> text = "O[n,f,h] += A.pad(0,0,1)[n,c,2*h+r-1]*K[f,c,r]"
    >>> mapping_table(ea.parse(text, A=(8, 16, 9), K=(4, 16, 3)))
    index  range  output  A            K
    n      0..7   axis 0  axis 0       –
    f      0..3   axis 1  –            axis 0
    h      0..4   axis 2  axis 2 by 2  –
    c      0..15  –       axis 1       axis 1
    r      0..2   –       axis 2       axis 2
    """
    return MappingTable(inlined(as_program(expr)))
