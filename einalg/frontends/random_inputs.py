"""Random example inputs, for callers that pass none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Tensor

Array = np.ndarray[Any, Any]


def random_array(shape: Sequence[int], dtype: Any, rng: np.random.Generator) -> Array:
    """Return an array of normal numbers, or of zeros and ones where its dtype is integral.

    >>> random_array((2, 3), np.dtype("bool"), np.random.default_rng(0)).dtype
    dtype('bool')
    """
    if np.dtype(dtype).kind in "biu":
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def random_arrays(tensors: Iterable[Tensor], seed: int = 0) -> dict[str, Array]:
    """Return an array for each tensor, by its name."""
    rng = np.random.default_rng(seed)
    return {t.name: random_array(t.shape, numpy_dtype(t.dtype), rng) for t in tensors}
