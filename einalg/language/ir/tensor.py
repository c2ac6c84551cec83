"""Tensors, constant tensors, their padded views, and accesses to them (design §2, §3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import sympy
from sympy import Atom, Basic, Expr, Tuple
from sympy.printing.precedence import PRECEDENCE

from einalg.boundary import public
from einalg.errors import NotationError, ShapeError
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine
from einalg.language.index.identifiers import tensor_name
from einalg.language.index.isl import access_relation
from einalg.language.index.operators import whole_number
from einalg.language.index.size import (
    Extent,
    as_axis_extent,
    as_extent,
    at_sizes,
    by_name,
    extent_of,
    is_always_negative,
    ordered_extent,
    settled,
    sizes_in,
)
from einalg.language.ir.dtypes import dtype_name, holds
from einalg.language.ir.element import Element
from einalg.language.ir.printing.text import number_text
from einalg.language.node import Node
from einalg.language.refusals import NoArray, refusal
from einalg.options import shown

Box = tuple[tuple[Extent, Extent], ...]
ROLES = ("input", "weight", "intermediate")


@public
class Indexable(NoArray):
    """A base that can be subscripted and padded: a tensor, a scope, a padded view. It is not a
    number, a list or a truth value.
    """

    __slots__ = ()
    box: Box
    rank: int
    dtype: str

    def __getitem__(self, subscripts: Any) -> Access:
        if not isinstance(subscripts, tuple):
            subscripts = (subscripts,)
        return Access(self, subscripts)

    def pad(self, *amounts: Any, fill: Any = 0) -> Padded:
        """Return a view that may be read outside its box, where it holds `fill`.

        One entry an axis: a number (both sides) or `(before, after)`. Amounts are elements, not
        bytes.
        """
        return Padded(self, amounts, fill)

    def __setitem__(self, subscripts: Any, value: Any) -> None:
        raise refusal(
            "assignment to an element",
            "name a new expression: O = ea.L[i, j](...), or write a program as text: ea.parse(...)",
        )

    def __bool__(self) -> bool:
        raise refusal(
            "the truth value", "compare with ea.prove(a, b), or with `==` for the same structure"
        )

    def __len__(self) -> int:
        raise refusal("len()", "use .shape[0]")

    def __iter__(self) -> Any:
        raise refusal("iteration", "index it: T[i, j] with i, j = ea.indices('i j')")

    def __contains__(self, _: Any) -> bool:
        raise refusal("`in`", "evaluate it first: ea.evaluate(expr, ...)")

    def _compare(self, _: Any) -> Any:
        raise refusal("an ordering", "compare elements inside a body: T[i] < 0")

    __lt__ = __le__ = __gt__ = __ge__ = _compare

    @property
    def shape(self) -> tuple[Extent, ...]:
        """Extent of each axis in elements, padding not counted: an integer, or a form of sizes."""
        return tuple([extent_of(low, high) for low, high in self.box])


class Tensor(Node, Indexable, Basic):
    """A named array with static shape.

    `axes` is a size or a half-open `(low, high)` for each axis, of numbers or forms of sizes;
    `role` is `input`, `weight` (known before run time) or `intermediate` (the value of a statement
    of a program).

    >>> Tensor("A", (8, 224)).shape
    (8, 224)
    """

    __slots__ = ("name", "axes", "dtype", "role")
    _fields = ("name", "axes", "dtype", "role")

    def __new__(
        cls, name: Any, axes: Iterable[Any], dtype: Any = "f32", role: Any = "input"
    ) -> Tensor:
        name, role = tensor_name(str(name)), str(role)
        if role not in ROLES:
            raise NotationError(
                f"{name}: role {role!r} is unknown\n  use one of: {', '.join(ROLES)}"
            )
        box = [_axis(name, k, axis) for k, axis in enumerate(_axes(name, axes))]
        return cls._build(name, tuple(box), dtype_name(dtype), role)

    @property
    def box(self) -> Box:
        """Half-open interval of every axis."""
        return self.axes

    @property
    def rank(self) -> int:
        return len(self.axes)

    @property
    def is_compile_time_constant(self) -> bool:
        """Return whether the values are known before run time: those of weights and of
        constants.
        """
        return self.role in ("weight", "constant")

    @property
    def sizes(self) -> dict[str, Any]:
        """The symbolic sizes in the shape, by name."""
        return by_name(sizes_in(bound for axis in self.axes for bound in axis))

    def at_sizes(self, values: Mapping[Any, Affine]) -> Tensor:
        """Return the tensor with numbers in the places of sizes; the same where it has none."""
        if set(self.sizes.values()).isdisjoint(values):
            return self
        axes = [(at_sizes(low, values), at_sizes(high, values)) for low, high in self.axes]
        return Tensor(self.name, axes, self.dtype, self.role)

    @property
    def kind(self) -> tuple[Any, ...]:
        """The type and all fields but the name."""
        return type(self), *self._hashable_content()[1:]

    def _hashable_content(self) -> tuple[Any, ...]:
        """Return what SymPy compares where it brings operands into an order: their order is that of
        their `args`, which take longer to make.
        """
        name, axes, *rest = [getattr(self, field) for field in self._fields]
        ordered = tuple([(ordered_extent(low), ordered_extent(high)) for low, high in axes])
        return (name, ordered, *rest)

    def _sympystr(self, printer: Any) -> str:
        return self.name


class Constant(Tensor):
    """A tensor that is its `values`: rational numbers in row-major order, exact whatever the dtype;
    `ea.constant` makes one.

    It is never asked for as an input. Two constants are equal where all of name, axes, dtype and
    values are.

    >>> Constant("H", (2,), "f32", (1, sympy.Rational(1, 2))).values
    (1, 1/2)
    """

    __slots__ = ("values",)
    _fields = ("name", "axes", "dtype", "values")
    role = "constant"

    def __new__(
        cls, name: Any, axes: Iterable[Any], dtype: Any = "f32", values: Iterable[Any] = ()
    ) -> Constant:
        plain = Tensor(name, axes, dtype)
        if sizes_in(bound for axis in plain.axes for bound in axis):
            raise ShapeError(
                f"{plain.name}: a constant has a shape of numbers, not {plain.shape}\n"
                "  make it an input: ea.tensor(name, shape, role='weight')"
            )
        numbers = tuple([_rational(plain.name, value) for value in values])
        if len(numbers) != prod(plain.shape):
            wrong = (
                f"{plain.name} of shape {plain.shape} has {prod(plain.shape)} elements, but "
                f"{len(numbers)} values"
            )
            raise ShapeError(f"{wrong}\n  give one value an element")
        for number in numbers:
            if not holds(plain.dtype, number):
                raise NotationError(
                    f"{plain.name}: {number} is no value of dtype {plain.dtype}\n"
                    "  give another dtype, e.g. dtype='f32'"
                )
        return cls._build(plain.name, plain.axes, plain.dtype, numbers)

    def elements(self) -> Iterator[tuple[tuple[int, ...], sympy.Rational]]:
        """Return every point of the box with its value."""
        return zip(product(*(range(low, high) for low, high in self.axes)), self.values)

    def as_dtype(self, dtype: str) -> Constant:
        """Return the same values with another element type."""
        if dtype == self.dtype:
            return self
        return Constant(self.name, self.axes, dtype, self.values)


def _rational(name: str, value: Any) -> Any:
    """Return a value of a constant; a float is the binary fraction that it is."""
    if isinstance(value, sympy.Rational):
        return value
    try:
        if hasattr(value, "denominator"):
            return sympy.Rational(int(value.numerator), int(value.denominator))
        return sympy.Rational(*map(int, value.as_integer_ratio()))
    except (AttributeError, TypeError, ValueError, OverflowError):
        pass
    message = f"{name}: a value of a constant must be a rational number, not {shown(value)}"
    raise NotationError(
        f"{message}\n  e.g. 2, Fraction(1, 3), or 0.5 where that is exactly what is meant"
    )


def _is_data(axes: Any) -> bool:
    """Return whether what should be a shape is an array of anything but sizes."""
    shape: Any = getattr(axes, "shape", None)
    if not isinstance(shape, tuple) or isinstance(axes, Indexable):
        return False
    if len(shape) != 1:
        return len(shape) > 1
    return any(whole_number(size) is None for size in axes)


def _axes(name: str, axes: Any) -> tuple[Any, ...]:
    if _is_data(axes):
        sizes = tuple(int(size) for size in axes.shape)
        raise ShapeError(
            f"{name}: the shape must be a tuple of sizes, not an array\n  give its shape: {sizes}"
        )
    try:
        if not isinstance(axes, (str, bytes, Mapping)):
            return tuple(axes)
    except TypeError:
        pass
    raise ShapeError(
        f"{name}: the shape must be a tuple of sizes, not {shown(axes)}\n"
        "  e.g. (8, 224), and (8,) for one axis"
    )


def _entries(value: Any) -> tuple[Any, ...] | None:
    """Return the entries of a tuple or list, Python's or SymPy's; None for any other value."""
    if isinstance(value, (tuple, list, Tuple)):
        return tuple(value)
    return None


def _axis(name: str, position: int, axis: Any) -> tuple[Extent, Extent]:
    entries = _entries(axis)
    low, high = 0, axis
    if entries is not None and len(entries) == 2:
        low, high = entries
    start, stop = as_axis_extent(low), as_axis_extent(high)
    if start is None or stop is None:
        raise ShapeError(
            f"{name}: size of axis {position} must be a whole number, not {shown(axis)}\n"
            f"  e.g. (8, 224), or ('N', 224) for a symbolic size"
        )
    if is_always_negative(stop - start):
        raise ShapeError(
            f"{name}: size of axis {position} is negative: {stop - start}\n  e.g. (8, 224)"
        )
    return start, stop


class Padded(Node, Indexable, Basic):
    """A view of a tensor or scope that holds `fill` outside its box, up to `amounts` elements
    away.
    """

    __slots__ = ("base", "amounts", "fill")
    _fields = ("base", "amounts", "fill")
    base: Any
    amounts: tuple[tuple[Extent, Extent], ...]
    fill: Any
    is_view = True

    def __new__(cls, base: Any, amounts: Iterable[Any], fill: Any = 0) -> Padded:
        base = ScopeRead.scope_of(base)
        if not isinstance(base, Indexable):
            raise NotationError(
                f"{shown(base)} cannot be padded: it is not a tensor or a scope\n"
                "  pad what is read: A.pad(1)[i]"
            )
        entries = tuple(amounts)
        if len(entries) != base.rank:
            wrong = f"{describe(base)} has {base.rank} axes, but .pad has {len(entries)} entries"
            raise ShapeError(
                f"{wrong}\n  give one entry an axis, 0 for an axis without padding: "
                f".pad({', '.join('0' * base.rank)})"
            )
        pads = [_amount(base, k, entry) for k, entry in enumerate(entries)]
        number = _fill(base, fill)
        if isinstance(base, Padded) and base.fill == number:
            for axis, (before, after) in enumerate(base.amounts):
                pads[axis] = before + pads[axis][0], after + pads[axis][1]
            base = base.base
        return cls._build(base, tuple(pads), number)

    def _seen(self, name: str) -> Any:
        if name == "base":
            return ScopeRead.of(self.base)
        return getattr(self, name)

    @property
    def box(self) -> Box:
        return self.base.box

    @property
    def rank(self) -> int:
        return self.base.rank

    @property
    def dtype(self) -> str:
        return self.base.dtype

    def _sympystr(self, printer: Any) -> str:
        base = printer._print(self.base)
        if self.base.is_scope:
            base = f"({base})"
        entries = [str(a) if a == b else f"({a}, {b})" for a, b in self.amounts]
        if self.fill != 0:
            entries.append(f"fill={number_text(self.fill)}")
        return f"{base}.pad({', '.join(entries)})"


def _fill(base: Any, fill: Any) -> Expr:
    """Return what a padding holds as a number of the dtype of its base."""
    try:
        number = sympy.sympify(fill, strict=True)  # else text would be evaluated
    except (sympy.SympifyError, TypeError, AttributeError):
        number = None
    if not isinstance(number, Expr) or number.free_symbols or not number.is_extended_real:
        raise NotationError(
            f"{describe(base)}.pad: fill must be a number, not {shown(fill)}\n"
            f"  e.g. fill=0, or fill=-inf"
        )
    if number.is_finite and number != 0 and not holds(base.dtype, number):
        raise NotationError(
            f"{describe(base)}.pad: {number_text(number)} is no value of dtype {base.dtype}\n"
            "  give another fill, or cast: ea.ops.cast(A, 'f32')"
        )
    return number


def _amount(base: Any, position: int, entry: Any) -> tuple[Extent, Extent]:
    entries = _entries(entry)
    if entries is None:
        entries = (entry, entry)
    before = after = None
    if len(entries) == 2:
        before, after = map(as_extent, entries)
    if before is None or after is None:
        raise ShapeError(
            f"{describe(base)}.pad: axis {position} takes a number or (before, after), not "
            f"{entry!r}\n  e.g. .pad(1, (0, 2))"
        )
    if is_always_negative(before) or is_always_negative(after):
        raise ShapeError(
            f"{describe(base)}.pad: axis {position} has a negative amount {entry}\n"
            "  to read less, narrow the index instead"
        )
    return before, after


def padded_box(base: Indexable) -> Box:
    """Return the half-open interval of every axis that may be read, padding included."""
    if not isinstance(base, Padded):
        return base.box
    box = []
    for (low, high), (before, after) in zip(padded_box(base.base), base.amounts):
        box.append((settled(low - before), settled(high + after)))
    return tuple(box)


def paddings(base: Indexable) -> Iterator[Padded]:
    """Yield the views through which something is read, the outermost first."""
    while isinstance(base, Padded):
        yield base
        base = base.base


def unpadded(base: Indexable) -> Any:
    """Return the tensor or scope under all views."""
    while isinstance(base, Padded):
        base = base.base
    return base


def describe(base: Any) -> str:
    """Return how an error names what is read: by its name, or as 'the inner scope'."""
    base = unpadded(base)
    if isinstance(base, Tensor):
        return base.name
    return "the inner scope"


class Access(Node, Element, Expr):
    """`base[subscripts]`: one quasi-affine subscript for each axis of a tensor, a scope or a padded
    view.
    """

    __slots__ = ("base", "subscripts")
    base: Any
    subscripts: Any
    _fields = ("base", "subscripts")
    is_access = True
    is_commutative = True
    is_extended_real = True

    def __new__(cls, base: Any, subscripts: Iterable[Any]) -> Access:
        base, entries = ScopeRead.scope_of(base), tuple(subscripts)
        if not isinstance(base, Indexable):
            raise NotationError(
                f"{shown(base)} cannot be indexed: it is not a tensor or a scope\n"
                "  index a tensor or a scope: A[i]"
            )
        if len(entries) != base.rank:
            wrong = (
                f"{describe(base)} has {base.rank} axes, but is indexed with {len(entries)}: "
                f"[{', '.join(map(str, entries))}]"
            )
            raise ShapeError(
                f"{wrong}\n"
                f"  give one subscript an axis: [{', '.join('ijklmnpq'[: base.rank]) or '()'}]"
            )
        return cls.of(base, tuple(affine(s) for s in entries))

    @classmethod
    def of(cls, base: Indexable, subscripts: tuple[Affine, ...]) -> Access:
        """Build without checks, for subscripts that are already in normal form."""
        return cls._build(base, subscripts)

    def _seen(self, name: str) -> Any:
        if name == "base":
            return ScopeRead.of(self.base)
        return getattr(self, name)

    @property
    def free_symbols(self) -> set[Any]:
        return set().union(*(subscript.indices for subscript in self.subscripts))

    @property
    def tensor(self) -> Any:
        """The tensor or scope that is read, without its padding."""
        return unpadded(self.base)

    @property
    def relation(self) -> Any:
        """The `islpy.Map` from the indices that occur (by name, sorted) to the element that is
        read.
        """
        return access_relation(self.free_symbols, self.subscripts)

    @property
    def precedence(self) -> int:
        return PRECEDENCE["Atom"]

    def _sympystr(self, printer: Any) -> str:
        base = printer._print(self.base)
        if self.base.is_scope:
            base = f"({base})"
        return f"{base}[{', '.join(map(str, self.subscripts)) or '()'}]"


class ScopeRead(Atom):
    """A scope where it is read, as SymPy sees it: a whole, for SymPy would move cases of its body
    out of it, away from their indices.
    """

    __slots__ = ("scope",)

    def __new__(cls, scope: Any) -> ScopeRead:
        read = super().__new__(cls)
        read.scope = scope
        return read

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.scope,)

    @staticmethod
    def of(base: Any) -> Any:
        """Return what SymPy sees of the base of a view or access: a scope as a whole, a tensor
        itself.
        """
        if base.is_scope:
            return ScopeRead(base)
        return base

    @staticmethod
    def scope_of(base: Any) -> Any:
        """Return the scope that is read, of what SymPy sees of it; anything else as it is."""
        if isinstance(base, ScopeRead):
            return base.scope
        return base

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.scope,)

    def sort_key(self, order: Any = None) -> Any:
        return self.scope.sort_key(order)

    def _sympystr(self, printer: Any) -> str:
        return printer._print(self.scope)
