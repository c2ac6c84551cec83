"""The report of an optimization: each program and each layer before and after, as text and as HTML (design §11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape

from derive.matching import named
from derive.programs.layers import Layer
from derive.programs.optimized_program import OptimizedProgram
from derive.results.candidates import told
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import kernels_of
from einalg.display.cost_bars import Bar, mark, stack
from einalg.display.html import code, page, table
from einalg.frontends.graph import OpaqueNode
from einalg.text.terminal import COLUMNS, wrapped
from einalg.text.wording import counted, in_bytes

BAR = 24  # characters of the longest bar
MOST_WEIGHTS = 4  # that are named
WHEN = ("before", "after")
ELSE = "everything else, and memory between layers"
HEADS = ("layer", "weights", "times", "before, ms", "after, ms", "kernels", "verdict")


class Report:
    """What was done with a network: `str` gives text, Jupyter shows bars and tables.

    The share of a layer is that of all its runs, each layer by itself, in the time of its program.
    """

    def __init__(
        self,
        parts: Sequence[OptimizedProgram],
        opaque: Sequence[OpaqueNode],
        seconds: float,
        times: tuple[float, float] | None,
    ):
        self._parts, self._opaque = parts, opaque
        self._seconds, self._times = seconds, times

    def __str__(self) -> str:
        lines = [self._head()]
        if self._times is not None:
            lines.append(
                "a call: {:.3f} ms in the framework, {:.3f} ms optimized".format(
                    *(1e3 * s for s in self._times)
                )
            )
        for number, part in enumerate(self._parts, 1):
            lines += ["", *_part(number, part)]
        if self._opaque:
            lines += [
                "",
                "opaque, run by the framework:",
                *(f"  {node.operator}: {node.why}" for node in self._opaque),
            ]
        return "\n".join(wrapped(line, COLUMNS) for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        ways = zip(("in the framework", "optimized"), self._times or ())
        calls = _stacks(
            [
                Bar(f"a call, {way}", seconds, True, (("the whole call", seconds),))
                for way, seconds in ways
            ]
        )
        parts = "".join(_part_html(number, part) for number, part in enumerate(self._parts, 1))
        opaque = "".join(
            f"<li>{escape(node.operator)}: {escape(node.why)}</li>" for node in self._opaque
        )
        rest = f"<p>opaque, run by the framework:</p><ul>{opaque}</ul>" if opaque else ""
        return page(f"<p>{self._head()}</p>{calls}{parts}{rest}", "einalg-report")

    def _head(self) -> str:
        return f"{counted(len(self._parts), 'program')}, {counted(len(self._opaque), 'opaque call')}; optimized in {self._seconds:.1f} s"


def _part(number: int, part: OptimizedProgram) -> Iterator[str]:
    yield _title(number, part)
    yield f"  {_proof(part)}"
    longest = max(
        (seconds for layer in part.layers for seconds in _seconds(layer, part)), default=0.0
    )
    for layer in part.layers:
        yield from (f"  {line}" for line in _layer(layer, part, longest))


def _title(number: int, part: OptimizedProgram) -> str:
    before, after = (s * 1e3 for s in part.seconds)
    return f"program {number}: {before:.3f} ms → {after:.3f} ms ({before / max(after, 1e-9):.2f}x)"


def _proof(part: OptimizedProgram) -> str:
    return ", ".join(
        [
            part.verdict,
            f"largest error {part.error:.1e}",
            *part.changes,
            f"{in_bytes(part.workspace)} between kernels",
        ]
    )


def _layer(layer: Layer, part: OptimizedProgram, longest: float) -> Iterator[str]:
    times = "once" if _runs(layer, part) == 1 else f"{_runs(layer, part)} times"
    yield f"{layer.names[0]} ({times}{', with ' * bool(layer.weights)}{_weights(layer)}): {layer.text}"
    kernels = (
        _kernels_before(layer),
        [] if layer.candidate is None else told(layer.candidate.kernels),
    )
    for when, seconds, share, lines in zip(
        WHEN, _seconds(layer, part), _shares(layer, part), kernels
    ):
        length = round(BAR * seconds / longest) if longest else 0
        yield f"  {when:6} {_each(seconds, _runs(layer, part)):>12} ms  {share:4.0%}  {'█' * length}".rstrip()
        yield from (f"  {line}" for line in lines)
    if layer.candidate is None or layer.original is None:
        yield f"  {_stays(layer)}"
        return
    found = (
        "found before, kept on disk"
        if layer.stored
        else f"{counted(layer.states, 'state')} searched"
    )
    after = _after(layer)
    yield f"  {counted(len(layer.candidate.moves), 'move')}, {_verdict(layer)}; {found}{'; it became' * bool(after)}"
    yield from (f"    {line}" for line in after)


def _each(seconds: float, runs: int) -> str:
    """The milliseconds of a run, and how many there are."""
    each = f"{seconds / runs * 1e3:.3f}"
    return each if runs == 1 else f"{runs} × {each}"


def _runs(layer: Layer, part: OptimizedProgram) -> int:
    """How often it is computed in a call: for each of its statements, and for each slice."""
    return len(layer.names) * (part.slices.count if part.slices else 1)


def _seconds(layer: Layer, part: OptimizedProgram) -> tuple[float, ...]:
    """Of all its runs, before and after; of one that stays as it is before only, if at all."""
    found = (
        ()
        if layer.original is None
        else (layer.original,)
        if layer.candidate is None
        else (layer.original, layer.candidate.cost)
    )
    return tuple(_runs(layer, part) * seconds for seconds in found)


def _shares(layer: Layer, part: OptimizedProgram) -> list[float]:
    """What `_seconds` are of the time of the program, or of all layers where these take longer one by one."""
    whole = (max(bar.seconds, bar.together, 1e-12) for bar in _bars(part))
    return [seconds / all_seconds for seconds, all_seconds in zip(_seconds(layer, part), whole)]


def _bars(part: OptimizedProgram) -> list[Bar]:
    """The program before and after, with a part for every layer, nothing for one that was not searched."""
    rows = [(layer.names[0], _seconds(layer, part) or (0.0,)) for layer in part.layers]
    return [
        Bar(when, s, True, tuple((name, row[min(k, len(row) - 1)]) for name, row in rows))
        for k, (when, s) in enumerate(zip(WHEN, part.seconds))
    ]


def _kernels_before(layer: Layer) -> list[str]:
    """The kernels of the layer as it is; none where those after are no others."""
    lines = told(named(kernels_of(lifted(layer.program)))) if layer.original is not None else []
    return [] if layer.candidate is not None and lines == told(layer.candidate.kernels) else lines


def _after(layer: Layer) -> list[str]:
    """The program of what was found for it; nothing where that is the layer as it is."""
    text = "" if layer.candidate is None else str(layer.candidate.program)
    return [] if text == layer.text else text.splitlines()


def _verdict(layer: Layer) -> str:
    found = layer.candidate
    assert found is not None
    return found.verdict if found.error is None else f"{found.verdict}, error {found.error:.1e}"


def _weights(layer: Layer) -> str:
    """The names of its weights, by which a user knows the layers of a network."""
    return ", ".join([*layer.weights[:MOST_WEIGHTS], *["…"] * (len(layer.weights) > MOST_WEIGHTS)])


def _stays(layer: Layer) -> str:
    return f"stays as it is: {'what was found for it is not faster in the whole' if layer.original is not None else 'it was not searched'}"


def _part_html(number: int, part: OptimizedProgram) -> str:
    bars = _bars(part)
    rest = [max(0.0, bar.seconds - bar.together) for bar in bars]
    bars = [
        replace(bar, kernels=(*bar.kernels, (ELSE, seconds))) for bar, seconds in zip(bars, rest)
    ]
    legend = f"<p>{mark(len(part.layers))}{ELSE}</p>" if any(rest) else ""
    rows = (_row(k, layer, part) for k, layer in enumerate(part.layers))
    return f"<h4>{_title(number, part)}</h4><p>{escape(_proof(part))}</p>{_stacks(bars)}{legend}{table(HEADS, rows)}"


def _stacks(bars: Sequence[Bar]) -> str:
    """Bars on one scale; the table below names their parts."""
    longest = max((bar.seconds for bar in bars), default=0.0) or 1.0
    return "".join(stack(bar, longest) for bar in bars)


def _row(number: int, layer: Layer, part: OptimizedProgram) -> list[str]:
    found, seconds, runs = layer.candidate, _seconds(layer, part), _runs(layer, part)
    after = _details(
        "after", "<pre>{}</pre>".format(escape("\n".join(_after(layer)))) * bool(_after(layer))
    )
    costs = [
        f"{s / runs * 1e3:.3f} <small>{share:.0%}</small>"
        for s, share in zip(seconds, _shares(layer, part))
    ]
    name = mark(number if seconds else None) + code(layer.text) + after
    cells = [name, escape(_weights(layer)), str(runs), *costs, *[""] * (len(WHEN) - len(costs))]
    before = _lines(_kernels_before(layer))
    if found is None:
        return [*cells, before, _stays(layer)]
    return [*cells, _lines(told(found.kernels)) + _details("before", before), _verdict(layer)]


def _details(summary: str, content: str) -> str:
    """What a reader unfolds; nothing where there is nothing."""
    return content and f"<details><summary>{summary}</summary>{content}</details>"


def _lines(lines: Sequence[str]) -> str:
    return "<br>".join(escape(line.strip()) for line in lines)
