"""Types' ranges as facts: an `u8` is at most 255, a truth value is its own square (design §9).

Every polynomial lies in an interval that the types of its elements, the ranges of its indices and
the functions in it give. A maximum needs no argument that another one is never below, a comparison
that the intervals decide is a number, and whole numbers have no fractions. Values are those of real
arithmetic: nothing overflows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

from derive.proof.exact.polynomial import (
    ConstantElements,
    ConstantFactor,
    ElementFactor,
    Factor,
    FunctionFactor,
    IndexValue,
    Polynomial,
    SizeFactor,
    Term,
    constant,
    constant_value,
    multiplied,
)
from einalg.language.analysis.ranges.interval_arithmetic import (
    ANY,
    TRUTH,
    Bound,
    Interval,
    hull,
    maximum_interval,
    minimum_interval,
    power_interval,
    product_interval,
    sum_interval,
)
from einalg.language.index.affine import Index
from einalg.language.index.bounds import number_interval
from einalg.language.index.size import largest, least
from einalg.language.ir.dtypes import bounds, is_float

Ranges = Mapping[Index, tuple[Any, Any]]
Arguments = tuple[Polynomial, ...]

SIGNED_UNIT: Interval = (-1, 1)
NOT_NEGATIVE: Interval = (0, inf)
COMPARISONS: Mapping[str, Callable[[Bound, Bound], bool]] = {
    "StrictLessThan": lambda left, right: left < right,
    "LessThan": lambda left, right: left <= right,
    "Equality": lambda left, right: left == right,
    "Unequality": lambda left, right: left != right,
}
TRUTH_FUNCTIONS = {*COMPARISONS, "And", "Or", "Not", "Xor"}
FUNCTION_RANGES: Mapping[str, Interval] = {
    **dict.fromkeys(sorted(TRUTH_FUNCTIONS), TRUTH),
    **dict.fromkeys(("sign", "tanh", "erf", "sin", "cos"), SIGNED_UNIT),
    **dict.fromkeys(("exp", "Abs"), NOT_NEGATIVE),
    "cosh": (1, inf),
    "erfc": (0, 2),
}
EXTREMES: Mapping[str, Callable[[Sequence[Interval]], Interval]] = {
    "Max": maximum_interval,
    "Min": minimum_interval,
}
WHOLE_FUNCTIONS = {*TRUTH_FUNCTIONS, "sign", "floor", "ceiling"}
MAX_TERMS = 64  # of a product that a fact about truth values gives


def needed_arguments(function: str, arguments: Arguments, ranges: Ranges) -> Arguments:
    """Return the arguments that a function depends on: those of a maximum or minimum that can
    decide it, and the cases of a choice that can be met.
    """
    if function in ("Max", "Min"):
        return _deciding(function, arguments, ranges)
    if function == "Piecewise":
        return _possible_cases(arguments)
    return arguments


def value_in_range(function: str, arguments: Arguments, ranges: Ranges) -> Polynomial | None:
    """Return the polynomial that a function is by the ranges of its arguments; None where they do
    not tell.
    """
    first = arguments[0]
    if function in ("Max", "Min") and len(arguments) == 1:
        return first
    if function == "Piecewise" and constant_value(arguments[1]) == 1:
        return first
    if function in COMPARISONS:
        return _comparison(function, arguments, ranges)
    if function in ("floor", "ceiling") and is_whole(first):
        return first
    if function in ("Abs", "sign"):
        return _by_sign(function, first, interval(first, ranges))
    return None


def in_one_form(function: str, arguments: Arguments) -> tuple[str, Arguments]:
    """Return a comparison of whole numbers as `0 <= difference`; other functions as they are."""
    if function in ("StrictLessThan", "LessThan") and all(map(is_whole, arguments)):
        left, right = arguments
        gap = constant(-int(function == "StrictLessThan"))
        return "LessThan", ((), (*right, *_scaled(left, -1), *gap))
    return function, arguments


def _deciding(function: str, arguments: Arguments, ranges: Ranges) -> Arguments:
    """Return the arguments without those that another one is never below (of a minimum: above)."""
    intervals = [interval(argument, ranges) for argument in arguments]
    if function == "Min":
        intervals = [(-high, -low) for low, high in intervals]
    remaining = list(range(len(arguments)))
    for position in range(len(arguments)):
        others = [other for other in remaining if other != position]
        if any(intervals[position][1] <= intervals[other][0] for other in others):
            remaining = others
    return tuple([arguments[position] for position in remaining])


def _possible_cases(arguments: Arguments) -> Arguments:
    """Return the values and conditions of a choice up to the first that always holds, without those
    that never do.
    """
    cases: list[Polynomial] = []
    for value, condition in zip(arguments[::2], arguments[1::2]):
        holds = constant_value(condition)
        if holds != 0:
            cases += (value, condition)
        if holds is not None and holds != 0:
            break
    return tuple(cases) or arguments


def _comparison(function: str, arguments: Arguments, ranges: Ranges) -> Polynomial | None:
    left, right = arguments
    one, two = interval(left, ranges), interval(right, ranges)
    decided = _decided(function, one, two)
    if decided is not None:
        return constant(int(decided))
    compares = COMPARISONS[function]
    bound = constant_value(right)
    if bound is not None and _is_truth(left, one):
        return _chosen(left, compares(0, bound), compares(1, bound))
    bound = constant_value(left)
    if bound is not None and _is_truth(right, two):
        return _chosen(right, compares(bound, 0), compares(bound, 1))
    return None


def _decided(function: str, one: Interval, two: Interval) -> bool | None:
    """Return whether a comparison holds (True) or fails (False) for all values of two intervals;
    None where neither is certain.
    """
    (low, high), (other_low, other_high) = one, two
    if function in ("Equality", "Unequality"):
        if high < other_low or other_high < low:
            return function == "Unequality"
        return None
    compares = COMPARISONS[function]
    if compares(high, other_low):
        return True
    return None if compares(low, other_high) else False


def _is_truth(polynomial: Polynomial, its_interval: Interval) -> bool:
    return its_interval[0] >= 0 and its_interval[1] <= 1 and is_whole(polynomial)


def _chosen(truth: Polynomial, if_false: bool, if_true: bool) -> Polynomial:
    """Return a truth value that depends on another one."""
    return (*constant(int(if_false)), *_scaled(truth, int(if_true) - int(if_false)))


def _by_sign(function: str, argument: Polynomial, its_interval: Interval) -> Polynomial | None:
    """Return the absolute value or the sign of what never changes its sign."""
    low, high = its_interval
    if function == "Abs" and (low >= 0 or high <= 0):
        return _scaled(argument, 1 if low >= 0 else -1)
    if function == "sign" and (low > 0 or high < 0):
        return constant(1 if low > 0 else -1)
    return None


def _scaled(polynomial: Polynomial, number: int) -> Polynomial:
    return multiplied([constant(number), polynomial], max(MAX_TERMS, len(polynomial)))


def is_whole(polynomial: Polynomial) -> bool:
    """Return whether all values of a polynomial are known to be integers."""
    for term in polynomial:
        if term.coefficient.denominator != 1 or not all(map(_is_whole_factor, term.factors)):
            return False
    return True


def _is_whole_factor(factor: Factor) -> bool:
    head = factor.head
    if isinstance(head, ElementFactor):
        return not is_float(head.dtype)
    if isinstance(head, ConstantElements):
        return all(value.denominator == 1 for value in head.values)
    if isinstance(head, FunctionFactor):
        if head.function in ("Max", "Min"):
            return all(map(is_whole, head.arguments))
        return head.function in WHOLE_FUNCTIONS
    return isinstance(head, (IndexValue, SizeFactor))


def is_truth_factor(factor: Factor) -> bool:
    """Return whether a factor is 0 or 1, and so its own square."""
    head = factor.head
    if isinstance(head, ElementFactor):
        return head.dtype == "bool"
    return isinstance(head, FunctionFactor) and head.function in TRUTH_FUNCTIONS


def interval(polynomial: Polynomial, ranges: Ranges) -> Interval:
    """Return bounds of all values of a polynomial, for all inputs of its types."""
    return sum_interval([_term_interval(term, ranges) for term in polynomial])


def _term_interval(term: Term, ranges: Ranges) -> Interval:
    factors: list[Interval] = [(term.coefficient, term.coefficient)]
    for factor, times in Counter(term.factors).items():
        factors.append(power_interval(_factor_interval(factor, ranges), times))
    extents = [(max(0, least(it.extent)), largest(it.extent)) for it in term.iterators]
    fewest, most = product_interval(extents)
    return product_interval([*factors, (0 if term.where else fewest, most)])


def _factor_interval(factor: Factor, ranges: Ranges) -> Interval:
    head = factor.head
    if isinstance(head, ElementFactor):
        if is_float(head.dtype):
            return ANY
        return bounds(head.dtype)
    if isinstance(head, ConstantElements):
        return min(head.values), max(head.values)
    if isinstance(head, ConstantFactor):
        return {"oo": (inf, inf), "-oo": (-inf, -inf)}.get(head.value, ANY)
    if isinstance(head, FunctionFactor):
        return _function_interval(head, ranges)
    if isinstance(head, SizeFactor):
        return number_interval(head.size.as_affine())
    return factor.subscripts[0].interval_of_numbers(ranges)


def _function_interval(head: FunctionFactor, ranges: Ranges) -> Interval:
    if head.function in EXTREMES:
        return EXTREMES[head.function]([interval(part, ranges) for part in head.arguments])
    if head.function in ("Max[]", "Min[]"):
        return _reduction_interval(head, ranges)
    if head.function == "Piecewise":
        return hull([interval(value, ranges) for value in head.arguments[::2]])
    if head.function == "value":
        return interval(head.arguments[0], ranges)
    return FUNCTION_RANGES.get(head.function, ANY)


def _reduction_interval(head: FunctionFactor, ranges: Ranges) -> Interval:
    """Return bounds of a maximum or minimum, which is infinite where it meets no value."""
    values = head.arguments[0]
    low, high = hull([interval(_of_factors(term), ranges) for term in values])
    if any(map(_is_always_met, values)):
        return low, high
    if head.function == "Max[]":
        return -inf, high
    return low, inf


def _is_always_met(term: Term) -> bool:
    """Return whether a reduction meets the values of a term whatever the point and the sizes."""
    return not term.where and all(least(it.extent) >= 1 for it in term.iterators)


def _of_factors(term: Term) -> Polynomial:
    """Return one of the values that a reduction meets, without how often it meets them."""
    return (replace(term, coefficient=Fraction(1), iterators=(), where=()),)
