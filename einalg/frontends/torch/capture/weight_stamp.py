"""Stamps by which a weight is known to be the tensor that a graph was compiled with.

A stamp says nothing of the elements where these are in the memory of the CPU: kernels read them
there, and of those of which something is made ahead, the bytes are looked at (`bytes_spanned`). For
a tensor counts the writes to it, but not those through `tensor.data` and through arrays that share
its memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WeightStamp:
    """The identity, the address and the layout of a tensor.

    `version` is its count of writes where its elements are not in the memory of the CPU; else, and
    for an inference tensor, None.
    """

    tensor: Callable[[], Any]
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    version: int | None

    @classmethod
    def of(cls, tensor: Any) -> WeightStamp:
        """Return the stamp of a tensor as it is now.

        >>> import pytest; torch = pytest.importorskip("torch")
        >>> weight = torch.zeros(3)
        >>> stamp = WeightStamp.of(weight)
        >>> stamp.suits(weight), stamp.suits(torch.zeros(3))
        (True, False)
        >>> weight.data = torch.ones(3)
        >>> stamp.suits(weight)
        False
        """
        version = None
        if not tensor.is_inference() and not bytes_spanned(tensor):
            version = tensor._version
        layout = tensor.shape, tensor.stride()
        return cls(weakref.ref(tensor), tensor.data_ptr(), *layout, version)

    def suits(self, value: Any) -> bool:
        """Tell whether a tensor is this one, at the same place."""
        if value is not self.tensor() or value.data_ptr() != self.address:
            return False
        if self.version is not None and value._version != self.version:
            return False
        return value.shape == self.shape and value.stride() == self.strides


def bytes_spanned(tensor: Any) -> int:
    """Return how many bytes lie between the first and behind the last element; 0 where they are not
    in the memory of the CPU.
    """
    import torch

    if tensor.layout is not torch.strided or not tensor.is_cpu or not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()
