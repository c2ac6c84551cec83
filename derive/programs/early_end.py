"""Why an optimization ended before all was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INTERRUPTED = "it was interrupted before it had these"
NO_TIME = "it was given no time (seconds=0) for these"
GO_ON = "a call with more seconds goes on from here"


@dataclass(frozen=True)
class EarlyEnd:
    """The steps of an optimization that were not done to their end, and the seconds that there
    were for it.

    >>> print(EarlyEnd(60.0, ("its other forms",)))
    the 60 s were over before these: its other forms; a call with more seconds goes on from here
    """

    seconds: float
    steps: tuple[str, ...]
    is_interrupted: bool = False

    def __str__(self) -> str:
        reason = f"the {self.seconds:g} s were over before these"
        if self.is_interrupted:
            reason = INTERRUPTED
        elif not self.seconds:
            reason = NO_TIME
        return f"{reason}: {', '.join(self.steps)}; {GO_ON}"

    def as_record(self) -> list[Any]:
        """Return it as JSON values."""
        return [self.seconds, self.is_interrupted, *self.steps]

    @classmethod
    def from_record(cls, row: Sequence[Any] | None) -> EarlyEnd | None:
        """Return what a record is of; None where nothing was left undone."""
        if not row:
            return None
        seconds, is_interrupted, *steps = row
        return cls(float(seconds), tuple(map(str, steps)), bool(is_interrupted))
