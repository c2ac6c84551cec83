"""Reading the arguments of operators: what is wrong, and one remedy (design §13).

Messages begin with the name of the argument; the registry puts the name of the operator before
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.conversion import HALVES, converted
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.operators import whole_number
from einalg.language.index.size import (
    Extent,
    as_axis_extent,
    extent_of,
    is_number,
    settled,
)
from einalg.language.ir.dtypes import is_float, promote
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Box, Indexable, padded_box
from einalg.language.scalar_operand import has_sizes_alone

Pair = tuple[Extent, Extent]
NO_FORM = (
    "which are added, and multiplied by numbers\n"
    "  keep the axes apart, or give all but one of the sizes a number: .at(...)"
)


@dataclass(frozen=True)
class ArrayView:
    """A tensor, scope or padded view as an array: subscript 0 is its first element on every axis.

    The padding that an operand comes with is part of it; what `padded` adds lies outside.
    """

    value: Any
    name: str
    box: Box
    is_single: bool = False  # whether elements of 16 bits are read in single precision

    @property
    def shape(self) -> tuple[Extent, ...]:
        return tuple([extent_of(low, high) for low, high in self.box])

    @property
    def rank(self) -> int:
        return len(self.box)

    @property
    def dtype(self) -> str:
        return self.value.dtype

    def __getitem__(self, subscripts: Any) -> Any:
        if not isinstance(subscripts, tuple):
            subscripts = (subscripts,)
        places = []
        for subscript, (low, _) in zip(subscripts, self.box, strict=True):
            places.append(subscript + low)
        element = self.value[tuple(places)]
        if self.is_single:
            return in_single(element)
        return element

    def in_single(self) -> ArrayView:
        """Return the operand with elements of 16 bits read in single precision, in which sums and
        statistics of these are kept; any other as it is.
        """
        return replace(self, is_single=self.dtype in HALVES)

    def padded(self, amounts: Sequence[Pair], fill: Any = 0) -> ArrayView:
        """Return the operand so that it may also be read `(before, after)` elements outside, where
        it holds `fill`.
        """
        if not any(map(any, amounts)):
            return self
        return replace(self, value=self.value.pad(*amounts, fill=fill))


def operand(
    value: Any, name: str, rank: int | None = None, least: int = 0, dtype: str = "number"
) -> ArrayView:
    """Check an argument: `rank` axes exactly, or `least` or more; `dtype` is `"number"` (not bool),
    `"float"` or `"any"`.
    """
    if not isinstance(value, Indexable):
        raise ShapeError(
            f"{name} must be a tensor or a scope, not {type(value).__name__}\n"
            f"  make one: ea.tensor({name!r}, {_shape_text(value)})"
        )
    if isinstance(value, Scope) and value.where:
        # Outside `where` it reads as 0, its value as an output.
        value = value.pad(*(0,) * value.rank)
    view = ArrayView(value, name, padded_box(value))
    _check_rank(view, rank, least)
    if dtype == "float" and not is_float(view.dtype):
        raise ShapeError(
            f"{name} has dtype {view.dtype}; it must be a float\n"
            f"  declare it so: ea.tensor({name!r}, {view.shape}, 'f32')"
        )
    if dtype == "number" and view.dtype == "bool":
        raise ShapeError(
            f"{name} has dtype bool, which has no sum\n"
            f"  declare it as a number: ea.tensor({name!r}, {view.shape}, 'i8')"
        )
    return view


def _shape_text(value: Any) -> str:
    """Return the shape of an array as text, for a remedy."""
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple):
        return "shape"
    return str(tuple(int(size) for size in shape))


def _check_rank(view: ArrayView, rank: int | None, least: int) -> None:
    if rank is None:
        fits, wanted = view.rank >= least, f"at least {least}"
    else:
        fits, wanted = view.rank == rank, str(rank)
    if not fits:
        raise ShapeError(
            f"{view.name} has {view.rank} axes, of sizes {view.shape}; it must have {wanted}\n"
            f"  add or merge axes with a scope: ea.L[i, ...]({view.name}[...])"
        )


def optional_operand(
    value: Any, name: str, shape: tuple[Extent, ...], why: str
) -> ArrayView | None:
    """Check an argument that may be None, else of exactly this shape."""
    if value is None:
        return None
    view = operand(value, name, len(shape))
    expect_shape(view, shape, why)
    return view


def in_type_of(body: Any, *views: ArrayView | None) -> Any:
    """Return a body that was computed in single precision as a number of the type of its operands,
    where that has 16 bits.
    """
    return rounded_to(body, promote(*(view.dtype for view in views if view is not None)))


def rounded_to(body: Any, dtype: str) -> Any:
    """Return a body as a number of a type where that has 16 bits, else as it is."""
    if dtype in HALVES:
        return converted(body, dtype)
    return body


def in_single(element: Access) -> Any:
    """Return an element in single precision where it has 16 bits, else as it is."""
    if element.tensor.dtype in HALVES:
        return converted(element, "f32")
    return element


def expect_shape(view: ArrayView, shape: tuple[Extent, ...], why: str) -> None:
    """Require a shape; `why` says in a few words where it comes from."""
    if view.shape != shape:
        raise ShapeError(
            f"{view.name} has shape {view.shape}; it must be {shape} ({why})\n"
            f"  declare {view.name} with shape {shape}"
        )


def equal_size(sizes: Iterable[tuple[str, Extent]]) -> Extent:
    """Return the one size that several axes share, each given as (description, size)."""
    (first, common), *others = sizes
    for what, size in others:
        if size != common:
            raise ShapeError(
                f"{what} has size {size}, but {first} has size {common}\n  make the two equal"
            )
    return common


def is_whole(value: Any) -> bool:
    """Return whether `value` is an integer of Python or NumPy, and no truth value."""
    return whole_number(value) is not None


def whole(value: Any, name: str, least: int) -> int:
    """Return an integer of at least `least`."""
    if not is_whole(value) or int(value) < least:
        raise ShapeError(
            f"{name} must be an integer of at least {least}, not {value!r}\n"
            f"  e.g. {name}={max(least, 1)}"
        )
    return int(value)


def size_of_axis(value: Any, name: str) -> Extent:
    """Return the size of an axis: an integer, or a form of symbolic sizes; a word is the size of
    that name.
    """
    extent = as_axis_extent(value)
    if extent is None and isinstance(value, sympy.Expr) and has_sizes_alone(value):
        raise ShapeError(f"{name} has {value}: {value} is no form of sizes, {NO_FORM}")
    if extent is None:
        raise ShapeError(f"{name} must be an integer, not {value!r}\n  e.g. {name}=1")
    return extent


def product(sizes: Iterable[Extent]) -> Extent:
    """Return a product of sizes, at most one of which is symbolic."""
    total: Any = 1
    for size in sizes:
        if not is_number(total) and not is_number(size):
            raise ShapeError(
                f"the product of the symbolic sizes {total} and {size} is no form of sizes, "
                f"{NO_FORM}"
            )
        total = total * size
    return settled(total)


def is_multiple(size: Extent, number: int) -> bool:
    """Return whether a size is a multiple of a number, whatever its symbolic sizes.

    >>> import einalg as ea
    >>> is_multiple(6, 3), is_multiple(2*ea.size("N", multiple_of=3) + 6, 6)
    (True, True)
    """
    if is_number(size):
        return size % number == 0
    form = size.as_affine()
    for atom, coefficient in form.terms:
        if coefficient * getattr(atom, "multiple_of", 1) % number:
            return False
    return form.const % number == 0


def times(size: Extent, part: Extent) -> int | None:
    """Return how many times a size is another one, whatever the symbolic sizes; None where that is
    no whole number, or depends on them.

    >>> import einalg as ea
    >>> N = ea.size("N")
    >>> times(6, 3), times(4*N + 2, 2*N + 1), times(N, N), times(N + 1, N)
    (2, 2, 1, None)
    """
    of_size, of_part = _leading(size), _leading(part)
    if not of_part or of_size % of_part or of_size // of_part < 1:
        return None
    number = of_size // of_part
    return number if settled(affine(part * number) - size) == 0 else None


def _leading(size: Extent) -> int:
    """Return the first coefficient of a size, or the number that it is."""
    if is_number(size):
        return size
    form = size.as_affine()
    return form.terms[0][1] if form.terms else form.const


def per_axis(value: Any, name: str, axes: Sequence[str], least: int) -> tuple[int, ...]:
    """Return an integer for every axis, given as one for all or as one for each."""
    if is_whole(value):
        return (whole(value, name, least),) * len(axes)
    _one_entry_an_axis(value, name, axes, f"{name}={max(least, 1)}")
    return tuple(whole(v, name, least) for v in value)


def pair_per_axis(value: Any, name: str, axes: Sequence[str]) -> tuple[Pair, ...]:
    """Return `(before, after)` for every axis, given as one number, or for each axis as a number or
    a pair.
    """
    if is_whole(value):
        return (_pair(value, name),) * len(axes)
    _one_entry_an_axis(value, name, axes, f"{name}={((1, 0),) * len(axes)}")
    return tuple(_pair(entry, name) for entry in value)


def _one_entry_an_axis(value: Any, name: str, axes: Sequence[str], example: str) -> None:
    if not isinstance(value, (tuple, list)) or len(value) != len(axes):
        raise ShapeError(
            f"{name} must be one integer, or one entry for each of the axes "
            f"{', '.join(axes)}, not {value!r}\n"
            f"  e.g. {example}"
        )


def _pair(entry: Any, name: str) -> Pair:
    if is_whole(entry):
        return whole(entry, name, 0), whole(entry, name, 0)
    if not isinstance(entry, (tuple, list)) or len(entry) != 2:
        raise ShapeError(
            f"{name} takes for an axis a number or (before, after), not {entry!r}\n  e.g. (1, 0)"
        )
    return whole(entry[0], name, 0), whole(entry[1], name, 0)


def spans(indices: Iterable[Index], sizes: Iterable[Extent]) -> tuple[slice, ...]:
    """Return ranges from 0 for the brackets of `L` and `Sum`."""
    ranges = []
    for index, size in zip(indices, sizes, strict=True):
        ranges.append(slice(index, size))
    return tuple(ranges)
