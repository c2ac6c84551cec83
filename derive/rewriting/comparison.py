"""Values before and after a rewriting, on arrays: exactly where the reference evaluator is exact,
within rounding where functions have real values.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from derive.proof.random.rounding import unequal_in_double
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.dtypes import bounds, is_float
from einalg.language.ir.program import Program, as_program, in_double, inlined
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor

Arrays = Mapping[str, Any]
PARTS = 1024  # of 1, which random fractions count: so many that they are seldom at a pole
WHOLE = 9  # up to which random integers go
NO_VALUE = (ArithmeticError, ValueError)  # of the reference, at a pole or outside a domain


def random_arrays(expression: Scope | Program, seed: int) -> dict[str, Any]:
    """Return an array for every input: fractions for floats, which are computed with exactly, and
    integers that the type holds.

    >>> import einalg as ea
    >>> random_arrays(ea.parse("O[i] = A[i]", A=(2,)), seed=0)["A"].tolist()
    [Fraction(2155, 1024), Fraction(421, 512)]
    """
    rng = np.random.default_rng(seed)
    inputs = as_program(expression).inputs
    return {name: _random_array(tensor, rng) for name, tensor in inputs.items()}


def _random_array(tensor: Tensor, rng: np.random.Generator) -> Any:
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(bool)
    if not is_float(tensor.dtype):
        low, high = bounds(tensor.dtype)
        return rng.integers(max(low, -WHOLE), min(high, WHOLE) + 1, tensor.shape)
    parts = rng.integers(-3 * PARTS, 3 * PARTS + 1, tensor.shape)
    fractions = np.empty(tensor.shape, object)
    for place, number in np.ndenumerate(parts):
        fractions[place] = Fraction(int(number), PARTS)
    return fractions


class OriginalExpression:
    """An expression with arrays, whose values are computed once and compared with those of what it
    is rewritten into.

    >>> import einalg as ea
    >>> expression = ea.parse("O[i] = A[i] + A[i]", A=(2,))
    >>> original = OriginalExpression(expression, random_arrays(expression, seed=0))
    >>> original.differs_from(ea.parse("O[i] = 2*A[i]", A=(2,)))
    False
    """

    def __init__(self, expression: Scope | Program, arrays: Arrays):
        self.expression, self.arrays = expression, arrays
        self.program = as_program(expression)

    @cached_property
    def text(self) -> str:
        """The expression as text."""
        return str(self.expression)

    @cached_property
    def values(self) -> dict[str, Any] | None:
        """The outputs by name; None where the reference has no value."""
        return _values(self.program, self.arrays)

    def differs_from(self, expression: Scope | Program, domains: bool = True) -> bool:
        """Return whether an expression has other outputs, shapes or values on the same arrays, or,
        with `domains`, one of the two alone a value. It may read fewer inputs.
        """
        one, two = self.program, as_program(expression)
        if one.outputs != two.outputs:
            return True
        if any(one[name].shape != two[name].shape for name in one.outputs):
            return True
        expected, values = self.values, _values(two, self.arrays)
        if expected is None or values is None:
            return any(self._differs_in_double(two, name, domains) for name in one.outputs)
        for name in one.outputs:
            unequal = np.asarray(expected[name] != values[name])
            if not unequal.any():
                continue
            if not _is_rounded(expected[name][unequal]) or not _is_rounded(values[name][unequal]):
                return True
            if self._differs_in_double(two, name, domains):
                return True
        return False

    def _differs_in_double(self, two: Program, name: str, domains: bool) -> bool:
        scopes = [inlined(in_double(program), name) for program in (self.program, two)]
        floats = {}
        for tensor, array in _inputs_of(self.program, self.arrays).items():
            floats[tensor] = np.asarray(array, np.float64) if array.dtype.kind == "O" else array
        return bool(unequal_in_double(scopes, floats, domains).any())


def _values(program: Program, arrays: Arrays) -> dict[str, Any] | None:
    """Return the outputs by name; None where the reference has no value."""
    try:
        values = evaluate(program, **_inputs_of(program, arrays))
    except NO_VALUE:
        return None
    if len(program.outputs) == 1:
        return {program.outputs[0]: values}
    return values


def _is_rounded(values: Any) -> bool:
    """Return whether values may owe a difference to rounding: finite floats."""
    return values.dtype.kind == "f" and bool(np.isfinite(values).all())


def _inputs_of(program: Program, arrays: Arrays) -> dict[str, Any]:
    """Return the arrays that a program reads: what only padding was read for may be gone."""
    return {name: arrays[name] for name in program.inputs}
