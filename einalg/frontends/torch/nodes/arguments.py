"""Arguments of torch operators in the form that einalg's operators expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from einalg.frontends.torch.nodes.registry import NotExpressed
from einalg.language.index.affine import Index
from einalg.language.ir.dtypes import dtype_name, is_float
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
