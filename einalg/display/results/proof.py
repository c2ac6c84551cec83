"""Proofs: a verdict with the points that differ, and a derivation read downwards, each program
below the one before, the rule and the verdict between them.
"""

from __future__ import annotations

from html import escape

from derive.proof import Proof
from derive.results.history import History, HistoryStep
from einalg.display.html import badge, code, page
from einalg.display.mathml import changed, formula
from einalg.language.ir.program import Program

BADGES = {"proved": "good", "different": "bad"}  # the kind of badge of a verdict


def proof_html(proof: Proof) -> str:
    """Return a verdict, how it was reached, and the points that differ."""
    verdict = badge(proof.verdict, BADGES.get(proof.verdict, ""))
    evidence = f"<small>{escape(proof.evidence)}</small>"
    rows = [f"<p>{verdict} {escape(proof.explanation)} {evidence}</p>"]
    if proof.region is not None:
        rows.append(f"<p>{proof.where}: {code(str(proof.region))}</p>")
    return page("".join(rows), "einalg-verdict")


def history_html(history: History) -> str:
    """Return the start and every step of a history; what a step changed is marked."""
    rows = [f"<li><p>given</p>{formula(history.start)}</li>"]
    before = history.start
    for step in history.steps:
        rows.append(_step(step, before))
        before = step.program
    return page(f"<ol start='0'>{''.join(rows)}</ol>", "einalg-proof")


def _step(step: HistoryStep, before: Program) -> str:
    rule, _, rest = str(step.move).partition(" at ")
    place = f" <small>at {escape(rest)}</small>" if rest else ""
    verdict = badge(step.verdict, BADGES.get(step.verdict, ""))
    after = changed(before, step.program)[1]
    return f"<li><p>⇓ <strong>{escape(rule)}</strong>{place} {verdict}</p>{after}</li>"
