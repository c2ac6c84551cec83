"""Rewritten scopes in the element type that they had before (design §2).

A part of a body without a type of its own, such as a sum of truth values or a number, takes that of
what is around it. A rewriting may make it a scope or a sum by itself, which has the longest type:
it gets the former one by a zero of that, which is added where the type is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy

from derive.rewriting.body_queries import has_infinite_truths, with_body
from einalg.errors import RuleError
from einalg.language.analysis.ranges.value_ranges import value_range
from einalg.language.conversion import HALVES
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.remainder import applied
from einalg.language.ir.body import Reduce, as_factor
from einalg.language.ir.dtype_inference import ROUNDED, operation_dtype
from einalg.language.ir.dtypes import bounds, is_float, promote
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant
from einalg.language.ir.traversal import rebased


def may_lose_type(scope: Scope) -> bool:
    """Tell whether what a scope is rewritten to may have a longer type of numbers than it has.

    Numbers of the longest types have none, but where elements without a sign are among them, or
    integers are rounded fractions, which are floats elsewhere; those of 16 bits do, as numbers by
    themselves are of 32.
    """
    if scope.dtype == "bool":
        return False
    if scope.dtype in HALVES:
        return True
    if not is_float(scope.dtype) and scope.dtype != "i64":
        return True
    if any(tensor.dtype == "u64" for tensor in scope.tensors.values()):
        return True
    return scope.dtype == "i64" and scope.body.has(*ROUNDED)


def of_type(scope: Scope, dtype: str, readable: Iterable[Scope]) -> Scope:
    """Return a rewritten scope in the type that the scope had before.

    A sum of truth values is no number, and what is multiplied by 0 has no type of floats. Raises
    `RuleError` where a truth value of `readable` scopes may be an infinity: that it is not 0 does
    not make it 1; and where the values do not have that type, or a part does not fit into it that
    was exact.
    """
    if scope.dtype == dtype:
        return scope
    if dtype == "bool":
        if has_infinite_truths(readable):
            raise RuleError(
                "the sum of what may be infinite is no truth value\n"
                "  give the padding a fill of 0 or 1, and the extreme a range that is not empty"
            )
        return Scope(scope.iterators, scope.where, sympy.Ne(scope.body, 0))
    zero = Constant(f"{dtype}_zero_", (), dtype, (0,))  # no name that a front end gives ends in _
    typed = Scope(scope.iterators, scope.where, _in_type(scope.body, zero[()], True))
    if typed.dtype != dtype:
        raise RuleError(f"the values have the type {typed.dtype}, and not {dtype} as before")
    return typed


def _in_type(body: Any, zero: Access, wraps: bool) -> Any:
    """Return a body in the type of a zero, as far as its parts have one that is no longer."""
    narrow = _narrowed(as_factor(body), zero, wraps)
    if not narrow.is_number and operation_dtype([narrow]) == zero.tensor.dtype:
        return narrow
    return narrow + zero


def _narrowed(part: Any, zero: Access, wraps: bool) -> Any:
    """Return a part of a body with the parts that have a longer type than a zero in the type of
    that, where they have it for lack of another one.

    What is computed of a part wraps round in that type as the part does, or the part must fit.
    """
    dtype = zero.tensor.dtype
    if part.is_number or promote(operation_dtype([part]), dtype) == dtype:
        return part
    if isinstance(part, Access):
        inner = part.tensor
        if not isinstance(inner, Scope):
            return part
        if inner.dtype != dtype and not wraps:
            _check_fits(inner.body, dtype)
        return rebased(part, of_type(inner, dtype, ()))
    if isinstance(part, Reduce):
        if not _counts(part):
            return with_body(part, _narrowed(part.body, zero, wraps and is_ring(part)))
        if not wraps:
            _check_fits(part, dtype)
        return with_body(part, _in_type(part.body, zero, wraps))
    if isinstance(part, IndexArithmetic):
        return part
    if isinstance(part, sympy.Piecewise):
        pairs = [case.args for case in part.args]
        cases = [
            (_narrowed(as_factor(value), zero, wraps), condition) for value, condition in pairs
        ]
        return applied(part.func, cases)
    wraps = wraps and is_ring(part)
    return applied(part.func, tuple(_narrowed(operand, zero, wraps) for operand in part.args))


def is_ring(part: Any) -> bool:
    """Tell whether operands that wrap round change a part by as much as wrapping that does."""
    if isinstance(part, Reduce):
        return part.op in ("Sum", "Prod")
    if part.is_Pow:
        return bool(part.exp.is_Integer and part.exp > 0)
    return bool(part.is_Add or part.is_Mul) and all(
        operand.is_Integer or not operand.is_number for operand in part.args
    )


def _check_fits(part: Any, dtype: str) -> None:
    low, high = bounds(dtype)
    least, largest = value_range(as_factor(part))
    if least < low or largest > high:
        raise RuleError(
            f"a part of the type {dtype} may have values from {least} to {largest}\n"
            "  cast what is around it to a longer type, e.g. ea.ops.cast(A, 'i64')"
        )


def _counts(node: Reduce) -> bool:
    """Tell whether a reduction is of numbers of the longest type for lack of another one."""
    body = node.body
    has_no_type = body.is_number or operation_dtype([body]) == "bool"
    return has_no_type and node.op in ("Sum", "Prod")
