"""Moves that keep what NaN and infinities give, for programs of models (design §2).

A body is evaluated by SymPy where a move puts it together: over the real numbers `(x + 1) - x` is
1, `x*y/x` is `y`, and `exp(log(x))` is `x`. A framework gives NaN for some of these, where `x` is
NaN, infinite or outside of a function's domain. Here each evaluation is tried on such values, and
one that gives another number than the operation itself is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from sympy.functions.elementary.piecewise import ExprCondPair

from derive.rewriting.moves import Rule
from einalg.errors import RuleError
from einalg.language.index.affine import IndexArithmetic
from einalg.language.interpreters.numpy.functions import COMPARISONS, FUNCTIONS, LOGIC, as_number
from einalg.language.ir.body import Reduce, checked_evaluation
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.tensor import Access

Array = np.ndarray[Any, Any]
Values = Mapping[Any, Array]

ARITHMETIC = (sympy.Add, sympy.Mul)
FINITE = (1.5, -0.75, 0.25)
# The last two are those of which an exponential is infinite or 0.
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -2.0, 1e4, -1e4)
RANDOM_POINTS = 64
MAX_CACHED = 4096


@dataclass(frozen=True)
class _Keeping:
    """A rewriting of a rule, which fails where an evaluation loses NaN or an infinity."""

    rewrite: Callable[..., Any]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with checked_evaluation(_check):
            return self.rewrite(*arguments, **named)


def keeping_nonfinite(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return the same rules, whose moves keep the values that NaN and infinities give.

    >>> import einalg as ea
    >>> from derive.rewriting.moves import Move, apply
    >>> from derive.rules import ALL
    >>> program = ea.parse("T[i] = A[i] + B[i]\\nO[i] = T[i] - A[i]", A=(4,), B=(4,))
    >>> fusion = Move("expression fusion", ("O",), {"producer": "T"})
    >>> print(apply(program, fusion, ALL))
    O[i:4] = B[i]
    >>> apply(program, fusion, keeping_nonfinite(ALL))
    Traceback (most recent call last):
    einalg.errors.RuleError: -A[i] + A[i] + B[i] would become B[i], which is another number for NaN
      leave the statements apart
    """
    return {name: replace(rule, rewrite=_Keeping(rule.rewrite)) for name, rule in rules.items()}


def _check(function: Any, operands: tuple[Any, ...], result: Any) -> None:
    """Raise `RuleError` where an operation on operands is another number than its evaluation."""
    if issubclass(function, ExprCondPair) or keeps_nonfinite(function, operands, result):
        return
    sign = {sympy.Add: " + ", sympy.Mul: " * "}.get(function)
    text = f"{function.__name__}({', '.join(map(str, operands))})"
    if sign is not None:
        text = sign.join(map(str, operands)).replace("+ -", "- ")
    raise RuleError(
        f"{text} would become {result}, which is another number for NaN\n"
        "  leave the statements apart"
    )


@lru_cache(MAX_CACHED)
def keeps_nonfinite(function: Any, operands: tuple[Any, ...], result: Any) -> bool:
    """Return whether an evaluation gives NaN and infinities where the operation does.

    Tried on special values of all that is read, unless the result has as many operations.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (4,)), ea.indices("i")
    >>> x = A[i]
    >>> keeps_nonfinite(sympy.Add, (2*x, x), 3*x), keeps_nonfinite(sympy.Add, (2*x, -x), x)
    (True, False)
    >>> keeps_nonfinite(sympy.exp, (sympy.log(x),), x), keeps_nonfinite(sympy.Mul, (x, x), x**2)
    (False, True)
    """
    operations = sum(map(_operations, operands)) + (function not in ARITHMETIC)
    if _operations(result) >= operations:
        return True
    leaves = list(dict.fromkeys(leaf for operand in operands for leaf in _leaves(operand)))
    values, is_special = _points(leaves)
    with np.errstate(all="ignore"):
        try:
            before = _applied(function, operands, values)
            after = _value(result, values)
        except KeyError:  # a function that NumPy has not: all that was read must be read still
            return set(leaves) <= set(_leaves(result))
    return bool(np.all(_agrees(before, after) | ~is_special))


def _agrees(before: Any, after: Any) -> Array:
    """Return where both are NaN, the same infinity or truth value, or numbers."""
    if np.asarray(before).dtype == np.bool_ or np.asarray(after).dtype == np.bool_:
        return np.equal(before, after)
    both_finite = np.isfinite(before) & np.isfinite(after)
    return both_finite | np.equal(before, after) | (np.isnan(before) & np.isnan(after))


def _operations(body: Any) -> int:
    """Return how many elements and functions a body has; sums and products count nothing."""
    if _is_leaf(body):
        return 1
    if isinstance(body, ARITHMETIC) or not body.args:
        return sum(map(_operations, body.args))
    return 1 + sum(map(_operations, body.args))


def _is_leaf(body: Any) -> bool:
    return isinstance(body, (Access, Reduce, IndexArithmetic))


def _leaves(body: Any) -> Iterator[Any]:
    """Yield the elements, reductions and indices that a body is made of."""
    if _is_leaf(body):
        yield body
        return
    for operand in body.args:
        yield from _leaves(operand)


def _points(leaves: Sequence[Any]) -> tuple[dict[Any, Array], Array]:
    """Return values for all leaves at some points, and at which of these one is special.

    Each leaf is special alone, and all of them are at random.
    """
    floats = [leaf for leaf in leaves if _is_of_floats(leaf)]
    count = len(floats) * len(SPECIAL) * 2 + RANDOM_POINTS
    draw = np.random.default_rng(0)
    values = {leaf: draw.choice(FINITE, count) for leaf in floats}
    is_special = np.zeros(count, np.bool_)
    for position, leaf in enumerate(floats):
        places = np.arange(2 * len(SPECIAL)) + 2 * len(SPECIAL) * position
        values[leaf][places] = np.repeat(SPECIAL, 2)
        values[leaf][-RANDOM_POINTS:] = draw.choice((*SPECIAL, *FINITE), RANDOM_POINTS)
        is_special |= ~np.isin(values[leaf], FINITE)
    for leaf in leaves:
        if leaf not in values:
            values[leaf] = draw.integers(0, 2, count)
    return values, is_special


def _is_of_floats(leaf: Any) -> bool:
    return not isinstance(leaf, IndexArithmetic) and is_float(result_dtype(leaf))


def _value(body: Any, values: Values) -> Any:
    """Return the value of a body at all points."""
    if body in values:
        return values[body]
    if body in (sympy.true, sympy.false):
        return np.bool_(body is sympy.true)
    if not body.args or body.is_number:
        return float(body)
    return _applied(body.func, body.args, values)


def _applied(function: Any, operands: Sequence[Any], values: Values) -> Any:
    """Return an operation on operands at all points; `KeyError` for a function without values."""
    if issubclass(function, sympy.Piecewise):
        return _chosen(operands, values)
    parts = [_value(operand, values) for operand in operands]
    if function is sympy.Add:
        return sum(map(as_number, parts))
    if function is sympy.Mul:
        return np.multiply.reduce(np.broadcast_arrays(*map(as_number, parts)))
    if function is sympy.Pow:
        return _power(*map(as_number, parts))
    if function in COMPARISONS:
        return COMPARISONS[function](*map(as_number, parts))
    if function in LOGIC:
        return LOGIC[function](*parts)
    return FUNCTIONS[function](*map(as_number, parts))


def _power(base: Any, exponent: Any) -> Any:
    """Return a power; that of a half is a root, which minus infinity has none of."""
    if np.ndim(exponent) == 0 and exponent == 0.5:
        return np.sqrt(base)
    return np.power(np.asarray(base, np.float64), exponent)


def _chosen(cases: Sequence[Any], values: Values) -> Any:
    result: Any = np.nan
    for value, condition in reversed([case.args for case in cases]):
        result = np.where(_value(condition, values), _value(value, values), result)
    return result
