"""Arithmetic of the executor: what it asks of numbers as a protocol, and NumPy's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import nan, prod
from typing import Any, Protocol

import numpy as np
import sympy

from einalg.errors import NotationError, ShapeError
from einalg.language.conversion import rounded
from einalg.language.interpreters.exact_values import UNDEFINED
from einalg.language.interpreters.numpy.functions import (
    COMPARISONS,
    FUNCTIONS,
    LIMIT_OF_INT64,
    OF_INTEGERS,
    as_float,
    as_number,
)
from einalg.language.ir.dtypes import is_float, numpy_dtype

EXACT_IN_FLOAT64 = 2**53
MOST_BITS = 4096  # of Python's integers
LIMIT_OF_UINT64 = 2**64
Array = np.ndarray[Any, Any]


class Arithmetic(Protocol):
    """The scalars of an execution. Values are NumPy arrays that broadcast against each other, or
    Python scalars.
    """

    def load(self, arrays: Mapping[str, Array], dtypes: Mapping[str, str]) -> dict[str, Array]:
        """Return the inputs as arrays of this arithmetic; `dtypes` are the declared types."""
        ...

    def stored(self, values: Array) -> Array:
        """Return the values of a scope as they are stored and read."""
        ...

    def finish(self, values: Array, dtype: str, exact: bool) -> Array:
        """Return an output as the caller gets it; `dtype` is its declared type, `exact` says that
        no input was a float.
        """
        ...

    def number(self, value: Any) -> Any:
        """Return a SymPy constant (a number, an infinity, a truth value)."""
        ...

    def index(self, values: Any) -> Any:
        """Return integers, the values of index arithmetic."""
        ...

    def add(self, values: Sequence[Any]) -> Any: ...

    def multiply(self, values: Sequence[Any]) -> Any: ...

    def divide(self, numerator: Any, denominator: Any) -> Any: ...

    def power(self, base: Any, exponent: Any) -> Any:
        """Return a power; `exponent` is a Python int, a SymPy Rational, or an array of integers."""
        ...

    def function(self, function: type, values: Sequence[Any]) -> Any:
        """Return a SymPy function of values, or `sympy.Pow` with an exponent that is an element."""
        ...

    def compare(self, relation: type, left: Any, right: Any) -> Any: ...

    def select(self, condition: Any, value: Any, otherwise: Any) -> Any: ...

    def reduce(self, op: str, values: Array, axes: tuple[int, ...], mask: Array | None) -> Array:
        """Return Sum, Prod, Max or Min over `axes`, which disappear; only points of `mask`, which
        has the shape of `values`.
        """
        ...

    def combine(self, op: str, left: Any, right: Any) -> Any:
        """Combine two results of one reduction over disjoint parts."""
        ...

    def reduced(self, op: str, value: Any) -> Any:
        """Return the result of a reduction under a condition once all its parts are combined."""
        ...

    def matmul(self, left: Array, right: Array) -> Array:
        """Return a batch of matrix products of finite values."""
        ...

    def finite(self, values: Any) -> bool:
        """Return whether 0 times every value is 0."""
        ...


class FloatArithmetic:
    """NumPy's own: float32 or float64 for floats, int64 for integers, IEEE infinities and NaN.
    Arrays with larger integers hold Python's; outputs of integers have 64 bits, and wrap round.
    """

    def load(self, arrays: Mapping[str, Array], dtypes: Mapping[str, str]) -> dict[str, Array]:
        exact = is_exact(arrays)
        return {name: _loaded(name, array, dtypes[name], exact) for name, array in arrays.items()}

    def stored(self, values: Array) -> Array:
        return values

    def finish(self, values: Array, dtype: str, exact: bool) -> Array:
        values = _in_numpy(values, dtype)
        if exact or not is_float(dtype):
            return values
        values = values.astype(numpy_dtype(dtype), copy=False)
        if dtype == "bf16":  # which NumPy has no type for
            return np.asarray(rounded(values, dtype))
        return values

    def number(self, value: Any) -> Any:
        if value is sympy.true or value is sympy.false:
            return bool(value)
        if value.is_Integer:
            return as_number(int(value))
        return nan if value in UNDEFINED else float(value)

    def index(self, values: Any) -> Any:
        return values

    def add(self, values: Sequence[Any]) -> Any:
        if len(values) == 1:
            return values[0]
        return _sum(list(map(as_number, _in_one_precision(values))))

    def multiply(self, values: Sequence[Any]) -> Any:
        if len(values) == 1:
            return values[0]
        return _product(list(map(as_number, _in_one_precision(values))))

    def divide(self, numerator: Any, denominator: Any) -> Any:
        if _has_long(numerator, denominator):
            numerator, denominator = as_floats([numerator, denominator])
        return np.true_divide(as_number(numerator), as_number(denominator))

    def power(self, base: Any, exponent: Any) -> Any:
        base = as_number(base)
        if isinstance(exponent, sympy.Rational):
            return _root_power(as_float(base), exponent)
        if np.min(exponent) < 0:
            base = as_float(base)
        times = int(np.max(exponent))
        (base,) = _with_result([base], lambda sizes: _power_of(max(sizes), times))
        if isinstance(exponent, int) and exponent == 2:
            return np.square(base)
        return np.power(base, exponent)

    def function(self, function: type, values: Sequence[Any]) -> Any:
        if function is sympy.Pow:
            base, exponent = map(as_number, values)
            if np.asarray(exponent).dtype.kind in "iu":
                return self.power(base, exponent)
            return np.power(as_float(base), exponent)
        if function not in FUNCTIONS:
            raise NotationError(
                f"the executor has no value for {function.__name__}\n"
                "  write it with functions of the notation: exp, log, erf, …"
            )
        operands = _in_one_precision(list(map(as_number, values)))
        if function in OF_INTEGERS:
            operands = _with_result(operands, max)
        elif _has_long(*operands):
            operands = as_floats(operands)
        return as_number(FUNCTIONS[function](*operands))

    def compare(self, relation: type, left: Any, right: Any) -> Any:
        return COMPARISONS[relation](left, right)

    def select(self, condition: Any, value: Any, otherwise: Any) -> Any:
        return np.where(condition, *_in_one_precision([as_number(value), as_number(otherwise)]))

    def reduce(self, op: str, values: Array, axes: tuple[int, ...], mask: Array | None) -> Array:
        values = as_number(values)
        if op in ("Max", "Min"):
            return _extremum(op, values, axes, mask)
        count = prod(values.shape[axis] for axis in axes)
        if op == "Sum":
            total, identity = np.sum, 0
            (values,) = _with_result([values], lambda sizes: max(sizes) * count)
        else:
            total, identity = np.prod, 1
            (values,) = _with_result([values], lambda sizes: _power_of(max(sizes), count))
        if mask is None:
            return as_number(total(values, axis=axes))
        return as_number(total(values, axis=axes, where=mask, initial=identity))

    def combine(self, op: str, left: Any, right: Any) -> Any:
        return PAIRWISE[op]([left, right])

    def reduced(self, op: str, value: Any) -> Any:
        if op in ("Sum", "Prod") or np.asarray(value).dtype.kind != "i":
            return value
        empty = np.equal(value, _identity(op, np.asarray(value).dtype))
        if not empty.any():
            return value
        return np.where(empty, _infinity(op), value)

    def matmul(self, left: Array, right: Array) -> Array:
        if {left.dtype.kind, right.dtype.kind} <= {"i", "O"}:
            return _integer_matmul(left, right)
        return np.matmul(left, right)

    def finite(self, values: Any) -> bool:
        return np.asarray(values).dtype.kind != "f" or bool(np.isfinite(values).all())


FLOAT = FloatArithmetic()


def is_exact(arrays: Mapping[str, Array]) -> bool:
    """Return whether no input is a float: integers are then computed as integers, and fractions in
    float64.
    """
    return all(array.dtype.kind in "biu" for array in arrays.values())


def _loaded(name: str, array: Array, dtype: str, exact: bool) -> Array:
    if array.dtype.kind not in "biuf":
        remedy = "pass an array of numbers, or use einalg.evaluate for fractions"
        raise ShapeError(
            f"{name} holds {array.dtype}, which the executor cannot compute with\n  {remedy}"
        )
    if array.dtype == np.bool_ and dtype == "bool":
        return array
    if array.dtype.kind in "biu" and (exact or not is_float(dtype)):
        if array.dtype.kind == "u" and _largest(array) >= LIMIT_OF_INT64:
            return array.astype(object)
        return array.astype(np.int64, copy=False)
    wide = dtype == "f64" or not is_float(dtype)
    return array.astype(np.float64 if wide else np.float32, copy=False)


def _in_one_precision(values: Sequence[Any]) -> Sequence[Any]:
    """Return values with all floats in the widest type of these: constants take the type of what
    they meet first. Beside floats, Python's integers are floats as well.
    """
    arrays = [value for value in values if isinstance(value, (np.ndarray, np.generic))]
    floats = {array.dtype for array in arrays if array.dtype.kind == "f"}
    if _has_long(*values) and (floats or any(isinstance(value, float) for value in values)):
        values = list(map(_without_long, values))
        return _in_one_precision(values)
    if len(floats) < 2:
        return values
    widest = np.result_type(*floats)
    results = []
    for value in values:
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "f":
            results.append(value.astype(widest, copy=False))
        else:
            results.append(value)
    return results


def _has_long(*values: Any) -> bool:
    """Return whether some values are Python's integers in an array."""
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "O" for value in values)


def _without_long(values: Any) -> Any:
    if not _has_long(values):
        return values
    if not values.ndim:
        return float(as_float(values))
    return as_float(values)


def _in_numpy(values: Array, dtype: str) -> Array:
    """Return Python's integers in a type of NumPy: of 64 bits where one holds all of them, else as
    those of `dtype`, of 64 bits, which wrap round, or as floats.
    """
    if not _has_long(values):
        return values
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if low >= -LIMIT_OF_INT64 and high < LIMIT_OF_INT64:
        return values.astype(np.int64)
    is_signed = not dtype.startswith("u")
    if low < 0 or high >= LIMIT_OF_UINT64 or is_signed:
        if is_float(dtype):
            return as_float(values)
        values = np.asarray(values % LIMIT_OF_UINT64, object)  # of no axes, it is a number
    wrapped = values.astype(np.uint64)
    if is_signed:
        return wrapped.astype(np.int64)
    return wrapped


def _root_power(base: Array, exponent: Any) -> Any:
    if exponent.q == 2 and abs(exponent.p) == 1:
        root = np.sqrt(base)
        return root if exponent.p > 0 else 1 / root
    return np.power(base, float(exponent))


def _extremum(op: str, values: Array, axes: tuple[int, ...], mask: Array | None) -> Array:
    take = np.max if op == "Max" else np.min
    if mask is None:
        return take(values, axis=axes)
    identity = _identity(op, values.dtype)
    if values.dtype.kind == "i" and (values == identity).any():
        values, identity = values.astype(object), _infinity(op)
    result = take(values, axis=axes, where=mask, initial=identity)
    if values.dtype.kind == "O" and not mask.any(axis=axes).all():
        return as_float(result)
    return result


def _sum(terms: Sequence[Any]) -> Any:
    return as_number(reduce(np.add, _with_result(terms, sum)))


def _product(factors: Sequence[Any]) -> Any:
    return as_number(reduce(np.multiply, sorted(_with_result(factors, prod), key=np.size)))


PAIRWISE: dict[str, Callable[[Sequence[Any]], Any]] = {
    "Sum": _sum,
    "Prod": _product,
    "Max": lambda values: np.maximum(*values),
    "Min": lambda values: np.minimum(*values),
}


def _identity(op: str, dtype: Any) -> Any:
    """Return the extremum of no values: an infinity, or the integer that stands for it until the
    whole reduction is known.
    """
    if dtype.kind in "fO":
        return _infinity(op)
    limits = np.iinfo(dtype)
    return limits.min if op == "Max" else limits.max


def _infinity(op: str) -> float:
    return -np.inf if op == "Max" else np.inf


def _integer_matmul(left: Array, right: Array) -> Array:
    """Multiply matrices of integers: through float64 and BLAS where no sum can leave 2**53, else by
    NumPy's integer product.
    """
    bound = _largest(left) * _largest(right) * max(1, left.shape[-1])
    if bound >= LIMIT_OF_INT64:
        return np.matmul(left.astype(object), right.astype(object))
    if bound >= EXACT_IN_FLOAT64:
        return np.matmul(left, right)
    return np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)


def are_exact_as_floats(integers: Array) -> bool:
    """Return whether float64 holds some integers."""
    return _largest(integers) <= EXACT_IN_FLOAT64


def as_integers(values: Any) -> Any:
    """Return floats as integers, where all are integers that float64 holds; others as they are."""
    array = np.asarray(values)
    if array.dtype.kind != "f" or not np.array_equal(array, np.rint(array)):
        return values
    if not np.isfinite(array).all() or _largest(array) > EXACT_IN_FLOAT64:
        return values
    return array.astype(np.int64)


def as_floats(values: Sequence[Any]) -> list[Any]:
    """Return each of some values as a float."""
    return [as_float(as_number(value)) for value in values]


def _with_result(numbers: Sequence[Any], largest: Callable[[list[int]], int]) -> list[Any]:
    """Return the operands of an operation: as Python's integers, or as floats beside floats, where
    that of the integers among them may be none of 64 bits.

    `largest` bounds the size of a result for the sizes of the integers. Results that are too long
    to compute with wrap round.
    """
    arrays = list(map(np.asarray, numbers))
    sizes = [_largest(array) for array in arrays if array.dtype.kind in "biuO"]
    if not sizes or not LIMIT_OF_INT64 <= largest(sizes) < 2**MOST_BITS:
        return list(numbers)
    if any(array.dtype.kind == "f" for array in arrays):
        return as_floats(numbers)
    return [array.astype(object) for array in arrays]


def _power_of(size: int, times: int) -> int:
    """Return the product of equal factors; where it is too long to compute with, one so long."""
    if size > 1 and size.bit_length() * times > MOST_BITS:
        return 2**MOST_BITS
    return size**times


def _largest(values: Array) -> int:
    if not values.size:
        return 0
    return max(int(values.max()), -int(values.min()))
