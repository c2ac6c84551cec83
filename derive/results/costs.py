"""Costs of programs as bars that are divided by kernel (design §8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from einalg.boundary import public
from einalg.text.terminal import fitted
from einalg.text.wording import milliseconds

MIN_VISIBLE_SECONDS = 0.5e-6  # a smaller difference between a program and its kernels is not shown
BESIDES = "besides the kernels: the call, and memory between them"
TOGETHER = "saved: one after the other they take less than each by itself"
MAX_BAR_CHARACTERS = 40


@dataclass(frozen=True)
class Bar:
    """A program: its `title`, its `seconds`, whether these were measured, and the seconds of each
    kernel by itself.

    >>> Costs([Bar("as it is written", 0.012, True, (("O = matmul(A, B)", 0.003),))])
    ████████████████████████████████████████ 12.000 ms  as it is written
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

    @property
    def cost(self) -> str:
        """Its seconds in words: `12.000 ms`, or `12.000 ms (estimated)`."""
        if self.measured:
            return milliseconds(self.seconds)
        return f"{milliseconds(self.seconds)} (estimated)"

    def widths(self) -> list[float]:
        """Return the seconds of each kernel, scaled so that together they are no more than the
        program's.

        The program takes more where it has other work, and less where kernels help each other.
        """
        scale = min(1.0, self.seconds / self.together) if self.together else 0.0
        return [seconds * scale for _, seconds in self.kernels]

    def rest(self) -> tuple[str, str] | None:
        """Return the difference between the program and its kernels, and what it is; None for one
        that is not visible.
        """
        rest = self.seconds - self.together
        if abs(rest) < MIN_VISIBLE_SECONDS:
            return None
        if rest > 0:
            return f"+{milliseconds(rest)}", BESIDES
        return milliseconds(rest), TOGETHER

    def rows(self) -> list[tuple[str, str]]:
        """Return the cost and the text of each kernel, and of the rest."""
        rows = [(kernel_cost(seconds), kernel) for kernel, seconds in self.kernels]
        rest = self.rest()
        return rows if rest is None else [*rows, rest]


@public
class Costs:
    """Bars of programs on one scale; text in a terminal."""

    def __init__(self, bars: Sequence[Bar]):
        self.bars = tuple(bars)

    @property
    def longest(self) -> float:
        """The seconds of the longest bar."""
        return longest(self.bars)

    def __str__(self) -> str:
        lines = []
        for bar in self.bars:
            lines += self._lines(bar)
        return fitted("\n".join(lines))

    __repr__ = __str__

    def _lines(self, bar: Bar) -> Iterator[str]:
        length = max(1, round(MAX_BAR_CHARACTERS * bar.seconds / self.longest))
        yield f"{'█' * length:{MAX_BAR_CHARACTERS}} {bar.cost}  {bar.title}"
        rows = bar.rows()
        width = max((len(cost) for cost, _ in rows), default=0)
        for cost, text in rows:
            yield f"    {cost:>{width}}  {text}"


def longest(bars: Sequence[Bar]) -> float:
    """Return the seconds of the longest bar, which is the scale of all; 1 where there is none."""
    return max((bar.seconds for bar in bars), default=0.0) or 1.0


def kernel_cost(seconds: float) -> str:
    """Return the time of a kernel in words; one that weights alone decide takes none.

    >>> kernel_cost(0.003), kernel_cost(0.0)
    ('3.000 ms', 'once, from weights')
    """
    if not seconds:
        return "once, from weights"
    return milliseconds(seconds)
