"""Results that depend on shapes alone: shapes and sizes, arrays of one number, ranges."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import sympy

from einalg.frontends.onnx.nodes.registry import (
    NotExpressible,
    Operator,
    onnx_operator,
    plain_number,
)
from einalg.language.index.affine import Index
from einalg.language.ir.tensor import Constant
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import result_indices
from einalg.language.ops.definition.operands import spans

CONSTANTS = ("value", "value_float", "value_floats", "value_int", "value_ints")


@onnx_operator("Shape", "Size")
def shape(node: Operator) -> Any:
    sizes = _shape_of_input(node)
    if sizes is None:
        raise NotExpressible("the shape is known at run time only")
    if node.type == "Size":
        return np.asarray(prod(sizes), np.int64)
    return np.asarray(sizes[node.integer("start", 0) : node.integer("end", len(sizes))], np.int64)


def _shape_of_input(node: Operator) -> tuple[int, ...] | None:
    if not node.inputs or node.inputs[0] is None:
        return None
    return node.inputs[0].shape


@onnx_operator("Constant")
def constant(node: Operator) -> Any:
    for name in CONSTANTS:
        if name in node.attributes:
            value = node.attribute(name)
            if isinstance(value, np.ndarray):
                return value
            if "float" in name:
                return np.asarray(value, np.float32)
            return np.asarray(value, np.int64)
    raise NotExpressible("a constant of another kind than numbers")


@onnx_operator("ConstantOfShape")
def constant_of_shape(node: Operator) -> Any:
    sizes, value = node.integers(0, "shape"), node.attribute("value", np.zeros(1, np.float32))
    number = plain_number(np.asarray(value))
    if number is None or node.dtypes[0] is None:
        raise NotExpressible(f"elements of {np.asarray(value).dtype}, or that are no numbers")
    return filled(sizes, number, node.dtypes[0])


def filled(sizes: Any, number: Any, dtype: str) -> Any:
    """Return an array of one number.

    >>> filled((2, 3), 7, "i32")
    L[i:2, j:3](7*i32_one_[()])
    """
    return L[spans(result_indices(len(sizes)), sizes)](number * one(dtype))


def one(dtype: str) -> Any:
    """Return the number 1 as an element of a dtype.

    No tensor of a front end has a name that ends in `_`.
    """
    return Constant(f"{dtype}_one_", (), dtype, (1,))[()]


@onnx_operator("Range")
def arithmetic_sequence(node: Operator) -> Any:
    start, limit = node.scalar(0, "start"), node.scalar(1, "limit")
    step = node.scalar(2, "delta")
    if not step or node.dtypes[0] is None:
        raise NotExpressible("a step of 0")
    count = max(0, int(np.ceil((limit - start) / step)))
    i = Index("i")
    return L[i:count]((sympy.sympify(start) + sympy.sympify(step) * i) * one(node.dtypes[0]))


@onnx_operator("EyeLike", ignoring="dtype")
def identity_matrix(node: Operator) -> Any:
    shape, k = _shape_of_input(node), node.integer("k", 0)
    if shape is None or len(shape) != 2 or node.dtypes[0] is None or node.dtypes[0] == "bool":
        raise NotExpressible("not a matrix of numbers of known shape")
    i, j = result_indices(2)
    return L[spans((i, j), shape)](
        sympy.Piecewise((one(node.dtypes[0]), sympy.Eq(j - i, k)), (0, True))
    )
