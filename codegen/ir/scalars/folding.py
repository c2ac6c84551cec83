"""Constant folding: scalar functions of values, simplified where some of these are constants.

Each function takes the values and the type in which it is computed; `FOLDS` has them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, prod

from codegen.ir.nodes import Apply, Number, Predicate, Value
from codegen.ir.scalars.intervals import interval
from codegen.ir.types import LONG, WEAK, common
from einalg.language.index.constraint import Constraint
from einalg.language.ir.dtypes import holds, is_float


def cast(value: Value, dtype: str) -> Value:
    """Return a value in another type."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Number):
        return Number(value.value, dtype)
    return Apply("cast", (value,), dtype)


def _is(value: Value, number: float) -> bool:
    return isinstance(value, Number) and value.value == number


def _any_is(values: Sequence[Value], number: float) -> bool:
    return any(_is(value, number) for value in values)


def _without(values: Sequence[Value], number: float) -> list[Value]:
    return [value for value in values if not _is(value, number)]


def _flat(op: str, arguments: list[Value], dtype: str) -> list[Value]:
    """Return arguments of an associative function, those of the same function and type opened."""
    results: list[Value] = []
    for argument in arguments:
        if isinstance(argument, Apply) and (argument.op, argument.dtype) == (op, dtype):
            results += argument.arguments
        else:
            results.append(argument)
    return results


def _with_one_number(
    values: list[Value], combine: Callable[[list[int]], int], dtype: str
) -> list[Value]:
    """Return the operands of a sum or product with its integers as one, where its type holds that:
    C computes numbers in a type of their own.
    """
    numbers = [value for value in values if isinstance(value, Number)]
    integers = [number.value for number in numbers if isinstance(number.value, int)]
    if is_float(dtype) or len(integers) < len(numbers) or len(integers) < 2:
        return values
    number = combine(integers)
    if not holds(dtype, number):
        return values
    return [Number(number, WEAK), *(value for value in values if value not in numbers)]


def _associative(op: str, arguments: Sequence[Value], dtype: str, identity: float) -> Value:
    """Return a function of some arguments; one as it is, none as the identity.

    An integer that its type does not hold has none: it wraps round only where it is stored.
    """
    if not arguments:
        return Number(identity, dtype)
    if len(arguments) == 1:
        (value,) = arguments
        if isinstance(value, Number) and _is_longer(value.value, dtype):
            return Number(value.value, WEAK)
        return cast(value, dtype)
    return Apply(op, tuple(arguments), dtype)


def _is_longer(number: object, dtype: str) -> bool:
    """Return whether a number is an integer that a type of integers does not hold."""
    if dtype == WEAK or not isinstance(number, int):
        return False
    return not holds(dtype, number)


def _add(arguments: list[Value], dtype: str) -> Value:
    terms = _with_one_number(_flat("add", arguments, dtype), sum, dtype)
    return _associative("add", _without(terms, 0), dtype, 0)


def _mul(arguments: list[Value], dtype: str) -> Value:
    flat = _with_one_number(_flat("mul", arguments, dtype), prod, dtype)
    if _any_is(flat, 0):
        return Number(0, dtype)
    factors = _without(flat, 1)
    if len(factors) > 1:
        for position, factor in enumerate(factors):
            if _is(factor, -1):
                others = factors[:position] + factors[position + 1 :]
                return Apply("neg", (_mul(others, dtype),), dtype)
    return _associative("mul", factors, dtype, 1)


def _div(arguments: list[Value], dtype: str) -> Value:
    top, bottom = arguments
    if _is(top, 0) and dtype and not isinstance(bottom, Number):
        return Number(0, dtype)
    if _is(bottom, 1):
        return cast(top, dtype)
    return Apply("div", (top, bottom), dtype)


def _ipow(arguments: list[Value], dtype: str) -> Value:
    if _is(arguments[1], 0):
        return Number(1, dtype)
    return Apply("ipow", tuple(arguments), dtype)


def _max(arguments: list[Value], dtype: str) -> Value:
    return _extreme("max", -inf, arguments, dtype)


def _min(arguments: list[Value], dtype: str) -> Value:
    return _extreme("min", inf, arguments, dtype)


def _extreme(op: str, identity: float, arguments: list[Value], dtype: str) -> Value:
    """Return a maximum or minimum, a constant in the first place.

    The comparison keeps a NaN in the second place.
    """
    constants: list[Number] = []
    others: list[Value] = []
    for value in dict.fromkeys(_without(_flat(op, arguments, dtype), identity)):
        if isinstance(value, Number):
            constants.append(value)
        else:
            others.append(value)
    if others and not is_float(dtype):
        constants = [c for c in constants if not _is_no_bound(op, c.value, others)]
    return _associative(op, [*constants, *others], dtype, identity)


def _is_no_bound(op: str, number: float | Fraction, values: Sequence[Value]) -> bool:
    """Tell whether no maximum or minimum of integers is beyond a number that bounds it."""
    if op == "max":
        return number < max(interval(value)[0] for value in values)
    return number > min(interval(value)[1] for value in values)


def _select(arguments: list[Value], dtype: str) -> Value:
    test, yes, no = arguments
    if isinstance(test, Number):
        if test.value:
            return cast(yes, dtype)
        return cast(no, dtype)
    if yes == no:
        return cast(yes, dtype)
    return Apply("select", (test, yes, no), dtype)


def _and(arguments: list[Value], dtype: str) -> Value:
    """Return whether all arguments hold; conditions on indices together, and first."""
    if _any_is(arguments, 0):
        return Number(False, "bool")
    conditions: dict[Constraint, None] = {}
    parts: list[Value] = []
    for argument in arguments:
        if isinstance(argument, Predicate):
            conditions.update(dict.fromkeys(argument.conditions))
        elif not isinstance(argument, Number):
            parts.append(argument)
    if conditions:
        parts.insert(0, Predicate(tuple(conditions)))
    return _logical("and", parts, True)


def _or(arguments: list[Value], dtype: str) -> Value:
    parts = []
    for argument in arguments:
        if not isinstance(argument, Number):
            parts.append(argument)
        elif argument.value:
            return Number(True, "bool")
    return _logical("or", parts, False)


def _logical(op: str, parts: Sequence[Value], identity: bool) -> Value:
    if not parts:
        return Number(identity, "bool")
    if len(parts) == 1:
        return parts[0]
    return Apply(op, tuple(parts), "bool")


def _not(arguments: list[Value], dtype: str) -> Value:
    (test,) = arguments
    if isinstance(test, Number):
        return Number(not test.value, "bool")
    return Apply("not", (test,), "bool")


FOLDS: dict[str, Callable[[list[Value], str], Value]] = {
    "add": _add,
    "mul": _mul,
    "div": _div,
    "ipow": _ipow,
    "max": _max,
    "min": _min,
    "select": _select,
    "and": _and,
    "or": _or,
    "not": _not,
}


def apply(op: str, arguments: list[Value], dtype: str = "") -> Value:
    """Return `op` of some values, simplified where they are constants."""
    dtype = dtype or common(arguments, op)
    if dtype == "bool" and op in ("add", "mul", "ipow", "abs", "sign"):
        dtype = LONG
    fold = FOLDS.get(op)
    if fold is None:
        return Apply(op, tuple(arguments), dtype)
    return fold(arguments, dtype)
