"""Samples of a batch, or other slices, each of which a program computes by itself (design §11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from einalg.language.ir.tensor import Tensor


@dataclass(frozen=True)
class Slices:
    """How many there are, along the first axis of the inputs and outputs called `names`; what else
    is read is the same for all.
    """

    count: int
    names: frozenset[str]

    def of(self, arrays: Mapping[str, Any], k: int) -> dict[str, Any]:
        """What slice `k` reads and writes of these.

        >>> Slices(2, frozenset("A")).of({"A": [[1, 2], [3, 4]], "B": [5]}, 1)
        {'A': [[3, 4]], 'B': [5]}
        """
        return {
            name: array[k : k + 1] if name in self.names else array
            for name, array in arrays.items()
        }

    def of_all(self, tensor: Tensor) -> Tensor:
        """The tensor of all slices for that of one.

        >>> Slices(4, frozenset("A")).of_all(Tensor("A", (1, 3), "f32")).shape
        (4, 3)
        """
        return (
            Tensor(tensor.name, [(0, self.count), *tensor.axes[1:]], tensor.dtype, tensor.role)
            if tensor.name in self.names
            else tensor
        )
