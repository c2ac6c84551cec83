"""The statements of a program as one SVG picture, as the paper writes them (by ziamath: no TeX, no
browser).
"""

from __future__ import annotations

import warnings
from xml.etree import ElementTree

from einalg.language.ir.printing.latex import latex
from einalg.language.ir.program import Program, statement_tensor

SIZE = 24.0  # of the letters, in pixels
MARGIN, GAP = 12.0, 18.0


def svg(program: Program) -> str:
    """One line for each statement, aligned to the left.

    >>> import einalg as ea
    >>> from einalg.language.ir.program import as_program
    >>> svg(as_program(ea.parse("O[i] += A[i,j]", A=(4, 5))))[:4]
    '<svg'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its fonts
        from ziamath.zmath import Latex

    lines = [
        Latex(_formula(f"{latex(statement_tensor(name, scope))} = {latex(scope)}"), size=SIZE)
        for name, scope in program.statements
    ]
    sizes = [line.getsize() for line in lines]
    width = 2 * MARGIN + max((w for w, _ in sizes), default=0.0)
    height = 2 * MARGIN + sum(h for _, h in sizes) + GAP * (len(lines) - 1)
    picture = ElementTree.Element(
        "svg",
        {"xmlns": "http://www.w3.org/2000/svg", "width": f"{width:g}", "height": f"{height:g}"},
    )
    picture.set("viewBox", f"0 0 {width:g} {height:g}")
    top = MARGIN
    for line, (_, tall) in zip(lines, sizes):
        line.drawon(picture, MARGIN, top, valign="top")
        top += tall + GAP
    return ElementTree.tostring(picture, encoding="unicode")


def _formula(text: str) -> str:
    """Text that ziamath sets as TeX does: it knows operators with limits by another name."""
    return text.replace(r"\mathop{L}", r"\operatorname*{L}")
