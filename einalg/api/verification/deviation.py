"""How far arrays are from those that a framework computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from derive.cost.accuracy import TOLERANCE, largest_deviation, mask_numbers

Array = np.ndarray[Any, Any]
MAX_NOISE = 64.0  # times what changes when an input is rounded otherwise: no deviation of einalg


@dataclass(frozen=True)
class Deviation:
    """How an array differs from an expected one.

    `relative` is the largest difference of finite elements, relative to the largest of them;
    `unequal` counts integers and truth values that differ. Of the others, `lost` are finite where
    they should not be, `spread` are not finite where they should be, and `changed` are a NaN in the
    place of an infinity, or the other way round.
    """

    relative: float = 0.0
    unequal: int = 0
    lost: int = 0
    spread: int = 0
    changed: int = 0

    @property
    def is_finite(self) -> bool:
        """Whether NaNs and infinities are where they should be."""
        return not (self.lost or self.spread or self.changed)

    def is_within(self, tolerance: float) -> bool:
        """Tell whether it is no more than rounding in which `tolerance` is allowed."""
        return self.is_finite and not self.unequal and self.relative <= tolerance

    def is_noise(self, noise: Deviation) -> bool:
        """Tell whether it is no more than what other rounding of the inputs may change."""
        if not self.is_finite or self.unequal > MAX_NOISE * noise.unequal:
            return False
        return self.relative <= MAX_NOISE * noise.relative

    def __str__(self) -> str:
        parts: list[str] = []
        if self.lost:
            parts.append(f"{self.lost} NaNs or infinities are lost")
        if self.spread:
            parts.append(f"{self.spread} elements are not finite that should be")
        if self.changed:
            parts.append(f"{self.changed} are NaN for an infinity, or the other way round")
        if self.unequal:
            parts.append(f"{self.unequal} elements differ")
        if self.relative or not parts:
            parts.append(f"by {self.relative:.1e} of the largest element")
        return ", ".join(parts)


def deviation(expected: Array, result: Array) -> Deviation:
    """Return how a result differs from an expected array; infinitely where its shape is another.

    >>> nan, inf = np.nan, np.inf
    >>> str(deviation(np.array([1.0, nan, inf, 2.0]), np.array([1.0, 5.0, nan, nan])))[:29]
    '1 NaNs or infinities are lost'
    >>> deviation(np.array([1, 2]), np.array([1, 3])).unequal
    1
    """
    if expected.shape != result.shape:
        return Deviation(relative=np.inf)
    if expected.dtype.kind not in "fc" or result.dtype.kind not in "fc":
        return Deviation(unequal=int(np.count_nonzero(expected != result)))
    if expected.dtype.kind == "c":
        return deviation(_as_pairs(expected), _as_pairs(result))
    finite_before, finite_after = np.isfinite(expected), np.isfinite(result)
    both = finite_before & finite_after
    neither = ~finite_before & ~finite_after
    same = (expected == result) | (np.isnan(expected) & np.isnan(result))
    one, other = np.where(both, expected, 0), np.where(both, result, 0)
    fills = np.unique(list(mask_numbers({"": one})))
    return Deviation(
        relative=largest_deviation(one, other, fills),
        lost=int(np.count_nonzero(~finite_before & finite_after)),
        spread=int(np.count_nonzero(finite_before & ~finite_after)),
        changed=int(np.count_nonzero(neither & ~same)),
    )


def _as_pairs(array: Array) -> Array:
    return np.stack([np.real(array), np.imag(array)])


def tolerance_of(dtype: str, accuracy: float | None) -> float:
    """Return the deviation that is allowed for an element type: `accuracy`, if that is set."""
    return TOLERANCE.get(dtype, 0.0) if accuracy is None else accuracy
