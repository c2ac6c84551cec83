"""The body of a statement as nodes: one array for all points of its loops (design §11)."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from codegen.ir.nodes import Apply, Buf, IndexNumber, Number, Predicate, Ref, Value
from codegen.ir.scalars.functions import ROUND
from codegen.ir.scalars.translation import accumulated, translate
from codegen.ir.types import LONG, WIDE, common, computed
from codegen.targets.onnx.double_functions import LACKING
from codegen.targets.onnx.gathers import Range, element
from codegen.targets.onnx.graph_builder import OnnxGraphBuilder
from einalg.errors import CodegenError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.interpreters.numpy.loops import all_hold, along_axes
from einalg.language.interpreters.numpy.terms import flattened, product_of
from einalg.language.ir.body import IDENTITY, Reduce
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.dtypes import bounds, holds, is_float, numpy_dtype
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Box, Padded, padded_box, unpadded

UNARY = {
    "neg": "Neg",
    "sqrt": "Sqrt",
    "exp": "Exp",
    "exp_bounded": "Exp",
    "log": "Log",
    "tanh": "Tanh",
    "erf": "Erf",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "floor": "Floor",
    "ceil": "Ceil",
    "abs": "Abs",
    "sign": "Sign",
    "not": "Not",
}
# Operators of any number of arguments, which nodes join two at a time.
BINARY = {
    "add": "Add",
    "mul": "Mul",
    "scale": "Mul",
    "div": "Div",
    "pow": "Pow",
    "and": "And",
    "or": "Or",
    "max": "Max",
    "min": "Min",
}
DIVISIONS = ("mod", "quotient")
COMPARISONS = {
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "eq": "Equal",
    "ne": "Equal",
}
REDUCTIONS = {"Sum": "ReduceSum", "Prod": "ReduceProd", "Max": "ReduceMax", "Min": "ReduceMin"}
# What floats compute as integers, but for rounding.
SUMS_AND_PRODUCTS = ("add", "mul", "neg", "ipow")
EINSUM_DTYPES = ("f32", "f64", "i32", "i64")
# Of a tensor or scope: its array, its box, and where it has values (None: everywhere).
Read = Callable[[Any], tuple[Buf, Box, "np.ndarray[Any, Any] | None"]]


class LoopAxes:
    """Loops over indices, in which a value is an array with an axis for each index.

    An axis has extent 1 where the value does not vary.
    """

    def __init__(self, writer: OnnxGraphBuilder, read: Read, ranges: Mapping[Index, Range]):
        self.writer, self._read, self.ranges = writer, read, dict(ranges)
        self.shape = tuple(high - low for low, high in self.ranges.values())

    @cached_property
    def points(self) -> dict[Index, Any]:
        """Return the values of each index, along its axis."""
        return along_axes(self.ranges)

    def value(self, body: Any, dtype: str) -> Buf:
        """Return a scalar body at every point.

        Raises `CodegenError` for a function that ONNX has not.
        """
        return self.emit(translate(body, self), dtype)

    def statement(self, scope: Scope) -> Buf:
        """Return the values of a scope over its box, 0 where its condition does not hold."""
        if 0 in scope.shape:
            return self.writer.constant(np.zeros(scope.shape), scope.dtype)
        values = self.value(scope.body, computed(scope.dtype))
        if scope.where:
            values = self._where(scope.where, values, 0)
        return self.writer.cast(self.writer.expand(values, scope.shape), scope.dtype)

    # The answers to what `translate` asks of the place where a body stands.

    def access(self, access: Access) -> Value:
        array, box = self._padded(access.base)
        values = element(self.writer, array, box, access.subscripts, self.ranges)
        return Ref(self.writer.cast(values, computed(values.dtype)), ())

    def holds(self, condition: Constraint) -> Value:
        return Predicate((condition,))

    def index(self, form: Affine) -> Affine:
        return form

    def reduction(self, reduce: Reduce) -> Value:
        node = flattened(reduce)
        result = result_dtype(node)
        if result == "bool":  # summed as integers
            dtype, identity = "i32", _number_of(IDENTITY[node.op], "bool")
        else:
            dtype = computed(result)
            identity = _number_of(IDENTITY[node.op], dtype)
            if not is_float(dtype):
                dtype = _known(accumulated(node))
        summed = {it.index: (it.low, it.high) for it in node.iterators}
        inner = LoopAxes(self.writer, self._read, {**self.ranges, **summed})
        rank = len(self.shape)
        if 0 in inner.shape[rank:]:
            return Number(identity, dtype)
        total = inner.contraction(node, dtype, rank)
        if total is None:
            total = inner.reduced(node, dtype, rank, identity)
        if result == "bool":
            total = self.writer.cast(total, result)
        return Ref(total, ())

    # Reductions.

    def reduced(self, node: Reduce, dtype: str, outer: int, identity: Any) -> Buf:
        """Return the body at every point, reduced along the axes behind the first `outer` ones.

        It is `identity` at points that a condition leaves out.
        """
        values = self.emit(translate(node.body, self, dtype), dtype)
        if node.where:
            values = self._where(node.where, values, identity)
        if node.op in ("Sum", "Prod"):
            values = self.writer.expand(values, [*values.shape[:outer], *self.shape[outer:]])
        if len(self.shape) == outer:  # without axes, ONNX reduces along all of them
            return values
        total = self._over_axes(REDUCTIONS[node.op], values, outer)
        if node.op in ("Max", "Min") and is_float(dtype):
            return self._with_nan(total, values, outer)
        return total

    def _over_axes(self, operator: str, values: Buf, outer: int) -> Buf:
        """Return a reduction along the axes behind the first `outer` ones."""
        axes = self.writer.integers(range(outer, len(self.shape)))
        return self.writer.add(
            operator, [values, axes], values.shape[:outer], values.dtype, keepdims=0
        )

    def _with_nan(self, total: Buf, values: Buf, outer: int) -> Buf:
        """Return an extreme, and NaN where a value is: runtimes may pass over NaN."""
        test = self.writer.add("IsNaN", [values], values.shape, "bool")
        some = self._over_axes("ReduceMax", self.writer.cast(test, "f32"), outer)
        nan = self.writer.constant(np.full([1] * outer, np.nan), total.dtype)
        return self._joined("Where", [self.writer.cast(some, "bool"), nan, total], total.dtype)

    def contraction(self, node: Reduce, dtype: str, outer: int) -> Buf | None:
        """Return a sum of products of arrays as `Einsum`, which does not hold all products.

        None where the reduction is none.
        """
        coefficient, factors = product_of(node.body)
        if not self._is_contraction(node, dtype, coefficient, factors):
            return None
        arrays = [self.value(factor, dtype) for factor in factors]
        axes = [_varying_axes(array) for array in arrays]
        every = set[int]().union(*axes)
        target = [axis for axis in range(outer) if axis in every]
        equation = f"{','.join(map(_letters, axes))}->{_letters(target)}"
        operands = []
        for array, of_array in zip(arrays, axes):
            operands.append(self.writer.reshape(array, [array.shape[axis] for axis in of_array]))
        shape = [self.shape[axis] for axis in target]
        total = self.writer.add("Einsum", operands, shape, dtype, equation=equation)
        in_loops = [1] * outer
        for axis in target:
            in_loops[axis] = self.shape[axis]
        total = self.writer.reshape(total, in_loops)
        for axis in range(outer, len(self.shape)):
            if axis not in every:  # each of its steps adds the same
                coefficient *= self.shape[axis]
        if coefficient == 1:
            return total
        factor = self.writer.constant(float(coefficient), dtype)
        return self._joined("Mul", [total, factor], dtype)

    def _is_contraction(
        self, node: Reduce, dtype: str, coefficient: Any, factors: Sequence[Any]
    ) -> bool:
        """Return whether `Einsum` computes a reduction."""
        if node.op != "Sum" or node.where or dtype not in EINSUM_DTYPES:
            return False
        if len(factors) < 2 or len(self.shape) > len(string.ascii_letters):
            return False
        return is_float(dtype) or coefficient.is_Integer

    # Values.

    def emit(self, value: Value, dtype: str) -> Buf:
        """Return a value in an element type."""
        if isinstance(value, Number):
            return self._number(value.value, dtype)
        if isinstance(value, IndexNumber):
            values = self._over_points(value.form.evaluate(self.points))
            return self.writer.constant(values, dtype, "index")
        if isinstance(value, Predicate):
            return self.writer.constant(self._mask(value.conditions), dtype, "holds")
        if isinstance(value, Ref):
            return self.writer.cast(value.buf, dtype)
        return self.writer.cast(self._application(_in_float(value, dtype)), dtype)

    def _application(self, value: Apply) -> Buf:
        """Return an operator or a function of some values."""
        op, dtype = value.op, _known(value.dtype)
        if op == "cast":
            return self.emit(value.arguments[0], dtype)
        if op == "select":
            return self._select(value)
        if op in COMPARISONS:
            return self._comparison(value)
        if op in ("log1p", "expm1"):
            return self._application(_composed(op, value.arguments[0], dtype))
        operands = [self.emit(a, dtype) for a in value.arguments]
        if op.startswith(ROUND):
            return self.writer.cast(self.writer.cast(operands[0], op.removeprefix(ROUND)), dtype)
        if dtype == "f64" and op in LACKING:
            return self._each_part_once(LACKING[op](Ref(operands[0], ())), {})
        if op in DIVISIONS and not is_float(dtype) and not isinstance(value.arguments[1], Number):
            return self._division_of_integers(op, *operands)
        return self._operator(op, operands, dtype)

    def _division_of_integers(self, op: str, left: Buf, right: Buf) -> Buf:
        """Return a quotient or remainder of integers, 0 by 0.

        Runtimes stop where they divide by 0, or the least integer by -1.
        """
        dtype, zero, one = left.dtype, self._number(0, left.dtype), self._number(1, left.dtype)
        is_zero = self._joined("Equal", [right, zero], "bool")
        divisor = self._joined("Where", [is_zero, one, right], dtype)
        if dtype.startswith("u"):
            result = self._operator(op, [left, divisor], dtype)
        else:
            is_opposite = self._joined("Equal", [right, self._number(-1, dtype)], "bool")
            divisor = self._joined("Where", [is_opposite, one, divisor], dtype)
            result = self._operator(op, [left, divisor], dtype)
            if op == "quotient":
                opposite = self._operator("neg", [left], dtype)
                result = self._joined("Where", [is_opposite, opposite, result], dtype)
        if op == "mod":
            return result
        return self._joined("Where", [is_zero, zero, result], dtype)

    def _each_part_once(self, value: Value, known: dict[int, Buf]) -> Buf:
        """Return a value in its own type, whose parts may occur in it several times."""
        if not isinstance(value, Apply):
            return self.emit(value, value.dtype)
        if id(value) not in known:
            parts = [Ref(self._each_part_once(part, known), ()) for part in value.arguments]
            known[id(value)] = self.emit(replace(value, arguments=tuple(parts)), value.dtype)
        return known[id(value)]

    def _operator(self, op: str, operands: Sequence[Buf], dtype: str) -> Buf:
        """Return an operator whose operands have the type of its result."""
        if op in UNARY:
            return self.writer.add(UNARY[op], operands, operands[0].shape, dtype)
        if op in BINARY:
            result = operands[0]
            for other in operands[1:]:
                result = self._joined(BINARY[op], [result, other], dtype)
            return result
        if op == "ipow":
            return self._joined("Pow", operands, dtype)
        if op == "mod":
            return self._remainder(*operands)
        if op == "quotient":
            return self._quotient(*operands)
        if op == "erfc":
            erf = self.writer.add("Erf", operands, operands[0].shape, dtype)
            return self._joined("Sub", [self._number(1, dtype), erf], dtype)
        raise CodegenError(f"ONNX has no operator for {op}")

    def _select(self, value: Apply) -> Buf:
        test, yes, no = value.arguments
        mask = self.emit(test, "bool")
        dtype = _known(value.dtype)
        branches = [self.emit(yes, dtype), self.emit(no, dtype)]
        return self._joined("Where", [mask, *branches], dtype)

    def _comparison(self, value: Apply) -> Buf:
        dtype = _known(common(value.arguments))
        if dtype == "bool":
            dtype = "i32"
        operands = [self.emit(a, dtype) for a in value.arguments]
        result = self._joined(COMPARISONS[value.op], operands, "bool")
        if value.op != "ne":
            return result
        return self.writer.add("Not", [result], result.shape, "bool")

    def _remainder(self, left: Buf, right: Buf) -> Buf:
        """Return the remainder with the sign of the divisor."""
        rest, is_other = self._truncated_remainder(left, right)
        moved = self._joined("Add", [rest, right], left.dtype)
        return self._joined("Where", [is_other, moved, rest], left.dtype)

    def _quotient(self, left: Buf, right: Buf) -> Buf:
        """Return the exact quotient rounded down: near a whole number without the remainder."""
        dtype = left.dtype
        rest, is_other = self._truncated_remainder(left, right)
        whole = self._joined("Div", [self._joined("Sub", [left, rest], dtype), right], dtype)
        less = self._joined("Sub", [whole, self._number(1, dtype)], dtype)
        near = self._joined("Where", [is_other, less, whole], dtype)
        if not is_float(dtype):
            return near
        below = self.writer.add("Floor", [near], near.shape, dtype)
        above = self._joined("Add", [below, self._number(1, dtype)], dtype)
        distance = self._joined("Sub", [near, below], dtype)
        is_above = self._joined("Greater", [distance, self._number(0.5, dtype)], "bool")
        nearest = self._joined("Where", [is_above, above, below], dtype)
        by_zero = self._joined("Equal", [right, self._number(0, dtype)], "bool")
        plain = self._joined("Div", [left, right], dtype)
        return self._joined("Where", [by_zero, plain, nearest], dtype)

    def _truncated_remainder(self, left: Buf, right: Buf) -> tuple[Buf, Buf]:
        """Return the remainder with the sign of the dividend, and where the divisor has another
        one.
        """
        shape = np.broadcast_shapes(left.shape, right.shape)
        rest = self.writer.add("Mod", [left, right], shape, left.dtype, fmod=1)
        zero = self._number(0, left.dtype)
        signs = []
        for array in (rest, right):
            sign = self.writer.add("Sign", [array], array.shape, left.dtype)
            signs.append(sign)
        product = self._joined("Mul", signs, left.dtype)
        return rest, self._joined("Less", [product, zero], "bool")

    def _joined(self, operator: str, arrays: Sequence[Buf], dtype: str) -> Buf:
        """Return an element-wise operator of arrays."""
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        return self.writer.add(operator, arrays, shape, dtype)

    def _number(self, value: Any, dtype: str) -> Buf:
        """Return a number as an array."""
        if not isinstance(value, (int, float)):
            value = float(Fraction(int(value.numerator), int(value.denominator)))
        if isinstance(value, int) and not is_float(dtype) and not holds(dtype, value):
            raise CodegenError(
                f"ONNX has no integer type for {value}\n  convert to a float, e.g. f64(...)"
            )
        array = np.asarray(value, numpy_dtype(dtype)).reshape([1] * len(self.shape))
        return self.writer.constant(array, dtype)

    # Conditions, and reads outside.

    def _over_points(self, values: Any) -> Any:
        """Return values with an axis for each index."""
        values = np.asarray(values)
        return values.reshape(values.shape or (1,) * len(self.shape))

    def _mask(self, conditions: Sequence[Constraint]) -> Any:
        """Return where all conditions hold."""
        return self._over_points(all_hold(conditions, self.points))

    def _where(self, conditions: Sequence[Constraint], array: Buf, otherwise: Any) -> Buf:
        """Return an array where conditions hold, and a number elsewhere."""
        mask = self.writer.constant(self._mask(conditions), "bool", "holds")
        number = self._number(otherwise, array.dtype)
        return self._joined("Where", [mask, array, number], array.dtype)

    def _padded(self, base: Any) -> tuple[Buf, Box]:
        """Return what is read, with its padding, and the box of that."""
        array, box, defined = self._read(unpadded(base))
        if not isinstance(base, Padded):
            return array, box
        fill = _number_of(base.fill, array.dtype)
        if isinstance(base.base, Padded):
            array, _ = self._padded(base.base)
        elif defined is not None and fill:
            mask = self.writer.constant(defined, "bool", "known")
            other = self.writer.constant(fill, array.dtype)
            array = self.writer.add("Where", [mask, array, other], array.shape, array.dtype)
        return self.writer.pad(array, base.amounts, fill), padded_box(base)


def _composed(op: str, argument: Value, dtype: str) -> Apply:
    """Return `log(1 + x)` or `exp(x) - 1`, for which ONNX has no operators."""
    if op == "log1p":
        return Apply("log", (Apply("add", (Number(1, dtype), argument), dtype),), dtype)
    return Apply("add", (Number(-1, dtype), Apply("exp", (argument,), dtype)), dtype)


def _varying_axes(array: Buf) -> list[int]:
    return [axis for axis, extent in enumerate(array.shape) if extent > 1]


def _letters(axes: Sequence[int]) -> str:
    """Return the letters of axes in an equation of `Einsum`."""
    return "".join(string.ascii_letters[axis] for axis in axes)


def _number_of(value: Any, dtype: str) -> Any:
    """Return a SymPy number as one of an element type; a limit of integers for an infinity."""
    if is_float(dtype):
        return float(value)
    if value.is_finite:
        return int(value)
    smallest, largest = bounds(dtype)
    if value > 0:
        return largest
    return smallest


def _in_float(value: Apply, dtype: str) -> Apply:
    """Return a sum or product of the longest integers as a float, where it is converted to one."""
    if not is_float(dtype) or value.dtype != WIDE or value.op not in SUMS_AND_PRODUCTS:
        return value
    return replace(value, dtype=dtype)


def _known(dtype: str) -> str:
    """Return the longest type of integers for one that ONNX has not."""
    if dtype == WIDE:
        return LONG
    return dtype
