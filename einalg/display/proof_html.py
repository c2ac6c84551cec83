"""A derivation as a vertical proof: each program below the one before, the rule and the verdict between them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from einalg.display.html import badge, page
from einalg.display.mathml import changed, formula
from einalg.language.ir.program import Program

VERDICTS = {"proved": "good", "different": "bad"}


def steps_html(start: Program, steps: Sequence[tuple[str, str, Program]]) -> str:
    """`steps` are the move in words, the verdict and the program after it; what a step changed is marked."""
    rows = [f"<li><p>given</p>{formula(start)}</li>"]
    before = start
    for move, verdict, program in steps:
        rows.append(_step(move, verdict, before, program))
        before = program
    return page(f"<ol start='0'>{''.join(rows)}</ol>", "einalg-proof")


def _step(move: str, verdict: str, before: Program, after: Program) -> str:
    rule, _, rest = move.partition(" at ")
    place = f" <small>at {escape(rest)}</small>" if rest else ""
    return f"<li><p>⇓ <strong>{escape(rule)}</strong>{place} {badge(verdict, VERDICTS.get(verdict, ''))}</p>{changed(before, after)[1]}</li>"
