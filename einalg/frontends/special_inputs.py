"""Inputs that tell a misread operator from the right one: zeros, a constant, large and small
numbers, a NaN, an infinity, and other random numbers.

Only floats are changed: integers and truth values may be positions, tokens or masks, and stay what
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Change = Callable[[Array], Array]  # of an array of floats, into one of the same shape and dtype

CONSTANT = 0.75  # that is neither 0 nor 1, which leave sums and products as they are
# Of an element, what its type rounds off and somewhat more.
ROUNDING = {"f64": 1e-15, "f32": 5e-7, "f16": 2e-3, "bf16": 1e-2}


def _filled(value: float) -> Change:
    return lambda array: np.full_like(array, value)


def _scaled(factor: float) -> Change:
    def change(array: Array) -> Array:
        with np.errstate(over="ignore"):
            return (array * factor).astype(array.dtype)

    return change


def _with_one(value: float) -> Change:
    """Return a change of one element, which is neither the first nor the last of its rows."""

    def change(array: Array) -> Array:
        changed = np.array(array)
        if changed.size:
            changed[tuple(size // 2 for size in changed.shape)] = value
        return changed

    return change


def _redrawn(array: Array) -> Array:
    """Return normal numbers of the same mean and deviation."""
    finite = array[np.isfinite(array)].astype(np.float64)
    if not finite.size:
        return array
    rng = np.random.default_rng(array.size)
    drawn = rng.normal(finite.mean(), finite.std() or 1.0, array.shape)
    return drawn.astype(array.dtype)


NOT_A_NUMBER, INFINITY = "one NaN", "one infinity"
SPECIAL: Mapping[str, Change] = {
    NOT_A_NUMBER: _with_one(np.nan),
    INFINITY: _with_one(np.inf),
    "another seed": _redrawn,
    "zeros": _filled(0.0),
    "a constant": _filled(CONSTANT),
    "scaled by 1000": _scaled(1e3),
    "scaled by 0.001": _scaled(1e-3),
}


def roughened(array: Array, dtype: str) -> Array:
    """Return an array with what its type rounds off changed at random.

    How far a result moves then is how far its own rounding may be off.
    """
    rng = np.random.default_rng(array.size + 1)
    finite = array[np.isfinite(array)].astype(np.float64)
    scale = float(np.abs(finite).mean()) if finite.size else 0.0
    noise = ROUNDING[dtype] * rng.uniform(-1.0, 1.0, array.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        return (array * (1.0 + noise) + (scale or 1.0) * noise).astype(array.dtype)
