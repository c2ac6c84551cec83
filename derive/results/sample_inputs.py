"""Random inputs on which candidates are checked and timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from einalg.language.analysis.compile_time import is_weight
from einalg.language.ir.dtypes import bounds, is_float, numpy_dtype
from einalg.language.ir.program import Program
from einalg.language.ir.tensor import Tensor
from einalg.runtime.clock import check_time

Arrays = dict[str, Any]
SMALL_INTEGERS = {"b": (0, 2), "u": (0, 5)}  # from, to, by the first letter of a dtype
SIGNED_INTEGERS = (-4, 5)
MAX_HALVINGS = 8  # of inputs for which results are too large, or too sensitive
LARGEST = {"f64": 1e300, "f32": 1e36, "bf16": 1e36, "f16": 3e4}  # that is no infinity when rounded


class InputSample(NamedTuple):
    """Arrays of inputs, and the outputs that are right for them."""

    arrays: Arrays
    expected: Arrays


def sample_inputs(program: Program, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return random inputs of the right shapes and dtypes: normal floats, small integers."""
    return _samples(program.inputs, seed)


def _samples(tensors: Mapping[str, Tensor], seed: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, tensor in tensors.items():
        check_time()
        arrays[name] = _sample(rng, tensor).astype(numpy_dtype(tensor.dtype))
    return arrays


def inputs_with_values(
    program: Program,
    inputs: Mapping[str, Tensor],
    reference: Callable[[Arrays], Arrays],
    seed: int = 0,
) -> InputSample:
    """Return random arrays of inputs, and what a function of inputs gives for them: values of the
    outputs of a program, and of other statements of it.

    Where outputs are not finite, no integer among the inputs is 0, by which it may be divided.
    Where values are too large for their types, the inputs are smaller. Raises `OutOfTime` between
    two steps where the time for the work under way is over.
    """
    arrays: Arrays = _samples(inputs, seed)
    check_time()
    expected = reference(arrays)
    if not all(np.isfinite(expected[name]).all() for name in program.outputs):
        arrays = {name: _without_zeros(array) for name, array in arrays.items()}
        check_time()
        expected = reference(arrays)
    if not _overflows(program, expected):
        return InputSample(arrays, expected)
    for smaller in _smaller_inputs(arrays, seed):
        values = reference(smaller)
        if not _overflows(program, values):
            return InputSample(smaller, values)
    return InputSample(
        arrays, expected
    )  # numbers of the program are too large, whatever the inputs


def steadier_sample(
    sample: InputSample,
    reference: Callable[[Arrays], Arrays],
    rounding_error: Callable[[InputSample], float],
    limit: float,
    seed: int = 0,
) -> InputSample | None:
    """Return smaller inputs on which rounding makes an error of at most `limit`.

    None where that of the sample is no larger, or where none are found. Of steps that each enlarge
    the error of the one before, as those of a recurrence with large weights, equal programs give
    other values, all of them right. `rounding_error` is that of the outputs which the reference has
    in the types of its program.
    """
    if rounding_error(sample) <= limit:
        return None
    for arrays in _smaller_inputs(sample.arrays, seed):
        smaller = InputSample(arrays, reference(arrays))
        if rounding_error(smaller) <= limit:
            return smaller
    return None


def _smaller_inputs(arrays: Arrays, seed: int = 0) -> Iterator[Arrays]:
    """Yield inputs that are smaller and smaller, a few times.

    Raises `OutOfTime` between two of them where the time for the work under way is over.
    """
    rng = np.random.default_rng(seed)
    for _ in range(MAX_HALVINGS):
        arrays = {name: _smaller(rng, array) for name, array in arrays.items()}
        check_time()
        yield arrays


def _without_zeros(array: Any) -> Any:
    """Return integers with 1 for 0, and other numbers as they are."""
    if array.dtype.kind not in "iu":
        return array
    return np.where(array == 0, 1, array).astype(array.dtype)


def _overflows(program: Program, results: Mapping[str, Any]) -> bool:
    """Tell whether finite results of statements are too large for their types."""
    for name, values in results.items():
        sizes = np.abs(values)
        if (sizes[np.isfinite(sizes)] > _largest(program[name].dtype)).any():
            return True
    return False


def _largest(dtype: str) -> float:
    """Return the largest size of a result that does not overflow."""
    if is_float(dtype):
        return LARGEST[dtype]
    return np.inf if dtype == "bool" else bounds(dtype)[1]


def _smaller(rng: np.random.Generator, array: Any) -> Any:
    """Return half of floats and of integers, of which none becomes 0; where no integer is above 1,
    random ones do, if there is a 0 among them already.
    """
    if array.dtype.kind == "f":
        return array / 2
    if array.dtype.kind not in "iu":
        return array
    sizes = np.abs(array)
    if (sizes > 1).any():
        return (np.sign(array) * np.maximum(sizes // 2, sizes > 0)).astype(array.dtype)
    if array.all():
        return array
    return np.where(rng.integers(0, 2, array.shape), array, 0).astype(array.dtype)


def by_role(program: Program, arrays: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
    """Return the arrays of a program's weights, and those of its other inputs."""
    weights: Arrays = {}
    inputs: Arrays = {}
    for name, array in arrays.items():
        role = weights if is_weight(program.inputs[name]) else inputs
        role[name] = array
    return weights, inputs


def _sample(rng: np.random.Generator, tensor: Tensor) -> np.ndarray[Any, Any]:
    if is_float(tensor.dtype):
        drawn = np.float64 if tensor.dtype == "f64" else np.float32
        return rng.standard_normal(tensor.shape, drawn)
    low, high = SMALL_INTEGERS.get(tensor.dtype[0], SIGNED_INTEGERS)
    return rng.integers(low, high, tensor.shape)
