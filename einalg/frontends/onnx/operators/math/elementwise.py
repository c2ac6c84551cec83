"""Functions of one element, without parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy

from einalg.frontends.nonfinite import truth_of
from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops
from einalg.language.conditions import isinf, isnan
from einalg.language.ir.dtypes import is_float
from einalg.language.ops.math.elementwise import elementwise, nearest_even

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "Abs": ops.abs,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "HardSwish": ops.hardswish,
    "Log": ops.log,
    "Neg": ops.neg,
    "Reciprocal": ops.reciprocal,
    "Relu": ops.relu,
    "Sigmoid": ops.sigmoid,
    "IsNaN": truth_of(isnan),
    "Sin": ops.sin,
    "Softplus": ops.softplus,
    "Sqrt": ops.sqrt,
    "Tanh": ops.tanh,
}
BODIES: dict[str, Callable[[Any], Any]] = {
    "Acos": sympy.acos,
    "Acosh": sympy.acosh,
    "Asin": sympy.asin,
    "Asinh": sympy.asinh,
    "Atan": sympy.atan,
    "Atanh": sympy.atanh,
    "Cosh": sympy.cosh,
    "Sinh": sympy.sinh,
    "Tan": sympy.tan,
    "Sign": lambda v: sympy.Piecewise((v, isnan(v)), (sympy.sign(v), True)),
    "Softsign": lambda v: v / (1 + sympy.Abs(v)),
    "Mish": lambda v: v * sympy.tanh(sympy.Max(v, 0) + sympy.log(1 + sympy.exp(-sympy.Abs(v)))),
}
ROUNDING = {"Ceil", "Floor", "Round"}


@onnx_operator(*FUNCTIONS, *BODIES, "Round", ignoring="consumed_inputs")
def function(node: Operator) -> Any:
    x = node.tensor(0)
    if node.type in ROUNDING and not is_float(x.dtype):
        return x
    if node.type == "Round":
        return elementwise(x, nearest_even)
    if node.type in FUNCTIONS:
        return FUNCTIONS[node.type](x)
    return elementwise(x, BODIES[node.type])


@onnx_operator("IsInf")
def is_infinite(node: Operator) -> Any:
    """Both infinities, or one of them."""
    signs = []
    for name, infinity in (("detect_positive", sympy.oo), ("detect_negative", -sympy.oo)):
        if node.integer(name, 1):
            signs.append(infinity)
    if len(signs) == 2:
        return elementwise(node.tensor(0), isinf)
    if not signs:
        raise NotExpressible("a test that nothing passes")
    return ops.equal(node.tensor(0), signs[0])


@onnx_operator("Not")
def logical_not(node: Operator) -> Any:
    return ops.logical_not(node.tensor(0))


@onnx_operator("Identity", "Dropout", ignoring="ratio seed is_test consumed_inputs")
def same(node: Operator) -> Any:
    """Dropout at inference; its mask would be true everywhere."""
    if node.type == "Dropout" and node.scalar(2, "training_mode", False):
        raise NotExpressible("a dropout in training mode is random")
    x = node.tensor(0)
    if not node.wants(1):
        return x
    return x, np.ones(x.shape, np.bool_)


@onnx_operator("Cast", "CastLike", ignoring="to saturate round_mode")
def cast(node: Operator) -> Any:
    x, wanted = node.tensor(0), node.dtypes[0]
    if wanted is None:
        raise NotExpressible("the language does not have the element type of the result")
    if x.dtype == wanted:
        return x
    return ops.cast(x, wanted)
