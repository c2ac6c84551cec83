"""What a model learns from: samples of some units in one space, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Rows = Any  # an array with a row of features for each sample


@dataclass(frozen=True)
class TrainingSet:
    """Rows of features, and the residual of each, to be learned.

    The `cycles` are the logarithms of what the analytic model expects: with the residual, that of
    the measured time, but for what all samples of a unit have in common. `units` are the digests.
    """

    rows: Rows
    residuals: Any
    cycles: Any
    units: Sequence[str]

    def part(self, numbers: Sequence[int]) -> TrainingSet:
        """Return samples by their numbers, in this order.

        >>> known = TrainingSet(np.eye(3), np.arange(3.0), np.zeros(3), ["a", "b", "a"])
        >>> known.part([2, 0]).units
        ['a', 'a']
        """
        rows, residuals, cycles = (
            np.asarray(array)[list(numbers)] for array in (self.rows, self.residuals, self.cycles)
        )
        return TrainingSet(rows, residuals, cycles, [self.units[number] for number in numbers])
