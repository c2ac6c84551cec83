"""Slices of arrays, as the samples of a batch, that a program computes one by one (design §11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from einalg.language.ir.tensor import Tensor


@dataclass(frozen=True)
class Slices:
    """`count` slices along the first axis of the inputs and outputs called `names`;
    what else is read is the same for all.
    """

    count: int
    names: frozenset[str]

    def of(self, arrays: Mapping[str, Any], k: int) -> dict[str, Any]:
        """Return the arrays that slice `k` reads and writes.

        >>> Slices(2, frozenset("A")).of({"A": [[1, 2], [3, 4]], "B": [5]}, 1)
        {'A': [[3, 4]], 'B': [5]}
        """
        sliced = dict(arrays)
        for name in self.names.intersection(arrays):
            sliced[name] = arrays[name][k : k + 1]
        return sliced

    def of_all(self, tensor: Tensor) -> Tensor:
        """Return the tensor of all slices for that of one.

        >>> Slices(4, frozenset("A")).of_all(Tensor("A", (1, 3), "f32")).shape
        (4, 3)
        """
        if tensor.name not in self.names:
            return tensor
        axes = [(0, self.count), *tensor.axes[1:]]
        return Tensor(tensor.name, axes, tensor.dtype, tensor.role)
