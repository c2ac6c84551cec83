"""How near candidates come to what the machine allows: the table of a roofline model.

A machine has a peak of arithmetic and a bandwidth of memory. A kernel that moves few bytes for much
arithmetic is bound by the peak, another one by memory; the kernels of a candidate run one after the
other.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from derive.cost.model import Roofline
from derive.cost.work import Work, total_work
from einalg.boundary import public
from einalg.text.tables import aligned
from einalg.text.terminal import COLUMNS, fitted
from einalg.text.wording import BINARY, DECIMAL, Unit, significant

MIN_SECONDS = 1e-12  # of what is divided by
MAX_TEXT_ROWS = 12
ARITHMETIC, MEMORY, NOTHING = "arithmetic", "memory", "nothing"
NONE = "–"
RATES = "attainable and reached are in GFLOP/s, share is that of the attainable speed"
COUNTED = (
    "FLOP (operations on data) and bytes (each kernel reads and writes every element once) are "
    "counted, for one call; what depends on weights alone is done before"
)
ESTIMATED = "~: estimated, not measured"
ABOVE = (
    "a share above 100%: caches are faster than memory, and the peak is that of "
    "the fastest kernel that the rates are measured by, not the processor's limit"
)


@dataclass(frozen=True)
class Roof:
    """The peak of arithmetic in FLOP/s and the bandwidth of memory in bytes/s, and whether they
    were measured on this machine.

    >>> roof = Roof(peak=1e11, bandwidth=2e10, is_measured=True)
    >>> roof.ridge, roof.seconds(Work(flops=1_000_000, bytes=1_000_000))
    (5.0, 5e-05)
    """

    peak: float
    bandwidth: float
    is_measured: bool

    @classmethod
    def of(cls, rates: Roofline | None) -> Roof:
        """Return the roof of measured rates; of a usual machine where there are none."""
        known = rates or Roofline()
        return cls(max(known.library, known.generated), known.bandwidth, rates is not None)

    @property
    def ridge(self) -> float:
        """The FLOP for each byte above which arithmetic is the bound."""
        return self.peak / self.bandwidth

    def seconds(self, work: Work) -> float:
        """Return the least time of some work."""
        return max(self._arithmetic(work), self._memory(work))

    def bound(self, work: Work) -> str:
        """Return what the least time of some work is spent on."""
        return ARITHMETIC if self._arithmetic(work) >= self._memory(work) else MEMORY

    def _arithmetic(self, work: Work) -> float:
        return work.flops / self.peak

    def _memory(self, work: Work) -> float:
        return work.bytes / self.bandwidth

    def __str__(self) -> str:
        peak, bandwidth = significant(self.peak / 1e9), significant(self.bandwidth / 1e9)
        return (
            f"roof, {self._origin}: {peak} GFLOP/s, {bandwidth} GB/s; "
            f"memory is the bound below {significant(self.ridge)} FLOP/B, arithmetic above"
        )

    @property
    def _origin(self) -> str:
        if self.is_measured:
            return "measured on this machine in f32"
        return "of a usual machine, not measured"


@dataclass(frozen=True)
class RooflineRow:
    """A candidate below the roof: its number, its operators, the work of each kernel in a call, and
    its seconds, measured or estimated.
    """

    number: int
    operators: str
    works: tuple[Work, ...]
    seconds: float
    is_measured: bool
    roof: Roof

    @property
    def work(self) -> Work:
        """The work of a call."""
        return total_work(self.works)

    @property
    def least_seconds(self) -> float:
        """The least time of a call: that of its kernels, one after the other."""
        return sum(map(self.roof.seconds, self.works))

    @property
    def attainable(self) -> float:
        """The FLOP/s at the least time."""
        return self.work.flops / max(self.least_seconds, MIN_SECONDS)

    @property
    def reached(self) -> float | None:
        """The FLOP/s that were measured; None where the time is an estimate."""
        if not self.is_measured:
            return None
        return self.work.flops / max(self.seconds, MIN_SECONDS)

    @property
    def share(self) -> float | None:
        """The least time as a part of the measured one; above 1 for what caches hold."""
        if not self.is_measured:
            return None
        return self.least_seconds / max(self.seconds, MIN_SECONDS)

    @property
    def bound(self) -> str:
        """What most of the least time is spent on: arithmetic, or memory."""
        seconds = {NOTHING: 0.0, ARITHMETIC: 0.0, MEMORY: 0.0}
        for work in self.works:
            seconds[self.roof.bound(work)] += self.roof.seconds(work)
        return max(seconds, key=seconds.__getitem__)


@public
class RooflineTable:
    """The work of candidates, and how near they come to what the machine allows.

    `rows` are plain values, in FLOP, bytes and seconds; `roof` are the rates of the machine.

    >>> roof = Roof(peak=1e11, bandwidth=2e10, is_measured=True)
    >>> row = RooflineRow(0, "matmul", (Work(4_000_000, 200_000),), 5e-5, True, roof)
    >>> print(str(RooflineTable([row], roof)).partition("attainable and")[0].rstrip())
       MFLOP  KiB  FLOP/B  attainable  reached  share    bound by  ms
    0   4.00  195    20.0         100     80.0    80%  arithmetic  0.050
    """

    def __init__(self, rows: Sequence[RooflineRow], roof: Roof):
        self.rows, self.roof = tuple(rows), roof

    def heads(self) -> tuple[str, ...]:
        """Return the heads of the columns, with units."""
        flops, size = self._units()
        rates = ("FLOP/B", "attainable", "reached", "share", "bound by", "ms")
        return ("", f"{flops.prefix}FLOP", f"{size.prefix}B", *rates)

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of `heads` for every row."""
        flops, size = self._units()
        for row in self.rows:
            yield (
                str(row.number),
                flops.text(row.work.flops),
                size.text(row.work.bytes),
                significant(row.work.intensity),
                significant(row.attainable / 1e9),
                NONE if row.reached is None else significant(row.reached / 1e9),
                NONE if row.share is None else f"{row.share:.0%}",
                row.bound,
                f"{'' if row.is_measured else '~'}{row.seconds * 1e3:.3f}",
            )

    def _units(self) -> tuple[Unit, Unit]:
        works = [row.work for row in self.rows]
        flops = Unit.of((work.flops for work in works), DECIMAL)
        return flops, Unit.of((work.bytes for work in works), BINARY)

    def remarks(self) -> list[str]:
        """Return what a reader of the rows should know."""
        remarks = [RATES, COUNTED, str(self.roof)]
        if not all(row.is_measured for row in self.rows):
            remarks.insert(0, ESTIMATED)
        if any((row.share or 0.0) > 1 for row in self.rows):
            remarks.append(ABOVE)
        return remarks

    def __str__(self) -> str:
        rows = [self.heads(), *list(self.cells())[:MAX_TEXT_ROWS]]
        lines = [aligned(rows, str.rjust)]
        if len(self.rows) > MAX_TEXT_ROWS:
            lines.append(f"and {len(self.rows) - MAX_TEXT_ROWS} more")
        for remark in self.remarks():
            lines += textwrap.wrap(remark, COLUMNS, subsequent_indent="  ")
        return fitted("\n".join(lines))

    __repr__ = __str__
