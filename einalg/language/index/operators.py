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

from einalg.boundary import public
from einalg.errors import NotationError
from einalg.language.index.bounds import number_interval
from einalg.language.scalar_operand import ScalarOperand


def whole_number(value: Any) -> int | None:
    """Return `value` as an int where it is a whole number of Python, NumPy or SymPy, and no truth
    value; else None.
    """
    if type(value) is int:
        return value
    if isinstance(value, (bool, ScalarOperand)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


class IndexArithmetic(ScalarOperand):
    """Arithmetic and comparison shared by indices, quotients and affine forms; each of them has
    `as_affine()`.
    """

    __slots__ = ()
    _numpy_noun = "an index"
    is_index = True
    is_commutative = True
    # And no more: of an integer, SymPy would evaluate by laws of its own.
    is_extended_real = True

    if TYPE_CHECKING:
        as_affine: Callable[[], Any]

    def __add__(self, other: Any) -> Any:
        left, right = _both_forms(self, other)
        if right is None:
            return Expr.__add__(self, other)  # pyright: ignore
        return left.plus(right)

    def __radd__(self, other: Any) -> Any:
        right, left = _both_forms(self, other)
        if left is None:
            return Expr.__radd__(self, other)  # pyright: ignore
        return left.plus(right)

    def __sub__(self, other: Any) -> Any:
        left, right = _both_forms(self, other)
        if right is None:
            return Expr.__sub__(self, other)  # pyright: ignore
        return left.plus(right, -1)

    def __rsub__(self, other: Any) -> Any:
        right, left = _both_forms(self, other)
        if left is None:
            return Expr.__rsub__(self, other)  # pyright: ignore
        return left.plus(right, -1)

    def __mul__(self, other: Any) -> Any:
        product = _product(*_both_forms(self, other))
        if product is None:
            return Expr.__mul__(self, other)  # pyright: ignore
        return product

    def __rmul__(self, other: Any) -> Any:
        product = _product(*_both_forms(self, other))
        if product is None:
            return Expr.__rmul__(self, other)  # pyright: ignore
        return product

    def __neg__(self) -> Any:
        return self.as_affine().scaled(-1)

    @public
    def __floordiv__(self, other: Any) -> Any:
        if is_value(other):
            return Expr.__floordiv__(self, other)  # pyright: ignore
        return self.as_affine().quotient(_divisor(other, "//"))

    @public
    def __mod__(self, other: Any) -> Any:
        if is_value(other):
            return NotImplemented  # an element has the remainder
        return self.as_affine().remainder(_divisor(other, "%"))

    @public
    def __lt__(self, other: Any) -> Any:
        return _comparison(sympy.StrictLessThan, self, _comparable(other))

    @public
    def __le__(self, other: Any) -> Any:
        return _comparison(sympy.LessThan, self, _comparable(other))

    @public
    def __gt__(self, other: Any) -> Any:
        return _comparison(sympy.StrictGreaterThan, self, _comparable(other))

    @public
    def __ge__(self, other: Any) -> Any:
        return _comparison(sympy.GreaterThan, self, _comparable(other))


def _comparison(relation: Any, left: Any, right: Any) -> Any:
    """Return a comparison; true or false where it has no index, and is so for all sizes."""
    form, other = _both_forms(left, right)
    if other is not None:
        difference = form.plus(other, -1)
        if not difference.indices:
            verdict = _holds_for_all_sizes(relation, *number_interval(difference))
            if verdict is not None:
                return sympy.sympify(verdict)
    return relation(left, right, evaluate=False)


def _holds_for_all_sizes(relation: Any, low: float, high: float) -> bool | None:
    """Return whether `difference relation 0` holds for every difference in `[low, high]`, or for
    none; None where neither is certain.
    """
    if relation in (sympy.GreaterThan, sympy.StrictLessThan):
        if low >= 0 or high < 0:
            return (low >= 0) == (relation is sympy.GreaterThan)
    elif low > 0 or high <= 0:
        return (low > 0) == (relation is sympy.StrictGreaterThan)
    return None


def _comparable(value: Any) -> Any:
    try:
        return sympify(value, strict=True)  # else text would be evaluated
    except SympifyError:
        raise NotationError(
            f"{value!r} cannot be compared with an index\n  compare indices and numbers: i >= 2*j"
        ) from None


def _both_forms(operand: IndexArithmetic, other: Any) -> tuple[Any, Any]:
    """Return both operands as affine forms; the second is None where it is not an integer."""
    form = operand.as_affine()
    if isinstance(other, IndexArithmetic):
        return form, other.as_affine()
    number = whole_number(other)
    if number is None:
        return form, None
    return form, form.constant(number)


def _product(left: Any, right: Any) -> Any:
    """Return the product where one side is a constant, else None."""
    if right is None:
        return None
    if not right.terms:
        return left.scaled(right.const)
    if not left.terms:
        return right.scaled(left.const)
    return None


def is_value(operand: Any) -> bool:
    """Return whether an operand is a value of a body, and neither index arithmetic nor a number."""
    if not isinstance(operand, Expr) or isinstance(operand, IndexArithmetic):
        return False
    return not operand.is_number


def has_index(operand: Any) -> bool:
    """Return whether an operand is index arithmetic with an index in it: no number, no size."""
    return isinstance(operand, IndexArithmetic) and bool(operand.as_affine().indices)


def _divisor(value: Any, sign: str) -> int:
    number = whole_number(value)
    if has_index(value):
        number_in_body = {"//": f"sympy.floor(i/({value}))", "%": f"ea.Mod(i, {value})"}[sign]
        raise NotationError(
            f"an index that is divided ({sign}) by another, {value}, is no affine form\n"
            f"  divide by a whole number: i{sign}2; a number in a body is {number_in_body}"
        )
    if isinstance(value, IndexArithmetic):
        raise NotationError(
            f"an index that is divided ({sign}) by the symbolic size {value} is no affine form\n"
            "  give that size a number, or read two indices: A[i, j]"
        )
    if number is None or number <= 0:
        raise NotationError(
            f"an index can be divided ({sign}) by a positive whole number only, not by "
            f"{value}\n"
            f"  e.g. i{sign}2"
        )
    return number
