"""Arguments of torch operators in the form that einalg's operators take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from einalg.frontends.torch.nodes.registry import NotExpressed
from einalg.language.index.affine import Index
from einalg.language.ir.dtypes import dtype_name, is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Indexable
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import aligned, kept
from einalg.language.ops.definition.operands import ArrayView, operand, spans
from einalg.language.ops.math.cast import cast


def one_or_each(value: Any) -> Any:
    """A list of one entry as that entry, which stands for all axes; another list as it is.

    >>> one_or_each([3]), one_or_each([3, 4])
    (3, [3, 4])
    """
    return value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value


def axes_or_all(dims: Any) -> Any:
    """Axes of a reduction: torch says "all" by None and by no axes."""
    return (
        tuple(dims)
        if isinstance(dims, (list, tuple)) and dims
        else None
        if isinstance(dims, (list, tuple))
        else dims
    )


def number(value: Any, like: Any) -> Any:
    """A scalar as a number that leaves the dtype of `like` alone: a whole one is an integer next to floats."""
    if isinstance(value, Indexable):
        return value
    if not isinstance(value, (bool, int, float)):
        raise NotExpressed(f"{value} is known at run time only")
    if isinstance(value, bool):
        return int(value)
    return int(value) if is_float(like.dtype) and float(value).is_integer() else value


def as_dtype(x: Any, dtype: Any) -> Any:
    """`x` in a dtype given as torch's, or as it is where that is None."""
    return x if dtype is None else cast(x, dtype_name(dtype))


def is_boolean(value: Any) -> bool:
    """Whether an operand holds truth values."""
    return getattr(value, "dtype", None) == "bool"


def truth_as_integers(x: Any) -> Any:
    """`x`, as i64 where it holds truth values: 0 and 1."""
    return cast(x, "i64") if is_boolean(x) else x


def as_float(x: Any) -> Any:
    """`x`, as f32 where it holds integers."""
    return x if is_float(x.dtype) else cast(x, "f32")


def map_scope(scope: Scope, function: Callable[[Any, tuple[Index, ...]], Any]) -> Scope:
    """A scope over the same points, with `function(body, indices)` there."""
    return L[spans(scope.indices, scope.shape)](function(scope.body, scope.indices))


def broadcast_element(value: Any, at: Sequence[Index], shape: Sequence[int]) -> Any:
    """The element that broadcasting puts at `at`, of a tensor or scope; a number is the same everywhere."""
    return (
        aligned(operand(value, "operand", dtype="any"), at, shape)
        if isinstance(value, Indexable)
        else value
    )


def map_elements(
    x: Any,
    function: Callable[[ArrayView, tuple[Index, ...]], Any],
    shape: Sequence[int] | None = None,
) -> Scope:
    """`L[i…](function(operand, (i, …)))` over the shape of `x`, or another one."""
    found = operand(x, "x", dtype="any")
    size = found.shape if shape is None else tuple(shape)
    at = kept(len(size))
    return L[spans(at, size)](function(found, at))
