"""The body of a statement as nodes: one array for all points of its loops (design §11)."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from functools import reduce as fold
from math import prod
from typing import Any

import numpy as np

from codegen.ir.nodes import Apply, Buf, IndexNumber, Number, Predicate, Ref, Value
from codegen.ir.scalar import common, computed, translate
from codegen.targets.onnx.gathers import Range, element
from codegen.targets.onnx.graph_builder import OnnxGraphBuilder
from einalg.errors import CodegenError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.interpreters.numpy.loops import along_axes
from einalg.language.interpreters.numpy.terms import flattened, product_of
from einalg.language.ir.body import IDENTITY, Reduce
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.dtypes import bounds, is_float, numpy_dtype
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Box, Padded, padded_box, unpadded

UNARY = {
    "neg": "Neg", "sqrt": "Sqrt", "exp": "Exp", "log": "Log", "tanh": "Tanh", "erf": "Erf", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "sinh": "Sinh", "cosh": "Cosh", "asin": "Asin", "acos": "Acos", "atan": "Atan", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "floor": "Floor", "ceil": "Ceil", "abs": "Abs", "sign": "Sign", "not": "Not",
}  # fmt: skip
FOLDED = {
    "add": "Add",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "and": "And",
    "or": "Or",
    "max": "Max",
    "min": "Min",
}
SPELLED: dict[str, Callable[[Value, str], Apply]] = {
    "log1p": lambda x, dtype: Apply("log", (Apply("add", (Number(1, dtype), x), dtype),), dtype),
    "expm1": lambda x, dtype: Apply("add", (Number(-1, dtype), Apply("exp", (x,), dtype)), dtype),
}  # what ONNX has no operator for
COMPARED = {
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "eq": "Equal",
    "ne": "Equal",
}
REDUCED = {"Sum": "ReduceSum", "Prod": "ReduceProd", "Max": "ReduceMax", "Min": "ReduceMin"}
SUMMED = ("f32", "f64", "i32", "i64")  # the types that Einsum has
Read = Callable[
    [Any], tuple[Buf, Box, "np.ndarray[Any, Any] | None"]
]  # of a tensor or scope: its array, and where it has a value


class LoopAxes:
    """Loops over indices; a value in them is an array with an axis for each index, of extent 1 where it does not vary."""

    def __init__(self, writer: OnnxGraphBuilder, read: Read, ranges: Mapping[Index, Range]):
        self.writer, self._read, self.ranges = writer, read, dict(ranges)
        self.shape = tuple(high - low for low, high in self.ranges.values())

    @cached_property
    def points(self) -> dict[Index, Any]:
        return along_axes(self.ranges)

    def value(self, body: Any, dtype: str) -> Buf:
        """A scalar body at every point. Raises `CodegenError` for a function that ONNX has not."""
        return self.emit(translate(body, self), dtype)

    # What `translate` asks of the place where a body stands.

    def access(self, access: Access) -> Value:
        array, box = self._padded(access.base)
        found = element(self.writer, array, box, access.subscripts, self.ranges)
        return Ref(self.writer.cast(found, computed(found.dtype)), ())

    def holds(self, condition: Constraint) -> Value:
        return Predicate((condition,))

    def index(self, form: Affine) -> Affine:
        return form

    def reduction(self, reduce: Reduce) -> Value:
        node = flattened(reduce)
        found = result_dtype(node)
        dtype = "i32" if found == "bool" else computed(found)
        nothing = _within(IDENTITY[node.op], found if found == "bool" else dtype)
        inner = LoopAxes(
            self.writer,
            self._read,
            {**self.ranges, **{it.index: (it.low, it.high) for it in node.iterators}},
        )
        if 0 in inner.shape[len(self.shape) :]:
            return Number(nothing, dtype)
        total = inner.contraction(node, dtype, len(self.shape)) or inner.folded(
            node, dtype, len(self.shape), nothing
        )
        return Ref(self.writer.cast(total, found) if found == "bool" else total, ())

    def folded(self, node: Reduce, dtype: str, outer: int, nothing: Any) -> Buf:
        """The body at every point (`nothing` where there is none), reduced along the axes behind the first `outer` ones."""
        found = self.value(node.body, dtype)
        if node.where:
            found = self._where(node.where, found, nothing)
        if node.op in ("Sum", "Prod"):
            found = self.writer.expand(found, [*found.shape[:outer], *self.shape[outer:]])
        if len(self.shape) == outer:  # without axes, ONNX reduces along all of them
            return found
        axes = self.writer.integers(range(outer, len(self.shape)))
        return self.writer.add(
            REDUCED[node.op], [found, axes], found.shape[:outer], dtype, keepdims=0
        )

    def contraction(self, node: Reduce, dtype: str, outer: int) -> Buf | None:
        """A sum of products of arrays as `Einsum`, which does not hold all products."""
        coefficient, factors = product_of(node.body)
        rank = len(self.shape)
        if (
            node.op != "Sum"
            or node.where
            or dtype not in SUMMED
            or len(factors) < 2
            or rank > len(string.ascii_letters)
        ):
            return None
        if not is_float(dtype) and not coefficient.is_Integer:
            return None
        arrays = [self.value(factor, dtype) for factor in factors]
        axes = [[axis for axis in range(rank) if array.shape[axis] > 1] for array in arrays]
        every = {axis for own in axes for axis in own}
        kept = [axis for axis in range(outer) if axis in every]
        letters = ["".join(string.ascii_letters[axis] for axis in own) for own in axes]
        equation = f"{','.join(letters)}->{''.join(string.ascii_letters[axis] for axis in kept)}"
        given = [
            self.writer.reshape(array, [array.shape[axis] for axis in own])
            for array, own in zip(arrays, axes)
        ]
        found = self.writer.add(
            "Einsum", given, [self.shape[axis] for axis in kept], dtype, equation=equation
        )
        found = self.writer.reshape(
            found, [self.shape[axis] if axis in every else 1 for axis in range(outer)]
        )
        times = coefficient * prod(
            self.shape[axis] for axis in range(outer, rank) if axis not in every
        )
        return (
            found
            if times == 1
            else self._joined("Mul", [found, self.writer.constant(float(times), dtype)], dtype)
        )

    # Values.

    def emit(self, value: Value, dtype: str) -> Buf:
        """A value in an element type."""
        if isinstance(value, Number):
            return self._number(value.value, dtype)
        if isinstance(value, IndexNumber):
            return self.writer.constant(
                self._over_points(value.form.evaluate(self.points)), dtype, "index"
            )
        if isinstance(value, Predicate):
            return self.writer.constant(self._mask(value.conditions), dtype, "holds")
        return self.writer.cast(value.buf if isinstance(value, Ref) else self._apply(value), dtype)

    def _apply(self, value: Apply) -> Buf:
        op, arguments, dtype = value.op, value.arguments, value.dtype
        if op == "cast":
            return self.emit(arguments[0], dtype)
        if op == "select":
            test, *others = (
                self.emit(arguments[0], "bool"),
                *(self.emit(a, dtype) for a in arguments[1:]),
            )
            return self._joined("Where", [test, *others], dtype)
        if op in COMPARED:
            kind = common(arguments)
            given = [self.emit(a, "i32" if kind == "bool" else kind) for a in arguments]
            found = self._joined(COMPARED[op], given, "bool")
            return self.writer.add("Not", [found], found.shape, "bool") if op == "ne" else found
        if op == "ipow":
            return self._joined(
                "Pow", [self.emit(arguments[0], dtype), self.emit(arguments[1], dtype)], dtype
            )
        if op in SPELLED:
            return self._apply(SPELLED[op](arguments[0], dtype))
        given = [self.emit(a, dtype) for a in arguments]
        if op in UNARY:
            return self.writer.add(UNARY[op], given, given[0].shape, dtype)
        if op in FOLDED:
            return fold(lambda left, right: self._joined(FOLDED[op], [left, right], dtype), given)
        if op == "mod":
            return self._remainder(*given)
        if op == "erfc":
            erf = self.writer.add("Erf", given, given[0].shape, dtype)
            return self._joined("Sub", [self._number(1, dtype), erf], dtype)
        raise CodegenError(f"ONNX has no operator for {op}")

    def _remainder(self, left: Buf, right: Buf) -> Buf:
        """With the sign of the divisor: `left - right·⌊left / right⌋`."""
        quotient = self._joined("Div", [left, right], left.dtype)
        whole = self.writer.add("Floor", [quotient], quotient.shape, left.dtype)
        return self._joined(
            "Sub", [left, self._joined("Mul", [right, whole], left.dtype)], left.dtype
        )

    def _joined(self, operator: str, arrays: Sequence[Buf], dtype: str) -> Buf:
        return self.writer.add(
            operator, arrays, np.broadcast_shapes(*(array.shape for array in arrays)), dtype
        )

    def _number(self, value: Any, dtype: str) -> Buf:
        exact = (
            value
            if isinstance(value, (int, float))
            else float(Fraction(int(value.numerator), int(value.denominator)))
        )
        return self.writer.constant(
            np.asarray(exact, numpy_dtype(dtype)).reshape([1] * len(self.shape)), dtype
        )

    # Conditions, and reads outside.

    def _over_points(self, values: Any) -> Any:
        values = np.asarray(values)
        return values.reshape(values.shape or (1,) * len(self.shape))

    def _mask(self, conditions: Sequence[Constraint]) -> Any:
        return self._over_points(fold(np.logical_and, (c.holds(self.points) for c in conditions)))

    def _where(self, conditions: Sequence[Constraint], array: Buf, otherwise: Any) -> Buf:
        mask = self.writer.constant(self._mask(conditions), "bool", "holds")
        return self._joined(
            "Where", [mask, array, self._number(otherwise, array.dtype)], array.dtype
        )

    def _padded(self, base: Any) -> tuple[Buf, Box]:
        """What is read, with its padding."""
        array, box, known = self._read(unpadded(base))
        if not isinstance(base, Padded):
            return array, box
        fill = _within(base.fill, array.dtype)
        if isinstance(base.base, Padded):
            array, _ = self._padded(base.base)
        elif known is not None and fill:
            mask, other = (
                self.writer.constant(known, "bool", "known"),
                self.writer.constant(fill, array.dtype),
            )
            array = self.writer.add("Where", [mask, array, other], array.shape, array.dtype)
        return self.writer.pad(array, base.amounts, fill), padded_box(base)

    def statement(self, scope: Scope) -> Buf:
        """The values of a scope over its box, 0 where its condition does not hold."""
        if 0 in scope.shape:
            return self.writer.constant(np.zeros(scope.shape), scope.dtype)
        found = self.value(scope.body, computed(scope.dtype))
        if scope.where:
            found = self._where(scope.where, found, 0)
        return self.writer.cast(self.writer.expand(found, scope.shape), scope.dtype)


def known(scope: Scope) -> Any:
    """Where a scope has a value, as an array over its box; None where it has one everywhere."""
    if not scope.where:
        return None
    points = along_axes({it.index: (it.low, it.high) for it in scope.iterators})
    return np.broadcast_to(
        fold(np.logical_and, (c.holds(points) for c in scope.where)), scope.shape
    )


def _within(value: Any, dtype: str) -> Any:
    """A SymPy number as one of an element type: for an infinity the least or the largest integer."""
    if is_float(dtype):
        return float(value)
    if value.is_finite:
        return int(value)
    least, largest = bounds(dtype)
    return largest if value > 0 else least
