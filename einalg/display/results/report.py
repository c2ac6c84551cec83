"""The report of an optimized network: bars of its programs, and a table of their layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from derive.programs import OptimizedNetwork
from derive.programs.report import LayerReport, ProgramReport, Report
from einalg.display.cost_bars import mark, stacks
from einalg.display.html import folded, page, table
from einalg.display.mathml import MAX_FORMULAS, formula
from einalg.language.ir.program import Program

ELSE = "everything else, and memory between layers"
HEADS = ("layer", "weights", "times", "before, ms", "after, ms", "kernels", "verdict")


PLOT = "<code>o.plot()</code> shows the network before and after, statement by statement."


def optimized_html(network: OptimizedNetwork) -> str:
    """Return the report of a network, and how to see its graph."""
    hint = f'<p class="einalg-muted">{PLOT}</p>'
    return page(_content(network.report) + hint, "einalg-report")


def report_html(report: Report) -> str:
    """Return the calls of the whole as bars, then each program, then what the framework runs."""
    return page(_content(report), "einalg-report")


def _content(report: Report) -> str:
    parts = [f"<p>{report.head}</p>", stacks(report.calls)]
    if report.call:
        parts.append(f"<p>{escape(report.call)}</p>")
    parts += [f"<p>{escape(note)}</p>" for note in report.notes]
    has_formulas = sum(map(_statements_of, report.programs)) <= MAX_FORMULAS
    parts += [_program(program, has_formulas) for program in report.programs]
    if report.opaque:
        rows = [f"<li>{escape(node.operator)}: {escape(node.why)}</li>" for node in report.opaque]
        parts.append(f"<p>opaque, run by the framework:</p><ul>{''.join(rows)}</ul>")
    return "".join(parts)


def _statements_of(program: ProgramReport) -> int:
    """Return how many statements a report shows of a program, before and after."""
    count = 0
    for layer in program.layers:
        count += len(layer.program.statements)
        if layer.replacement is not None and layer.replacement.program is not None:
            count += len(layer.replacement.program.statements)
    return count


def _program(program: ProgramReport, has_formulas: bool) -> str:
    bars, legend = [], ""
    for bar in program.bars:
        rest = max(0.0, bar.seconds - bar.together)
        bars.append(replace(bar, kernels=(*bar.kernels, (ELSE, rest))))
        if rest:
            legend = f"<p>{mark(len(program.layers))}{ELSE}</p>"
    shown = f"<h4>{program.title}</h4><p>{escape(program.proof)}</p>"
    if program.early_end:
        shown += f"<p>{escape(program.early_end)}</p>"
    if any(bar.seconds for bar in bars):
        shown += stacks(bars) + legend
    rows = []
    for number, layer in enumerate(program.layers):
        rows.append(_row(number, layer, has_formulas))
    if rows:
        shown += table(HEADS, rows)
    return shown


def _row(number: int, layer: LayerReport, has_formulas: bool) -> list[str]:
    """Return the cells of `HEADS` for a layer."""
    times = ["", ""]
    for position, cost in enumerate(layer.costs):
        seconds = cost.seconds / layer.runs
        times[position] = f"{seconds * 1e3:.3f} <small>{cost.share:.0%}</small>"
    name = f"{mark(number if layer.costs else None)}<strong>{escape(layer.name)}</strong>"
    name += _expression(layer.program, has_formulas)
    if layer.replacement is not None and layer.replacement.program is not None:
        name += folded("after", _expression(layer.replacement.program, has_formulas))
    before = _lines(layer.costs[0].kernels) if layer.costs else ""
    cells = [name, escape(layer.weights), str(layer.runs), *times]
    if layer.replacement is None:
        return [*cells, before, layer.remark]
    kernels = _lines(layer.costs[1].kernels) + folded("before", before)
    return [*cells, kernels, layer.replacement.verdict]


def _expression(program: Program, has_formulas: bool) -> str:
    """Return a program as mathematics with its text folded, or as text alone."""
    text = f"<pre>{escape(str(program))}</pre>"
    if not has_formulas:
        return text
    return formula(program) + folded("as text", text)


def _lines(lines: Sequence[str]) -> str:
    return "<br>".join(escape(line.strip()) for line in lines)
