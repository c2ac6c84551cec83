"""Evaluation of scopes and bodies as arrays, one block of the loops at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import sympy

from einalg.language.analysis.log1p_expm1 import exp_less_one, log_of_one_more
from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.remainder import Mod
from einalg.language.interpreters.numpy.arithmetic import FLOAT, Arithmetic, Array
from einalg.language.interpreters.numpy.arrays import BoxedArray, Store, view
from einalg.language.interpreters.numpy.blocking import fitting, largest, largest_of_reduction
from einalg.language.interpreters.numpy.contraction_path import contract
from einalg.language.interpreters.numpy.functions import COMPARISONS, LOGIC, as_number
from einalg.language.interpreters.numpy.loops import Loops, Range, blocks, volume
from einalg.language.interpreters.numpy.terms import (
    addends,
    exponent_of,
    flattened,
    indices_of,
    over,
    product_of,
    reads,
    where_indices,
)
from einalg.language.ir.body import IDENTITY, Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

ELEMENT = 8  # bytes
ORDERED = (
    sympy.floor,
    sympy.ceiling,
    Mod,
    sympy.Abs,
    sympy.sign,
    sympy.Max,
    sympy.Min,
    *COMPARISONS,
)  # meaningless in a field


class Evaluator:
    """Values of scopes and bodies in one arithmetic, with temporaries of at most `memory` bytes
    each where cutting can achieve it.
    """

    def __init__(self, store: Store, arithmetic: Arithmetic, memory: int):
        self.store, self.arithmetic, self.limit = store, arithmetic, max(1, memory // ELEMENT)
        self.indices_only = self if arithmetic is FLOAT else Evaluator(store, FLOAT, memory)

    def scope(self, scope: Scope) -> BoxedArray:
        """The scope as an array over its box; 0 where its condition does not hold."""
        ranges = {it.index: (it.low, it.high) for it in scope.iterators}
        if 0 in scope.shape:
            return BoxedArray(np.zeros(scope.shape, np.int64), scope.box)

        def elements(block: Mapping[Index, Range]) -> int:
            return max(
                largest(scope.body, block),
                volume(where_indices(scope), {i: high - low for i, (low, high) in block.items()}),
            )

        extents = fitting(ranges, ranges, self.limit, elements)
        values, known = _Assembly(scope), _Assembly(scope)
        for block in blocks(ranges, extents):
            loops = Loops(block)
            part, mask = self.value(scope.body, loops), self.mask(scope.where, loops)
            if mask is not None:
                known.put(loops, mask)
                part = self.arithmetic.select(mask, part, np.asarray(part).dtype.type(0))
            values.put(loops, part)
        return BoxedArray(
            self.arithmetic.kept(values.whole()), scope.box, known.whole() if scope.where else None
        )

    def mask(self, where: Sequence[Constraint], loops: Loops) -> Any:
        """Where all conditions hold; None without conditions."""
        return (
            reduce(np.logical_and, (c.holds(loops.coordinates) for c in where)) if where else None
        )

    def value(self, body: Any, loops: Loops) -> Any:
        """The value of a body at every point of the loops, in the axes of `loops`; extents are 1
        where it does not vary.
        """
        if isinstance(body, Access):
            return view(self.store[body.base], body.subscripts, loops)
        if self.indices_only is not self and _is_ordered(body) and not reads(body):
            exact = self._exact(body, loops)
            if exact is not None:
                return exact
        if isinstance(body, Reduce):
            home = loops.home(indices_of(body))
            if body not in home.known:
                home.known[body] = self.reduction(flattened(body), home)
            return loops.lifted(home.known[body])
        if isinstance(body, IndexArithmetic):
            return self.arithmetic.index(affine(body).evaluate(loops.coordinates))
        if not body.args:
            return self.arithmetic.number(body)
        return self._compound(body, loops)

    def _compound(self, body: Any, loops: Loops) -> Any:
        if self.indices_only is self and (found := self._near_zero(body, loops)) is not None:
            return found
        if isinstance(body, sympy.Add):
            return self.arithmetic.add([self.value(a, loops) for a in body.args])
        if isinstance(body, sympy.Mul):
            return self._product(body, loops)
        if isinstance(body, sympy.Pow):
            return self._power(body, loops)
        if isinstance(body, sympy.Piecewise):
            return self._piecewise(body, loops)
        values = [self.value(a, loops) for a in body.args]
        if type(body) in COMPARISONS:
            return self.arithmetic.compare(type(body), *values)
        if type(body) in LOGIC:
            return LOGIC[type(body)](*values)
        return self.arithmetic.function(type(body), values)

    def _near_zero(self, body: Any, loops: Loops) -> Any:
        """A sum or a logarithm by the function that keeps the digits of small numbers, where there
        is one.
        """
        if (inner := log_of_one_more(body)) is not None:
            return np.log1p(self.value(inner, loops))
        if (parts := exp_less_one(body)) is None:
            return None
        times, inner, rest = parts
        found = self.arithmetic.multiply(
            [self.arithmetic.number(times), np.expm1(self.value(inner, loops))]
        )
        return (
            self.arithmetic.add([found, *(self.value(a, loops) for a in rest)]) if rest else found
        )

    def _exact(self, body: Any, loops: Loops) -> Any:
        """What depends on indices only is compared, rounded and bounded as an integer; None where
        it is not an integer.
        """
        value = self.indices_only.value(body, Loops(loops.ranges))
        kind = np.asarray(value).dtype.kind
        if kind == "b":
            return value
        if kind == "f" and np.array_equal(value, np.rint(value)) and np.isfinite(value).all():
            value = np.asarray(value).astype(np.int64)
        return self.arithmetic.index(value) if np.asarray(value).dtype.kind == "i" else None

    def _product(self, body: Any, loops: Loops) -> Any:
        """Quotients are divided once, at the end: an integer over a divisor is then exact."""
        coefficient, factors = product_of(body)
        above, below = over(factors)
        numerators = [self.value(f, loops) for f in above]
        if coefficient.p != 1 or not numerators:
            numerators.append(self.arithmetic.number(sympy.Integer(coefficient.p)))
        denominators = [self.value(f, loops) for f in below]
        if coefficient.q != 1:
            denominators.append(self.arithmetic.number(sympy.Integer(coefficient.q)))
        numerator = self.arithmetic.multiply(numerators)
        return (
            self.arithmetic.divide(numerator, self.arithmetic.multiply(denominators))
            if denominators
            else numerator
        )

    def _power(self, body: Any, loops: Loops) -> Any:
        constant = exponent_of(body)
        if constant is not None and constant < 0:
            return self.arithmetic.divide(
                self.arithmetic.number(sympy.S.One),
                self.value(sympy.Pow(body.base, -constant), loops),
            )
        base = self.value(body.base, loops)
        if constant is not None:
            return self.arithmetic.power(base, int(constant) if constant.is_Integer else constant)
        if not reads(body.exp):
            exponent = self.indices_only.value(body.exp, Loops(loops.ranges))
            if np.asarray(exponent).dtype.kind == "i":
                return self.arithmetic.power(base, exponent)
        return self.arithmetic.function(sympy.Pow, [base, self.value(body.exp, loops)])

    def _piecewise(self, body: Any, loops: Loops) -> Any:
        pieces = [
            (self.value(value, loops), self.value(condition, loops))
            for value, condition in body.args
        ]
        complete = np.all(reduce(np.logical_or, (condition for _, condition in pieces)))
        result = pieces.pop()[0] if complete else self.arithmetic.number(sympy.nan)
        for value, condition in reversed(pieces):
            result = self.arithmetic.select(condition, value, result)
        return result

    def reduction(self, node: Reduce, loops: Loops, dense: bool = False) -> Any:
        """A reduction at every point of `loops`, in parts along its own indices where it does not
        fit in memory.
        """
        ranges = {it.index: (it.low, it.high) for it in node.iterators}
        if any(low >= high for low, high in ranges.values()):
            return self.arithmetic.number(IDENTITY[node.op])
        evaluate = self.fold if dense or node.op != "Sum" else self.sum
        everything = {**loops.ranges, **ranges}
        extents = fitting(
            everything, ranges, self.limit, lambda block: largest_of_reduction(node, block, dense)
        )
        parts = (evaluate(node, loops.deeper(block)) for block in blocks(ranges, extents))
        return self.arithmetic.reduced(
            node.op, reduce(lambda a, b: self.arithmetic.combine(node.op, a, b), parts)
        )

    def fold(self, node: Reduce, loops: Loops) -> Any:
        """Evaluate the body at every point, then reduce it along the axes of the reduction."""
        assert loops.parent is not None
        outer = loops.parent.rank
        values, mask = self.value(node.body, loops), self.mask(node.where, loops)
        arrays = np.broadcast_arrays(
            values, *([] if mask is None else [mask]), np.empty((1,) * loops.rank)
        )[:-1]
        axes = tuple(range(outer, loops.rank))
        result = self.arithmetic.reduce(
            node.op, arrays[0], axes, None if mask is None else arrays[1]
        )
        return self._repeated(node.op, result, _absent(arrays[0].shape, loops.shape, axes))

    def _repeated(self, op: str, value: Any, times: int) -> Any:
        """The reduction of `times` equal results."""
        if times == 1 or op in ("Max", "Min"):
            return value
        if op == "Prod":
            return self.arithmetic.power(value, times)
        return self.arithmetic.multiply([value, self.arithmetic.number(sympy.Integer(times))])

    def sum(self, node: Reduce, loops: Loops) -> Any:
        """A sum as contractions of its products, where all values are finite."""
        terms = addends(node.body, loops.extents)
        return self.arithmetic.add([self._sum_of_product(node, term, loops) for term in terms])

    def _sum_of_product(self, node: Reduce, term: Any, loops: Loops) -> Any:
        """Points outside a condition count 0: that is a factor 0, if what it multiplies is finite
        there.
        """
        assert loops.parent is not None
        coefficient, factors = product_of(term)
        if node.where and len(factors) < 2:
            return self.fold(_restricted(node, term, loops), loops)
        values = [as_number(self.value(f, loops)) for f in factors]
        checked = node.where or self.indices_only is not self
        if checked and not all(map(self.arithmetic.finite, values)):
            return self.reduction(_restricted(node, term, loops), loops.parent, dense=True)
        mask = self.mask(node.where, loops)
        if mask is not None:
            values.append(np.asarray(mask).astype(np.result_type(*values)))
        outer = loops.parent.rank
        axes = tuple(range(outer, loops.rank))
        arrays = [v for v in values if np.ndim(v)] or [
            np.broadcast_to(np.asarray(self.arithmetic.number(sympy.S.One)), (1,) * loops.rank)
        ]
        total = contract(arrays, axes, self.arithmetic)
        absent = _absent(np.broadcast_shapes(*(a.shape for a in arrays)), loops.shape, axes)
        scalars = [v for v in values if not np.ndim(v)]
        return self._scaled(total.reshape(total.shape[:outer]), coefficient * absent, scalars)

    def _scaled(self, value: Any, coefficient: Any, scalars: Sequence[Any]) -> Any:
        factors = [value, *scalars]
        if coefficient.p != 1:
            factors.append(self.arithmetic.number(sympy.Integer(coefficient.p)))
        value = self.arithmetic.multiply(factors)
        return (
            self.arithmetic.divide(value, self.arithmetic.number(sympy.Integer(coefficient.q)))
            if coefficient.q != 1
            else value
        )


def _is_ordered(body: Any) -> bool:
    return isinstance(body, ORDERED) or (isinstance(body, Reduce) and body.op in ("Max", "Min"))


def _restricted(node: Reduce, body: Any, loops: Loops) -> Reduce:
    """The reduction of `body` over the part of its domain that the loops cover."""
    return Reduce(node.op, [(i, *loops.ranges[i]) for i in node.indices], node.where, body)


def _absent(shape: Sequence[int], whole: Sequence[int], axes: Sequence[int]) -> int:
    """Number of points along those axes on which an array of `shape` does not depend."""
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
        place = tuple(
            slice(a - low, b - low) for (a, b), low in zip(loops.ranges.values(), self.lows)
        )
        self.array[place] = part

    def whole(self) -> Array:
        assert self.array is not None
        return self.array
