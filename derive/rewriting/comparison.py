"""Values before and after a rewriting, on arrays: exactly where the reference evaluator is exact,
within rounding where functions have real values.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
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


def differ(
    before: Scope | Program, after: Scope | Program, arrays: Arrays, domains: bool = True
) -> bool:
    """Return whether two expressions have other outputs, shapes or values on the same arrays, or,
    with `domains`, one of them alone a value. The second may read fewer inputs.
    """
    one, two = as_program(before), as_program(after)
    if one.outputs != two.outputs:
        return True
    if any(one[name].shape != two[name].shape for name in one.outputs):
        return True
    expected, values = _values(one, arrays), _values(two, arrays)
    if expected is None or values is None:
        return any(_differ_in_double(one, two, name, arrays, domains) for name in one.outputs)
    for name in one.outputs:
        unequal = np.asarray(expected[name] != values[name])
        if not unequal.any():
            continue
        if not _is_rounded(expected[name][unequal]) or not _is_rounded(values[name][unequal]):
            return True
        if _differ_in_double(one, two, name, arrays, domains):
            return True
    return False


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


def _differ_in_double(one: Program, two: Program, name: str, arrays: Arrays, domains: bool) -> bool:
    scopes = [inlined(in_double(program), name) for program in (one, two)]
    floats = {}
    for tensor, array in _inputs_of(one, arrays).items():
        floats[tensor] = np.asarray(array, np.float64) if array.dtype.kind == "O" else array
    return bool(unequal_in_double(scopes, floats, domains).any())


def _inputs_of(program: Program, arrays: Arrays) -> dict[str, Any]:
    """Return the arrays that a program reads: what only padding was read for may be gone."""
    return {name: arrays[name] for name in program.inputs}
