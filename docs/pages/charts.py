"""Charts as SVG: how many times faster something is, as dots on a logarithmic axis or as bars.

Text has the colour of the page around it; a file of its own brings colours for light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from math import ceil, floor, log2

COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1")
SLOWER = "#b0b0b0"
LABEL = 330  # pixels of the column of names
PLOT = 400
AFTER = 60  # for figures behind bars
ROW = 24
HEAD = 44
FONT = 'font-family="system-ui, sans-serif" font-size="13"'
ALONE = (
    "<style>.einalg-chart{color:#1f2328}"
    "@media(prefers-color-scheme:dark){.einalg-chart{color:#e6edf3}}</style>"
)

Row = tuple[str, Mapping[str, float]]  # a name, and a ratio for each series that has one


def dots(title: str, rows: Sequence[Row], unit: str, series: Sequence[str] = ()) -> str:
    """Return a chart with a dot for each series of a row, on a logarithmic axis around 1.

    `series` gives the order of the names, so that each has the same colour in several charts.

    >>> chart = dots("Speed", [("matmul", {"one": 2.0, "two": 0.5})], "times as fast")
    >>> chart.count("<circle")  # and two in the legend
    4
    """
    used = list(dict.fromkeys(name for _, values in rows for name in values))
    colours = dict(zip(dict.fromkeys([*series, *used]), cycle(COLOURS)))
    scale = _Logarithm([value for _, values in rows for value in values.values()])
    body = [_legend({name: colours[name] for name in used}), *scale.lines(len(rows))]
    for position, (label, values) in enumerate(rows):
        height = HEAD + ROW * position + ROW / 2
        body.append(_label(label, height))
        for name, value in values.items():
            where, colour = scale.at(value), colours[name]
            tip = f"<title>{escape(f'{label}, {name}: {value:.2f}')}</title>"
            body.append(
                f'<circle cx="{where:.1f}" cy="{height}" r="5" fill="{colour}" '
                f'fill-opacity="0.85">{tip}</circle>'
            )
    return _svg(title, body, HEAD + ROW * len(rows) + 30, _axis_title(unit, len(rows)))


def bars(title: str, rows: Sequence[tuple[str, float]], unit: str) -> str:
    """Return a chart with a bar and its figure for each row, and a line at 1.

    >>> bars("Speed", [("matmul", 1.05), ("conv", 2.49)], "times as fast").count("<rect")
    2
    """
    most = max(value for _, value in rows)
    body = []
    for position, (label, value) in enumerate(rows):
        top, length = HEAD / 2 + ROW * position, PLOT * value / most
        colour = COLOURS[0] if value >= 1 else SLOWER
        body.append(_label(label, top + ROW / 2))
        body.append(
            f'<rect x="{LABEL}" y="{top + 3:.1f}" width="{length:.1f}" height="{ROW - 6}" '
            f'rx="2" fill="{colour}"/>'
        )
        body.append(_text(f"{value:.2f}", LABEL + length + 6, top + ROW / 2))
    bottom, one = HEAD / 2 + ROW * len(rows), LABEL + PLOT / most
    body.append(_line(one, HEAD / 2 - 2, bottom, 0.7, dashed=True))
    return _svg(title, body, bottom + 30, _text(unit, LABEL, bottom + 16))


def alone(chart: str) -> str:
    """Return a chart as a file of its own, which is read in light and in dark."""
    head, _, rest = chart.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg">{ALONE}{rest}\n'


class _Logarithm:
    """The axis of a chart, from one power of 2 to another around all values and 1."""

    def __init__(self, values: Sequence[float]):
        self.low = floor(log2(min([*values, 1.0])))
        self.high = max(ceil(log2(max([*values, 1.0]))), self.low + 1)

    def at(self, value: float) -> float:
        """Return the place of a value in pixels from the left."""
        return LABEL + PLOT * (log2(value) - self.low) / (self.high - self.low)

    def lines(self, rows: int) -> list[str]:
        """Return a line for each power of 2, with its figure above; that of 1 is the darkest."""
        drawn = []
        for power in range(self.low, self.high + 1):
            where, strength = self.at(2.0**power), 0.15
            if power == 0:
                strength = 0.7
            drawn.append(_line(where, HEAD - 4, HEAD + ROW * rows, strength))
            drawn.append(_text(f"{2.0**power:g}", where, HEAD - 14, "middle"))
        return drawn


def _svg(title: str, body: Sequence[str], height: float, end: str) -> str:
    width = LABEL + PLOT + AFTER
    inside = "".join([*body, end])
    return (
        f'<svg class="einalg-chart" viewBox="0 0 {width} {height:.0f}" width="{width}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(title)}" {FONT}>{inside}</svg>'
    )


def _legend(colours: Mapping[str, str]) -> str:
    parts, left = [], 10.0
    for name, colour in colours.items():
        parts.append(f'<circle cx="{left + 5:.0f}" cy="10" r="5" fill="{colour}"/>')
        parts.append(_text(name, left + 16, 10))
        left += 34 + 7.2 * len(name)
    return "".join(parts)


def _axis_title(unit: str, rows: int) -> str:
    return _text(unit, LABEL, HEAD + ROW * rows + 16)


def _label(text: str, height: float) -> str:
    return _text(text, LABEL - 10, height, "end")


def _text(text: str, left: float, height: float, anchor: str = "start") -> str:
    return (
        f'<text x="{left:.1f}" y="{height + 4:.1f}" text-anchor="{anchor}" '
        f'fill="currentColor">{escape(text)}</text>'
    )


def _line(left: float, top: float, bottom: float, strength: float, dashed: bool = False) -> str:
    dashes = ""
    if dashed:
        dashes = ' stroke-dasharray="4 3"'
    return (
        f'<line x1="{left:.1f}" x2="{left:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" '
        f'stroke="currentColor" stroke-opacity="{strength}"{dashes}/>'
    )
