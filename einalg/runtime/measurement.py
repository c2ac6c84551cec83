"""What recorded times say: a measurement, two compared, and how far they are to be trusted (§8).

A disturbance only adds to a time. The shortest turn is therefore the figure, and the spread reaches
from it to the lower quartile: a quarter of the turns lie within it, so that the shortest is none by
chance. The median beside it tells what a run takes on the machine as it is.

Where one thread does the work, its processor time counts, which other work on the machine hardly
changes. The latency of several threads is not the sum of their processor times, so there the clock
counts, and it counts for all that is compared with them: other work would seem to slow these alone.
In all cases turns in which the system took a core away are left out where there are enough others.

Everything here decides on values that were recorded; `einalg.runtime.timing` records them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median, quantiles
from typing import Any, Literal

PROCESSOR, CLOCK, DEVICE = "processor", "clock", "device"
CLOCKS = (PROCESSOR, CLOCK, DEVICE)
MIN_SECONDS = 1e-12  # of what is divided by
Verdict = Literal["faster", "slower", "alike", "uncertain"]


@dataclass(frozen=True)
class TrustPolicy:
    """When recorded times are trusted, and when they say that the machine is busy."""

    min_turns: int = 2  # fewer say nothing of their spread
    min_quiet_turns: int = 5  # with so many, those that were interrupted do not count
    max_share_of_others: float = 0.05  # of the processor time, where one thread does the work
    min_running_share: float = 0.5  # of an undisturbed turn, in which that thread runs
    max_lost_share: float = 0.1  # of the clock, that interrupted turns lose on a quiet machine
    max_interruptions: float = 20.0  # in a second, where no turn tells what they cost
    few_interruptions: int = 2  # which are by chance, however short the time is
    max_range: float = 0.25  # relative, of a ratio that is told as one figure
    noise: float = 0.03  # relative difference of two times that says nothing


TRUST = TrustPolicy()


@dataclass(frozen=True)
class Turn:
    """One turn: seconds of a run by the clock, and signs of load.

    `own` are the processor seconds of the thread that calls, None on a device, whose clock is read
    there; `others` those of all other threads of the process. `interruptions` counts how often the
    system gave the core of a thread to other work, and `runs` the runs in a row that are one turn.
    """

    clock: float
    own: float | None = None
    others: float = 0.0
    interruptions: int = 0
    runs: int = 1

    def shared(self, runs: int) -> Turn:
        """Return the turn of so many runs that were timed as one.

        >>> Turn(6.0, 4.0).shared(2)
        Turn(clock=3.0, own=2.0, others=0.0, interruptions=0, runs=2)
        """
        own = None if self.own is None else self.own / runs
        return Turn(self.clock / runs, own, self.others / runs, self.interruptions, runs)


@dataclass(frozen=True)
class Measurement:
    """Seconds of a run: the shortest turn that counts, the lower quartile, the median.

    `turns` is how many there were, `clock` whose seconds these are, and `busy` says whether the
    machine did other work meanwhile.

    >>> Measurement(0.0100, 0.0104, 0.0110, 9).spread
    0.04
    """

    minimum: float
    quartile: float
    median: float
    turns: int = 1
    clock: str = CLOCK
    busy: bool = False

    @property
    def seconds(self) -> float:
        """The figure that stands for the measurement."""
        return self.minimum

    @property
    def spread(self) -> float:
        """How much longer the lower quartile is than the minimum, as a part of it."""
        return round(self.quartile / max(self.minimum, MIN_SECONDS) - 1, 9)

    @property
    def is_sharp(self) -> bool:
        """Whether the turns agree so far that one figure stands for them."""
        return self.turns >= TRUST.min_turns and (1 + self.spread) ** 2 <= 1 + TRUST.max_range

    @property
    def is_settled(self) -> bool:
        """Whether there is no reason to measure again: the turns agree, and the machine was
        quiet.
        """
        return self.is_sharp and not self.busy

    def merged(self, other: Measurement) -> Measurement:
        """Return the better one of two measurements of the same thing.

        That is the one of a quiet moment, then the lower one: a disturbance only adds.
        """
        return min(self, other, key=lambda m: (not m.is_settled, m.minimum))

    def as_record(self) -> dict[str, Any]:
        """Return the measurement as JSON values."""
        return {
            "minimum": self.minimum,
            "quartile": self.quartile,
            "median": self.median,
            "turns": self.turns,
            "clock": self.clock,
            "busy": self.busy,
        }

    @classmethod
    def from_record(cls, row: Any) -> Measurement | None:
        """Return the measurement of a record; None for a foreign, older or broken one.

        >>> Measurement.from_record(Measurement(0.25, 0.25, 0.5, 3).as_record()).median
        0.5
        >>> Measurement.from_record({"minimum": -1})
        """
        if not isinstance(row, dict):
            return None
        times: list[float] = []
        for name in ("minimum", "quartile", "median", "turns"):
            number: Any = row.get(name)
            if type(number) not in (int, float) or not 0 < number < inf:
                return None
            times.append(float(number))
        shortest, quartile, middle, turns = times
        is_ordered = shortest <= quartile <= middle
        if not is_ordered or row.get("clock") not in CLOCKS or type(row.get("busy")) is not bool:
            return None
        return cls(shortest, quartile, middle, int(turns), row["clock"], row["busy"])


def measurements(turns: Mapping[str, Sequence[Turn]]) -> dict[str, Measurement]:
    """Return what the turns of alternatives say of the seconds of a run, all by the same clock.

    >>> alone, together = [Turn(0.03, 0.01)] * 9, [Turn(0.02, 0.01, 0.01)] * 9
    >>> [recorded.minimum for recorded in measurements({"one": alone, "two": together}).values()]
    [0.03, 0.02]
    """
    clocks = {_clock(recorded, TRUST) for recorded in turns.values()}
    clock = None
    if CLOCK in clocks:
        clock = CLOCK
    return {name: measurement(recorded, clock=clock) for name, recorded in turns.items()}


def measurement(
    turns: Sequence[Turn], trust: TrustPolicy = TRUST, clock: str | None = None
) -> Measurement:
    """Return what turns say of the seconds of a run, by a clock or by the one that suits them.

    >>> quiet = [Turn(0.0105, 0.0104), Turn(0.0101, 0.0100), Turn(0.0103, 0.0102)]
    >>> recorded = measurement(quiet)
    >>> recorded.minimum, recorded.median, recorded.clock, recorded.busy
    (0.01, 0.0102, 'processor', False)
    >>> measurement([Turn(0.031, 0.0101, interruptions=3) for _ in range(9)]).busy
    True
    """
    if clock is None:
        clock = _clock(turns, trust)
    counted = turns
    quiet = [turn for turn in turns if not turn.interruptions]
    if len(quiet) >= trust.min_quiet_turns:
        counted = quiet
    times = sorted(max(MIN_SECONDS, _seconds(turn, clock)) for turn in counted)
    quartile = times[0]
    if len(times) > 1:
        quartile = quantiles(times, n=4, method="inclusive")[0]
    middle, busy = median(times), _is_busy(turns, trust)
    return Measurement(times[0], quartile, middle, len(times), clock, busy)


def _clock(turns: Sequence[Turn], trust: TrustPolicy) -> str:
    """Return the clock that tells the latency of a run.

    That is the processor time of the calling thread where that does the work by itself. It does not
    where other threads work too, or where it waits though no core was taken from it.
    """
    if any(turn.own is None for turn in turns):
        return DEVICE
    own, others = 0.0, 0.0
    for turn in turns:
        own += (turn.own or 0.0) * turn.runs
        others += turn.others * turn.runs
    if others > trust.max_share_of_others * (own + others):
        return CLOCK
    running = [_running_share(turn) for turn in turns if not turn.interruptions]
    if running and median(running) < trust.min_running_share:
        return CLOCK
    return PROCESSOR


def _running_share(turn: Turn) -> float:
    """Return the part of a turn in which the calling thread had a core."""
    return (turn.own or 0.0) / max(turn.clock, MIN_SECONDS)


def _seconds(turn: Turn, clock: str) -> float:
    """Return the seconds of a turn by a clock; a thread's are no more than those that passed."""
    if clock == PROCESSOR and turn.own is not None:
        return min(turn.own, turn.clock)
    return turn.clock


def _is_busy(turns: Sequence[Turn], trust: TrustPolicy) -> bool:
    """Say whether other work took cores away while the turns ran.

    Threads of the process itself also take cores from each other, which costs a turn nothing. So
    what counts is the time that interrupted turns lost; where all turns were interrupted, that is
    not known, and how often they were decides.
    """
    passed = sum(turn.clock * turn.runs for turn in turns)
    interruptions = sum(turn.interruptions for turn in turns)
    if interruptions <= trust.few_interruptions:
        return False
    undisturbed = [turn for turn in turns if not turn.interruptions]
    if not undisturbed:
        return interruptions > trust.max_interruptions * passed
    usual_clock = median(turn.clock for turn in undisturbed)
    usual_waiting = median(_waiting(turn) for turn in undisturbed)
    lost = 0.0
    for turn in turns:
        if turn.interruptions:
            longer = max(turn.clock - usual_clock, _waiting(turn) - usual_waiting, 0.0)
            lost += longer * turn.runs
    return lost > trust.max_lost_share * passed


def _waiting(turn: Turn) -> float:
    """Return the seconds of a turn in which the calling thread had no core."""
    if turn.own is None:
        return 0.0
    return max(0.0, turn.clock - turn.own)


@dataclass(frozen=True)
class Comparison:
    """How many times as fast `own` is as `rival`, by two measurements in turns.

    The range is that of all pairs of times within the two spreads. `own` is called faster or slower
    only where the spreads do not overlap.

    >>> own, rival = Measurement(0.0100, 0.0103, 0.02, 9), Measurement(0.0270, 0.0284, 0.03, 9)
    >>> compared = Comparison(own, rival)
    >>> compared.verdict, str(compared)
    ('faster', '2.7x (2.6 to 2.8)')
    >>> loaded = Comparison(Measurement(0.0100, 0.0123, 0.03, 9, busy=True), rival)
    >>> loaded.verdict, str(loaded)
    ('faster', 'the machine is busy: 2.2 to 2.8x')
    """

    own: Measurement
    rival: Measurement

    @property
    def ratio(self) -> float:
        """The ratio of the shortest times."""
        return self.rival.minimum / max(self.own.minimum, MIN_SECONDS)

    @property
    def low(self) -> float:
        """The least ratio within the spreads."""
        return self.rival.minimum / max(self.own.quartile, MIN_SECONDS)

    @property
    def high(self) -> float:
        """The largest ratio within the spreads."""
        return self.rival.quartile / max(self.own.minimum, MIN_SECONDS)

    @property
    def busy(self) -> bool:
        """Whether the machine was busy with other work."""
        return self.own.busy or self.rival.busy

    @property
    def is_sharp(self) -> bool:
        """Whether the range is so narrow that one figure stands for it."""
        return not self.has_few_turns and self.high <= self.low * (1 + TRUST.max_range)

    @property
    def has_few_turns(self) -> bool:
        """Whether there were too few turns to tell a range."""
        return min(self.own.turns, self.rival.turns) < TRUST.min_turns

    @property
    def verdict(self) -> Verdict:
        """Whether `own` is faster, slower or alike, as far as the spreads tell."""
        if self.has_few_turns:
            return "uncertain"
        if self.low > 1 + TRUST.noise:
            return "faster"
        if self.high < 1 / (1 + TRUST.noise):
            return "slower"
        return "alike" if self.is_sharp else "uncertain"

    @property
    def range(self) -> str:
        """The ratio with its range: `2.7x (2.6 to 2.9)`; the range alone where no one figure stands
        for it: `2.1 to 2.9x`; after too few turns for a range `about 2.7x`.
        """
        low, ratio, high = _figures(self.low, self.ratio, self.high)
        if self.has_few_turns:
            return f"about {ratio}x"
        if self.is_sharp:
            return f"{ratio}x ({low} to {high})"
        return f"{low} to {high}x"

    def text(self, words: str = "") -> str:
        """Return the range with words behind it, and what makes it uncertain.

        >>> own, rival = Measurement(0.0100, 0.0103, 0.02, 9), Measurement(0.0270, 0.0284, 0.03, 9)
        >>> Comparison(own, rival).text("the speed of torch")
        '2.7x (2.6 to 2.8) the speed of torch'
        >>> loaded = Measurement(0.0270, 0.0404, 0.05, 9, busy=True)
        >>> Comparison(own, loaded).text("the speed of torch")
        'the machine is busy: 2.6 to 4.0x the speed of torch'
        """
        range_text = f"{self.range} {words}".rstrip()
        if self.is_sharp:
            return f"{range_text}, the machine is busy" if self.busy else range_text
        reason = "the machine is busy" if self.busy else "uncertain"
        return f"{reason}: {range_text}"

    def __str__(self) -> str:
        return self.text()

    def as_record(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "verdict": self.verdict,
            "sharp": self.is_sharp,
            "busy": self.busy,
        }


def _figures(low: float, ratio: float, high: float) -> tuple[str, ...]:
    """Return a ratio between its limits, with the digits that a reader can use.

    >>> _figures(0.973, 1.012, 1.5), _figures(1.98, 2.04, 2.12), _figures(98.0, 123.4, 130.0)
    (('0.97', '1.01', '1.50'), ('2.0', '2.0', '2.1'), ('98', '123', '130'))
    >>> _figures(0.0431, 0.0442, 0.0453), _figures(0.00071, 0.00077, 0.00082)
    (('0.043', '0.044', '0.045'), ('0.0007', '0.0008', '0.0008'))
    """
    if 0 < ratio < 0.1:
        digits = 2
        if ratio < 0.01:
            digits = 1
        return tuple(f"{value:.{digits}g}" for value in (low, ratio, high))
    digits = 1
    if ratio < 2:
        digits = 2
    elif ratio >= 100:
        digits = 0
    return tuple(f"{value:.{digits}f}" for value in (low, ratio, high))
