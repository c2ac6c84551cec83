"""How far the values of a program are from the reference: one number, that a bound decides on (design §9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from derive.matching.patterns.scalar_parameters import numbers
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program
from einalg.language.ir.scope import all_scopes
from einalg.language.ir.tensor import Padded
from einalg.language.ir.traversal import accesses

TOLERANCE = {
    "f64": 1e-10,
    "f32": 1e-4,
    "f16": 2e-2,
    "bf16": 5e-2,
}  # relative to the largest element
BESIDE = 2.0**-10  # relative: what is left of a large number after something was added to it
PIECE = 2**20  # elements that are compared at once
Array = np.ndarray[Any, Any]


def tolerance(program: Program) -> float:
    """The error that is allowed by the type of the outputs."""
    return max(TOLERANCE.get(program[name].dtype, 0.0) for name in program.outputs)


def relative_error(
    expected: Mapping[str, Any],
    result: Any,
    program: Program,
    given: Mapping[str, Any] | None = None,
) -> float:
    """The largest deviation of any output, relative to the largest element of that output that is computed.

    An element that is beside a number of the program, or of a mask among the arrays `given` for its inputs, is no measure for the others:
    where it is larger than they are, as the fill of a mask is, it counts relative to itself.

    >>> import einalg as ea
    >>> program = ea.Program([("O", ea.parse("O[i] = Piecewise((A[i], i < 1), (-1e9, True))", A=(2,)))])
    >>> relative_error({"O": [4.0, -1e9]}, np.array([3.0, -1e9]), program)
    0.25
    """
    results = result if isinstance(result, dict) else {program.outputs[0]: result}
    fills = np.unique([*_numbers(program), *_masking(given or {})])
    deviations = (
        _deviation(_wrapped(np.asarray(wanted), program[name].dtype), results[name], fills)
        for name, wanted in expected.items()
    )
    return max(deviations, default=0.0)


def _deviation(wanted: Array, found: Any, fills: Array) -> float:
    if all(_same(one, other).all() for one, other in _pieces(wanted, found)):
        return 0.0
    whole, computed = map(max, zip(*(_largest(one, fills) for one, _ in _pieces(wanted, found))))
    scale = computed or min(whole, 1.0) or 1.0
    return max(_difference(one, other, fills, scale) for one, other in _pieces(wanted, found))


def _pieces(*arrays: Any) -> Iterator[tuple[Array, ...]]:
    """Parts of arrays in double precision, in which all of them might not fit in memory."""
    flat = [array.reshape(-1) for array in np.broadcast_arrays(*arrays)]
    return (
        tuple(array[k : k + PIECE].astype(np.float64) for array in flat)
        for k in range(0, flat[0].size, PIECE)
    )


def _same(wanted: Array, found: Array) -> Array:
    return (wanted == found) | (np.isnan(wanted) & np.isnan(found))


def _largest(wanted: Array, fills: Array) -> tuple[float, float]:
    """The largest finite element, and of those that are beside none of some numbers."""
    size = np.abs(wanted)
    finite = np.isfinite(size)
    return float(size[finite].max(initial=0.0)), float(
        size[finite & ~_beside(wanted, fills)].max(initial=0.0)
    )


def _difference(wanted: Array, found: Array, fills: Array, scale: float) -> float:
    """The largest difference, relative to a scale; where an element is beside one of some numbers and larger, to the element."""
    with np.errstate(invalid="ignore"):
        relative = np.abs(wanted - found) / np.where(
            _beside(wanted, fills), np.maximum(np.abs(wanted), scale), scale
        )
    return float(
        np.nan_to_num(
            np.where(_same(wanted, found), 0.0, relative), nan=np.inf, posinf=np.inf
        ).max()
    )


def _beside(values: Array, fills: Array) -> Array:
    """Which values are one of these ascending numbers, or as good as one."""
    if not fills.size:
        return np.zeros(values.shape, bool)
    right = np.searchsorted(fills, values).clip(1, max(1, fills.size - 1))
    nearest = (fills[right - 1], fills[right % fills.size])
    with np.errstate(invalid="ignore"):
        return np.logical_or(*(np.abs(values - fill) <= BESIDE * np.abs(fill) for fill in nearest))


def _numbers(program: Program) -> Iterator[float]:
    """The finite numbers of bodies, paddings and constant tensors, without 0."""
    found = [number for constant in program.constants.values() for number in constant.values]
    for scope in (scope for _, statement in program.statements for scope in all_scopes(statement)):
        found += [
            *numbers(scope.body),
            *(fill for access in accesses(scope.body) for fill in _fills(access.base)),
        ]
    return (float(number) for number in dict.fromkeys(found) if number.is_real and number != 0)


def _fills(base: Any) -> Iterator[Any]:
    while isinstance(base, Padded):
        yield base.fill
        base = base.base


def _masking(arrays: Mapping[str, Any]) -> Iterator[float]:
    """The largest and the smallest number of arrays of floats, where they occur more than once, as in a mask."""
    for array in _floats(arrays.values()):
        for value in {float(array.max()), float(array.min())} - {0.0}:
            if np.isfinite(value) and np.count_nonzero(array == value) > 1:
                yield value


def _floats(arrays: Iterable[Any]) -> Iterator[Array]:
    return (array for array in map(np.asarray, arrays) if array.dtype.kind == "f" and array.size)


def _wrapped(values: Any, dtype: str) -> Any:
    """Integers of the executor, which are i64, as those of their type, which wrap round."""
    kind = np.dtype(numpy_dtype(dtype))
    return values.astype(kind) if kind.kind in "iu" and values.dtype.kind in "iu" else values
