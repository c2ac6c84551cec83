"""Integers that may be infinite, computed as floats where their infinity counts.

The largest of no integers is minus infinity, which no type of integers has: a register holds the
end of its type. That is as good where it is stored, or compared with integers of the same type. In
a part of a float, in a comparison or as an operand, it is not: `Max[s](n[s], where=s < i) + x[i]`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy

from einalg.errors import CodegenError
from einalg.language.analysis.infinite_integers import EXTREMES, InfiniteIntegers
from einalg.language.analysis.padded_reads import absorbed_reads, layers
from einalg.language.conditions import TESTS, isfinite, negation
from einalg.language.conversion import Conversion, SingleConversion
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.bounds import number_interval
from einalg.language.index.cases import Piecewise
from einalg.language.index.constraint import Constraint
from einalg.language.index.remainder import as_number
from einalg.language.ir.body import Reduce, is_truth, with_operands
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.dtypes import bounds, is_float, numpy_dtype
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, paddings, unpadded

BITS_IN_SINGLE = 16  # of integers that single precision holds
BITS_IN_DOUBLE = 32


class DoubleConversion(Conversion):
    """`f64(x)`: an integer in double precision."""

    dtype = "f64"


DoubleConversion.__name__ = "f64"


def with_infinities(scope: Scope, statements: Mapping[str, Scope]) -> Scope:
    """Return a scope in which integers that may be infinite are floats where that counts.

    `statements` are as in `einalg.language.analysis.padded_reads.layers`.

    >>> import einalg as ea
    >>> text = "O[i:4] = x[i] + Max[s:5](n[s], where=s < i)"
    >>> print(with_infinities(ea.parse(text, n=ea.tensor("n", (5,), "i32"), x=(4,)), {}).body)
    x[i] + Max[s:5](f64(n[s]), where=i >= s + 1)
    """
    infinite = InfiniteIntegers(scope, statements)
    if infinite.are_none:
        return scope
    body = _Rewriting(infinite, statements).value(scope.body)
    if body is scope.body:
        return scope
    return Scope(scope.iterators, scope.where, body)


@dataclass
class _Rewriting:
    """Writes parts of a body anew; each of its functions returns a part's value in its own way."""

    infinite: InfiniteIntegers
    statements: Mapping[str, Scope]

    def value(self, part: Any) -> Any:
        """In the type of the part, right where that has it."""
        if isinstance(part, Reduce):
            return self._reduction(part)
        if isinstance(part, (Access, IndexArithmetic)) or not part.args:
            return part
        if is_truth(part):
            return self.condition(part)
        if is_float(result_dtype(part)):
            return self._with_operands(part, self.in_float)
        if isinstance(part, (sympy.Max, sympy.Min)):
            return self._extreme(part)
        if isinstance(part, sympy.sign) and self.infinite.may_be(part.args[0]):
            return self._sign(part.args[0])
        return self._with_operands(part, self.value)

    def in_float(self, part: Any) -> Any:
        """As an operand of a float."""
        if is_truth(part) or is_float(result_dtype(part)) or not self.infinite.may_be(part):
            return self.value(part)
        floating = self.floating(part, result_dtype(part))
        if _is_choice(part):
            return floating  # as exact as the float of which it is a part
        return Piecewise((self.value(part), self._are_finite(part)), (floating, True))

    def condition(self, part: Any) -> Any:
        """As a condition."""
        if isinstance(part, TESTS):
            return self._with_operands(part, self.in_float)
        if not isinstance(part, sympy.Rel):
            return self._with_operands(part, self.condition)
        sides = [side for side in part.args if self._may_be_infinite_integer(side)]
        if not sides:
            return self._with_operands(part, self.value)
        dtypes = list(map(result_dtype, part.args))
        if any(map(is_float, dtypes)):
            return self._with_operands(part, self.in_float)
        floating = self._with_operands(part, self._floating_side)
        if all(map(_is_choice, part.args)) and all(_bits(t) <= BITS_IN_DOUBLE for t in dtypes):
            return floating
        finite = sympy.And(*map(self._are_finite, sides))
        exact = self._with_operands(part, self.value)
        return sympy.Or(sympy.And(finite, exact), sympy.And(negation(finite), floating))

    def floating(self, part: Any, dtype: str, absorbed: Collection[Access] = ()) -> Any:
        """As a float that holds integers of a type, and their infinities; `absorbed` are read
        inside of their tensors alone.
        """
        if isinstance(part, Access):
            if part in absorbed or not self.infinite.may_be(part):
                return _converted(part, dtype)
            return self._with_fills(part, dtype)
        if is_truth(part) or not self.infinite.may_be(part, absorbed):
            return self.value(part)
        if isinstance(part, Reduce):
            inner = self.floating(part.body, dtype, absorbed_reads(part))
            return Reduce(part.op, part.iterators, part.where, _converted(inner, dtype))
        return self._with_operands(part, lambda operand: self.floating(operand, dtype, absorbed))

    def _floating_side(self, side: Any) -> Any:
        return self.floating(side, result_dtype(side))

    def _may_be_infinite_integer(self, side: Any) -> bool:
        is_integer = not is_truth(side) and not is_float(result_dtype(side))
        return is_integer and self.infinite.may_be(side)

    def _with_operands(self, part: Any, change: Callable[[Any], Any]) -> Any:
        """Return an operation on changed operands; the cases of `Piecewise` are its operands."""
        if isinstance(part, sympy.Piecewise):
            cases = [(change(c.args[0]), self.condition(c.args[1])) for c in part.args]
            if all(new == (c.args[0], c.args[1]) for new, c in zip(cases, part.args)):
                return part
            return Piecewise(*cases)
        operands = tuple(map(change, part.args))
        if operands == part.args:
            return part
        return with_operands(part, operands)

    def _reduction(self, node: Reduce) -> Any:
        if any(number_interval(it.extent)[1] <= 0 for it in node.iterators):
            return node  # nothing inside is computed
        absorbed = absorbed_reads(node)
        where = node.where
        if self._skips_infinite(node, absorbed):
            finite = self.infinite.finite_where(node.body, absorbed)
            if finite is None:
                raise CodegenError(
                    f"no code can be generated for {node}, of integers some of which may be "
                    "infinite\n  cast what is reduced inside to a float, e.g. "
                    "ea.ops.cast(A, 'f64')"
                )
            where = tuple(dict.fromkeys((*where, *finite)))
        body = self.value(node.body)
        if body == node.body and where == node.where:
            return node
        return Reduce(node.op, node.iterators, where, body)

    def _skips_infinite(self, node: Reduce, absorbed: Collection[Access]) -> bool:
        """Tell whether an extreme of integers is computed of operands that may be infinite."""
        if node.op not in EXTREMES or is_float(result_dtype(node)) or _is_choice(node.body):
            return False
        return self.infinite.may_be(node.body, absorbed)

    def _extreme(self, part: Any) -> Any:
        """Leave out operands where they are infinite: the end of a type is no end of another."""
        operands = list(map(self.value, part.args))
        infinite = [operand for operand in part.args if self.infinite.may_be(operand)]
        op = type(part).__name__
        if all(_is_choice(one) and _ends_beyond(op, one, part.args) for one in infinite):
            return self._with_operands(part, self.value)
        finite = [new for new, old in zip(operands, part.args) if old not in infinite]
        total = part.func(*finite) if finite else self.value(infinite.pop())
        for operand in infinite:
            larger = part.func(self.value(operand), total)
            total = Piecewise((larger, self._are_finite(operand)), (total, True))
        return total

    def _sign(self, operand: Any) -> Any:
        above = self.floating(operand, result_dtype(operand)) > 0
        return Piecewise(
            (sympy.sign(self.value(operand)), self._are_finite(operand)), (1, above), (-1, True)
        )

    def _are_finite(self, part: Any, absorbed: Collection[Access] = ()) -> Any:
        """Return a condition under which no operand of a part is infinite."""
        conditions = self.infinite.finite_where(part, absorbed)
        if conditions is not None:
            return _all_of(conditions)
        leaves = dict.fromkeys(self.infinite.leaves(part, absorbed))
        return sympy.And(*(isfinite(self.floating(leaf, result_dtype(leaf))) for leaf in leaves))

    def _with_fills(self, access: Access, dtype: str) -> Any:
        """Return a read as cases of its conditions, so that an infinity is no element."""
        inside, *others = layers(access, self.statements)
        finite = Access.of(_filled_with_zeros(access.base), access.subscripts)
        cases = [(_converted(finite, dtype), _all_of(inside[0]))]
        cases += [(fill, _all_of(conditions)) for conditions, fill in others]
        return Piecewise(*cases)


def _is_choice(part: Any) -> bool:
    """Tell whether a part is one of the integers that it reads, which a float may be as well."""
    if isinstance(part, (Access, IndexArithmetic)) or part.is_number:
        return True
    if isinstance(part, Reduce):
        return part.op in EXTREMES and _is_choice(part.body)
    if isinstance(part, sympy.Piecewise):
        return all(_is_choice(case.args[0]) for case in part.args)
    return isinstance(part, (sympy.Max, sympy.Min)) and all(map(_is_choice, part.args))


def _converted(part: Any, dtype: str) -> Any:
    """Return integers of a type in a float that holds them."""
    if is_float(result_dtype(part)):
        return part
    if _bits(dtype) <= BITS_IN_SINGLE:
        return SingleConversion(part)
    return DoubleConversion(part)


def _bits(dtype: str) -> int:
    return 8 * numpy_dtype(dtype).itemsize


def _end(op: str, dtype: str) -> int:
    """Return the integer of a type that changes no extreme of its integers."""
    least, largest = bounds(dtype)
    if op == "Max":
        return least
    return largest


def _ends_beyond(op: str, part: Any, others: Iterable[Any]) -> bool:
    """Tell whether the end of the type of a part is no less an extreme than what others may be."""
    end = _end(op, result_dtype(part))
    for other in others:
        number = int(other) if other.is_number else _end(op, result_dtype(other))
        if (number < end) if op == "Max" else (number > end):
            return False
    return True


def _filled_with_zeros(base: Any) -> Padded:
    """Return the padded view of a tensor or statement with zeros around it."""
    tensor = unpadded(base)
    amounts = [(0, 0)] * tensor.rank
    for view in paddings(base):
        amounts = [(a + c, b + d) for (a, b), (c, d) in zip(amounts, view.amounts)]
    return Padded(tensor, amounts)


def _all_of(conditions: Iterable[Constraint]) -> Any:
    """Return whether conditions on indices all hold, as a part of a body."""
    return sympy.And(*map(_as_comparison, conditions))


def _as_comparison(condition: Constraint) -> Any:
    form = as_number(condition.form)
    if condition.relation == "==":
        return sympy.Eq(form, 0)
    return sympy.GreaterThan(form, 0)
