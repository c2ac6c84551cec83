"""Products of small matrices: the trivial factorisation of any size, and Strassen's."""

from __future__ import annotations

import numpy as np

from derive.bilinear.factorisation import Array, Factorisation
from einalg.errors import RuleError


def matmul(a: int, b: int, c: int) -> Factorisation:
    """Return `z[m,n] = Σ_k x[m,k]·y[k,n]` for an a×b and a b×c matrix, by all a·b·c products.

    >>> matmul(2, 3, 4).rank, matmul(2, 3, 4).computes(matmul_tensor(2, 3, 4))
    (24, True)
    """
    if min(a, b, c) < 1:
        raise RuleError(
            f"a product of a {a}×{b} and a {b}×{c} matrix has no factorisation: a size is below 1"
        )
    p = np.arange(a * b * c).reshape(a * b * c, 1, 1)
    m, n, k = np.arange(a), np.arange(c), np.arange(b)
    row, inner, column = p // (b * c), p // c % b, p % c
    left = (row == m[:, None]) & (inner == k)
    right = (inner == k[:, None]) & (column == n)
    out = ((row == m[:, None]) & (column == n)).transpose(1, 2, 0)
    return Factorisation(
        f"matmul_{a}_{b}_{c}", left.astype(int), right.astype(int), out.astype(int)
    )


def matmul_tensor(a: int, b: int, c: int) -> Array:
    """Return `T[m,n, i,k, l,j] = 1` where `m = i`, `k = l` and `n = j`, else 0."""
    m, n, i, k, l, j = np.indices((a, c, a, b, b, c))
    return ((m == i) & (k == l) & (n == j)).astype(int)


STRASSEN = Factorisation(
    "strassen",
    U=[
        [[1, 0], [0, 1]],
        [[0, 0], [1, 1]],
        [[1, 0], [0, 0]],
        [[0, 0], [0, 1]],
        [[1, 1], [0, 0]],
        [[-1, 0], [1, 0]],
        [[0, 1], [0, -1]],
    ],
    V=[
        [[1, 0], [0, 1]],
        [[1, 0], [0, 0]],
        [[0, 1], [0, -1]],
        [[-1, 0], [1, 0]],
        [[0, 0], [0, 1]],
        [[1, 1], [0, 0]],
        [[0, 0], [1, 1]],
    ],
    W=[
        [[1, 0, 0, 1, -1, 0, 1], [0, 0, 1, 0, 1, 0, 0]],
        [[0, 1, 0, 1, 0, 0, 0], [1, -1, 1, 0, 0, 1, 0]],
    ],
)
