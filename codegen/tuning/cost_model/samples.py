"""What was measured of candidates, as samples that a model learns from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import log

from codegen.tuning.cost_model.description import Description
from codegen.tuning.records.log import TuningRecord
from codegen.tuning.spaces.space import NEVER

MAX_SAMPLES = 3000  # of a space, that a model learns from
MIN_OF_UNIT = 8  # of them, for each unit that there is


@dataclass(frozen=True)
class Sample:
    """The seconds of a candidate of a unit, whose digest is `unit`."""

    unit: str
    description: Description
    seconds: float

    @property
    def residual(self) -> float:
        """Return the logarithm of measured seconds, divided by expected cycles."""
        return log(self.seconds) - log(self.description.cycles)


def sample(unit: str, description: Description, seconds: float | None) -> Sample | None:
    """Return a sample; None where nothing was measured, or no code was priced."""
    if seconds is None or not 0 < description.cycles < NEVER or not seconds > 0:
        return None
    return Sample(unit, description, seconds)


def recorded_samples(records: Iterable[TuningRecord]) -> list[Sample]:
    """Return the samples of records, those that were refused left out."""
    samples: list[Sample] = []
    for record in records:
        description = Description(record.space, record.cycles, record.features)
        one = sample(record.unit, description, record.outcome.score)
        if one is not None:
            samples.append(one)
    return samples


def chosen_samples(samples: Sequence[Sample], unit: str, spaces: Collection[str]) -> list[Sample]:
    """Return the samples of some spaces to learn from for a unit.

    Those of the unit come first, then the newest of all others, of each unit about as many: a model
    of a thousand points of one shape would know little of others.
    """
    groups: dict[str, dict[str, list[Sample]]] = {name: {} for name in spaces}
    for one in reversed(samples):
        if one.description.space in groups:
            groups[one.description.space].setdefault(one.unit, []).append(one)
    chosen: list[Sample] = []
    for units in groups.values():
        own = units.pop(unit, [])[: MAX_SAMPLES // 2]
        share = max(MIN_OF_UNIT, (MAX_SAMPLES - len(own)) // max(1, len(units)))
        others = [one for group in units.values() for one in group[:share]]
        chosen += [*own, *others][:MAX_SAMPLES]
    return chosen
