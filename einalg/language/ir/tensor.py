"""Tensors, constant ones too, their padded views, and accesses to them (design §2, §3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from typing import Any

import sympy
from sympy import Atom, Basic, Expr, Tuple
from sympy.printing.precedence import PRECEDENCE

from einalg.errors import NotationError, ShapeError, UseError
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine
from einalg.language.index.identifiers import tensor_name
from einalg.language.index.isl import access_relation
from einalg.language.index.operators import whole_number
from einalg.language.ir.dtypes import dtype_name, holds
from einalg.language.ir.element import Element
from einalg.language.ir.printing.text import number_text
from einalg.language.node import Node

Box = tuple[tuple[int, int], ...]
ROLES = ("input", "weight", "intermediate")


class Indexable:
    """What can be subscripted and padded: a tensor, a scope, a padded view. It is not a number, a list or a truth value."""

    __slots__ = ()
    __array_ufunc__ = None
    box: Box
    rank: int
    dtype: str

    def __getitem__(self, subscripts: Any) -> Access:
        return Access(self, subscripts if isinstance(subscripts, tuple) else (subscripts,))

    def pad(self, *amounts: Any, fill: Any = 0) -> Padded:
        """A view that may be read outside its box, where it holds `fill`.

        One entry an axis: a number (both sides) or `(before, after)`. Amounts are elements, not bytes.
        """
        return Padded(self, amounts, fill)

    def _misuse(self, what: str, remedy: str) -> UseError:
        return UseError(f"{what} of a tensor expression has no meaning\n  {remedy}")

    def __bool__(self) -> bool:
        raise self._misuse(
            "the truth value", "compare with ea.prove(a, b), or with `==` for the same structure"
        )

    def __len__(self) -> int:
        raise self._misuse("len()", "use .shape[0]")

    def __iter__(self) -> Any:
        raise self._misuse("iteration", "index it: T[i, j] with i, j = ea.indices('i j')")

    def __contains__(self, _: Any) -> bool:
        raise self._misuse("`in`", "evaluate it first: ea.evaluate(expr, ...)")

    def _compare(self, _: Any) -> Any:
        raise self._misuse("an ordering", "compare elements inside a body: T[i] < 0")

    def _arithmetic(self, _: Any) -> Any:
        raise self._misuse("arithmetic", "write it per element: ea.L[i](A[i] + B[i])")

    __lt__ = __le__ = __gt__ = __ge__ = _compare
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = (
        __pow__
    ) = __matmul__ = _arithmetic

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each axis in elements, padding not counted."""
        return tuple(high - low for low, high in self.box)


class Tensor(Node, Indexable, Basic):
    """A named array with static shape.

    `axes` is a size or a half-open `(low, high)` for each axis; `role` is `input`, `weight` (known before run time) or
    `intermediate` (the value of a statement of a program).

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
        return cls._build(
            name,
            tuple(_axis(name, k, axis) for k, axis in enumerate(_axes(name, axes))),
            dtype_name(dtype),
            role,
        )

    @property
    def box(self) -> Box:
        """Half-open interval of every axis."""
        return self.axes

    @property
    def rank(self) -> int:
        return len(self.axes)

    @property
    def is_known(self) -> bool:
        """Whether the values are known before run time: those of weights and of constants."""
        return self.role in ("weight", "constant")

    @property
    def kind(self) -> tuple[Any, ...]:
        """What it is but for its name."""
        return type(self), *(getattr(self, name) for name in self._fields if name != "name")

    def _hashable_content(self) -> tuple[Any, ...]:
        """What SymPy compares where it brings operands into an order: their order is that of their `args`, which take longer to make."""
        return tuple(getattr(self, name) for name in self._fields)

    def _sympystr(self, printer: Any) -> str:
        return self.name


class Constant(Tensor):
    """A tensor that is its `values`: rational numbers in row-major order, exact whatever the dtype; `ea.constant` makes one.

    It is never asked for as an input. Two constants are equal where all of name, axes, dtype and values are.

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
        numbers = tuple(_rational(plain.name, value) for value in values)
        if len(numbers) != prod(plain.shape):
            wrong = f"{plain.name} of shape {plain.shape} has {prod(plain.shape)} elements, but {len(numbers)} values"
            raise ShapeError(f"{wrong}\n  give one value an element")
        misfit = next((n for n in numbers if not holds(plain.dtype, n)), None)
        if misfit is not None:
            raise NotationError(
                f"{plain.name}: {misfit} is no value of dtype {plain.dtype}\n  give another dtype, e.g. dtype='f32'"
            )
        return cls._build(plain.name, plain.axes, plain.dtype, numbers)

    def elements(self) -> Iterator[tuple[tuple[int, ...], sympy.Rational]]:
        """Every point of the box with its value."""
        return zip(product(*(range(low, high) for low, high in self.axes)), self.values)

    def as_dtype(self, dtype: str) -> Constant:
        """The same values with another element type."""
        return self if dtype == self.dtype else Constant(self.name, self.axes, dtype, self.values)


def _rational(name: str, value: Any) -> Any:
    """A value of a constant; a float is the binary fraction that it is."""
    if isinstance(value, sympy.Rational):
        return value
    try:
        exact = hasattr(value, "denominator")
        ratio = (value.numerator, value.denominator) if exact else value.as_integer_ratio()
        return sympy.Rational(*map(int, ratio))
    except (AttributeError, TypeError, ValueError, OverflowError):
        pass
    message = f"{name}: a value of a constant must be a rational number, not {value!r}"
    raise NotationError(
        f"{message}\n  e.g. 2, Fraction(1, 3), or 0.5 where that is exactly what is meant"
    )


def _axes(name: str, axes: Any) -> tuple[Any, ...]:
    try:
        given = None if isinstance(axes, str) else tuple(axes)
    except TypeError:
        given = None
    if given is None:
        raise ShapeError(
            f"{name}: the shape must be a tuple of sizes, not {axes!r}\n  e.g. (8, 224), and (8,) for one axis"
        )
    return given


def _entries(value: Any) -> tuple[Any, ...] | None:
    """The entries of a tuple or list, Python's or SymPy's; None for any other value."""
    return tuple(value) if isinstance(value, (tuple, list, Tuple)) else None


def _axis(name: str, position: int, axis: Any) -> tuple[int, int]:
    entries = _entries(axis)
    low, high = entries if entries is not None and len(entries) == 2 else (0, axis)
    start, stop = whole_number(low), whole_number(high)
    if start is None or stop is None:
        raise ShapeError(
            f"{name}: size of axis {position} must be a whole number, not {axis!r}\n  e.g. (8, 224)"
        )
    if stop < start:
        raise ShapeError(
            f"{name}: size of axis {position} is negative: {stop - start}\n  e.g. (8, 224)"
        )
    return start, stop


class Padded(Node, Indexable, Basic):
    """A view of a tensor or scope that holds `fill` outside its box, up to `amounts` elements away."""

    __slots__ = ("base", "amounts", "fill")
    _fields = ("base", "amounts", "fill")
    is_view = True

    def __new__(cls, base: Any, amounts: Iterable[Any], fill: Any = 0) -> Padded:
        base = ScopeRead.scope_of(base)
        if not isinstance(base, Indexable):
            raise NotationError(f"{base!r} cannot be padded: it is not a tensor or a scope")
        given = tuple(amounts)
        if len(given) != base.rank:
            wrong = f"{describe(base)} has {base.rank} axes, but .pad has {len(given)} entries"
            raise ShapeError(
                f"{wrong}\n  give one entry an axis, 0 for an axis without padding: .pad({', '.join('0' * base.rank)})"
            )
        pads = tuple(_amount(base, k, entry) for k, entry in enumerate(given))
        try:
            number = sympy.sympify(fill, strict=True)  # else text would be evaluated
        except sympy.SympifyError:
            number = None
        if not isinstance(number, Expr) or number.free_symbols or not number.is_extended_real:
            raise NotationError(
                f"{describe(base)}.pad: fill must be a number, not {fill}\n  e.g. fill=0, or fill=-inf"
            )
        if number.is_finite and number != 0 and not holds(base.dtype, number):
            raise NotationError(
                f"{describe(base)}.pad: {number_text(number)} is no value of dtype {base.dtype}\n  give another fill, or cast: ea.ops.cast(A, 'f32')"
            )
        if isinstance(base, Padded) and base.fill == number:
            pads = tuple((a + c, b + d) for (a, b), (c, d) in zip(base.amounts, pads))
            base = base.base
        return cls._build(base, pads, number)

    def _seen(self, name: str) -> Any:
        return ScopeRead.of(self.base) if name == "base" else getattr(self, name)

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
        base = (
            printer._print(self.base)
            if isinstance(self.base, (Tensor, Padded))
            else f"({printer._print(self.base)})"
        )
        entries = [str(a) if a == b else f"({a}, {b})" for a, b in self.amounts]
        fill = [f"fill={number_text(self.fill)}"] if self.fill != 0 else []
        return f"{base}.pad({', '.join(entries + fill)})"


def _amount(base: Any, position: int, entry: Any) -> tuple[int, int]:
    entries = _entries(entry)
    pair = (entry, entry) if entries is None else entries
    before, after = map(whole_number, pair) if len(pair) == 2 else (None, None)
    if before is None or after is None:
        raise ShapeError(
            f"{describe(base)}.pad: axis {position} takes a number or (before, after), not {entry!r}\n  e.g. .pad(1, (0, 2))"
        )
    if before < 0 or after < 0:
        raise ShapeError(
            f"{describe(base)}.pad: axis {position} has a negative amount {entry}\n  to read less, narrow the index instead"
        )
    return before, after


def padded_box(base: Indexable) -> Box:
    """The half-open interval of every axis that may be read, padding included."""
    if isinstance(base, Padded):
        return tuple(
            (low - a, high + b) for (low, high), (a, b) in zip(padded_box(base.base), base.amounts)
        )
    return base.box


def unpadded(base: Indexable) -> Any:
    """The tensor or scope under all views."""
    while isinstance(base, Padded):
        base = base.base
    return base


def describe(base: Any) -> str:
    """How an error names a readable: its name, or 'the inner scope'."""
    base = unpadded(base)
    return base.name if isinstance(base, Tensor) else "the inner scope"


class Access(Node, Element, Expr):
    """`base[subscripts]`: one quasi-affine subscript for each axis of a tensor, a scope or a padded view."""

    __slots__ = ("base", "subscripts")
    _fields = ("base", "subscripts")
    is_access = True
    is_commutative = True
    is_extended_real = True

    def __new__(cls, base: Any, subscripts: Iterable[Any]) -> Access:
        base, given = ScopeRead.scope_of(base), tuple(subscripts)
        if not isinstance(base, Indexable):
            raise NotationError(f"{base!r} cannot be indexed: it is not a tensor or a scope")
        if len(given) != base.rank:
            wrong = f"{describe(base)} has {base.rank} axes, but is indexed with {len(given)}: [{', '.join(map(str, given))}]"
            raise ShapeError(
                f"{wrong}\n  give one subscript an axis: [{', '.join('ijklmnpq'[: base.rank]) or '()'}]"
            )
        return cls.of(base, tuple(affine(s) for s in given))

    @classmethod
    def of(cls, base: Indexable, subscripts: tuple[Affine, ...]) -> Access:
        """Build without checks, for subscripts that are already in normal form."""
        return cls._build(base, subscripts)

    def _seen(self, name: str) -> Any:
        return ScopeRead.of(self.base) if name == "base" else getattr(self, name)

    @property
    def free_symbols(self) -> set[Any]:
        return set().union(*(s.indices for s in self.subscripts)) if self.subscripts else set()

    @property
    def tensor(self) -> Any:
        """The tensor or scope that is read, without its padding."""
        return unpadded(self.base)

    @property
    def relation(self) -> Any:
        """The `islpy.Map` from the indices that occur (by name, sorted) to the element that is read."""
        return access_relation(self.free_symbols, self.subscripts)

    @property
    def precedence(self) -> int:
        return PRECEDENCE["Atom"]

    def _sympystr(self, printer: Any) -> str:
        base = printer._print(self.base)
        if not isinstance(self.base, (Tensor, Padded)):
            base = f"({base})"
        return f"{base}[{', '.join(map(str, self.subscripts)) or '()'}]"


class ScopeRead(Atom):
    """A scope where it is read, as SymPy sees it: a whole, for SymPy would move cases of its body out of it, away from their indices."""

    __slots__ = ("scope",)

    def __new__(cls, scope: Any) -> ScopeRead:
        read = super().__new__(cls)
        read.scope = scope
        return read

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.scope,)

    @staticmethod
    def of(base: Any) -> Any:
        """Return what SymPy sees of the base of a view or access: a scope as a whole, a tensor itself."""
        return ScopeRead(base) if base.is_scope else base

    @staticmethod
    def scope_of(base: Any) -> Any:
        """The scope that is read, of what SymPy sees of it; anything else is given back."""
        return base.scope if isinstance(base, ScopeRead) else base

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.scope,)

    def sort_key(self, order: Any = None) -> Any:
        return self.scope.sort_key(order)

    def _sympystr(self, printer: Any) -> str:
        return printer._print(self.scope)
