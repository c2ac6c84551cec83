"""Products of matrices against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import einalg as ea
from einalg.language import ops
from tests.helpers.operators.harness import case, flip, integers, size


def _batches(rng: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of leading axes that broadcast, of different ranks at times."""
    full = [size(rng, 1, 3) for _ in range(rng.integers(0, 3))]
    left, right = ([1 if flip(rng, 0.3) else s for s in full] for _ in range(2))
    return tuple(left[rng.integers(0, len(left) + 1) :]), tuple(
        right[rng.integers(0, len(right) + 1) :]
    )


@case("matmul")
def matrices(rng: Any) -> Any:
    left, right = _batches(rng)
    m, n, k = size(rng, 0, 5), size(rng, 1, 5), size(rng, 0, 7)
    transpose_a, transpose_b = flip(rng), flip(rng)
    a = integers(rng, (*left, *((k, m) if transpose_a else (m, k))))
    b = integers(rng, (*right, *((n, k) if transpose_b else (k, n))))
    expected = np.matmul(
        a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
    )
    return (
        ops.matmul(ea.tensor("A", a.shape), ea.tensor("B", b.shape), transpose_a, transpose_b),
        {"A": a, "B": b},
        expected,
    )


@case("matmul")
def vectors(rng: Any) -> Any:
    k, batch = size(rng, 1, 7), tuple(size(rng, 1, 3) for _ in range(rng.integers(0, 3)))
    a, b = integers(rng, (k,)), integers(rng, (k,))
    which = rng.integers(0, 3)
    if which == 1:
        a = integers(rng, (*batch, size(rng), k))
    elif which == 2:
        b = integers(rng, (*batch, k, size(rng)))
    return (
        ops.matmul(ea.tensor("A", a.shape), ea.tensor("B", b.shape)),
        {"A": a, "B": b},
        np.matmul(a, b),
    )


@case("matmul")
def shifted_origin(rng: Any) -> Any:
    """Operands whose axes do not begin at 0 count from their first element."""
    m, n, k, low = size(rng), size(rng), size(rng), int(rng.integers(-3, 4))
    a, b = integers(rng, (m, k)), integers(rng, (k, n))
    A = ea.tensor("A", ((low, low + m), (-low, k - low)))
    return ops.matmul(A, ea.tensor("B", b.shape)), {"A": a, "B": b}, a @ b


@case("matmul")
def padded_operand(rng: Any) -> Any:
    """The padding that an operand comes with is part of it."""
    m, n, k, before, after = size(rng), size(rng), size(rng), size(rng, 0, 2), size(rng, 0, 2)
    a, b = integers(rng, (m, k)), integers(rng, (k + before + after, n))
    A = ea.tensor("A", a.shape).pad(1, (before, after))
    return (
        ops.matmul(A, ea.tensor("B", b.shape)),
        {"A": a, "B": b},
        np.pad(a, ((1, 1), (before, after))) @ b,
    )


@case("linear")
def layer(rng: Any) -> Any:
    batch, depth, features = (
        [size(rng, 1, 3) for _ in range(rng.integers(0, 3))],
        size(rng, 0, 6),
        size(rng),
    )
    x, weight, bias = (
        integers(rng, (*batch, depth)),
        integers(rng, (features, depth)),
        integers(rng, (features,)),
    )
    operands = {"x": x, "W": weight, "v": bias}
    if flip(rng):
        del operands["v"]
    expression = ops.linear(*(ea.tensor(name, array.shape) for name, array in operands.items()))
    return expression, operands, x @ weight.T + (bias if "v" in operands else 0)
