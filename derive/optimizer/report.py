"""The report of an optimization: each program and each layer before and after, as text and as HTML (design §11)."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from derive.candidates import told
from einalg.jupyter.page import code, page, table
from einalg.wording import counted, in_bytes

if TYPE_CHECKING:
    from derive.optimizer.layers import Layer
    from derive.optimizer.network import Optimized
    from derive.optimizer.parts import Part

BAR = 24  # characters of the longest bar
MOST_WEIGHTS = 4  # that are named


class Report:
    """What was done with a network: `str` gives text, Jupyter shows tables."""

    def __init__(self, optimized: Optimized):
        self._optimized = optimized

    def __str__(self) -> str:
        found = self._optimized
        lines = [f"{counted(len(found.parts), 'program')}, {counted(len(found.opaque), 'opaque call')}; optimized in {found.seconds:.1f} s"]
        if found.times is not None:
            lines.append("a call: {:.3f} ms in the framework, {:.3f} ms optimized".format(*(1e3 * s for s in found.times)))
        for number, part in enumerate(found.parts.values(), 1):
            lines += ["", *_part(number, part)]
        if found.opaque:
            lines += ["", "opaque, run by the framework:", *(f"  {node.operator}: {node.why}" for node in found.opaque)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        found = self._optimized
        tables = "".join(_table(number, part) for number, part in enumerate(found.parts.values(), 1))
        opaque = "".join(f"<li>{escape(node.operator)}: {escape(node.why)}</li>" for node in found.opaque)
        return page(tables + (f"<p>opaque, run by the framework:</p><ul>{opaque}</ul>" if opaque else ""), "einalg-report")


def _part(number: int, part: Part) -> Iterator[str]:
    before, after = (s * 1e3 for s in part.seconds)
    yield f"program {number}: {before:.3f} ms → {after:.3f} ms ({before / max(after, 1e-9):.2f}x), {_proof(part)}"
    longest = max((layer.original or 0.0 for layer in part.layers), default=0.0)
    for layer in part.layers:
        yield from (f"  {line}" for line in _layer(layer, longest))


def _proof(part: Part) -> str:
    return ", ".join([part.verdict, f"largest error {part.error:.1e}", *part.changes, f"{in_bytes(part.workspace)} between kernels"])


def _layer(layer: Layer, longest: float) -> Iterator[str]:
    times = "once" if len(layer.names) == 1 else f"{len(layer.names)} times"
    yield f"{layer.names[0]} ({times}{', with ' * bool(layer.weights)}{_weights(layer)}): {layer.text}"
    if layer.candidate is None or layer.original is None:
        yield f"  {_stays(layer)}"
        return
    for what, seconds in (("before", layer.original), ("after", layer.candidate.cost)):
        yield f"  {what:6} {seconds * 1e3:9.3f} ms  {'█' * round(BAR * seconds / longest) if longest else ''}"
    found = "found before, kept on disk" if layer.stored else f"{counted(layer.states, 'state')} searched"
    yield f"  {counted(len(layer.candidate.moves), 'move')}, {layer.candidate.verdict}; {found}"
    yield from told(layer.candidate.kernels)


def _weights(layer: Layer) -> str:
    """The names of its weights, by which a user knows the layers of a network."""
    return ", ".join([*layer.weights[:MOST_WEIGHTS], *["…"] * (len(layer.weights) > MOST_WEIGHTS)])


def _stays(layer: Layer) -> str:
    return f"stays as it is: {'what was found for it is not faster in the whole' if layer.original is not None else 'it was not searched'}"


def _table(number: int, part: Part) -> str:
    before, after = (s * 1e3 for s in part.seconds)
    title = f"program {number}: {before:.3f} ms → {after:.3f} ms, {_proof(part)}"
    return table(("layer", "weights", "times", "before, ms", "after, ms", "kernels", "verdict"), map(_row, part.layers), title)


def _row(layer: Layer) -> list[str]:
    found = layer.candidate
    cells = [code(layer.text), escape(_weights(layer)), str(len(layer.names))]
    if found is None or layer.original is None:
        return [*cells, "", "", "", _stays(layer)]
    kernels = "<br>".join(escape(line.strip()) for line in told(found.kernels))
    return [*cells, f"{layer.original * 1e3:.3f}", f"{found.cost * 1e3:.3f}", kernels, found.verdict]
