"""The end of a search: which candidate later compilations use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codegen.tuning.measuring.task import Outcome
from codegen.tuning.spaces.space import CodeCandidate, Identity, identity

MIN_GAIN = 1.02  # of another candidate over the one that is used so far, below which that stays


@dataclass(frozen=True)
class Choice:
    """The winner with its seconds, and those of the start.

    Where it is not `confirmed`, one that it is compared with failed, and it is not to be stored.
    """

    winner: CodeCandidate
    seconds: float
    start_seconds: float
    confirmed: bool


@dataclass(frozen=True)
class Finalists:
    """The candidates that are compared: the `start`, the `stored` winner, the `best` of the search.

    There is no start where it was refused, and no winner where none was stored.
    """

    start: CodeCandidate | None
    stored: CodeCandidate | None
    best: CodeCandidate

    @property
    def candidates(self) -> list[CodeCandidate]:
        """Return each of them once."""
        some = [one for one in (self.start, self.stored, self.best) if one is not None]
        return list({identity(candidate): candidate for candidate in some}.values())

    def choice(self, outcomes: Mapping[Identity, Outcome]) -> Choice | None:
        """Return which one is used later; None where all are refused.

        That is the stored winner, without one the start, unless another one is clearly faster. It
        is confirmed where the start has its time, and each other one too, or is refused for what
        its code does.
        """
        times: dict[Identity, float] = {}
        confirmed = True
        for candidate in self.candidates:
            outcome = outcomes.get(identity(candidate), Outcome())
            if outcome.score is not None:
                times[identity(candidate)] = outcome.score
            elif candidate == self.start or not outcome.strikes:
                confirmed = False
        measured = [one for one in self.candidates if identity(one) in times]
        if not measured:
            return None
        winner = min(measured, key=lambda candidate: times[identity(candidate)])
        holder = measured[0]
        if self.stored is not None and self.stored in measured:
            holder = self.stored
        if MIN_GAIN * times[identity(winner)] > times[identity(holder)]:
            winner = holder
        seconds = start_seconds = times[identity(winner)]
        if self.start is not None:
            start_seconds = times.get(identity(self.start), seconds)
        return Choice(winner, seconds, start_seconds, confirmed)
