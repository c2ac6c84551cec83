"""What programs cost, as bars that are divided by kernel (design §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from einalg.jupyter.page import page

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
            rows = [*((_share(seconds), kernel) for kernel, seconds in bar.kernels), *([rest] if (rest := bar.rest()) else [])]
            widest = max(len(cost) for cost, _ in rows) if rows else 0
            lines += [f"    {cost:>{widest}}  {what}" for cost, what in rows]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page("".join(map(self._bar, self.bars)), "einalg-costs")

    def _bar(self, bar: Bar) -> str:
        colours = [COLOURS[k % len(COLOURS)] for k in range(len(bar.kernels))]
        parts = "".join(
            f'<span style="width:{100 * width / self.longest:.2f}%;background:{colour}" title="{escape(kernel)}: {_share(seconds)}"></span>'
            for (kernel, seconds), width, colour in zip(bar.kernels, bar.widths(), colours)
            if seconds
        )
        rows = "".join(
            f'<div><i style="background:{colour if seconds else "none"}"></i><code>{escape(kernel)}</code> <small>{_share(seconds)}</small></div>'
            for (kernel, seconds), colour in zip(bar.kernels, colours)
        )
        rows += "".join(f"<div><i></i>{escape(what)} <small>{cost}</small></div>" for cost, what in filter(None, [bar.rest()]))
        head = f"<strong>{escape(bar.title)}</strong> {_time(bar.seconds, bar.measured)}"
        return f'<div><p>{head}</p><div class="einalg-stack" role="img" aria-label="{escape(bar.title)}">{parts}</div>{rows}</div>'


def _time(seconds: float, measured: bool) -> str:
    return f"{seconds * 1e3:.3f} ms" + ("" if measured else " (estimated)")


def _share(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds else "once, from weights"
