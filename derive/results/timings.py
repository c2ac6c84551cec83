"""How fast an expression runs, in every known way: as it is written, and as it was derived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from derive.results.candidates import summarize_operators
from einalg.text.tables import aligned

HEADS = ("way", "ms", "of the fastest", "error", "operators")


@dataclass(frozen=True)
class Timing:
    """One way to run a program: its median `seconds`, its deviation from double precision, and the
    operators that it runs on.
    """

    way: str
    seconds: float
    error: float
    operators: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """The timing as JSON values."""
        return {
            "way": self.way,
            "seconds": self.seconds,
            "error": self.error,
            "operators": list(self.operators),
        }


class Timings(list[Timing]):
    """Timings, fastest first; shown with one line for each, and as a table in Jupyter.

    >>> numpy = Timing("numpy", 0.002, 1e-7, ("matmul",))
    >>> Timings([numpy, Timing("candidate 0", 0.001, 1e-7, ("matmul", "eop"))])
            way     ms  of the fastest    error  operators
    candidate 0  1.000           1.00x  1.0e-07  matmul, eop
          numpy  2.000           2.00x  1.0e-07  matmul
    """

    heads = HEADS

    def __init__(self, timings: Any = ()):
        super().__init__(sorted(timings, key=lambda timing: timing.seconds))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The cells of `HEADS` for every way."""
        for t in self:
            ratio = t.seconds / max(self[0].seconds, 1e-12)
            yield (
                t.way,
                f"{t.seconds * 1e3:.3f}",
                f"{ratio:.2f}x",
                f"{t.error:.1e}",
                summarize_operators(t.operators),
            )

    def __str__(self) -> str:
        return aligned([HEADS, *self.rows()], str.rjust)

    __repr__ = __str__
