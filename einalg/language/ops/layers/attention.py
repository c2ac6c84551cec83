"""Attention: every query's mean of the values, weighted by the softmax of its scores."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.index.cases import Piecewise
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.notation.builders import L, Max, Sum, indices
from einalg.language.ops.definition.axes import aligned
from einalg.language.ops.definition.operands import (
    ArrayView,
    equal_size,
    expect_shape,
    operand,
    spans,
    whole,
)
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.scalars import exact_scalar
from einalg.language.ops.math.broadcasting import broadcast as elements
from einalg.language.ops.math.matmul import broadcast, leading_axes
from einalg.language.ops.math.reductions import max as largest

i, j, k, e, w = indices("i j k e w")


@operator
def attention(
    Q: Any, K: Any, V: Any, scale: Any = None, causal: bool = False, mask: Any = None
) -> Scope:
    """Scaled dot-product attention: `O[b…,i,e] = Σ_j P[b…,i,j]·V[b…,j,e]`, `P` the softmax over `j`
    of `scale·Σ_k Q[b…,i,k]·K[b…,j,k]`.

    `Q` is `(…, M, D)`, `K` is `(…, N, D)`, `V` is `(…, N, E)`, all of a float dtype; leading axes
    (batch, heads) are equal or 1. `scale` is a number, by default `1/sqrt(D)`. With `causal`, query
    `i` sees the keys `j <= i` only. `mask` is added to the scores, with a shape that broadcasts to
    them (`-inf` hides a key). The largest score of a row is subtracted before `exp`. Raises
    `ShapeError` where ranks, sizes or dtypes do not fit, or there is no key or no feature.

    >>> import einalg as ea
    >>> Q, K, V = (ea.tensor(name, (2, 8, 100, 64)) for name in "QKV")
    >>> attention(Q, K, V, causal=True).shape
    (2, 8, 100, 64)
    """
    return _attention(Q, K, V, scale, causal, mask)[0]


def attention_of_some(
    Q: Any, K: Any, V: Any, scale: Any = None, causal: bool = False, mask: Any = None
) -> Scope:
    """Return `attention`, and 0 for a query whose every key the mask hides by `-inf`.

    The softmax of such a row is 0/0. Frameworks give 0.
    """
    result, hidden = _attention(Q, K, V, scale, causal, mask)
    if hidden is None:
        return result

    def of_row(most: Any, value: Any) -> Any:
        return Piecewise((0, sympy.Eq(most, sympy.S.NegativeInfinity)), (value, True))

    return elements(of_row, most=hidden, value=result)


def _attention(
    Q: Any, K: Any, V: Any, scale: Any, causal: bool, mask: Any
) -> tuple[Scope, Scope | None]:
    """Return attention, and the largest element of the mask in each row, None without a mask."""
    queries, keys, values = _operands(Q, K, V)
    equal_size([("the number of rows of K", keys.shape[-2]), ("that of V", values.shape[-2])])
    rows, columns, depth = queries.shape[-2], keys.shape[-2], queries.shape[-1]
    _not_empty(columns, "K", "row")
    shift = None if mask is None else operand(mask, "mask", least=2, dtype="float")
    operands = [queries, keys]
    if shift is not None:
        operands.append(shift)
    batch, sizes = leading_axes(*((view, view.rank - 2) for view in operands))
    product = (
        queries[(*broadcast(queries, batch, sizes, 2), i, k)]
        * keys[(*broadcast(keys, batch, sizes, 2), j, k)]
    )
    score = Sum[k:depth](product) * _scale(scale, depth)
    if shift is not None:
        score = score + _masked(shift, (*batch, i, j), (*sizes, rows, columns))
    scores = L[spans((*batch, i, j), (*sizes, rows, columns))](score)
    seen = j <= i if causal else None
    weights, total = _exponentials(scores, (*batch, i), j, seen)
    result = _weighted(weights, total, values, j, j, seen)
    if shift is None:
        return result, None
    if seen is None:
        return result, largest(mask, -1, keepdims=True)
    element = _masked(shift, (*batch, i, j), (*sizes, rows, columns))
    most = Max[slice(j, columns)](element, where=seen)
    return result, L[spans((*batch, i, e), (*sizes, rows, 1))](most)


@operator
def banded_attention(
    Q: Any, K: Any, V: Any, width: int, dilation: int = 1, scale: Any = None
) -> Scope:
    """Sliding-window attention: query `i` sees the keys `i + dilation·(w - width)`, `w` in
    `0..2·width+1`, that exist.

    `Q` and `K` are `(…, M, D)`, `V` is `(…, M, E)`, all of a float dtype; leading axes are equal or
    1. `width` is the number of keys on either side, `dilation` the distance of neighbouring ones in
    rows, `scale` a number, by default `1/sqrt(D)`. The scores are `g2bmm`, the sum over values is
    `gbmm`; the softmax runs over keys inside the sequence only. Raises `ShapeError` where ranks,
    sizes or dtypes do not fit, for a negative `width` or a `dilation` below 1.

    >>> import einalg as ea
    >>> Q, K, V = (ea.tensor(name, (8, 100, 64)) for name in "QKV")
    >>> banded_attention(Q, K, V, width=2, dilation=4).shape
    (8, 100, 64)
    """
    queries, keys, values = _operands(Q, K, V)
    rows, depth, band = queries.shape[-2], queries.shape[-1], 2 * whole(width, "width", 0) + 1
    equal_size(
        [
            ("the number of rows of Q", rows),
            ("that of K", keys.shape[-2]),
            ("that of V", values.shape[-2]),
        ]
    )
    key = i + whole(dilation, "dilation", 1) * (w - width)
    around = keys.padded(
        (*((0, 0),) * (keys.rank - 2), (dilation * width, dilation * width), (0, 0))
    )
    batch, sizes = leading_axes((queries, queries.rank - 2), (keys, keys.rank - 2))
    product = (
        queries[(*broadcast(queries, batch, sizes, 2), i, k)]
        * around[(*broadcast(keys, batch, sizes, 2), key, k)]
    )
    scores = L[spans((*batch, i, w), (*sizes, rows, band))](
        Sum[k:depth](product) * _scale(scale, depth)
    )
    inside = (key >= 0, key < rows)
    weights, total = _exponentials(scores, (*batch, i), w, inside)
    return _weighted(weights, total, values, w, key, inside)


def _operands(Q: Any, K: Any, V: Any) -> tuple[ArrayView, ArrayView, ArrayView]:
    queries = operand(Q, "Q", least=2, dtype="float")
    keys = operand(K, "K", least=2, dtype="float")
    values = operand(V, "V", least=2, dtype="float")
    equal_size([("the last axis of Q", queries.shape[-1]), ("that of K", keys.shape[-1])])
    _not_empty(queries.shape[-1], "Q", "feature")
    return queries, keys, values


def _not_empty(size: int, name: str, what: str) -> None:
    if size == 0:
        raise ShapeError(
            f"{name} has no {what}, so no score is defined\n  give {name} at least one {what}"
        )


def _scale(scale: Any, depth: int) -> Any:
    if scale is None:
        return 1 / sympy.sqrt(depth)
    return exact_scalar(scale, "scale")


def _masked(mask: ArrayView, point: tuple[Index, ...], shape: tuple[int, ...]) -> Access:
    """Return the element of the mask that broadcasting puts at a score."""
    if any(size not in (1, full) for size, full in zip(mask.shape[-2:], shape[-2:])):
        expect_shape(mask, shape, "that of the scores, or 1")
    return aligned(mask, point, shape)


def _exponentials(
    scores: Scope, row: tuple[Index, ...], column: Index, where: Any
) -> tuple[Scope, Scope]:
    """Return `exp(score - the row's largest)` at the columns that are seen, and the sum of every
    row.
    """
    rows, columns = spans(row, scores.shape[:-1]), slice(column, scores.shape[-1])
    largest = L[rows](Max[columns](scores[(*row, column)], where=where))
    weights = L[(*rows, columns)](sympy.exp(scores[(*row, column)] - largest[row]), where=where)
    return weights, L[rows](Sum[columns](weights[(*row, column)], where=where))


def _weighted(
    weights: Scope, total: Scope, values: ArrayView, column: Index, value_row: Any, where: Any
) -> Scope:
    """Return the mean of the rows of `values` that the columns stand for, weighted."""
    scores = ArrayView(weights, "the scores", weights.box)
    sums = ArrayView(total, "the scores", total.box)
    batch, sizes = leading_axes((scores, scores.rank - 2), (values, values.rank - 2))
    row = (*broadcast(scores, batch, sizes, 2), i)
    product = weights[(*row, column)] * values[(*broadcast(values, batch, sizes, 2), value_row, e)]
    body = Sum[slice(column, weights.shape[-1])](product, where=where) / sums[row]
    return L[spans((*batch, i, e), (*sizes, weights.shape[-2], values.shape[-1]))](body)
