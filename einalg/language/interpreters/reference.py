"""The reference evaluator: the meaning of an expression, point by point, exact on integers and
fractions (design §2).

It is deliberately naive and shares no code with rules, search or code generation: it is what they
are tested against.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from einalg.errors import NotationError, RangeError, ShapeError, UndefinedError
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.interpreters.exact_values import exact_constant, exact_values
from einalg.language.interpreters.reference_functions import COMBINE, FUNCTIONS, with_fraction_last
from einalg.language.interpreters.reference_indices import (
    Environment,
    box_points,
    domain_points,
    form_function,
    point_function,
)
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import as_program, require_names
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor, padded_box

Values = dict[tuple[int, ...], Any]
Function = Callable[[Environment], Any]


def evaluate(expr: Any, /, *unnamed: Any, **arrays: Any) -> Any:
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
    return dict(zip(box_points(tensor.axes), values, strict=True))


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
    """Values of scopes, computed point by point. A body becomes a function of the values of its
    indices first, part by part, so that its nodes are not told apart again at every point.

    Values of inner scopes are dictionaries from point to value: a point that is absent has no
    value.
    """

    def __init__(self, known: dict[str, Values], exact: bool):
        self.known, self.exact = known, exact
        self.inner: dict[Scope, Values] = {}

    def scope(self, scope: Scope) -> Values:
        values = {}
        body = self.function(scope.body)
        for point, env in domain_points(scope.iterators, scope.where)({}):
            values[point] = body(env)
        return values

    def inner_values(self, scope: Scope) -> Values:
        if scope not in self.inner:
            self.inner[scope] = self.scope(scope)
        return self.inner[scope]

    def function(self, body: Any) -> Function:
        """Return the function from the values of indices to the value of a body."""
        if isinstance(body, Access):
            return self.access(body)
        if isinstance(body, Reduce):
            return self.reduction(body)
        if isinstance(body, IndexArithmetic):
            return form_function(affine(body))
        if isinstance(body, sympy.Piecewise):
            return self.choice(body)
        if body.args:
            return self.application(body)
        number = self.number(body)
        return lambda env: number

    def access(self, access: Access) -> Function:
        read, point_of = self.reader(access.base), point_function(access.subscripts)

        def element(env: Environment) -> Any:
            point = point_of(env)
            value = read(point)
            if value is None:
                raise RangeError(
                    f"{access} reads {point}, where there is no value\n"
                    "  pad what is read, or narrow an index"
                )
            return value

        return element

    def reader(self, base: Any) -> Callable[[tuple[int, ...]], Any]:
        """Return the function from a point to the element there; to None where the base has none.

        Scopes are evaluated when their first element is read.
        """
        if isinstance(base, Padded):
            return self.padded_reader(base)
        if isinstance(base, Tensor):
            return self.known[base.name].get
        values: Values | None = None

        def read(point: tuple[int, ...]) -> Any:
            nonlocal values
            if values is None:
                values = self.inner_values(base)
            return values.get(point)

        return read

    def padded_reader(self, base: Padded) -> Callable[[tuple[int, ...]], Any]:
        read_base, box, fill = self.reader(base.base), padded_box(base), self.number(base.fill)

        def read(point: tuple[int, ...]) -> Any:
            value = read_base(point)
            if value is not None:
                return value
            for place, (low, high) in zip(point, box):
                if not low <= place < high:
                    return None
            return fill

        return read

    def reduction(self, body: Reduce) -> Function:
        identity, combine = self.number(body.identity), COMBINE[body.op]
        points, element = domain_points(body.iterators, body.where), self.function(body.body)

        def total(env: Environment) -> Any:
            value = identity
            for _, inner in points(env):
                value = combine(value, element(inner))
            return value

        return total

    def choice(self, body: sympy.Piecewise) -> Function:
        """Return the function to the first value whose condition holds; to NaN where none does."""
        cases = []
        for case in body.args:
            value, condition = case.args
            cases.append((self.function(value), self.function(condition)))

        def chosen(env: Environment) -> Any:
            for value, condition in cases:
                if condition(env):
                    return value(env)
            return math.nan

        return chosen

    def application(self, body: Any) -> Function:
        function, parts = FUNCTIONS.get(type(body)), body.args
        if isinstance(body, sympy.Mul) and not self.exact:
            function, parts = with_fraction_last(body)
        arguments = [self.function(part) for part in parts]

        def result(env: Environment) -> Any:
            values = [argument(env) for argument in arguments]
            if function is None:
                raise NotationError(
                    f"the reference evaluator has no value for {type(body).__name__}\n"
                    "  write it with functions of the notation: exp, log, erf, …"
                )
            try:
                return function(*values)
            except (ArithmeticError, ValueError) as error:
                raise UndefinedError(_without_value(body, values, env, error)) from None

        return result

    def number(self, value: Any) -> Any:
        return exact_constant(value, self.exact)


def _without_value(body: Any, values: list[Any], env: Environment, error: Exception) -> str:
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
