"""Symbolic sizes: names for the extents of axes, of which a program has every value (design §14).

A size is an atom of affine forms, as an index is, and it belongs to no range: bounds of ranges,
shapes and amounts of padding may be forms of sizes, and so may subscripts. To isl it is a
parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from sympy import Symbol

from einalg.errors import NotationError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.bounds import number_interval
from einalg.language.index.identifiers import index_name
from einalg.language.index.operators import IndexArithmetic, whole_number
from einalg.options import checked, optional, shown, text, whole

Extent = Any  # an integer, or an affine form of sizes


class Size(Index):
    """A named whole number of at least `at_least`, at most `at_most` (None: no bound), and a
    multiple of `multiple_of`; `ea.size` makes one.

    >>> N = Size("N")
    >>> 2*N + 1, N//2
    (2*N + 1, N//2)
    """

    __slots__ = ("at_least", "at_most", "multiple_of")
    is_size = True
    at_least: int
    at_most: int | None
    multiple_of: int

    def __new__(
        cls, name: str, at_least: int = 1, at_most: int | None = None, multiple_of: int = 1
    ) -> Size:
        return _size(str(name), at_least, at_most, multiple_of)

    def __getnewargs_ex__(self) -> tuple[Any, dict[str, Any]]:
        return (self.name, self.at_least, self.at_most, self.multiple_of), {}

    __hash__ = Index.__hash__

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        if isinstance(other, Index):
            return other.is_size and self.sort_tuple == other.sort_tuple
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _hashable_content(self) -> tuple[Any, ...]:
        return self.sort_tuple

    @property
    def sort_tuple(self) -> tuple[Any, ...]:
        at_most = -1 if self.at_most is None else self.at_most
        return (3, self.name, self.at_least, at_most, self.multiple_of)

    def holds(self, value: int) -> bool:
        """Return whether the size may be `value`."""
        if value < self.at_least or value % self.multiple_of:
            return False
        return self.at_most is None or value <= self.at_most

    @property
    def smallest(self) -> int:
        """The smallest value that it may have."""
        return -(-self.at_least // self.multiple_of) * self.multiple_of

    @property
    def bounds_text(self) -> str:
        """The values that it may have, in words: `at least 1`."""
        text = f"at least {self.at_least}"
        if self.at_most is not None:
            text += f" and at most {self.at_most}"
        if self.multiple_of > 1:
            text += f", a multiple of {self.multiple_of}"
        return text


@lru_cache(maxsize=4096)
def _size(name: str, at_least: int, at_most: int | None, multiple_of: int) -> Size:
    node = Symbol.__xnew__(Size, index_name(name), extended_real=True)
    node.at_least, node.at_most, node.multiple_of = at_least, at_most, multiple_of
    return node


@checked(
    name=text("N", NotationError),
    at_least=whole().raising(NotationError),
    at_most=optional(whole()).raising(NotationError),
    multiple_of=whole(1).raising(NotationError),
)
def size(name: str, at_least: int = 1, at_most: int | None = None, multiple_of: int = 1) -> Size:
    """A symbolic size: a whole number of which an expression has every value from `at_least` to
    `at_most` (None: no bound) that is a multiple of `multiple_of`.

    It stands in shapes, in ranges and, with whole coefficients, in subscripts; the text `"N"` in a
    shape is `ea.size("N")`. `expression.at(N=8)` is the expression of that size, and `ea.prove`
    decides for all sizes at once. Raises `NotationError` for a name that is no word, or for bounds
    that no number meets.

    >>> import einalg as ea
    >>> N = ea.size("N", at_least=2)
    >>> i, k = ea.indices("i k")
    >>> A = ea.tensor("A", (N,))
    >>> ea.L[i:N - 1](A[i] + A[i + 1])
    L[i:N - 1](A[i] + A[i + 1])
    """
    made = Size(name, at_least, at_most, multiple_of)
    if at_most is not None and made.smallest > at_most:
        raise NotationError(
            f"size {name} has no value: no multiple of {shown(multiple_of)} is from "
            f"{shown(at_least)} to {shown(at_most)}\n"
            "  give wider bounds"
        )
    return made


def settled(value: Any) -> Extent:
    """Return a form without sizes as the integer that it is; anything else as it is."""
    if isinstance(value, Affine) and not value.terms:
        return value.const
    return value


def extent_of(low: Extent, high: Extent) -> Extent:
    """Return the number of elements of a half-open range."""
    if type(low) is int and low == 0 and isinstance(high, (int, Affine)):
        return settled(high)
    extent = high - low
    return extent if type(extent) is int else settled(extent)


def as_extent(value: Any) -> Extent | None:
    """Return a whole number as an int, a form of sizes as such; None for any other value.

    >>> as_extent(3), as_extent(Size("N") - 1), as_extent(Index("i"))
    (3, N - 1, None)
    """
    number = whole_number(value)
    if number is not None:
        return number
    if isinstance(value, IndexArithmetic):
        form = value.as_affine()
        if not form.indices:
            return settled(form)
    return None


def as_axis_extent(value: Any) -> Extent | None:
    """Return the extent of an axis: as `as_extent`, and a word as the size of that name."""
    if isinstance(value, str) and value.isidentifier():
        return settled(Size(value).as_affine())
    return as_extent(value)


def as_typed(extent: Extent) -> int | str | None:
    """Return an extent as it is typed in a shape; None for one that has no such text.

    >>> as_typed(3), as_typed(as_axis_extent("N")), as_typed(Size("N") + 1)
    (3, 'N', None)
    """
    if is_number(extent):
        return extent
    size = extent.as_affine().as_atom()
    return size.name if isinstance(size, Size) and size == Size(size.name) else None


def is_number(extent: Extent) -> bool:
    """Return whether an extent has no sizes."""
    return type(extent) is int or not isinstance(extent, IndexArithmetic)


class _OrderedExtent(tuple[Any, ...]):
    """An extent with sizes among numbers, after all of which it comes."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return not isinstance(other, int) and tuple.__lt__(self, other)

    def __gt__(self, other: Any) -> bool:
        return isinstance(other, int) or tuple.__gt__(self, other)


def ordered_extent(extent: Extent) -> Any:
    """Return a number as it is, and any other extent as what can be ordered among numbers; equal
    exactly for equal extents.

    >>> sorted([7, ordered_extent(Size("N") + 1), 2])[:2]
    [2, 7]
    """
    return extent if is_number(extent) else _OrderedExtent(extent.as_affine().sort_tuple)


def sizes_in(extents: Iterable[Extent]) -> set[Size]:
    """Return the sizes that occur in some extents."""
    sizes: set[Size] = set()
    for extent in extents:
        if isinstance(extent, IndexArithmetic):
            sizes |= extent.as_affine().sizes
    return sizes


def by_name(sizes: Iterable[Size]) -> dict[str, Size]:
    """Return sizes by name, sorted."""
    ordered = sorted(sizes, key=lambda size: size.sort_tuple)
    return {size.name: size for size in ordered}


def at_sizes(extent: Extent, values: Mapping[Any, Affine]) -> Extent:
    """Return an extent with numbers in the places of sizes."""
    if isinstance(extent, IndexArithmetic):
        return settled(extent.as_affine().substitute(values))
    return extent


def least(extent: Extent) -> float:
    """Return a lower bound of an extent over all sizes; the extent itself where it has none."""
    return extent if type(extent) is int else number_interval(extent)[0]


def largest(extent: Extent) -> float:
    """Return an upper bound of an extent over all sizes; the extent itself where it has none."""
    return extent if type(extent) is int else number_interval(extent)[1]


def is_always_at_most(one: Extent, two: Extent) -> bool:
    """Return whether an extent is at most another one whatever their sizes.

    >>> N = Size("N")
    >>> is_always_at_most(1, N), is_always_at_most(N, 2*N), is_always_at_most(2, N)
    (True, True, False)
    """
    return least(two - one) >= 0


def is_always_negative(extent: Extent) -> bool:
    """Return whether an extent is below 0 whatever its sizes."""
    return largest(extent) < 0


def check_names(sizes: Iterable[Size]) -> None:
    """Raise `NotationError` where two sizes of one name have different bounds."""
    known: dict[str, Size] = {}
    for one in sorted(sizes, key=lambda size: size.sort_tuple):
        other = known.setdefault(one.name, one)
        if other != one:
            raise NotationError(
                f"two sizes are called {one.name}: of {other.bounds_text}, "
                f"and of {one.bounds_text}\n"
                f"  use one size for all: {one.name} = ea.size({one.name!r}, ...)"
            )
