"""The picture of a roofline: speed over intensity, both logarithmic, the roof of the machine, and a
point for each candidate that was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from derive.cost.roofline_table import RooflineRow, RooflineTable
from einalg.text.wording import significant

WIDTH, HEIGHT = 460, 230  # pixels of the picture
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 40  # pixels around the axes
RADIUS = 4.5  # of a point, in pixels
MAX_POINTS = 12
MAX_TICKS = 10
LABEL_SIZE = 10  # pixels of a number beside a point
LEAST = 1e-3  # of a number whose logarithm is drawn


@dataclass(frozen=True)
class LogarithmicAxis:
    """A logarithmic axis from one number to another, in pixels.

    >>> axis = LogarithmicAxis.of([0.3, 17], 0.0, 300.0)
    >>> axis.ticks()
    [0.2, 0.5, 1, 2, 5, 10, 20]
    >>> axis.place(0.2), round(axis.place(2), 9), axis.place(20)
    (0.0, 150.0, 300.0)
    """

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, numbers: list[float], start: float, end: float) -> LogarithmicAxis:
        """Return the axis from one round number to another between which these numbers lie."""
        least, most = max(min(numbers), LEAST), max(*numbers, 2 * LEAST)
        rounds = _round_numbers(floor(log10(least)), ceil(log10(most)) + 1)
        low = max(number for number in rounds if number <= least)
        high = min(number for number in rounds if number >= most and number > low)
        return cls(low, high, start, end)

    def place(self, number: float) -> float:
        """Return where a number lies."""
        part = log10(max(number, self.low) / self.low) / log10(self.high / self.low)
        return self.start + min(part, 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the round numbers on it: powers of ten alone where these are many."""
        powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        rounds = _round_numbers(powers.start, powers.stop)
        ticks = [number for number in rounds if self.low <= number <= self.high]
        if len(ticks) <= MAX_TICKS:
            return ticks
        return [10**power for power in powers if self.low <= 10**power <= self.high]


def _round_numbers(first: int, last: int) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten between two exponents."""
    numbers: list[float] = []
    for power in range(first, last):
        for digit in (1, 2, 5):
            numbers.append(float(f"{digit}e{power}"))
    return [int(number) if number.is_integer() else number for number in numbers]


def roofline_svg(table: RooflineTable) -> str:
    """Return the picture, or nothing where no candidate was measured."""
    points = [row for row in table.rows if row.reached and row.work.flops][:MAX_POINTS]
    if not points:
        return ""
    roof = table.roof
    intensities = [row.work.intensity for row in points]
    speeds = [(row.reached or 0.0) / 1e9 for row in points]
    across = LogarithmicAxis.of([*intensities, roof.ridge / 4, roof.ridge * 4], LEFT, WIDTH - RIGHT)
    lowest = roof.bandwidth * min(*intensities, roof.ridge / 4) / 1e9
    up = LogarithmicAxis.of([*speeds, roof.peak / 1e9, lowest], HEIGHT - BOTTOM, TOP)
    content = [*_grid(across, up), _roof(table, across, up)]
    labels: list[tuple[float, float]] = []
    for row in points:
        x, y = across.place(row.work.intensity), up.place((row.reached or 0.0) / 1e9)
        has_label = not any(_is_near(x, y, *label) for label in labels)
        if has_label:
            labels.append((x, y))
        content.append(_point(row, x, y, has_label))
    label = f"roofline of {len(points)} measured candidates; the table below has the figures"
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}"'
    return f'<svg class="einalg-roof" {size}>{"".join(content)}</svg>'


def _grid(across: LogarithmicAxis, up: LogarithmicAxis) -> Iterator[str]:
    for tick in across.ticks():
        x = across.place(tick)
        yield _line(x, up.start, x, up.end)
        yield _text(x, up.start + 14, f"{tick:g}", "middle")
    for tick in up.ticks():
        y = up.place(tick)
        yield _line(across.start, y, across.end, y)
        yield _text(across.start - 6, y + 4, f"{tick:g}", "end")
    yield _text((across.start + across.end) / 2, HEIGHT - 8, "FLOP/B", "middle")
    middle = (up.start + up.end) / 2
    turned = f'transform="rotate(-90 12 {middle:.1f})"'
    yield f'<text x="12" y="{middle:.1f}" text-anchor="middle" {turned}>GFLOP/s</text>'


def _roof(table: RooflineTable, across: LogarithmicAxis, up: LogarithmicAxis) -> str:
    roof = table.roof
    corners = []
    for intensity in (across.low, roof.ridge, across.high):
        speed = min(roof.peak, roof.bandwidth * intensity) / 1e9
        corners.append(f"{across.place(intensity):.1f},{up.place(speed):.1f}")
    return f'<polyline points="{" ".join(corners)}"><title>{escape(str(roof))}</title></polyline>'


def _is_near(x: float, y: float, other_x: float, other_y: float) -> bool:
    return abs(x - other_x) < LABEL_SIZE and abs(y - other_y) < LABEL_SIZE


def _point(row: RooflineRow, x: float, y: float, has_label: bool) -> str:
    reached = significant((row.reached or 0.0) / 1e9)
    title = f"candidate {row.number}: {reached} GFLOP/s, {row.operators}"
    content = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}"/>'
    if has_label:
        content += f'<text x="{x + 7:.1f}" y="{y - 5:.1f}">{row.number}</text>'
    return f"<g><title>{escape(title)}</title>{content}</g>"


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
