"""The operators of everything that can stand in a subscript (design §2).

Where both sides are integers the result is a row in normal form; elsewhere an index is a number in
a body, and the arithmetic is SymPy's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr
from sympy.core.sympify import SympifyError, sympify

from einalg.errors import NotationError


def whole_number(value: Any) -> int | None:
    """`value` as an int where it is a whole number of Python, NumPy or SymPy, and no truth value;
    else None.
    """
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


class IndexArithmetic:
    """Arithmetic and comparison shared by indices, quotients and affine forms; each of them has
    `as_affine()`.
    """

    __slots__ = ()
    __array_ufunc__ = None
    is_commutative = True
    is_extended_real = (
        True  # and no more: told that it is an integer, SymPy evaluates by laws of its own
    )

    if TYPE_CHECKING:
        as_affine: Callable[[], Any]

    def __add__(self, other: Any) -> Any:
        left, right = _both_forms(self, other)
        return Expr.__add__(self, other) if right is None else left.plus(right)  # pyright: ignore

    def __radd__(self, other: Any) -> Any:
        right, left = _both_forms(self, other)
        return Expr.__radd__(self, other) if left is None else left.plus(right)  # pyright: ignore

    def __sub__(self, other: Any) -> Any:
        left, right = _both_forms(self, other)
        return Expr.__sub__(self, other) if right is None else left.plus(right, -1)  # pyright: ignore

    def __rsub__(self, other: Any) -> Any:
        right, left = _both_forms(self, other)
        return Expr.__rsub__(self, other) if left is None else left.plus(right, -1)  # pyright: ignore

    def __mul__(self, other: Any) -> Any:
        product = _product(*_both_forms(self, other))
        return Expr.__mul__(self, other) if product is None else product  # pyright: ignore

    def __rmul__(self, other: Any) -> Any:
        product = _product(*_both_forms(self, other))
        return Expr.__rmul__(self, other) if product is None else product  # pyright: ignore

    def __neg__(self) -> Any:
        return self.as_affine().scaled(-1)

    def __floordiv__(self, other: Any) -> Any:
        return self.as_affine().quotient(_divisor(other, "//"))

    def __mod__(self, other: Any) -> Any:
        return self.as_affine().remainder(_divisor(other, "%"))

    def __lt__(self, other: Any) -> Any:
        return sympy.StrictLessThan(self, _comparable(other), evaluate=False)

    def __le__(self, other: Any) -> Any:
        return sympy.LessThan(self, _comparable(other), evaluate=False)

    def __gt__(self, other: Any) -> Any:
        return sympy.StrictGreaterThan(self, _comparable(other), evaluate=False)

    def __ge__(self, other: Any) -> Any:
        return sympy.GreaterThan(self, _comparable(other), evaluate=False)


def _comparable(value: Any) -> Any:
    try:
        return sympify(value, strict=True)  # else text would be evaluated
    except SympifyError:
        raise NotationError(
            f"{value!r} cannot be compared with an index\n  compare indices and numbers: i >= 2*j"
        ) from None


def _both_forms(own: IndexArithmetic, other: Any) -> tuple[Any, Any]:
    """Both operands as affine forms; the second is None where it is not an integer."""
    form = own.as_affine()
    if isinstance(other, IndexArithmetic):
        return form, other.as_affine()
    number = whole_number(other)
    return form, None if number is None else form.constant(number)


def _product(left: Any, right: Any) -> Any:
    """The product where one side is a constant."""
    if right is None:
        return None
    if not right.terms:
        return left.scaled(right.const)
    return right.scaled(left.const) if not left.terms else None


def _divisor(value: Any, sign: str) -> int:
    number = whole_number(value)
    if number is None or number <= 0:
        raise NotationError(
            f"an index can be divided ({sign}) by a positive whole number only, not by "
            f"{value}\n"
            f"  e.g. i{sign}2"
        )
    return number
