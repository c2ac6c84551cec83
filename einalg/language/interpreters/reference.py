"""The reference evaluator: the meaning of an expression, point by point, exact on integers and
fractions (design §2).

It is deliberately naive and shares no code with rules, search or code generation: it is what they
are tested against.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy

from einalg.errors import NotationError, RangeError, ShapeError, UndefinedError
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.interpreters.exact_values import exact_values
from einalg.language.interpreters.reference_functions import COMBINE, FUNCTIONS
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import as_program, require_names
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor, padded_box

Values = dict[tuple[int, ...], Any]


def evaluate(expr: Any, *unnamed: Any, **arrays: Any) -> Any:
    """Return the value of an expression on arrays given by name: an ndarray, or a dict of them for
    a program of several outputs.

    Integers and `Fraction`s are computed exactly (the result is of dtype object where it holds
    fractions); anything else in float64. Shapes are those of the tensors, in elements. Raises
    `ShapeError` for a missing, surplus or misshapen array, `UndefinedError` where there is no
    value. This is the slow, exact reference (§9); use a compiled candidate for real sizes.

    >>> import einalg as ea
    >>> evaluate(ea.parse("O[i] += A[i,j]", A=(2, 3)), A=[[1, 2, 3], [4, 5, 6]])
    array([ 6, 15])
    """
    program = as_program(expr)
    require_names(unnamed, program.inputs)
    known = {name: _load(tensor, arrays) for name, tensor in program.inputs.items()}
    surplus = sorted(set(arrays) - set(known))
    if surplus:
        raise ShapeError(
            f"{surplus[0]} is not an input of the expression; the inputs are "
            f"{', '.join(known) or 'none'}\n  leave it out"
        )
    exact = not any(map(_has_floats, known.values()))
    for name, tensor in program.constants.items():
        evaluation = _Evaluation(known, exact)
        known[name] = {point: evaluation.number(value) for point, value in tensor.elements()}
    for name, scope in program.statements:
        known[name] = _Evaluation(known, exact).scope(scope)
    results = {name: _array(known[name], program[name]) for name in program.outputs}
    if len(results) == 1:
        return results[program.outputs[0]]
    return results


def _has_floats(values: Values) -> bool:
    return any(isinstance(value, float) for value in values.values())


def _load(tensor: Tensor, arrays: dict[str, Any]) -> Values:
    values = exact_values(tensor, arrays)
    return dict(zip(_box_points(tensor.axes), values, strict=True))


def _box_points(box: Iterable[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Return the points of a box in row-major order."""
    return product(*(range(low, high) for low, high in box))


def _array(values: Values, scope: Scope) -> np.ndarray[Any, Any]:
    array = np.zeros(scope.shape, _dtype(values))
    for point, value in values.items():
        place = [coordinate - low for coordinate, (low, _) in zip(point, scope.box)]
        array[tuple(place)] = value
    return array


def _dtype(values: Values) -> Any:
    """Return the dtype of an array that holds these values."""
    kinds = set(map(type, values.values()))
    if kinds == {bool}:
        return bool
    if float not in kinds and Fraction in kinds:
        return object
    if any(isinstance(value, int) and abs(value) >= 2**63 for value in values.values()):
        return object
    return float if float in kinds else np.int64


class _Evaluation:
    """Values of inner scopes are kept as dictionaries from point to value: a point that is absent
    has no value.
    """

    def __init__(self, known: dict[str, Values], exact: bool):
        self.known, self.exact = known, exact
        self.inner: dict[Scope, Values] = {}

    def scope(self, scope: Scope) -> Values:
        values = {}
        for point, env in _points(scope.iterators, scope.where, {}):
            values[point] = self.value(scope.body, env)
        return values

    def values(self, base: Any) -> Values:
        if isinstance(base, Tensor):
            return self.known[base.name]
        if base not in self.inner:
            self.inner[base] = self.scope(base)
        return self.inner[base]

    def read(self, base: Any, point: tuple[int, ...]) -> Any:
        """Return the element at `point`; None where the base has none."""
        if not isinstance(base, Padded):
            return self.values(base).get(point)
        value = self.read(base.base, point)
        if value is not None:
            return value
        for place, (low, high) in zip(point, padded_box(base)):
            if not low <= place < high:
                return None
        return self.number(base.fill)

    def value(self, body: Any, env: dict[Any, int]) -> Any:
        if isinstance(body, Access):
            point = tuple(s.evaluate(env) for s in body.subscripts)
            value = self.read(body.base, point)
            if value is None:
                raise RangeError(
                    f"{body} reads {point}, where there is no value\n"
                    "  pad what is read, or narrow an index"
                )
            return value
        if isinstance(body, Reduce):
            total = self.number(body.identity)
            for _, inner in _points(body.iterators, body.where, env):
                total = COMBINE[body.op](total, self.value(body.body, inner))
            return total
        if isinstance(body, IndexArithmetic):
            return affine(body).evaluate(env)
        if isinstance(body, sympy.Piecewise):
            return self.choice(body, env)
        if not body.args:
            return self.number(body)
        return self.apply(body, [self.value(a, env) for a in body.args], env)

    def choice(self, body: sympy.Piecewise, env: dict[Any, int]) -> Any:
        """Return the first value whose condition holds; NaN where none does."""
        for case in body.args:
            value, condition = case.args
            if self.value(condition, env):
                return self.value(value, env)
        return math.nan

    def apply(self, body: Any, values: list[Any], env: dict[Any, int]) -> Any:
        function = FUNCTIONS.get(type(body))
        if function is None:
            raise NotationError(
                f"the reference evaluator has no value for {type(body).__name__}\n"
                "  write it with functions of the notation: exp, log, erf, …"
            )
        try:
            return function(*values)
        except (ArithmeticError, ValueError) as error:
            raise UndefinedError(_without_value(body, values, env, error)) from None

    def number(self, value: Any) -> Any:
        if value is sympy.true or value is sympy.false:
            return bool(value)
        if value.is_Integer:
            return int(value)
        if self.exact and value.is_Rational:
            return Fraction(int(value.p), int(value.q))
        if self.exact and value.is_Float:
            return Fraction(float(value))
        return float(value)


def _without_value(body: Any, values: list[Any], env: dict[Any, int], error: Exception) -> str:
    """Say where an operation has no value, and why."""
    numbers = ", ".join(map(str, values))
    reason = f"it is not defined for {numbers}"
    is_power_of_zero = isinstance(body, sympy.Pow) and values[0] == 0
    if isinstance(error, ZeroDivisionError) or is_power_of_zero:
        reason = "it divides by 0"
    elif isinstance(error, OverflowError):
        reason = f"of {numbers} it is too large for a float"
    place = ", ".join(f"{index} = {value}" for index, value in env.items())
    where = f" at {place}" if place else ""
    return f"{body} has no value{where}: {reason}\n  {UndefinedError.remedy}"


def _points(iterators: Any, where: Any, env: dict[Any, int]) -> Any:
    """Yield every point of a domain with the environment in which a body is evaluated there."""
    indices = [it.index for it in iterators]
    for point in _box_points([(it.low, it.high) for it in iterators]):
        inner = {**env, **dict(zip(indices, point))}
        if all(condition.holds(inner) for condition in where):
            yield point, inner
