"""Torch's functions of several elements, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from einalg.frontends.nonfinite import equal, is_read, not_equal
from einalg.frontends.torch.nodes.arguments import (
    broadcast_element,
    is_boolean,
    map_scope,
    number,
    number_in_type,
    number_of_type,
    numbers_beside,
    rounded_number,
    truth_as_integers,
)
from einalg.frontends.torch.nodes.registry import Handler, NotExpressed, aten, register
from einalg.frontends.torch.operators.math.elementwise import truncated
from einalg.language import ops
from einalg.language.conditions import disjunction, isinf
from einalg.language.index.cases import Piecewise
from einalg.language.index.remainder import Quotient, remainder
from einalg.language.ir.dtypes import is_float, nearest_element, promote
from einalg.language.ir.tensor import Indexable
from einalg.language.ops.math.broadcasting import broadcast
from einalg.language.ops.math.cast import in_single
from einalg.language.ops.math.elementwise import truncated_remainder
from einalg.language.ops.math.reductions import finite


def _pair(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two operands, of which one may be a number."""
    like = b
    if isinstance(a, Indexable):
        like = a
    return number(a, like), number(b, like)


def _binary(operator: Callable[[Any, Any], Any]) -> Handler:
    return _reading(lambda a, b: operator(*_pair(a, b)))


def _reading(handler: Handler) -> Handler:
    """Return a handler for what reads all its operands: NaN and infinities in them show.

    Mathematics would leave one out, e.g. of `x - x`.
    """

    def checked(*arguments: Any) -> Any:
        result = handler(*arguments)
        if not is_read(result, *arguments):
            raise NotExpressed("over the real numbers it would not depend on an operand")
        return result

    return checked


def _function(function: Callable[..., Any], dtype: str = "number") -> Handler:
    """Return a broadcast function of two elements that is no operator of einalg."""
    return _binary(lambda a, b: broadcast(function, dtype, a=a, b=b))


def _hypotenuse(a: Any, b: Any) -> Any:
    """Return the length of a vector, whose squares need not fit the type."""
    longer = sympy.Max(sympy.Abs(a), sympy.Abs(b))
    shorter = sympy.Min(sympy.Abs(a), sympy.Abs(b))
    length = longer * sympy.sqrt(1 + (shorter / longer) ** 2)
    is_infinite = disjunction(isinf(a), isinf(b))
    return Piecewise((sympy.oo, is_infinite), (0, sympy.Eq(longer, 0)), (length, True))


def _terms(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two operands of a sum, of which a number is rounded to the type of the elements."""
    a, b = _numbers(a, b)
    if isinstance(a, Indexable):
        return a, rounded_number(b, a)
    return rounded_number(a, b), b


def _numbers(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two operands of arithmetic.

    Truth values are 0 and 1 of the other one's type, and of i64 beside each other.
    """
    a, b = _pair(a, b)
    return _number_beside(a, b), _number_beside(b, a)


def _number_beside(value: Any, other: Any) -> Any:
    like = getattr(other, "dtype", _dtype_of_number(other))
    if is_boolean(value) and like != "bool":
        return ops.cast(value, like)
    return truth_as_integers(value)


def _dtype_of_number(value: Any) -> str:
    if isinstance(value, float):
        return "f32"
    return "i64"


def _arithmetic(operator: Callable[[Any, Any], Any]) -> Handler:
    return _reading(lambda a, b: operator(*_numbers(a, b)))


def _compared(operator: Callable[[Any, Any], Any]) -> Handler:
    """Return a comparison, whose numbers are of the type of the elements."""

    def handler(a: Any, b: Any) -> Any:
        like = b
        if isinstance(a, Indexable):
            like = a
        return operator(number_of_type(a, like), number_of_type(b, like))

    return _reading(handler)


def _ordered(operator: Callable[[Any, Any], Any]) -> Handler:
    """Return a comparison, for which false is 0 and true is 1."""
    return _compared(lambda a, b: operator(truth_as_integers(a), truth_as_integers(b)))


def _of_both(base: str) -> str:
    return f"{base}.Tensor {base}.Scalar"


register(
    {
        "mul.Tensor mul.Scalar": _arithmetic(ops.mul),
        "div.Tensor div.Scalar true_divide.Tensor": _arithmetic(ops.div),
        "pow.Tensor_Tensor pow.Scalar": lambda a, b: ops.pow(*_numbers(a, b)),
        "maximum.default": _binary(ops.maximum),
        "minimum.default": _binary(ops.minimum),
        _of_both("eq"): _compared(equal),
        _of_both("ne"): _compared(not_equal),
        _of_both("lt"): _ordered(ops.less),
        _of_both("le"): _ordered(ops.less_equal),
        _of_both("gt"): _ordered(ops.greater),
        _of_both("ge"): _ordered(ops.greater_equal),
        "logical_and.default": _binary(ops.logical_and),
        "logical_or.default": _binary(ops.logical_or),
        "logical_xor.default": _binary(
            lambda a, b: ops.not_equal(ops.not_equal(a, 0), ops.not_equal(b, 0))
        ),
        "atan2.default": _function(sympy.atan2),
        "hypot.default": _function(_hypotenuse),
    }
)


def _scaled(b: Any, alpha: Any, like: Any) -> Any:
    if alpha == 1:
        return b
    if not isinstance(b, Indexable):
        return b * alpha
    return ops.mul(b, number(alpha, like))


@aten("logaddexp.default")
@in_single
def _logaddexp(a: Any, b: Any) -> Any:
    dtype = promote(a.dtype, b.dtype)

    def joined(a: Any, b: Any) -> Any:
        half_distance = sympy.Abs(finite(a, dtype) / 2 - finite(b, dtype) / 2)
        return sympy.Max(a, b) + sympy.log(1 + sympy.exp(-half_distance * 2))

    return broadcast(joined, "number", a=a, b=b)


@aten("add.Tensor", "add.Scalar")
@_reading
def _add(a: Any, b: Any, alpha: Any) -> Any:
    a, b = _terms(a, b)
    return ops.add(a, _scaled(b, alpha, a))


@aten("sub.Tensor", "sub.Scalar")
@_reading
def _sub(a: Any, b: Any, alpha: Any) -> Any:
    a, b = _terms(a, b)
    return ops.sub(a, _scaled(b, alpha, a))


@aten("rsub.Tensor", "rsub.Scalar")
@_reading
def _rsub(a: Any, b: Any, alpha: Any) -> Any:
    a, b = _terms(a, b)
    return ops.sub(b, _scaled(a, alpha, a))


@aten("pow.Tensor_Scalar")
def _power(x: Any, exponent: Any) -> Any:
    exponent = rounded_number(exponent, x)
    if isinstance(exponent, float) and float(2 * exponent).is_integer():
        exponent = sympy.Rational(exponent)
    return ops.pow(x, exponent)


def _floats_only(a: Any, b: Any) -> None:
    for value in (a, b):
        if isinstance(value, float) or is_float(getattr(value, "dtype", "i64")):
            return
    raise NotExpressed("a whole quotient of integers is left to the framework")


@aten("div.Tensor_mode", "div.Scalar_mode")
@_reading
def _div_rounded(a: Any, b: Any, rounding: str | None) -> Any:
    a, b = _pair(a, b)
    if rounding is None:
        return ops.div(a, b)
    _floats_only(a, b)
    if rounding == "floor":
        return broadcast(Quotient, a=_element(a, b), b=_element(b, a))
    return map_scope(ops.div(a, b), lambda v, _: truncated(v))


@aten("floor_divide.default", "floor_divide.Scalar")
@_reading
def _floor_divide(a: Any, b: Any) -> Any:
    return _div_rounded(a, b, "floor")


@aten("remainder.Tensor", "remainder.Scalar")
@_reading
def _remainder(a: Any, b: Any) -> Any:
    _floats_only(a, b)
    return _function(remainder)(_element(a, b), _element(b, a))


@aten("fmod.Tensor", "fmod.Scalar")
@_reading
def _fmod(a: Any, b: Any) -> Any:
    _floats_only(a, b)
    return _function(truncated_remainder)(_element(a, b), _element(b, a))


def _element(value: Any, other: Any) -> Any:
    """Return a number as an element of the other operand's type, to which torch rounds it first.

    Beside integers that is f32.
    """
    if not isinstance(value, float):
        return value
    if is_float(other.dtype):
        return nearest_element(value, other.dtype)
    return nearest_element(value, "f32")


def _bits(operator: Callable[[Any, Any], Any]) -> Handler:
    """Return a bitwise operator, which is logic for truth values."""

    def handler(a: Any, b: Any) -> Any:
        if not all(is_boolean(v) or isinstance(v, bool) for v in (a, b)):
            raise NotExpressed("bits of integers are no arithmetic")
        return operator(*_pair(a, b))

    return handler


register(
    {
        _of_both("bitwise_and"): _bits(ops.logical_and),
        _of_both("bitwise_or"): _bits(ops.logical_or),
        _of_both("bitwise_xor"): _bits(ops.not_equal),
    }
)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf")
def _where(condition: Any, a: Any, b: Any) -> Any:
    a, b = _pair(a, b)
    return ops.where(condition, _in_type_of(b, a), _in_type_of(a, b))


def _in_type_of(elements: Any, value: Any) -> Any:
    """Return a value without axes in the type of elements with axes, which the result has.

    Floats of 32 bits beside halves are an example.
    """
    if not all(isinstance(operand, Indexable) for operand in (elements, value)):
        return value
    are_floats = is_float(elements.dtype) and is_float(value.dtype)
    if are_floats and elements.rank and not value.rank:
        return ops.cast(value, elements.dtype)
    return value


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return ops.where(mask, number_in_type(value, x), x)


@aten("clamp.default")
def _clamp(x: Any, low: Any, high: Any) -> Any:
    return ops.clip(x, *numbers_beside((low, high), x))


@aten("clamp.Tensor")
def _clamp_by_tensors(x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = ops.maximum(x, low)
    if high is not None:
        x = ops.minimum(x, high)
    return x


@aten("clamp_min.default", "clamp_min.Tensor")
def _clamp_min(x: Any, low: Any) -> Any:
    return ops.maximum(x, *numbers_beside((low,), x))


@aten("clamp_max.default", "clamp_max.Tensor")
def _clamp_max(x: Any, high: Any) -> Any:
    return ops.minimum(x, *numbers_beside((high,), x))


def _in_common_type(*tensors: Any) -> list[Any]:
    """Return tensors in the type that holds the elements of all, in which torch computes."""
    dtype = promote(*(tensor.dtype for tensor in tensors))
    return [ops.cast(tensor, dtype) for tensor in tensors]


@aten("addcmul.default")
@_reading
@in_single
def _addcmul(x: Any, a: Any, b: Any, value: Any) -> Any:
    x, a, b = _in_common_type(x, a, b)
    return ops.add(x, _scaled(ops.mul(a, b), value, x))


@aten("addcdiv.default")
@_reading
@in_single
def _addcdiv(x: Any, a: Any, b: Any, value: Any) -> Any:
    x, a, b = _in_common_type(x, a, b)
    return ops.add(x, _scaled(ops.div(a, b), value, x))


@aten("lerp.Scalar", "lerp.Tensor")
@_reading
@in_single
def _lerp(start: Any, end: Any, weight: Any) -> Any:
    return ops.add(start, ops.mul(ops.sub(end, start), number(weight, start)))


@aten("prelu.default", "_prelu_kernel.default")
def _prelu(x: Any, slope: Any) -> Any:
    """Return a leaky ReLU with slopes for each channel (axis 1), or one for all.

    The kernel has them broadcast already.
    """
    if slope.rank == 1 and x.rank > 1:
        slope = ops.reshape(slope, (-1, *(1,) * (x.rank - 2)))
    result = broadcast(lambda v, s: Piecewise((v, v > 0), (s * v, True)), x=x, slope=slope)
    if tuple(result.shape) != tuple(x.shape):
        raise NotExpressed("slopes of another shape")
    return result


@aten("addmm.default", "addmv.default", "baddbmm.default")
def _plus_product(x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    """Return `beta·x + alpha·(a @ b)`."""
    return _scaled_sum(x, ops.matmul(a, b), beta, alpha)


@aten("addbmm.default")
def _plus_products(x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    """Return `beta·x + alpha·Σ (a @ b)`."""
    return _scaled_sum(x, ops.sum(ops.matmul(a, b), 0), beta, alpha)


def _scaled_sum(x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    beta, alpha = number(beta, x), number(alpha, x)
    if beta == 0:
        return map_scope(product, lambda total, _: alpha * total)
    return map_scope(
        product, lambda total, at: alpha * total + beta * broadcast_element(x, at, product.shape)
    )
