"""Band products against NumPy loops."""

from __future__ import annotations

from typing import Any

import numpy as np

import einalg as ea
from einalg.language import ops
from tests.helpers.operators.harness import case, flip, integers, size


def _band(rng: Any) -> tuple[int, int, int, int, int]:
    """Batch, rows, depth, width, dilation: bands wider than the matrix too."""
    return size(rng, 1, 3), size(rng, 0, 11), size(rng, 0, 5), size(rng, 0, 4), size(rng, 1, 4)


def in_band(rows: int, width: int, dilation: int) -> Any:
    """Every row, column of the band, and row of the other matrix that it stands for."""
    for i in range(rows):
        for w in range(2 * width + 1):
            j = i + dilation * (w - width)
            if 0 <= j < rows:
                yield i, w, j


@case("g2bmm")
def general_to_band(rng: Any) -> Any:
    batch, rows, depth, width, dilation = _band(rng)
    q, k = integers(rng, (batch, rows, depth)), integers(rng, (batch, rows, depth))
    expected = np.zeros((batch, rows, 2 * width + 1), np.int64)
    for i, w, j in in_band(rows, width, dilation):
        expected[:, i, w] = (q[:, i] * k[:, j]).sum(-1)
    named = {"dilation": dilation} if dilation != 1 else {}
    return (
        ops.g2bmm(ea.tensor("Q", q.shape), ea.tensor("K", k.shape), width, **named),
        {"Q": q, "K": k},
        expected,
    )


@case("gbmm")
def band_to_general(rng: Any) -> Any:
    batch, rows, depth, width, dilation = _band(rng)
    p, v = integers(rng, (batch, rows, 2 * width + 1)), integers(rng, (batch, rows, depth))
    expected = np.zeros(v.shape, np.int64)
    for i, w, j in in_band(rows, width, dilation):
        expected[:, i] += p[:, i, w, None] * v[:, j]
    given = None if flip(rng) else width
    return (
        ops.gbmm(ea.tensor("P", p.shape), ea.tensor("V", v.shape), given, dilation),
        {"P": p, "V": v},
        expected,
    )
