"""What a search has measured so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from codegen.tuning.cost_model.knowledge import UnitKnowledge
from codegen.tuning.cost_model.learned import CandidateCosts
from codegen.tuning.measuring.task import Outcome
from codegen.tuning.spaces.space import CodeCandidate, Identity, identity


@dataclass(frozen=True)
class ScheduleTrial:
    """A candidate that was measured: the `number`th, so many seconds after the search began.

    `seconds` are those that decide; None where it was refused.
    """

    candidate: CodeCandidate
    outcome: Outcome
    number: int
    elapsed: float
    seconds: float | None


@dataclass
class SearchHistory:
    """The trials of a search, and the candidates that need no other trial.

    `starts` are the points that the model thinks best, one a space, the best one first: that is the
    first incumbent, which each batch runs in turns with. `recorded` are candidates that were fast
    in another process, the fastest first, and `knowledge` what was measured of other units too.
    """

    starts: Sequence[CodeCandidate]
    rng: Random
    recorded: Sequence[CodeCandidate] = ()
    trials: list[ScheduleTrial] = field(default_factory=list)
    seen: set[Identity] = field(default_factory=set)
    knowledge: UnitKnowledge = field(default_factory=UnitKnowledge)

    @property
    def learned_model(self) -> CandidateCosts:
        """Return the cost model that what was measured so far speaks for."""
        return self.knowledge.model([start.space.name for start in self.starts])

    def is_new(self, candidate: CodeCandidate) -> bool:
        return identity(candidate) not in self.seen

    def see(self, candidate: CodeCandidate) -> None:
        self.seen.add(identity(candidate))

    def trial_of(self, candidate: CodeCandidate) -> ScheduleTrial | None:
        """Return the trial of a candidate; None where it had none."""
        for trial in self.trials:
            if identity(trial.candidate) == identity(candidate):
                return trial
        return None

    @property
    def measured(self) -> list[ScheduleTrial]:
        """Return the trials that were not refused, the fastest first."""
        right = [trial for trial in self.trials if trial.seconds is not None]
        return sorted(right, key=lambda trial: (trial.seconds, trial.number))

    @property
    def best(self) -> ScheduleTrial | None:
        return next(iter(self.measured), None)
