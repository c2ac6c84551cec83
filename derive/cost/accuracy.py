"""How far the values of a program are from the reference: one number, that a bound decides on
(design §9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from derive.matching.patterns.scalar_parameters import numbers
from einalg.language.conversion import HALVES
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Padded
from einalg.language.ir.traversal import accesses, conversions

TOLERANCE = {"f64": 1e-10, "f32": 1e-4, "f16": 2e-2, "bf16": 5e-2}  # of the largest element
NEARNESS = 2.0**-10  # relative: what is left of a large number after something was added to it
CHUNK_ELEMENTS = 2**20  # that are compared at once
Array = np.ndarray[Any, Any]


def tolerance(program: Program) -> float:
    """Return the error that is allowed by the type of the outputs, and by roundings to 16 bits on
    the way to them.
    """
    allowed = max(TOLERANCE.get(program[name].dtype, 0.0) for name in program.outputs)
    if allowed:
        for _, scope in program.statements:
            allowed = max(allowed, *map(_tolerance_of_halves, all_scopes(scope)))
    return allowed


def _tolerance_of_halves(scope: Scope) -> float:
    """Return the error that is allowed by values of 16 bits; 0 without any."""
    dtypes = {scope.dtype} | {node.dtype for node in conversions(scope.body)}
    return max((TOLERANCE[dtype] for dtype in dtypes.intersection(HALVES)), default=0.0)


def relative_error(
    expected: Mapping[str, Any],
    result: Any,
    program: Program,
    given: Mapping[str, Any] | None = None,
) -> float:
    """Return the largest deviation of any output, relative to the largest element of that output
    that is computed.

    An element that is near a number of the program, or of a mask among the arrays `given` for its
    inputs, is no measure for the others: where it is larger than they are, as the fill of a mask
    is, it counts relative to itself.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] = Piecewise((A[i], i < 1), (-1e9, True))", A=(2,))
    >>> program = ea.Program([("O", scope)])
    >>> relative_error({"O": [4.0, -1e9]}, np.array([3.0, -1e9]), program)
    0.25
    """
    results = result if isinstance(result, dict) else {program.outputs[0]: result}
    fills = np.unique([*_numbers(program), *mask_numbers(given or {})])
    largest = 0.0
    for name, values in expected.items():
        wanted = _as_stored(np.asarray(values), results[name], program[name].dtype)
        largest = max(largest, largest_deviation(wanted, results[name], fills))
    return largest


def largest_deviation(wanted: Array, result: Any, fills: Array) -> float:
    """Return the largest deviation of one output; of what is near one of the ascending `fills`,
    relative to itself.
    """
    if all(_same(*chunk).all() for chunk in _chunks(wanted, result)):
        return 0.0
    scale = _scale(wanted, fills)
    return max(_difference(a, b, fills, scale) for a, b in _chunks(wanted, result))


def scales(
    expected: Mapping[str, Any], program: Program, given: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Return the number that deviations of each output are relative to, as in `relative_error`."""
    fills = np.unique([*_numbers(program), *mask_numbers(given or {})])
    return {name: _scale(np.asarray(values), fills) for name, values in expected.items()}


def _scale(wanted: Array, fills: Array) -> float:
    """Return the largest element that is computed, in words of `relative_error`."""
    largest = largest_computed = 0.0
    for (expected,) in _chunks(wanted):
        of_all, of_computed = _largest(expected, fills)
        largest = max(largest, of_all)
        largest_computed = max(largest_computed, of_computed)
    return largest_computed or min(largest, 1.0) or 1.0


def _chunks(*arrays: Any) -> Iterator[tuple[Array, ...]]:
    """Yield parts of arrays in double precision, in which all of them might not fit in memory."""
    flat = [array.reshape(-1) for array in np.broadcast_arrays(*arrays)]
    for start in range(0, flat[0].size, CHUNK_ELEMENTS):
        part = slice(start, start + CHUNK_ELEMENTS)
        yield tuple(array[part].astype(np.float64) for array in flat)


def _same(wanted: Array, result: Array) -> Array:
    return (wanted == result) | (np.isnan(wanted) & np.isnan(result))


def _largest(wanted: Array, fills: Array) -> tuple[float, float]:
    """Return the largest finite element, and that of those that are near none of some numbers."""
    size = np.abs(wanted)
    finite = np.isfinite(size)
    computed = finite & ~_is_near(wanted, fills)
    return float(size[finite].max(initial=0.0)), float(size[computed].max(initial=0.0))


def _difference(wanted: Array, result: Array, fills: Array, scale: float) -> float:
    """Return the largest difference, relative to a scale; where an element is near one of some
    numbers and larger, to the element.
    """
    with np.errstate(invalid="ignore"):
        scales = np.where(_is_near(wanted, fills), np.maximum(np.abs(wanted), scale), scale)
        relative = np.where(_same(wanted, result), 0.0, np.abs(wanted - result) / scales)
    return float(np.nan_to_num(relative, nan=np.inf, posinf=np.inf).max())


def _is_near(values: Array, fills: Array) -> Array:
    """Return which values are one of these ascending numbers, or as good as one."""
    if not fills.size:
        return np.zeros(values.shape, bool)
    right = np.searchsorted(fills, values).clip(1, max(1, fills.size - 1))
    below, above = fills[right - 1], fills[right % fills.size]
    with np.errstate(invalid="ignore"):
        near_below = np.abs(values - below) <= NEARNESS * np.abs(below)
        return near_below | (np.abs(values - above) <= NEARNESS * np.abs(above))


def _numbers(program: Program) -> Iterator[float]:
    """Yield the finite numbers of bodies, paddings and constant tensors, without 0."""
    candidates: dict[Any, None] = {}
    for constant in program.constants.values():
        candidates.update(dict.fromkeys(constant.values))
    for _, statement in program.statements:
        for scope in all_scopes(statement):
            candidates.update(dict.fromkeys(numbers(scope.body)))
            for access in accesses(scope.body):
                candidates.update(dict.fromkeys(_fills(access.base)))
    for number in candidates:
        if number.is_real and number != 0:
            yield float(number)


def _fills(base: Any) -> Iterator[Any]:
    while isinstance(base, Padded):
        yield base.fill
        base = base.base


def mask_numbers(arrays: Mapping[str, Any]) -> Iterator[float]:
    """Yield the largest and the smallest number of arrays of floats, where they occur more than
    once, as in a mask.
    """
    for array in map(np.asarray, arrays.values()):
        if array.dtype.kind != "f" or not array.size:
            continue
        for value in {float(array.max()), float(array.min())} - {0.0}:
            if np.isfinite(value) and np.count_nonzero(array == value) > 1:
                yield value


def _as_stored(values: Array, result: Any, dtype: str) -> Array:
    """Return what the executor computes as an output of a type of integers stores it.

    Integers are i64 there, and wrap round; what is no number, such as a quotient by 0, has no
    integer to compare with, and is that of the result.
    """
    own_type = np.dtype(numpy_dtype(dtype))
    if own_type.kind not in "iu":
        return values
    if values.dtype.kind in "iu":
        return values.astype(own_type)
    has_value = np.isfinite(values)
    if has_value.all():
        return values
    integers = np.where(has_value, values, 0).astype(np.int64).astype(own_type)
    return np.where(has_value, integers, np.asarray(result))
