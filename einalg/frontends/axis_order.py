"""Orders of axes: those in which the axes of a tensor lie in memory, the outermost first."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]


def positions(order: Order) -> Order:
    """Return the place of each axis in an order.

    >>> positions((0, 2, 3, 1))
    (0, 3, 1, 2)
    """
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def in_memory(array: Array, order: Order | None) -> Array:
    """Return a view of an array with its axes in an order."""
    return array if order is None else array.transpose(order)


def in_call(array: Array, order: Order | None) -> Array:
    """Return a view of an array whose axes are in an order, as a call has them."""
    return array if order is None else array.transpose(positions(order))
