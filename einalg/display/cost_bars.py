"""What programs cost, as bars that are divided by kernel (design §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from einalg.display.html import page

COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#edc948", "#9c755f")
SEEN = 0.5e-6  # seconds that are seen
BESIDES = "besides the kernels: the call, and memory between them"
TOGETHER = "saved: one after the other they take less than each by itself"
WIDTH = 40  # characters of the longest bar


@dataclass(frozen=True)
class Bar:
    """A program: its `title`, its `seconds`, whether these were measured, and its kernels, each with the seconds it takes by itself.

    >>> Costs([Bar("as it is", 0.012, True, (("O = matmul(A, B)", 0.003),))])
    ████████████████████████████████████████ 12.000 ms  as it is
         3.000 ms  O = matmul(A, B)
        +9.000 ms  besides the kernels: the call, and memory between them
    """

    title: str
    seconds: float
    measured: bool
    kernels: tuple[tuple[str, float], ...]

    @property
    def together(self) -> float:
        """Seconds of all kernels, each by itself."""
        return sum(seconds for _, seconds in self.kernels)

    def widths(self) -> list[float]:
        """The seconds of each kernel within the program's, which are more where it has other work, and less where kernels help each other."""
        scale = min(1.0, self.seconds / self.together) if self.together else 0.0
        return [seconds * scale for _, seconds in self.kernels]

    def rest(self) -> tuple[str, str] | None:
        """The difference between the program's seconds and its kernels', and what it is; None where there is none to be seen."""
        rest = self.seconds - self.together
        if abs(rest) < SEEN:
            return None
        return f"{rest * 1e3:+.3f} ms", BESIDES if rest > 0 else TOGETHER


class Costs:
    """Bars of programs on one scale; text in a terminal."""

    def __init__(self, bars: Sequence[Bar]):
        self.bars = tuple(bars)

    @property
    def longest(self) -> float:
        return max((bar.seconds for bar in self.bars), default=0.0) or 1.0

    def __str__(self) -> str:
        lines = []
        for bar in self.bars:
            length = max(1, round(WIDTH * bar.seconds / self.longest))
            lines.append(f"{'█' * length:{WIDTH}} {_time(bar.seconds, bar.measured)}  {bar.title}")
            rows = [
                *((_share(seconds), kernel) for kernel, seconds in bar.kernels),
                *([rest] if (rest := bar.rest()) else []),
            ]
            widest = max(len(cost) for cost, _ in rows) if rows else 0
            lines += [f"    {cost:>{widest}}  {what}" for cost, what in rows]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page("".join(map(self._bar, self.bars)), "einalg-costs")

    def _bar(self, bar: Bar) -> str:
        rows = "".join(
            f"<div>{mark(k if seconds else None)}<code>{escape(kernel)}</code> <small>{_share(seconds)}</small></div>"
            for k, (kernel, seconds) in enumerate(bar.kernels)
        )
        rows += "".join(
            f"<div>{mark(None)}{escape(what)} <small>{cost}</small></div>"
            for cost, what in filter(None, [bar.rest()])
        )
        return f"<div>{stack(bar, self.longest)}{rows}</div>"


def stack(bar: Bar, longest: float) -> str:
    """A bar under its title, as HTML: as wide as the page for the seconds of the `longest`, each part in the colour of its `mark`."""
    parts = "".join(
        f'<span style="width:{100 * width / longest:.2f}%;background:{_colour(k)}" title="{escape(kernel)}: {_share(seconds)}"></span>'
        for k, ((kernel, seconds), width) in enumerate(zip(bar.kernels, bar.widths()))
        if seconds
    )
    head = f"<strong>{escape(bar.title)}</strong> {_time(bar.seconds, bar.measured)}"
    return f'<p>{head}</p><div class="einalg-stack" role="img" aria-label="{escape(bar.title)}">{parts}</div>'


def mark(number: int | None) -> str:
    """A square in the colour of a part of a `stack`, by its number; None for what has no part."""
    return f'<i style="background:{"none" if number is None else _colour(number)}"></i>'


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _time(seconds: float, measured: bool) -> str:
    return f"{seconds * 1e3:.3f} ms" + ("" if measured else " (estimated)")


def _share(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds else "once, from weights"
