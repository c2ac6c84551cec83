"""Functions of double precision that runtimes of ONNX lack, by those that they have.

onnxruntime computes exponentials, logarithms, sine and cosine of f64, and others of f32 only.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import numpy as np

from codegen.ir.nodes import Apply, Number, Value

F64 = "f64"
MOST = 1e30  # tangents beyond it are those of a right angle
ERF_END = 6.0  # erf is 1 from there on
ERF_NODES = 28  # of the quadrature of erf: its error is below the rounding of f64


def _apply(op: str, *arguments: Value | float) -> Apply:
    """Return a function of values and numbers of double precision."""
    values: list[Value] = []
    for argument in arguments:
        if isinstance(argument, (int, float)):
            argument = Number(argument, F64)
        values.append(argument)
    return Apply(op, tuple(values), F64)


def _tangent(x: Value) -> Value:
    return _apply("div", _apply("sin", x), _apply("cos", x))


def _powers(x: Value) -> tuple[Value, Value]:
    """Return half of `exp(x)` and half of `exp(-x)`."""
    return (
        _apply("mul", 0.5, _apply("exp", x)),
        _apply("mul", 0.5, _apply("exp", _apply("neg", x))),
    )


def _hyperbolic_sine(x: Value) -> Value:
    above, below = _powers(x)
    return _apply("add", above, _apply("neg", below))


def _hyperbolic_cosine(x: Value) -> Value:
    return _apply("add", *_powers(x))


def _area_sine(x: Value) -> Value:
    """Return `sign(x) log(|x| + √(x² + 1))`."""
    size = _apply("abs", x)
    root = _apply("sqrt", _apply("add", _apply("mul", x, x), 1.0))
    return _apply("mul", _apply("sign", x), _apply("log", _apply("add", size, root)))


def _area_cosine(x: Value) -> Value:
    """Return `log(x + √((x - 1)(x + 1)))`."""
    square = _apply("mul", _apply("add", x, -1.0), _apply("add", x, 1.0))
    return _apply("log", _apply("add", x, _apply("sqrt", square)))


def _area_tangent(x: Value) -> Value:
    """Return `(log(1 + x) - log(1 - x))/2`."""
    above = _apply("log", _apply("add", 1.0, x))
    below = _apply("log", _apply("add", 1.0, _apply("neg", x)))
    return _apply("mul", 0.5, _apply("add", above, _apply("neg", below)))


def _arc_tangent(x: Value) -> Value:
    """Return the arc tangent in single precision with its error, which is that of a small angle.

    `atan(x) = a + atan((x - t)/(1 + x·t))` with `t = tan(a)`, and the latter is an angle so small
    that it is its tangent.
    """
    x = _apply("min", _apply("max", x, -MOST), MOST)
    rough = Apply("cast", (Apply("atan", (Apply("cast", (x,), "f32"),), "f32"),), F64)
    tangent = _tangent(rough)
    above = _apply("add", x, _apply("neg", tangent))
    below = _apply("add", 1.0, _apply("mul", x, tangent))
    return _apply("add", rough, _apply("div", above, below))


def _arc_sine(x: Value) -> Value:
    """Return `atan(x/√((1 - x)(1 + x)))`."""
    square = _apply("mul", _apply("add", 1.0, _apply("neg", x)), _apply("add", 1.0, x))
    return _arc_tangent(_apply("div", x, _apply("sqrt", square)))


def _arc_cosine(x: Value) -> Value:
    return _apply("add", pi / 2, _apply("neg", _arc_sine(x)))


def _erf(x: Value) -> Value:
    """Return `2x/√π ∫ exp(-x²t²) dt` from 0 to 1, by the quadrature of Gauss."""
    x = _apply("min", _apply("max", x, -ERF_END), ERF_END)
    minus_square = _apply("neg", _apply("mul", x, x))
    points, weights = np.polynomial.legendre.leggauss(ERF_NODES)
    terms: list[Value] = []
    for point, weight in zip(((points + 1) / 2).tolist(), (weights / sqrt(pi)).tolist()):
        power = _apply("exp", _apply("mul", minus_square, point * point))
        terms.append(_apply("mul", weight, power))
    return _apply("mul", x, _apply("add", *terms))


def _complementary_erf(x: Value) -> Value:
    return _apply("add", 1.0, _apply("neg", _erf(x)))


LACKING: dict[str, Callable[[Value], Value]] = {
    "tan": _tangent,
    "sinh": _hyperbolic_sine,
    "cosh": _hyperbolic_cosine,
    "asin": _arc_sine,
    "acos": _arc_cosine,
    "atan": _arc_tangent,
    "asinh": _area_sine,
    "acosh": _area_cosine,
    "atanh": _area_tangent,
    "erf": _erf,
    "erfc": _complementary_erf,
}
