"""Tensors whose axes lie in memory in another order than they have, as images with channels last.

A graph has such inputs with their axes in the order of memory, and kernels read them as they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from einalg.frontends.axis_order import Array, Order, in_call

FrameworkValues = Callable[[Sequence[Array]], dict[str, Array]]


def memory_order(tensor: Any) -> Order | None:
    """Return the axes of a tensor in their order in memory; None where that is the usual one, or
    elements do not lie side by side.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> image = torch.zeros(1, 3, 4, 5)
    >>> memory_order(image), memory_order(image.to(memory_format=torch.channels_last))
    (None, (0, 2, 3, 1))
    """
    if not hasattr(tensor, "stride") or str(tensor.layout) != "torch.strided":
        return None
    strides = tensor.stride()
    if not all(type(size) is int for size in (*tensor.shape, *strides)) or tensor.is_contiguous():
        return None
    order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
    return tuple(order) if tensor.permute(order).is_contiguous() else None


def values_of_inputs(
    values: FrameworkValues, names: Sequence[str], orders: Mapping[str, Order]
) -> FrameworkValues:
    """Return a function from arrays of a graph's inputs to a framework's values, by name.

    `values` takes the arrays as a call has them. `orders` are those of the inputs of some names.
    """
    if not orders:
        return values

    def compute(arrays: Sequence[Array]) -> dict[str, Array]:
        called = [in_call(array, orders.get(name)) for name, array in zip(names, arrays)]
        return {**values(called), **dict(zip(names, arrays))}

    return compute
