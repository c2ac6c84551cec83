"""Example inputs that are drawn at random, for who gives none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Tensor

Array = np.ndarray[Any, Any]


def drawn(shape: Sequence[int], dtype: Any, rng: np.random.Generator) -> Array:
    """An array of a shape and an element type of NumPy: normal, or of zeros and ones where they are whole numbers.

    >>> drawn((2, 3), np.dtype("bool"), np.random.default_rng(0)).dtype
    dtype('bool')
    """
    whole = np.dtype(dtype).kind in "biu"
    return np.asarray(rng.integers(0, 2, shape) if whole else rng.standard_normal(shape)).astype(
        dtype
    )


def drawn_arrays(tensors: Iterable[Tensor], seed: int = 0) -> dict[str, Array]:
    """An array for each tensor, by its name."""
    rng = np.random.default_rng(seed)
    return {tensor.name: drawn(tensor.shape, numpy_dtype(tensor.dtype), rng) for tensor in tensors}
