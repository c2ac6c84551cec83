"""Arguments of torch operators in the form that einalg's operators expect."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy

from einalg.frontends.torch.nodes.registry import NotExpressed
from einalg.language.conversion import HALVES, rounded
from einalg.language.index.affine import Index
from einalg.language.ir.dtypes import bounds, dtype_name, is_float, promote
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Indexable
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import aligned, result_indices
from einalg.language.ops.definition.operands import ArrayView, operand, spans
from einalg.language.ops.math.cast import cast


def one_or_each(value: Any) -> Any:
    """Return the only entry of a list, which stands for all axes; another list as it is.

    >>> one_or_each([3]), one_or_each([3, 4])
    (3, [3, 4])
    """
    if isinstance(value, (list, tuple)) and len(value) == 1:
        return value[0]
    return value


def axes_or_all(dims: Any) -> Any:
    """Return the axes of a reduction; torch says "all" by None and by an empty list."""
    if not isinstance(dims, (list, tuple)):
        return dims
    return tuple(dims) or None


def number(value: Any, like: Any) -> Any:
    """Return a scalar as a number that leaves the dtype of `like` alone.

    A whole number is an integer next to floats.
    """
    if isinstance(value, Indexable):
        return value
    if not isinstance(value, (bool, int, float)):
        raise NotExpressed(f"{value} is known at run time only")
    if isinstance(value, bool):
        return int(value)
    if is_float(like.dtype) and float(value).is_integer():
        return int(value)
    return value


def number_in_type(value: Any, like: Any) -> Any:
    """Return a scalar converted to the type of `like`, as where it takes the place of an element.

    Integers are rounded towards 0, and what is not 0 is true.
    """
    if isinstance(value, (bool, int, float)) and not is_float(like.dtype):
        if is_boolean(like):
            return int(bool(value))
        return int(value)
    return number(value, like)


def rounded_number(value: Any, like: Any) -> Any:
    """Return a scalar as a number, rounded to the type of `like` where that has 16 bits."""
    value = number(value, like)
    if like.dtype not in HALVES or isinstance(value, Indexable):
        return value
    nearest = float(rounded(np.float32(value), like.dtype))
    if not math.isfinite(nearest) and math.isfinite(value):
        raise NotExpressed(f"{value}, which {like.dtype} does not hold")
    if nearest == value or math.isnan(value):
        return value
    return sympy.Rational(nearest)


def number_of_type(value: Any, like: Any) -> Any:
    """Return a scalar as the number of the type of `like` that torch compares elements with.

    Halves are rounded to their type, and integers wrap round where it does not hold them. A tensor
    without axes takes part in the type of another one, so that its value is not known.
    """
    if isinstance(value, Indexable):
        _require_own_type(value, like)
        return value
    value = rounded_number(value, like)
    if isinstance(value, int) and not is_float(like.dtype) and like.dtype != "bool":
        low, high = bounds(like.dtype)
        return (value - low) % (high - low + 1) + low
    return value


def numbers_beside(values: Sequence[Any], like: Any) -> list[Any]:
    """Return scalars as numbers beside elements; None stays None.

    Integers wrap round where the type of `like` does not hold them, unless another scalar makes
    floats of all.
    """
    numbers: list[Any] = []
    for value in values:
        numbers.append(None if value is None else number(value, like))
    if all(isinstance(value, (int, type(None))) for value in numbers):
        return [None if value is None else number_of_type(value, like) for value in numbers]
    return numbers


def _require_own_type(value: Any, other: Any) -> None:
    """Raise `NotExpressed` for a tensor without axes that torch converts to a narrower type."""
    if not isinstance(other, Indexable) or bool(value.rank) == bool(other.rank):
        return
    alone, full = value, other
    if value.rank:
        alone, full = other, value
    is_same_kind = is_float(alone.dtype) == is_float(full.dtype) and full.dtype != "bool"
    if is_same_kind and promote(alone.dtype, full.dtype) != full.dtype:
        raise NotExpressed(f"a number of {alone.dtype} beside elements of {full.dtype}")


def as_dtype(x: Any, dtype: Any) -> Any:
    """Return `x` in a dtype of torch, or as it is where that is None."""
    if dtype is None:
        return x
    return cast(x, dtype_name(dtype))


def is_boolean(value: Any) -> bool:
    """Return whether an operand holds truth values."""
    return getattr(value, "dtype", None) == "bool"


def truth_as_integers(x: Any) -> Any:
    """Return `x`, as i64 (0 and 1) where it holds truth values."""
    if is_boolean(x):
        return cast(x, "i64")
    return x


def as_float(x: Any) -> Any:
    """Return `x`, as f32 where it holds integers."""
    if is_float(x.dtype):
        return x
    return cast(x, "f32")


def map_scope(scope: Scope, function: Callable[[Any, tuple[Index, ...]], Any]) -> Scope:
    """Return a scope over the same points, with `function(body, indices)` there."""
    return L[spans(scope.indices, scope.shape)](function(scope.body, scope.indices))


def broadcast_element(value: Any, at: Sequence[Index], shape: Sequence[int]) -> Any:
    """Return the element that broadcasting puts at `at`; a number is the same everywhere."""
    if not isinstance(value, Indexable):
        return value
    return aligned(operand(value, "operand", dtype="any"), at, shape)


def map_elements(
    x: Any,
    function: Callable[[ArrayView, tuple[Index, ...]], Any],
    shape: Sequence[int] | None = None,
) -> Scope:
    """Return `L[i…](function(operand, (i, …)))` over the shape of `x`, or another one."""
    view = operand(x, "x", dtype="any")
    size = view.shape
    if shape is not None:
        size = tuple(shape)
    at = result_indices(len(size))
    return L[spans(at, size)](function(view, at))
