"""Proofs: a verdict with the points that differ, and a derivation read downwards, each program
below the one before, the rule and the verdict between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from derive.proof import Proof
from derive.results.history import History, HistoryStep
from derive.rewriting.moves import Move
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.display.html import badge, code, page
from einalg.display.mathml import changed, formula
from einalg.language.ir.program import Program

BADGES = {"proved": "good", "different": "bad"}  # the kind of badge of a verdict


def verdict_badge(verdict: str) -> str:
    """Return a verdict as a badge of its kind."""
    return badge(verdict, BADGES.get(verdict, ""))


def proof_html(proof: Proof) -> str:
    """Return a verdict, how it was reached, and the points that differ."""
    verdict = verdict_badge(proof.verdict)
    evidence = f"<small>{escape(proof.evidence)}</small>"
    rows = [f"<p>{verdict} {escape(proof.explanation)} {evidence}</p>"]
    if proof.region is not None:
        rows.append(f"<p>{proof.where}: {code(str(proof.region))}</p>")
    if proof.smallest_sizes:
        rows.append(f"<p>at sizes: {code(str(proof.sizes))}; {escape(proof.smallest_sizes)}</p>")
    return page("".join(rows), "einalg-verdict")


def rule_verdict_html(verdict: RuleVerdict) -> str:
    """Return the verdict on a rule, the sizes at which it holds, and a counterexample."""
    words = f"<strong>{escape(verdict.rule)}</strong>"
    if verdict.condition_text:
        words += f" where {escape(verdict.condition_text)}"
    if verdict.coverage:
        words += f" <small>{escape(verdict.coverage)}</small>"
    rows = [f"<p>{verdict_badge(verdict.verdict)} {words}</p>"]
    if verdict.condition is not None:
        rows.append(f"<p>equal at sizes: {code(str(verdict.condition))}</p>")
    if verdict.counterexample:
        rows.append(f"<p>different {escape(verdict.counterexample_text)}</p>")
    if verdict.region is not None:
        rows.append(f"<p>there, where: {code(str(verdict.region))}</p>")
    return page("".join(rows), "einalg-verdict")


def history_html(history: History) -> str:
    """Return the start and every step of a history; what a step changed is marked."""
    steps = [(_said(step), step.program) for step in history.steps]
    rows = "".join(step_rows(history.start, steps))
    return page(f"<ol start='0'>{rows}</ol>", "einalg-proof")


def _said(step: HistoryStep) -> str:
    return f"{move_html(step.move)} {verdict_badge(step.verdict)}"


def move_html(move: Move) -> str:
    """Return the rule of a move, and where it is applied."""
    rule, _, rest = str(move).partition(" at ")
    place = f" <small>at {escape(rest)}</small>" if rest else ""
    return f"<strong>{escape(rule)}</strong>{place}"


def step_rows(start: Program, steps: Iterable[tuple[str, Program]]) -> Iterator[str]:
    """Yield the entries of a list: the start, then what is said of each step above its program,
    with what it changed marked.
    """
    yield f"<li><p>given</p>{formula(start)}</li>"
    before = start
    for said, program in steps:
        yield f"<li><p>⇓ {said}</p>{changed(before, program)[1]}</li>"
        before = program
