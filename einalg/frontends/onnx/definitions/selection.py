"""Choices among elements: by a condition, by positions, by triangles."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy

from einalg import ops
from einalg.affine import affine
from einalg.dtypes import holds
from einalg.frontends.onnx.registry import NotExpressible, Operator, onnx_operator
from einalg.frontends.onnx.values import Array
from einalg.notation import L
from einalg.ops.axes import axis_number, kept, replaced
from einalg.ops.parameters import operand, spans

MOST_PARTS = 16  # rows that are taken one by one


@onnx_operator("Where")
def where(node: Operator) -> Any:
    """Numbers keep the type of the other choice; truth values are chosen by logic."""
    condition, a, b = node.operands()
    if node.dtypes[0] == "bool":
        first, second = node.tensor(1), node.tensor(2)
        return ops.logical_or(ops.logical_and(condition, first), ops.logical_and(ops.logical_not(node.tensor(0)), second))
    return ops.where(node.tensor(0), a, b)


@onnx_operator("Trilu")
def triangle(node: Operator) -> Any:
    x, k = node.tensor(0), node.scalar(1, "k", 0)
    return (ops.triu if node.integer("upper", 1) else ops.tril)(x, k)


@onnx_operator("Gather")
def gather(node: Operator) -> Any:
    """Rows at known positions: one expression where these grow evenly along every axis, else one row after another."""
    x, positions = node.tensor(0), node.array(1, "indices")
    found = operand(x, "x", least=1, dtype="any")
    axis = axis_number(node.integer("axis", 0), "axis", found.rank)
    size = found.shape[axis]
    if positions.dtype.kind not in "iu" or positions.size and (positions.min() < -size or positions.max() >= size):
        raise NotExpressible("indices lie outside the axis")
    positions = positions.astype(np.int64) % size if size else positions
    steps = even_steps(positions)
    if steps is None:
        return _one_by_one(x, positions, axis)
    first, growth = steps
    at = kept(found.rank - 1 + positions.ndim)
    own, rest = at[axis : axis + positions.ndim], at[:axis] + at[axis + positions.ndim :]
    place = sum((i * step for i, step in zip(own, growth)), affine(first))
    shape = (*found.shape[:axis], *positions.shape, *found.shape[axis + 1 :])
    return L[spans(at, shape)](found[(*rest[:axis], place, *rest[axis:])])


def even_steps(positions: Array) -> tuple[int, tuple[int, ...]] | None:
    """First number and steps along each axis of an array that grows evenly; None where it does not.

    >>> even_steps(np.array([[1, 4], [3, 6]])), even_steps(np.array([1, 2, 4]))
    ((1, (2, 3)), None)
    """
    if not positions.size:
        return None
    first = int(positions.flat[0])
    origin = (0,) * positions.ndim
    steps = tuple(int(positions[replaced(origin, {k: 1})]) - first if n > 1 else 0 for k, n in enumerate(positions.shape))
    even = first + sum(
        (np.arange(n) * step).reshape(replaced((1,) * positions.ndim, {k: n})) for k, (n, step) in enumerate(zip(positions.shape, steps))
    )
    return (first, steps) if np.array_equal(np.broadcast_to(even, positions.shape), positions) else None


def _one_by_one(x: Any, positions: Array, axis: int) -> Any:
    flat = positions.ravel().tolist()
    runs = _runs(flat)
    if len(runs) > MOST_PARTS:
        raise NotExpressible(f"{len(flat)} indices without a pattern")
    parts = [ops.slice(x, run[0], run[-1] + 1 if run[-1] >= run[0] else None, 1, axis) for run in runs]
    rows = ops.concat(parts, axis) if len(parts) > 1 else parts[0]
    return ops.reshape(rows, (*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :]))


def _runs(numbers: list[int]) -> list[list[int]]:
    """The numbers cut into runs of neighbours."""
    runs = [[numbers[0]]]
    for number in numbers[1:]:
        if number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


@onnx_operator("OneHot")
def one_hot(node: Operator) -> Any:
    """`values[1]` where the position along the new axis is the index, `values[0]` elsewhere."""
    found, depth, values = operand(node.tensor(0), "indices", dtype="number"), int(node.scalar(1, "depth")), operand(node.tensor(2), "values", rank=1)
    axis = axis_number(node.integer("axis", -1), "axis", found.rank + 1)
    if depth < 1 or depth > 2**20 or found.dtype[0] not in "iu":
        raise NotExpressible(f"depth {depth} of {found.dtype} indices")
    at = kept(found.rank + 1)
    index = found[at[:axis] + at[axis + 1 :]]
    shape = (*found.shape[:axis], depth, *found.shape[axis:])
    same: Any = sympy.Eq(index, at[axis])
    here: Any = same | sympy.Eq(index + depth, at[axis]) if holds(found.dtype, -1) else same
    return L[spans(at, shape)](sympy.Piecewise((values[1], here), (values[0], True)))
