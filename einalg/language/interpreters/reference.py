"""The reference evaluator: the meaning of an expression, point by point, exact on integers and fractions (design §2).

It is deliberately naive and shares no code with rules, search or code generation: it is what they are tested against.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy

from einalg.errors import NotationError, RangeError, ShapeError
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.index.remainder import Mod
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import as_program, require_names
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor, padded_box

Values = dict[tuple[int, ...], Any]
SAME_NAME = (
    "exp log tanh erf erfc sin cos tan sinh cosh asin acos atan atan2 asinh acosh atanh gamma"
)
FUNCTIONS: dict[type, Callable[..., Any]] = {getattr(sympy, name): getattr(math, name) for name in SAME_NAME.split()} | {
    sympy.Add: lambda *v: sum(v), sympy.Mul: lambda *v: math.prod(v),
    sympy.loggamma: math.lgamma, sympy.Abs: abs, sympy.sign: lambda v: (v > 0) - (v < 0), sympy.Max: max, sympy.Min: min,
    sympy.floor: math.floor, sympy.ceiling: math.ceil, Mod: operator.mod, sympy.Eq: operator.eq, sympy.Ne: operator.ne,
    sympy.StrictLessThan: operator.lt, sympy.LessThan: operator.le, sympy.StrictGreaterThan: operator.gt, sympy.GreaterThan: operator.ge,
    sympy.Pow: lambda b, e: math.pow(b, e) if isinstance(b, float) or not isinstance(e, int) else Fraction(b) ** e if e < 0 else b**e,
    sympy.Not: operator.not_, sympy.And: lambda *v: all(v), sympy.Or: lambda *v: any(v), sympy.Xor: lambda a, b: bool(a) != bool(b),
}  # fmt: skip
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "Sum": operator.add,
    "Prod": operator.mul,
    "Max": max,
    "Min": min,
}


def evaluate(expr: Any, *given: Any, **arrays: Any) -> Any:
    """The value of an expression on arrays given by name: an ndarray, or a dict of them for a program of several outputs.

    Integers and `Fraction`s are computed exactly (the result is of dtype object where it holds fractions); anything else in
    float64. Shapes are those of the tensors, in elements. Raises `ShapeError` for a missing, surplus or misshapen array.
    This is the slow, exact reference (§9); use a compiled candidate for real sizes.

    >>> import einalg as ea
    >>> evaluate(ea.parse("O[i] += A[i,j]", A=(2, 3)), A=[[1, 2, 3], [4, 5, 6]])
    array([ 6, 15])
    """
    require_names(given, (program := as_program(expr)).inputs)
    known = {name: _load(tensor, arrays) for name, tensor in program.inputs.items()}
    surplus = sorted(set(arrays) - set(known))
    if surplus:
        raise ShapeError(
            f"{surplus[0]} is not an input of the expression; the inputs are {', '.join(known) or 'none'}\n  leave it out"
        )
    exact = not any(isinstance(v, float) for values in known.values() for v in values.values())
    for name, tensor in program.constants.items():
        known[name] = {
            point: _Evaluation(known, exact).number(value) for point, value in tensor.elements()
        }
    for name, scope in program.statements:
        known[name] = _Evaluation(known, exact).scope(scope)
    results = {name: _array(known[name], program[name]) for name in program.outputs}
    return results if len(results) > 1 else results[program.outputs[0]]


def _load(tensor: Tensor, arrays: dict[str, Any]) -> Values:
    if tensor.name not in arrays:
        raise ShapeError(
            f"no array is given for {tensor.name}, of shape {tensor.shape}\n  pass {tensor.name}=array"
        )
    try:
        array = np.asarray(arrays[tensor.name])
    except ValueError as error:  # of rows of different lengths
        raise ShapeError(f"{tensor.name} cannot be read as an array: {error}") from None
    if array.shape != tensor.shape:
        raise ShapeError(
            f"{tensor.name} has shape {tensor.shape}, but an array of shape {array.shape} is given\n  pass another, or reshape it"
        )
    return dict(
        zip(
            product(*(range(low, high) for low, high in tensor.axes)),
            array.ravel().tolist(),
            strict=True,
        )
    )


def _array(values: Values, scope: Scope) -> np.ndarray[Any, Any]:
    kinds = {type(v) for v in values.values()}
    small = all(abs(v) < 2**63 for v in values.values() if isinstance(v, int))
    dtype = (
        bool
        if kinds == {bool}
        else object
        if Fraction in kinds and float not in kinds or not small
        else float
        if float in kinds
        else np.int64
    )
    out = np.zeros(scope.shape, dtype)
    for point, value in values.items():
        out[tuple(p - low for p, (low, _) in zip(point, scope.box))] = value
    return out


class _Evaluation:
    """Values of inner scopes are kept as dictionaries from point to value: a point that is absent has no value."""

    def __init__(self, known: dict[str, Values], exact: bool):
        self.known, self.exact = known, exact
        self.inner: dict[Scope, Values] = {}

    def scope(self, scope: Scope) -> Values:
        return {
            point: self.value(scope.body, env)
            for point, env in _points(scope.iterators, scope.where, {})
        }

    def values(self, base: Any) -> Values:
        if isinstance(base, Tensor):
            return self.known[base.name]
        if base not in self.inner:
            self.inner[base] = self.scope(base)
        return self.inner[base]

    def read(self, base: Any, point: tuple[int, ...]) -> Any:
        """The element at `point`; `None` where the base has none."""
        if not isinstance(base, Padded):
            return self.values(base).get(point)
        value = self.read(base.base, point)
        if value is not None:
            return value
        reaches = all(low <= place < high for place, (low, high) in zip(point, padded_box(base)))
        return self.number(base.fill) if reaches else None

    def value(self, body: Any, env: dict[Any, int]) -> Any:
        if isinstance(body, Access):
            point = tuple(s.evaluate(env) for s in body.subscripts)
            value = self.read(body.base, point)
            if value is None:
                raise RangeError(f"{body} reads {point}, where there is no value")
            return value
        if isinstance(body, Reduce):
            total = self.number(body.identity)
            for _, inner in _points(body.iterators, body.where, env):
                total = COMBINE[body.op](total, self.value(body.body, inner))
            return total
        if isinstance(body, IndexArithmetic):
            return affine(body).evaluate(env)
        if isinstance(body, sympy.Piecewise):
            return next(
                (
                    self.value(case.args[0], env)
                    for case in body.args
                    if self.value(case.args[1], env)
                ),
                math.nan,
            )
        if not body.args:
            return self.number(body)
        return self.apply(body, [self.value(a, env) for a in body.args])

    def apply(self, body: Any, values: list[Any]) -> Any:
        function = FUNCTIONS.get(type(body))
        if function is None:
            raise NotationError(f"the reference evaluator has no value for {type(body).__name__}")
        return function(*values)

    def number(self, value: Any) -> Any:
        if value is sympy.true or value is sympy.false:
            return bool(value)
        if value.is_Rational and (self.exact or value.is_Integer):
            return int(value) if value.is_Integer else Fraction(int(value.p), int(value.q))
        return Fraction(float(value)) if value.is_Float and self.exact else float(value)


def _points(iterators: Any, where: Any, env: dict[Any, int]) -> Any:
    """Every point of a domain with the environment in which a body is evaluated there."""
    for point in product(*(range(it.low, it.high) for it in iterators)):
        inner = {**env, **{it.index: p for it, p in zip(iterators, point)}}
        if all(condition.holds(inner) for condition in where):
            yield point, inner
