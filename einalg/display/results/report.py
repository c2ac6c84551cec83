"""The report of an optimized network: bars of its programs, and a table of their layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from derive.programs import OptimizedNetwork
from derive.programs.report import LayerReport, ProgramReport, Report
from einalg.display.cost_bars import mark, stacks
from einalg.display.html import code, folded, page, table

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
    parts += [_program(program) for program in report.programs]
    if report.opaque:
        rows = [f"<li>{escape(node.operator)}: {escape(node.why)}</li>" for node in report.opaque]
        parts.append(f"<p>opaque, run by the framework:</p><ul>{''.join(rows)}</ul>")
    return "".join(parts)


def _program(program: ProgramReport) -> str:
    bars, legend = [], ""
    for bar in program.bars:
        rest = max(0.0, bar.seconds - bar.together)
        bars.append(replace(bar, kernels=(*bar.kernels, (ELSE, rest))))
        if rest:
            legend = f"<p>{mark(len(program.layers))}{ELSE}</p>"
    rows = [_row(number, layer) for number, layer in enumerate(program.layers)]
    head = f"<h4>{program.title}</h4><p>{escape(program.proof)}</p>"
    return f"{head}{stacks(bars)}{legend}{table(HEADS, rows)}"


def _row(number: int, layer: LayerReport) -> list[str]:
    """Return the cells of `HEADS` for a layer."""
    times = ["", ""]
    for position, cost in enumerate(layer.costs):
        seconds = cost.seconds / layer.runs
        times[position] = f"{seconds * 1e3:.3f} <small>{cost.share:.0%}</small>"
    name = mark(number if layer.costs else None) + code(layer.text) + _statements(layer)
    before = _lines(layer.costs[0].kernels) if layer.costs else ""
    cells = [name, escape(layer.weights), str(layer.runs), *times]
    if layer.replacement is None:
        return [*cells, before, layer.remark]
    kernels = _lines(layer.costs[1].kernels) + folded("before", before)
    return [*cells, kernels, layer.replacement.verdict]


def _statements(layer: LayerReport) -> str:
    """Return the statements that a layer became, folded."""
    if layer.replacement is None or not layer.replacement.statements:
        return ""
    text = escape("\n".join(layer.replacement.statements))
    return folded("after", f"<pre>{text}</pre>")


def _lines(lines: Sequence[str]) -> str:
    return "<br>".join(escape(line.strip()) for line in lines)
