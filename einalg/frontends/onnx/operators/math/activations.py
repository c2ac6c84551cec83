"""Activations with parameters."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Max, Min

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops
from einalg.language.index.cases import Piecewise
from einalg.language.ops.math.broadcasting import broadcast
from einalg.language.ops.math.elementwise import elementwise

# As ONNX has them: attributes are numbers of single precision.
SELU_ALPHA = 1.67326319217681884765625
SELU_GAMMA = 1.05070102214813232421875


@onnx_operator("LeakyRelu", "ThresholdedRelu", ignoring="consumed_inputs")
def thresholds(node: Operator) -> Any:
    x = node.tensor(0)
    if node.type == "LeakyRelu":
        return ops.leaky_relu(x, node.number("alpha", 0.01))
    limit = sympy.sympify(node.number("alpha", 1.0))
    return elementwise(x, lambda v: sympy.Piecewise((v, v > limit), (0, True)))


@onnx_operator("Elu", "Celu", "Selu", ignoring="consumed_inputs")
def exponential(node: Operator) -> Any:
    x = node.tensor(0)
    gamma: Any = 1
    inner: Any = 1
    if node.type == "Selu":
        alpha, gamma = node.number("alpha", SELU_ALPHA), node.number("gamma", SELU_GAMMA)
    else:
        alpha = node.number("alpha", 1.0)
    if node.type == "Celu":
        inner = alpha
    if not inner:
        raise NotExpressible("alpha is 0, by which nothing can be divided")
    return elementwise(
        x, lambda v: gamma * (Max(v, 0) + alpha * (sympy.exp(Min(v, 0) / inner) - 1))
    )


@onnx_operator("HardSigmoid")
def hard_sigmoid(node: Operator) -> Any:
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return elementwise(node.tensor(0), lambda v: Max(0, Min(1, alpha * v + beta)))


@onnx_operator("Swish")
def swish(node: Operator) -> Any:
    alpha = node.number("alpha", 1.0)
    return elementwise(node.tensor(0), lambda v: v / (1 + sympy.exp(-alpha * v)))


@onnx_operator("Gelu")
def gelu(node: Operator) -> Any:
    return ops.gelu(node.tensor(0), node.word("approximate", "none"))


@onnx_operator("Shrink")
def shrink(node: Operator) -> Any:
    limit, bias = sympy.sympify(node.number("lambd", 0.5)), node.number("bias", 0.0)
    return elementwise(
        node.tensor(0),
        lambda v: sympy.Piecewise((v + bias, v < -limit), (v - bias, v > limit), (0, True)),
    )


@onnx_operator("PRelu", ignoring="consumed_inputs")
def prelu(node: Operator) -> Any:
    """The slope broadcasts to the data, not the other way round."""
    return broadcast(
        lambda v, slope: Piecewise((v, v > 0), (slope * v, True)),
        x=node.tensor(0),
        slope=node.operands()[1],
    )


@onnx_operator("Clip", ignoring="consumed_inputs")
def clip(node: Operator) -> Any:
    """Bounds are attributes before operator set 11, and may be computed from then on."""
    x = node.tensor(0)
    if node.version < 11:
        return ops.clip(x, node.number("min"), node.number("max"))
    result: Any = x
    for position, function in ((1, Max), (2, Min)):
        if node.has(position):
            bound = node.operands()[position]
            result = broadcast(function, x=result, bound=bound)
    return result
