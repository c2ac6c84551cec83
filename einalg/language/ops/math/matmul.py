"""Products of matrices."""

from __future__ import annotations

from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Sum, indices
from einalg.language.ops.definition.operands import (
    ArrayView,
    equal_size,
    operand,
    optional_operand,
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
    left_sizes = dict(zip(rows, left.shape[-len(rows) :]))
    right_sizes = dict(zip(columns, right.shape[-len(columns) :]))
    depth = equal_size(
        [
            (f"the summed axis of {left.name}", left_sizes[k]),
            (f"the summed axis of {right.name}", right_sizes[k]),
        ]
    )
    batch, sizes = leading_axes((left, left.rank - len(rows)), (right, right.rank - len(columns)))
    at, shape = list(batch), list(sizes)
    for index, known in ((m, left_sizes), (n, right_sizes)):
        if index in known:
            at.append(index)
            shape.append(known[index])
    first = (*broadcast(left, batch, sizes, len(rows)), *rows)
    second = (*broadcast(right, batch, sizes, len(columns)), *columns)
    return L[spans(at, shape)](Sum[k:depth](left[first] * right[second]))


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
    equal_size((("the last axis of weight", depth), ("the last axis of x", data.shape[-1])))
    shift = optional_operand(bias, "bias", (features,), "an element for each row of weight")
    batch = batch_indices(data.rank - 1)
    total = Sum[k:depth](data[(*batch, k)] * matrix[n, k])
    if shift is not None:
        total = total + shift[n]
    return L[spans((*batch, n), (*data.shape[:-1], features))](total)


def batch_indices(count: int) -> tuple[Index, ...]:
    """Return indices for leading axes: `b`, or `b0, b1, …`."""
    if count == 1:
        return (Index("b"),)
    return tuple(Index(f"b{position}") for position in range(count))


def leading_axes(*operands: tuple[ArrayView, int]) -> tuple[tuple[Index, ...], tuple[int, ...]]:
    """Return indices and sizes of the axes that operands share in front, each given with its number
    of them; 1 broadcasts.
    """
    count = max(number for _, number in operands)
    sizes = [1] * count
    for view, number in operands:
        for position, size in enumerate(view.shape[:number], count - number):
            if size != 1 and sizes[position] not in (1, size):
                raise ShapeError(
                    f"leading axis {position - count + number} of {view.name} has size {size}, "
                    f"but another operand has {sizes[position]}\n"
                    "  make the two equal, or one of them 1"
                )
            if sizes[position] == 1:
                sizes[position] = size
    return batch_indices(count), tuple(sizes)


def broadcast(
    view: ArrayView, batch: tuple[Index, ...], sizes: tuple[int, ...], last: int
) -> tuple[Any, ...]:
    """Return subscripts of an operand's leading axes, which are all but the `last` ones; an axis of
    size 1 that broadcasts is read at 0.
    """
    number = view.rank - last
    skipped = len(batch) - number
    subscripts: list[Any] = []
    for index, full, size in zip(batch[skipped:], sizes[skipped:], view.shape[:number]):
        subscripts.append(index if size == full else 0)
    return tuple(subscripts)


def _no_vector(view: ArrayView, transposed: bool, parameter: str) -> None:
    if transposed and view.rank == 1:
        raise ShapeError(
            f"{parameter} has no meaning for {view.name}, which is a vector\n"
            f"  leave {parameter} out"
        )
