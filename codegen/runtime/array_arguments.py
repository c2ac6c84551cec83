"""Arrays given by a user, as kernels read them: contiguous, aligned, of the tensor's shape and
type.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.language.ir.dtypes import is_float, numpy_dtype
from einalg.language.ir.tensor import Constant, Tensor
from einalg.language.notation.constant import array_of
from einalg.runtime.direct_call import fits

LOG = logging.getLogger(__name__)
SAID: set[tuple[str, str]] = set()  # types of arrays, and those that they were converted to
Array = np.ndarray[Any, Any]


def loaded(tensors: Mapping[str, Tensor], arrays: Mapping[str, Any]) -> dict[str, Array]:
    """Every tensor's array; `ShapeError` where one is missing, surplus, misshapen or of a type that
    would lose its values.

    Those of constants are never given: they are what they are.
    """
    constants = {
        name: array_of(tensor) for name, tensor in tensors.items() if isinstance(tensor, Constant)
    }
    inputs = {name: tensor for name, tensor in tensors.items() if name not in constants}
    surplus = sorted(set(arrays) - set(inputs))
    if surplus:
        raise ShapeError(
            f"{surplus[0]} is not an input of the program; the inputs are "
            f"{', '.join(inputs) or 'none'}\n  leave it out"
        )
    missing = [name for name in inputs if name not in arrays]
    if missing:
        raise ShapeError(
            f"no array is given for {missing[0]}, of shape {inputs[missing[0]].shape}\n  "
            f"pass {missing[0]}=array"
        )
    return {**constants, **{name: load(tensor, arrays[name]) for name, tensor in inputs.items()}}


def without_ignored(arrays: Mapping[str, Any], ignored: Mapping[str, Tensor]) -> Mapping[str, Any]:
    """Return the arrays but for those of inputs that a program does not read; `ShapeError` where
    one of these does not fit.
    """
    if ignored.keys().isdisjoint(arrays):
        return arrays
    read: dict[str, Any] = {}
    for name, array in arrays.items():
        if name not in ignored:
            read[name] = array
        elif hasattr(array, "shape"):
            require_shape(ignored[name], tuple(array.shape))
        else:
            load(ignored[name], array)
    return read


class Loader:
    """`loaded` for the inputs of a program, of which no call asks anew what they must be."""

    def __init__(self, tensors: Mapping[str, Tensor]):
        self._tensors = dict(tensors)
        self._kinds = [
            (name, tensor, tensor.shape, numpy_dtype(tensor.dtype))
            for name, tensor in tensors.items()
        ]

    def __call__(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        if arrays.keys() != self._tensors.keys():
            return loaded(self._tensors, arrays)
        fitting = {}
        for name, tensor, shape, dtype in self._kinds:
            value = arrays[name]
            fitting[name] = value if fits(value, shape, dtype) else load(tensor, value)
        return fitting


def load(tensor: Tensor, value: Any) -> Array:
    """One array, copied only where its layout or type is another one.

    >>> load(Tensor("A", (2,), "f32"), [1, 2])
    array([1., 2.], dtype=float32)
    """
    dtype = numpy_dtype(tensor.dtype)
    if fits(value, tensor.shape, dtype):
        return value
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(
            f"{tensor.name} cannot be read as an array: {error}\n"
            f"  give an array of shape {tensor.shape}"
        ) from None
    require_shape(tensor, array.shape)
    _check_type(tensor, array, dtype)
    if hasattr(value, "dtype") and not np.can_cast(array.dtype, dtype):
        _say_once(tensor, array.dtype.name, dtype.name)
    array = np.asarray(array, dtype, order="C")
    return array if array.flags.aligned else array.copy()


def require_shape(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raise `ShapeError` for an array of another shape than the tensor has."""
    if shape != tensor.shape:
        raise ShapeError(
            f"{tensor.name} has shape {tensor.shape}, but an array of shape {shape} is given\n"
            "  pass another, or reshape it"
        )


def _say_once(tensor: Tensor, given: str, wanted: str) -> None:
    """Say that arrays of another type are converted at every call, once for each pair of types."""
    if (given, wanted) in SAID:
        return
    SAID.add((given, wanted))
    LOG.warning(
        "einalg: %s is %s and its array is %s, which every call converts\n"
        "  convert it ahead: %s.astype(%r)",
        *(tensor.name, tensor.dtype, given, tensor.name, wanted),
    )


def _check_type(tensor: Tensor, array: Array, dtype: np.dtype[Any]) -> None:
    array_type = array.dtype
    if array_type.kind in "biuf" and (is_float(tensor.dtype) or np.can_cast(array_type, dtype)):
        return
    if array_type.kind in "biu":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if not array.size or (int(array.min()) >= low and int(array.max()) <= high):
            return
        raise ShapeError(
            f"{tensor.name} has dtype {tensor.dtype}, but the array of dtype {array_type} "
            f"holds values outside [{low}, {high}]\n  give values of the dtype of {tensor.name}"
        )
    raise ShapeError(
        f"{tensor.name} has dtype {tensor.dtype}, but an array of dtype {array_type} is "
        f"given\n  convert it: array.astype({dtype.name!r})"
    )


def sample(tensors: Mapping[str, Tensor], seed: int = 0) -> dict[str, Array]:
    """Random arrays for every tensor but the constants, for timing: floats in [0.5, 1), integers
    from 0 to 3.
    """
    random = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, Constant):
            continue
        dtype = numpy_dtype(tensor.dtype)
        if dtype.kind == "f":
            values = random.random(tensor.shape, np.float32) * 0.5 + 0.5
        else:
            values = random.integers(0, 2 if dtype.kind == "b" else 4, tensor.shape)
        arrays[name] = np.asarray(values, dtype)  # NumPy's numbers of no axes are no arrays
    return arrays
