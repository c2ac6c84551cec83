"""Derivations: a search with its best candidate, one candidate, and a derivation that is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from derive.cost.model import known_rates, known_seconds
from derive.cost.roofline_table import Roof, RooflineTable
from derive.cost.work import work_of_each_run
from derive.results.candidates import Candidate
from derive.results.costs import Bar, kernel_cost, longest
from derive.results.derivation import SearchResult, candidate_bar, roofline_table
from derive.results.script import ExplainedStep, Explanation
from einalg.display.cost_bars import stack
from einalg.display.html import badge, folded, page
from einalg.display.kernels.kernel_code import KernelFigures, kernels_html
from einalg.display.mathml import formula
from einalg.display.results.proof import move_html, step_rows, verdict_badge
from einalg.display.results.tables import candidates_table, roofline_picture
from einalg.errors import EinalgError
from einalg.language.ir.kernel import Kernel
from einalg.text.wording import counted, milliseconds

NO_SOURCE = "the source is that of candidate.source(): it is compiled when it is asked for"
SOURCES = "d.best shows their source beside them"
PROGRAMS = "d.explain() shows what each of them changes"


def derivation_html(result: SearchResult) -> str:
    """Return the expression, the costs of the best candidate beside it, and, folded, its kernels,
    its moves, all candidates and the roofline.

    What is long, sources and programs between the moves, is left to the candidate and to `explain`:
    a notebook stores what it shows.
    """
    best, text = result.best, str(result).splitlines()
    verdict = verdict_badge(best.verdict)
    moves = badge(counted(len(best.moves), "move"))
    parts = [
        f"<p><strong>{escape(text[0])}</strong> {verdict} {moves}</p>",
        formula(result.expression),
        _bars(result),
        folded("Kernels of the best", _kernels(best, best.kernels) + _hint(SOURCES)),
        folded("Moves to the best", _moves(result.explain()) + _hint(PROGRAMS)),
        folded(counted(len(result.candidates), "candidate"), candidates_table(result.candidates)),
        folded("Roofline", roofline_picture(_known_roofline(result))),
    ]
    remarks = "<br>".join(map(escape, text[-2:]))
    return page(f'{"".join(parts)}<p class="einalg-muted">{remarks}</p>', "einalg-derivation")


def candidate_html(candidate: Candidate) -> str:
    """Return the program of a candidate, and its kernels beside their source."""
    bar = _known_bar(candidate)
    parts = [_head(candidate), stack(bar, bar.seconds or 1.0)]
    return page(f"{''.join(parts)}{_kernels_with_source(candidate)}", "einalg-candidate")


def _head(candidate: Candidate) -> str:
    """Return the cost of a candidate, its verdict, its moves and its error."""
    parts = [
        f"<strong>{milliseconds(candidate.cost)} {candidate.cost_kind}</strong>",
        verdict_badge(candidate.verdict),
        badge(counted(len(candidate.moves), "move")),
    ]
    if candidate.error is not None:
        parts.append(f"<small>error {candidate.error:.1e}</small>")
    return f"<p>{' '.join(parts)}</p>"


def explanation_html(explanation: Explanation) -> str:
    """Return a derivation read downwards: rules, and what each changes, then the kernels."""
    candidate = explanation.candidate
    verdict = verdict_badge(candidate.verdict)
    parts = [
        _steps(explanation),
        f"<p>{verdict} <small>{escape(explanation.time)}</small></p>",
        folded("Kernels", _kernels(candidate, candidate.kernels)),
    ]
    return page("".join(parts), "einalg-explanation")


def _steps(explanation: Explanation) -> str:
    """Return the start and every step; what a step changed is marked."""
    steps = [(_move(step), step.program) for step in explanation.steps]
    rows = list(step_rows(explanation.start, steps))
    program = explanation.candidate.program
    last = explanation.steps[-1].program if explanation.steps else explanation.start
    if str(last) != str(program):
        rows.append(f"<li><p>⇓ as kernels</p>{formula(program)}</li>")
    return f'<ol class="einalg-steps-told" start="0">{"".join(rows)}</ol>'


def _moves(explanation: Explanation) -> str:
    """Return the moves of a derivation with their rules; nothing where there is none."""
    rows = "".join(f"<li>{_move(step)}</li>" for step in explanation.steps)
    return f'<ol class="einalg-steps-told">{rows}</ol>' if rows else "<p>none: it is as written</p>"


def _move(step: ExplainedStep) -> str:
    card = f"<small><code>{escape(step.rule.before)} ⇒ {escape(step.rule.after)}</code></small>"
    return f"{move_html(step.move)}<br>{card}"


def _hint(text: str) -> str:
    return f'<p class="einalg-muted">{escape(text)}</p>'


def _bars(result: SearchResult) -> str:
    """Return the costs of the expression as it is written and of the best, on one scale."""
    candidates = [candidate for candidate in result.candidates if not candidate.moves]
    if result.best.moves:
        candidates.append(result.best)
    bars = [_known_bar(candidate) for candidate in candidates]
    scale = longest(bars)
    return "".join(stack(bar, scale) for bar in bars)


def _known_bar(candidate: Candidate) -> Bar:
    """Return the cost of a candidate, divided by kernel where their times are known; nothing is
    measured in order to show it.
    """
    seconds = _known_seconds(candidate)
    if seconds is not None:
        return candidate_bar(candidate, seconds)
    whole = candidate_bar(candidate, [0.0] * len(candidate.kernels))
    return replace(whole, kernels=(("all kernels", candidate.cost),))


def _known_seconds(candidate: Candidate) -> list[float] | None:
    if not candidate.measured or candidate.backend is None:
        return None
    try:
        return known_seconds(candidate.backend, candidate.kernels)
    except EinalgError:  # where the device of the derivation is missing
        return None


def _known_roofline(result: SearchResult) -> RooflineTable:
    """Return the roofline of all candidates, below the rates that are known of the machine."""
    rates = None
    if result.backend is not None and result.best.measured:
        try:
            rates = known_rates(result.backend)
        except EinalgError:
            rates = None
    return roofline_table(result, result.candidates, Roof.of(rates))


def _kernels_with_source(candidate: Candidate) -> str:
    """Return the kernels of a candidate beside their source, where that is at hand."""
    kernels = candidate.kernels_with_source()
    shown = _kernels(candidate, kernels)
    if any(kernel.source is not None for kernel in kernels):
        return shown
    return shown + _hint(NO_SOURCE)


def _kernels(candidate: Candidate, kernels: Sequence[Kernel]) -> str:
    """Return the kernels of a candidate, each with its expression, its work and its time."""
    seconds = _known_seconds(candidate)
    works = work_of_each_run(candidate.kernels)
    language = "cuda" if getattr(candidate.backend, "target", "cpu") == "cuda" else "c"
    figures = []
    for number, (kernel, work) in enumerate(zip(kernels, works, strict=True)):
        time, part = "", None
        if not work.bytes:
            time = kernel_cost(0.0)
        elif seconds is not None:
            time = kernel_cost(seconds[number])
            part = number if seconds[number] else None
        figures.append(KernelFigures(kernel, work, time, language, part))
    return kernels_html(figures)
