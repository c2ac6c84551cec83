"""Evaluation of scopes and bodies as arrays, one block of the loops at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import sympy

from einalg.language.analysis.accurate_forms import (
    as_one_fraction,
    exp_less_one,
    log_of_one_more,
    steps,
)
from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.interpreters.numpy.arithmetic import (
    FLOAT,
    Arithmetic,
    Array,
    are_exact_as_floats,
    as_integers,
)
from einalg.language.interpreters.numpy.arrays import ArrayStore, BoxedArray, view
from einalg.language.interpreters.numpy.blocking import (
    extents_of,
    fitting,
    largest,
    largest_of_reduction,
)
from einalg.language.interpreters.numpy.contraction_path import common_shape, contract
from einalg.language.interpreters.numpy.functions import (
    COMPARISONS,
    FUNCTIONS,
    LOGIC,
    as_number,
    floor_quotient,
)
from einalg.language.interpreters.numpy.loops import Loops, Range, blocks, volume
from einalg.language.interpreters.numpy.terms import (
    addends,
    as_fraction,
    exponent_of,
    flattened,
    indices_of,
    product_of,
    reads,
    where_indices,
)
from einalg.language.ir.body import IDENTITY, Reduce
from einalg.language.ir.dtype_inference import ROUNDED, integer_quotient, result_dtype
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

ELEMENT_BYTES = 8
# Functions that need an order of numbers, which a field has not.
ORDERED = (
    sympy.floor,
    sympy.ceiling,
    Mod,
    Quotient,
    sympy.Abs,
    sympy.sign,
    sympy.Max,
    sympy.Min,
    *COMPARISONS,
)


class Evaluator:
    """Values of scopes and bodies in one arithmetic, with temporaries of at most `memory` bytes
    each where cutting can achieve it.
    """

    def __init__(
        self,
        store: ArrayStore,
        arithmetic: Arithmetic,
        memory: int,
        between_blocks: Callable[[], None] | None = None,
    ):
        self.store, self.arithmetic, self.limit = store, arithmetic, max(1, memory // ELEMENT_BYTES)
        self.between_blocks = between_blocks
        self.is_in_floats = arithmetic is FLOAT
        self.indices_only = self if self.is_in_floats else Evaluator(store, FLOAT, memory)

    def scope(self, scope: Scope) -> BoxedArray:
        """Return the scope as an array over its box; 0 where its condition does not hold."""
        ranges = {it.index: (it.low, it.high) for it in scope.iterators}
        if 0 in scope.shape:
            return BoxedArray(np.zeros(scope.shape, np.int64), scope.box)

        def elements(block: Mapping[Index, Range]) -> int:
            condition = volume(where_indices(scope), extents_of(block))
            return max(largest(scope.body, block), condition)

        extents = fitting(ranges, ranges, self.limit, scope.body, elements)
        values, known = _Assembly(scope), _Assembly(scope)
        for block in blocks(ranges, extents):
            if self.between_blocks is not None:
                self.between_blocks()
            loops = Loops(block)
            part, mask = self.value(scope.body, loops), self.mask(scope.where, loops)
            if mask is not None:
                known.put(loops, mask)
                part = self.arithmetic.select(mask, part, np.asarray(part).dtype.type(0))
            values.put(loops, part)
        stored = self.arithmetic.stored(values.whole())
        if not scope.where:
            return BoxedArray(stored, scope.box)
        return BoxedArray(stored, scope.box, known.whole())

    def mask(self, where: Sequence[Constraint], loops: Loops) -> Any:
        """Return where all conditions hold; None without conditions."""
        if not where:
            return None
        return reduce(np.logical_and, [loops.holds(condition) for condition in where])

    def value(self, body: Any, loops: Loops) -> Any:
        """Return the value of a body at every point of the loops, in the axes of `loops`; extents
        are 1 where it does not vary.
        """
        if isinstance(body, Access):
            return view(self.store[body.base], body.subscripts, loops)
        if not self.is_in_floats and _is_ordered(body) and not reads(body):
            exact = self._exact(body, loops)
            if exact is not None:
                return exact
        if isinstance(body, Reduce):
            home = loops.home(indices_of(body))
            if body not in home.reductions:
                home.reductions[body] = self.reduction(flattened(body), home)
            return loops.lifted(home.reductions[body])
        if isinstance(body, IndexArithmetic):
            return self.arithmetic.index(loops.index_values(affine(body)))
        if not body.args:
            return self.arithmetic.number(body)
        return self._compound(body, loops)

    def _compound(self, body: Any, loops: Loops) -> Any:
        if self.is_in_floats:
            precise = self._precise(body, loops)
            if precise is not None:
                return precise
        if isinstance(body, sympy.Add):
            return self.arithmetic.add([self.value(a, loops) for a in body.args])
        if isinstance(body, sympy.Mul):
            return self._product(body, loops)
        if isinstance(body, sympy.Pow):
            return self._power(body, loops)
        if isinstance(body, sympy.Piecewise):
            return self._piecewise(body, loops)
        values = [self._operand(body, operand, loops) for operand in body.args]
        if type(body) in COMPARISONS:
            return self.arithmetic.compare(type(body), *values)
        if type(body) in LOGIC:
            return LOGIC[type(body)](*values)
        return self.arithmetic.function(type(body), values)

    def _precise(self, body: Any, loops: Loops) -> Any:
        """Return what loses digits as it is written; None for any other body."""
        if isinstance(body, ROUNDED):
            return self._rounded_integers(body, loops)
        return self._near_zero(body, loops)

    def _rounded_integers(self, body: Any, loops: Loops) -> Any:
        """Return a rounded quotient of integers, which a float may not hold; None of others.

        By 0 it is an infinity or NaN, where the floats beside it hold the other quotients.
        """
        quotient = integer_quotient(body.args[0])
        if quotient is None:
            return None
        numerator, divisor = (np.asarray(as_number(self.value(q, loops))) for q in quotient)
        if {numerator.dtype.kind, divisor.dtype.kind} - {"i", "u", "O"}:
            return None
        whole = np.asarray(floor_quotient(numerator, divisor))
        if isinstance(body, sympy.ceiling):
            whole = whole + (FUNCTIONS[Mod](numerator, divisor) != 0)
        if divisor.all() or not are_exact_as_floats(whole):
            return whole
        return np.where(divisor == 0, self.arithmetic.divide(numerator, divisor), whole)

    def _operand(self, body: Any, operand: Any, loops: Loops) -> Any:
        """Return the value of an operand; a sum of fractions is one of them where `body` jumps."""
        fraction = None
        if self.is_in_floats and steps(body):
            fraction = as_one_fraction(operand)
        if fraction is None:
            return self.value(operand, loops)
        return self.arithmetic.divide(*(self.value(part, loops) for part in fraction))

    def _near_zero(self, body: Any, loops: Loops) -> Any:
        """Return a sum or a logarithm by the function that keeps the digits of small numbers, None
        where there is none.
        """
        argument = log_of_one_more(body)
        if argument is not None:
            return np.log1p(self.value(argument, loops))
        parts = exp_less_one(body)
        if parts is None:
            return None
        factor, exponent, rest = parts
        power = np.expm1(self.value(exponent, loops))
        product = self.arithmetic.multiply([self.arithmetic.number(factor), power])
        if not rest:
            return product
        return self.arithmetic.add([product, *(self.value(a, loops) for a in rest)])

    def _exact(self, body: Any, loops: Loops) -> Any:
        """Return the value of what depends on indices only, compared, rounded and bounded as an
        integer; None where it is not an integer.
        """
        value = self.indices_only.value(body, Loops(loops.ranges))
        kind = np.asarray(value).dtype.kind
        if kind == "b":
            return value
        if kind == "f" and np.array_equal(value, np.rint(value)) and np.isfinite(value).all():
            value = np.asarray(value).astype(np.int64)
        if np.asarray(value).dtype.kind != "i":
            return None
        return self.arithmetic.index(value)

    def _product(self, body: Any, loops: Loops) -> Any:
        """Return a product; it is divided once, at the end: an integer over a divisor is then
        exact.
        """
        coefficient, factors = product_of(body)
        above, below = as_fraction(factors)
        numerators = [self.value(f, loops) for f in above]
        if coefficient.p != 1 or not numerators:
            numerators.append(self.arithmetic.number(sympy.Integer(coefficient.p)))
        denominators = [self.value(f, loops) for f in below]
        if coefficient.q != 1:
            denominators.append(self.arithmetic.number(sympy.Integer(coefficient.q)))
        if not denominators:
            return self.arithmetic.multiply(numerators)
        numerator = self.arithmetic.multiply(numerators)
        return self.arithmetic.divide(numerator, self.arithmetic.multiply(denominators))

    def _power(self, body: Any, loops: Loops) -> Any:
        constant = exponent_of(body)
        if constant is not None and constant < 0:
            inverse = self.value(sympy.Pow(body.base, -constant), loops)
            return self.arithmetic.divide(self.arithmetic.number(sympy.S.One), inverse)
        base = self.value(body.base, loops)
        if constant is not None:
            return self.arithmetic.power(base, int(constant) if constant.is_Integer else constant)
        if not reads(body.exp):
            exponent = self.indices_only.value(body.exp, Loops(loops.ranges))
            if np.asarray(exponent).dtype.kind == "i":
                return self.arithmetic.power(base, exponent)
        return self.arithmetic.function(sympy.Pow, [base, self.value(body.exp, loops)])

    def _piecewise(self, body: Any, loops: Loops) -> Any:
        pieces = [tuple(self.value(part, loops) for part in piece.args) for piece in body.args]
        complete = np.all(reduce(np.logical_or, [condition for _, condition in pieces]))
        result = pieces.pop()[0] if complete else self.arithmetic.number(sympy.nan)
        for value, condition in reversed(pieces):
            result = self.arithmetic.select(condition, value, result)
        if self.is_in_floats and not is_float(result_dtype(body)):
            return as_integers(result)
        return result

    def reduction(self, node: Reduce, loops: Loops, dense: bool = False) -> Any:
        """Return a reduction at every point of `loops`, in parts along its own indices where it
        does not fit in memory.
        """
        ranges = {it.index: (it.low, it.high) for it in node.iterators}
        if any(low >= high for low, high in ranges.values()):
            return self.arithmetic.number(IDENTITY[node.op])

        def elements(block: Mapping[Index, Range]) -> int:
            return largest_of_reduction(node, block, dense)

        evaluate = self.fold if dense or node.op != "Sum" else self.sum
        around = {**loops.ranges, **ranges}
        extents = fitting(around, ranges, self.limit, node.body, elements)
        total = None
        for block in blocks(ranges, extents):
            if self.between_blocks is not None:
                self.between_blocks()
            part = evaluate(node, loops.deeper(block))
            total = part if total is None else self.arithmetic.combine(node.op, total, part)
        if not node.where:
            return total
        return self.arithmetic.reduced(node.op, total)

    def fold(self, node: Reduce, loops: Loops) -> Any:
        """Evaluate the body at every point, then reduce it along the axes of the reduction."""
        assert loops.parent is not None
        values, mask = self.value(node.body, loops), self.mask(node.where, loops)
        # All axes, and those on which the body or the condition depends with their whole extent.
        unit = np.empty((1,) * loops.rank)
        if mask is None:
            values, _ = np.broadcast_arrays(values, unit)
        else:
            values, mask, _ = np.broadcast_arrays(values, mask, unit)
        axes = tuple(range(loops.parent.rank, loops.rank))
        result = self.arithmetic.reduce(node.op, values, axes, mask)
        return self._repeated(node.op, result, _repetitions(values.shape, loops.shape, axes))

    def _repeated(self, op: str, value: Any, times: int) -> Any:
        """Return the reduction of `times` equal results."""
        if times == 1 or op in ("Max", "Min"):
            return value
        if op == "Prod":
            return self.arithmetic.power(value, times)
        return self.arithmetic.multiply([value, self.arithmetic.number(sympy.Integer(times))])

    def sum(self, node: Reduce, loops: Loops) -> Any:
        """Return a sum as contractions of its products, where all values are finite."""
        terms = addends(node.body, loops.extents)
        return self.arithmetic.add([self._sum_of_product(node, term, loops) for term in terms])

    def _sum_of_product(self, node: Reduce, term: Any, loops: Loops) -> Any:
        """Return the sum of a product of factors.

        Points outside a condition count 0: that is a factor 0, if what it multiplies is finite
        there.
        """
        assert loops.parent is not None
        coefficient, factors = product_of(term)
        if node.where and len(factors) < 2:
            return self.fold(_restricted(node, term, loops), loops)
        values = [as_number(self.value(f, loops)) for f in factors]
        checked = node.where or not self.is_in_floats
        if checked and not all(map(self.arithmetic.finite, values)):
            return self.reduction(_restricted(node, term, loops), loops.parent, dense=True)
        mask = self.mask(node.where, loops)
        if mask is not None:
            values.append(np.asarray(mask).astype(np.result_type(*values)))
        arrays, scalars = [], []
        for value in values:
            (arrays if np.ndim(value) else scalars).append(value)
        if not arrays:
            one = np.asarray(self.arithmetic.number(sympy.S.One))
            arrays.append(np.broadcast_to(one, (1,) * loops.rank))
        outer = loops.parent.rank
        axes = tuple(range(outer, loops.rank))
        total = contract(arrays, axes, self.arithmetic)
        shape = common_shape(arrays)
        coefficient = coefficient * _repetitions(shape, loops.shape, axes)
        return self._scaled(total.reshape(total.shape[:outer]), coefficient, scalars)

    def _scaled(self, value: Any, coefficient: Any, scalars: Sequence[Any]) -> Any:
        factors = [value, *scalars]
        if coefficient.p != 1:
            factors.append(self.arithmetic.number(sympy.Integer(coefficient.p)))
        product = self.arithmetic.multiply(factors)
        if coefficient.q == 1:
            return product
        divisor = self.arithmetic.number(sympy.Integer(coefficient.q))
        return self.arithmetic.divide(product, divisor)


def _is_ordered(body: Any) -> bool:
    return isinstance(body, ORDERED) or (isinstance(body, Reduce) and body.op in ("Max", "Min"))


def _restricted(node: Reduce, body: Any, loops: Loops) -> Reduce:
    """Return the reduction of `body` over the part of its domain that the loops cover."""
    return Reduce(node.op, [(i, *loops.ranges[i]) for i in node.indices], node.where, body)


def _repetitions(shape: Sequence[int], whole: Sequence[int], axes: Sequence[int]) -> int:
    """Return the number of points along those axes on which an array of `shape` does not depend."""
    return prod(whole[axis] for axis in axes if shape[axis] == 1)


class _Assembly:
    """An array over the box of a scope, put together from blocks; its type grows where a later
    block needs it.
    """

    def __init__(self, scope: Scope):
        self.shape, self.lows = scope.shape, [it.low for it in scope.iterators]
        self.array: Array | None = None

    def put(self, loops: Loops, part: Any) -> None:
        part = np.broadcast_to(part, loops.shape)
        if loops.shape == self.shape:
            self.array = np.asarray(part, order="C")
            return
        if self.array is None:
            self.array = np.empty(self.shape, part.dtype)
        self.array = self.array.astype(np.result_type(self.array, part), copy=False)
        place = []
        for (start, end), low in zip(loops.ranges.values(), self.lows):
            place.append(slice(start - low, end - low))
        self.array[tuple(place)] = part

    def whole(self) -> Array:
        assert self.array is not None
        return self.array
