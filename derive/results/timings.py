"""How fast an expression runs, in every known way: as it is written, and as it was derived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from derive.results.candidates import summarize_operators
from einalg.runtime.measurement import Comparison, Measurement
from einalg.text.tables import aligned
from einalg.text.terminal import fitted
from einalg.text.wording import AS_WRITTEN

HEADS = ("way", "ms", "median", "speed", "error", "operators")


@dataclass(frozen=True)
class Timing:
    """One way to run a program: what was measured, its deviation from double precision, and the
    operators that it runs on.
    """

    way: str
    measurement: Measurement
    error: float
    operators: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The shortest time of a run."""
        return self.measurement.seconds

    def as_record(self) -> dict[str, Any]:
        """The timing as JSON values."""
        return {
            "way": self.way,
            "seconds": self.seconds,
            "measurement": self.measurement.as_record(),
            "error": self.error,
            "operators": list(self.operators),
        }


class Timings(list[Timing]):
    """Timings, fastest first; shown with one line for each, and as a table in Jupyter.

    The speed says how many times as fast a way is as the expression as it is written, with the
    range within the spreads of both; without one figure where these are too wide for it.

    >>> slow, quick = Measurement(0.002, 0.0021, 0.0021, 9), Measurement(0.001, 0.00101, 0.00101, 9)
    >>> best = Timing("candidate 0", quick, 1e-7, ("matmul", "eop"))
    >>> Timings([Timing("as it is written", slow, 1e-7, ("matmul",)), best])
                 way     ms  median              speed    error  operators
         candidate 0  1.000   1.010  2.0x (2.0 to 2.1)  1.0e-07  matmul, eop
    as it is written  2.000   2.100                 1x  1.0e-07  matmul
    speed: how many times as fast as the expression as it is written
    """

    heads = HEADS

    def __init__(self, timings: Any = ()):
        super().__init__(sorted(timings, key=lambda timing: timing.seconds))

    @property
    def written(self) -> Timing | None:
        """The timing of the expression as it is written."""
        for timing in self:
            if timing.way == AS_WRITTEN:
                return timing
        return None

    def comparison(self, timing: Timing) -> Comparison | None:
        """Return how many times as fast a way is as the expression as it is written."""
        if self.written is None:
            return None
        return Comparison(timing.measurement, self.written.measurement)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The cells of `HEADS` for every way."""
        for timing in self:
            yield (
                timing.way,
                f"{timing.seconds * 1e3:.3f}",
                f"{timing.measurement.median * 1e3:.3f}",
                self._speed(timing),
                f"{timing.error:.1e}",
                summarize_operators(timing.operators),
            )

    def _speed(self, timing: Timing) -> str:
        if timing is self.written:
            return "1x"
        comparison = self.comparison(timing)
        return "" if comparison is None else comparison.range

    def remarks(self) -> list[str]:
        """Return what a reader of the rows should know."""
        remarks = []
        if self.written is not None:
            remarks.append(f"speed: how many times as fast as the expression {AS_WRITTEN}")
        if any(timing.measurement.busy for timing in self):
            remarks.append("the machine is busy with other work: measure again when it is quiet")
        return remarks

    def __str__(self) -> str:
        table = aligned([HEADS, *self.rows()], str.rjust)
        return fitted("\n".join([table, *self.remarks()]))

    __repr__ = __str__
