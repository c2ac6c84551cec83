"""Products of matrices."""

from __future__ import annotations

from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Sum, indices
from einalg.language.ops.definition.operands import (
    ArrayView,
    operand,
    optional_operand,
    same,
    spans,
)
from einalg.language.ops.definition.registry import operator

m, n, k = indices("m n k")


@operator
def matmul(A: Any, B: Any, transpose_a: bool = False, transpose_b: bool = False) -> Scope:
    """The product of matrices, batched and broadcast over leading axes: `O[b…,m,n] = Σ_k
    A[b…,m,k]·B[b…,k,n]`.

    `A` is `(…, M, K)`, `B` is `(…, K, N)`; a 1-d operand is a vector and its axis is absent from
    the result, as in `numpy.matmul`. `transpose_a` reads `A` as `(…, K, M)`, `transpose_b` reads
    `B` as `(…, N, K)`. Leading axes are equal or 1. Raises `ShapeError` for a scalar operand, sizes
    that do not fit, or a vector to be transposed.

    >>> import einalg as ea
    >>> matmul(ea.tensor("A", (8, 2, 3)), ea.tensor("B", (5, 3)), transpose_b=True)
    L[b:8, m:2, n:5](Sum[k:3](A[b, m, k]*B[n, k]))
    """
    left, right = operand(A, "A", least=1), operand(B, "B", least=1)
    _no_vector(left, transpose_a, "transpose_a")
    _no_vector(right, transpose_b, "transpose_b")
    rows = (k, m) if transpose_a else (m, k)[-left.rank :]
    columns = (n, k) if transpose_b else (k, n)[: right.rank]
    size = dict(zip(rows, left.shape[-len(rows) :])) | dict(
        zip(columns, right.shape[-len(columns) :])
    )
    same(
        (f"the summed axis of {o.name}", o.shape[o.rank - len(own) + own.index(k)])
        for o, own in ((left, rows), (right, columns))
    )
    batch, sizes = leading_axes((left, left.rank - len(rows)), (right, right.rank - len(columns)))
    free = [i for i in (m, n) if i in size]
    first, second = (
        broadcast(o, batch, sizes, len(own)) for o, own in ((left, rows), (right, columns))
    )
    return L[spans((*batch, *free), (*sizes, *(size[i] for i in free)))](
        Sum[k : size[k]](left[(*first, *rows)] * right[(*second, *columns)])
    )


@operator
def linear(x: Any, weight: Any, bias: Any = None) -> Scope:
    """A linear layer: `O[b…,n] = Σ_k x[b…,k]·weight[n,k] + bias[n]`.

    `x` is `(…, K)`, `weight` is `(N, K)`, `bias` is `(N,)` or None, as in
    `torch.nn.functional.linear`. Raises `ShapeError` where ranks or sizes do not fit.

    >>> import einalg as ea
    >>> linear(ea.tensor("x", (8, 3)), ea.tensor("W", (4, 3)), ea.tensor("b", (4,)))
    L[b:8, n:4](b[n] + Sum[k:3](W[n, k]*x[b, k]))
    """
    data, matrix = operand(x, "x", least=1), operand(weight, "weight", rank=2)
    features, depth = matrix.shape
    same((("the last axis of weight", depth), ("the last axis of x", data.shape[-1])))
    shift = optional_operand(bias, "bias", (features,), "an element for each row of weight")
    batch = batch_indices(data.rank - 1)
    total = Sum[k:depth](data[(*batch, k)] * matrix[n, k])
    return L[spans((*batch, n), (*data.shape[:-1], features))](
        total if shift is None else total + shift[n]
    )


def batch_indices(count: int) -> tuple[Index, ...]:
    """Names for leading axes: `b`, or `b0, b1, …`."""
    return tuple(Index("b" if count == 1 else f"b{i}") for i in range(count))


def leading_axes(*operands: tuple[ArrayView, int]) -> tuple[tuple[Index, ...], tuple[int, ...]]:
    """Indices and sizes of the axes that operands share in front, each given with its number of
    them; 1 broadcasts.
    """
    count = max(number for _, number in operands)
    sizes = [1] * count
    for found, number in operands:
        for position, size in enumerate(found.shape[:number], count - number):
            if size != 1 and sizes[position] not in (1, size):
                raise ShapeError(
                    f"leading axis {position - count + number} of {found.name} has size {size}, but another operand has {sizes[position]}\n"
                    "  make the two equal, or one of them 1"
                )
            sizes[position] = size if sizes[position] == 1 else sizes[position]
    return batch_indices(count), tuple(sizes)


def broadcast(
    found: ArrayView, batch: tuple[Index, ...], sizes: tuple[int, ...], own: int
) -> tuple[Any, ...]:
    """Subscripts of an operand's leading axes, of which it has all but `own`; an axis of size 1
    that broadcasts is read at 0.
    """
    number = found.rank - own
    skipped = len(batch) - number
    return tuple(
        index if size == full else 0
        for index, full, size in zip(batch[skipped:], sizes[skipped:], found.shape[:number])
    )


def _no_vector(found: ArrayView, transposed: bool, parameter: str) -> None:
    if transposed and found.rank == 1:
        raise ShapeError(
            f"{parameter} has no meaning for {found.name}, which is a vector\n"
            f"  leave {parameter} out"
        )
