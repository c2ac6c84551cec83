"""Arrays for the inputs of an expression: plain random numbers and the values at which code tends
to fail, in memory as NumPy makes it and otherwise.

The kinds of values are names, so that an array is a name, a seed and a tensor: these shrink, are
told apart in a report, and fit an input of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from einalg.language.conversion import rounded
from einalg.language.ir.dtypes import bounds, is_float, numpy_dtype
from einalg.language.ir.tensor import Tensor

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
PARTS = 8  # of 1, which fractions count: such numbers are exact in every type of floats
WHOLE = 9  # up to which random integers go
LARGE = {"f16": 20.0}  # of which an exponential overflows, and a square does not
SMALL = 2.0**-10
OFFSET = 8.0
ONE_IN = 8  # elements is NaN or infinite, where some are
FAR_INTEGER = 1000  # of types of 32 and 64 bits, of which a few products fit in the type


def _fractions(rng: Generator, shape: Any, dtype: str) -> Any:
    return rng.integers(-2 * PARTS, 2 * PARTS + 1, shape) / PARTS


def _normal(rng: Generator, shape: Any, dtype: str) -> Any:
    return rng.standard_normal(shape)


def _whole(rng: Generator, shape: Any, dtype: str) -> Any:
    return rng.integers(-3, 4, shape)


def _positive(rng: Generator, shape: Any, dtype: str) -> Any:
    return rng.integers(1, 2 * PARTS + 1, shape) / PARTS


def _below_one(rng: Generator, shape: Any, dtype: str) -> Any:
    return rng.integers(1 - PARTS, PARTS, shape) / PARTS


def _ties(rng: Generator, shape: Any, dtype: str) -> Any:
    return rng.integers(0, 2, shape)


def _constant(value: float) -> Callable[..., Any]:
    return lambda rng, shape, dtype: np.full(shape, value)


def _large(rng: Generator, shape: Any, dtype: str) -> Any:
    return LARGE.get(dtype, 1000.0) * rng.choice([-1.0, -0.5, 0.0, 1.0, 1.0], shape)


def _offset(rng: Generator, shape: Any, dtype: str) -> Any:
    return OFFSET + _fractions(rng, shape, dtype)


def _small(rng: Generator, shape: Any, dtype: str) -> Any:
    return SMALL * _fractions(rng, shape, dtype)


def _mixed(rng: Generator, shape: Any, dtype: str) -> Any:
    far = LARGE.get(dtype, 1000.0) / 2
    return rng.choice([0.0, -0.0, 1.0, -1.0, far, -far, SMALL, -SMALL, 0.5], shape)


FLOATS: dict[str, Callable[..., Any]] = {
    "fractions": _fractions,
    "normal": _normal,
    "whole numbers": _whole,
    "zeros": _constant(0.0),
    "ones": _constant(1.0),
    "positive": _positive,
    "below 1": _below_one,
    "ties": _ties,
    "negative zeros": _constant(-0.0),
    "all -1": _constant(-1.0),
    "mixed": _mixed,
    "small": _small,
    "large": _large,
    "far from 0": _offset,
}


def _integers(rng: Generator, shape: Any, dtype: str) -> Any:
    low, high = _limits(dtype)
    return rng.integers(max(low, -WHOLE), min(high, WHOLE) + 1, shape)


def _far_integers(rng: Generator, shape: Any, dtype: str) -> Any:
    low, high = _limits(dtype)
    return rng.integers(low, high + 1, shape)


def _largest(rng: Generator, shape: Any, dtype: str) -> Any:
    return np.full(shape, _limits(dtype)[1])


def _smallest(rng: Generator, shape: Any, dtype: str) -> Any:
    return np.full(shape, _limits(dtype)[0])


def _limits(dtype: str) -> tuple[int, int]:
    """Return the numbers up to which inputs of a type go."""
    low, high = bounds(dtype)
    if high < 2**16:
        return low, high
    return max(low, -FAR_INTEGER), FAR_INTEGER


def _with_nan(rng: Generator, shape: Any, dtype: str) -> Any:
    return _with(rng, _fractions(rng, shape, dtype), [np.nan])


def _with_infinities(rng: Generator, shape: Any, dtype: str) -> Any:
    return _with(rng, _fractions(rng, shape, dtype), [np.inf, -np.inf])


def _with_all(rng: Generator, shape: Any, dtype: str) -> Any:
    return _with(rng, _fractions(rng, shape, dtype), [np.nan, np.inf, -np.inf])


def _with(rng: Generator, array: Any, numbers: Sequence[float]) -> Any:
    """Return an array with some of these numbers at a few places, at one place at least."""
    array = np.array(array, float)
    if array.size:
        places = rng.choice(array.size, 1 + array.size // ONE_IN, replace=False)
        array.reshape(-1)[places] = rng.choice(numbers, len(places))
    return array


NONFINITE: dict[str, Callable[..., Any]] = {
    "with NaN": _with_nan,
    "with infinities": _with_infinities,
    "with NaN and infinities": _with_all,
}
INTEGERS: dict[str, Callable[..., Any]] = {
    "whole numbers": _integers,
    "zeros": _constant(0),
    "ones": _constant(1),
    "ties": _ties,
    "far from 0": _far_integers,
    "largest": _largest,
    "smallest": _smallest,
}


def kinds(dtype: str, nonfinite: bool = False) -> tuple[str, ...]:
    """Return the names of the kinds of values of an element type, the plainest first; those with
    NaN and infinities, which only floats have, if `nonfinite`.

    >>> kinds("u8")
    ('whole numbers', 'zeros', 'ones', 'ties', 'far from 0', 'largest', 'smallest')
    """
    if dtype == "bool":
        return ("ties", "zeros", "ones")
    if not is_float(dtype):
        return tuple(INTEGERS)
    return (*FLOATS, *NONFINITE) if nonfinite else tuple(FLOATS)


def values(tensor: Tensor, kind: str, seed: int) -> Array:
    """Return an array for a tensor, of one of the `kinds` of its element type.

    >>> values(Tensor("A", (2, 2), "f32"), "all -1", seed=0)
    array([[-1., -1.],
           [-1., -1.]], dtype=float32)
    """
    table = {**FLOATS, **NONFINITE} if is_float(tensor.dtype) else INTEGERS
    numbers = table[kind](np.random.default_rng(seed), tensor.shape, tensor.dtype)
    array = np.asarray(numbers).astype(numpy_dtype(tensor.dtype))
    return np.asarray(rounded(array, tensor.dtype)).reshape(tensor.shape)


PLAIN = "in order"


def _every_second(array: Array) -> Array:
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def _backwards(array: Array) -> Array:
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def _columns_first(array: Array) -> Array:
    return np.asfortranarray(array)


LAYOUTS: dict[str, tuple[Callable[[Array], Array], str]] = {
    PLAIN: (np.array, "{0}"),
    "columns first": (_columns_first, "np.asfortranarray({0})"),
    "every second element of a row": (_every_second, "np.repeat({0}, 2, axis=-1)[..., ::2]"),
    "backwards in memory": (_backwards, "{0}[..., ::-1].copy()[..., ::-1]"),
}


def in_layout(array: Array, layout: str) -> Array:
    """Return a new array of the same values in one of the `LAYOUTS` of memory.

    >>> in_layout(np.array([1, 2, 3]), "backwards in memory").strides
    (-8,)
    """
    if not array.ndim:
        return np.array(array)
    return LAYOUTS[layout][0](array)
