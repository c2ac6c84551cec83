"""Samples of a batch, or other slices, each of which a program computes by itself (design §11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Slices:
    """How many there are, along the first axis of all outputs and of the inputs called `names`; what else is read is the same for all."""

    count: int
    names: frozenset[str]

    def of(self, arrays: Mapping[str, Any], k: int) -> dict[str, Any]:
        """What slice `k` reads of these inputs.

        >>> Slices(2, frozenset("A")).of({"A": [[1, 2], [3, 4]], "B": [5]}, 1)
        {'A': [[3, 4]], 'B': [5]}
        """
        return {name: array[k : k + 1] if name in self.names else array for name, array in arrays.items()}
