"""Values of index arithmetic: at a point, over a box, and over all sizes (design §2, §14).

The protocols are what evaluators and printers need of a form, and no more. They are below the
nodes, so that the nodes can use them: `2*h + h//3 - 1` has the terms `((h, 2), (h//3, 1))` and the
constant `-1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf, isfinite
from typing import Any, Protocol

Ranges = Mapping[Any, tuple[Any, Any]]


class LinearForm(Protocol):
    """A sum of atoms with whole coefficients, and a constant."""

    @property
    def terms(self) -> tuple[tuple[Any, int], ...]: ...

    @property
    def const(self) -> int: ...

    def as_index(self) -> Any: ...

    def as_atom(self) -> Any: ...


class DividedForm(Protocol):
    """A form divided by a positive number: `argument // divisor` or `argument % divisor`."""

    @property
    def argument(self) -> LinearForm: ...

    @property
    def divisor(self) -> int: ...

    @property
    def sign(self) -> str: ...


def form_value(form: LinearForm, env: Mapping[Any, Any]) -> Any:
    """Return the value where every index has the value `env[index]`."""
    total: Any = form.const
    for atom, coefficient in form.terms:
        value = env[atom] if atom.is_Symbol else _quotient_value(atom, env)
        total = total + coefficient * value
    return total


def _quotient_value(atom: DividedForm, env: Mapping[Any, Any]) -> Any:
    value = form_value(atom.argument, env)
    if atom.sign == "//":
        return value // atom.divisor
    return value % atom.divisor


def form_interval(form: LinearForm, ranges: Ranges) -> tuple[Any, Any]:
    """Return closed bounds `[low, high]` over half-open ranges of the indices: numbers, or forms of
    sizes where a range or the form has some.
    """
    low: Any = form.const
    high: Any = form.const
    for atom, coefficient in form.terms:
        bounds = _index_interval if atom.is_Symbol else _quotient_interval
        a, b = bounds(atom, ranges)
        if coefficient < 0:
            a, b = b, a
        low, high = low + coefficient * a, high + coefficient * b
    return low, high


def _index_interval(index: Any, ranges: Ranges) -> tuple[Any, Any]:
    if index.is_size:
        value = index.as_affine()
        return value, value
    low, high = ranges[index]
    if type(low) is int and type(high) is int:
        return low, max(low, high - 1)
    return low, high - 1


def _quotient_interval(atom: DividedForm, ranges: Ranges) -> tuple[Any, Any]:
    low, high = form_interval(atom.argument, ranges)
    k = atom.divisor
    if atom.sign == "//":
        return low // k, high // k
    if low // k == high // k:
        return low % k, high % k
    return 0, k - 1


def is_of_64_bits(form: LinearForm, ranges: Ranges) -> bool:
    """Return whether no part of a form needs integers of more than 64 bits; ranges are numbers."""
    low, high = form_interval(form, ranges)
    largest = max(high, -low, abs(form.const))
    for atom, coefficient in form.terms:
        largest = max(largest, abs(coefficient))
        if not atom.is_Symbol and not is_of_64_bits(atom.argument, ranges):
            return False
    return largest < 2**63


def number_interval(value: Any) -> tuple[float, float]:
    """Return closed bounds of a number or of a form of sizes over all sizes that are allowed:
    integers, or infinities.

    Each size is looked at alone, so that bounds of forms of several sizes may be wide; each
    quotient by its own bounds, and as a linear function of sizes.
    """
    if not hasattr(value, "terms"):
        return value, value
    return _interval_over_sizes(value)


@lru_cache(maxsize=8192)
def _interval_over_sizes(form: LinearForm) -> tuple[float, float]:
    total = _Linear()
    total.add(form, 1)
    one, two = total.bounds(), _interval_by_terms(form)
    return max(one[0], two[0]), min(one[1], two[1])


def _interval_by_terms(form: LinearForm) -> tuple[float, float]:
    """Return the sum of the bounds of all terms over all sizes."""
    low: float = form.const
    high: float = form.const
    for atom, coefficient in form.terms:
        interval = _size_interval if atom.is_Symbol else _interval_of_quotient
        ends = [coefficient * end for end in interval(atom)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _size_interval(size: Any) -> tuple[float, float]:
    largest = inf if size.at_most is None else size.at_most // size.multiple_of * size.multiple_of
    return size.smallest, largest


def _interval_of_quotient(atom: DividedForm) -> tuple[float, float]:
    low, high = _interval_by_terms(atom.argument)
    k = atom.divisor
    ends = _quotient(low, k), _quotient(high, k)
    if atom.sign == "//":
        return ends
    if isfinite(low) and ends[0] == ends[1]:
        return low % k, high % k
    return 0, k - 1


def _quotient(number: float, divisor: int) -> float:
    return number // divisor if isfinite(number) else number


def interval_of_numbers(form: LinearForm, ranges: Ranges) -> tuple[float, float]:
    """Return closed bounds of a form over half-open ranges and over all sizes: integers, or
    infinities.
    """
    low, high = form_interval(form, ranges)
    if type(low) is int and type(high) is int:
        return low, high
    return number_interval(low)[0], number_interval(high)[1]


@dataclass
class _Linear:
    """A linear function of sizes, and how far its value may lie from it."""

    row: dict[Any, int | Fraction] = field(default_factory=dict)
    low: int | Fraction = 0
    high: int | Fraction = 0

    def add(self, form: LinearForm, factor: int | Fraction) -> None:
        """Add a form of sizes, a quotient `e//k` as `e/k` less at most `(k - 1)/k`."""
        self._widen(factor * form.const, factor * form.const)
        for atom, coefficient in form.terms:
            scale = factor * coefficient
            if atom.is_Symbol:
                self.row[atom] = self.row.get(atom, 0) + scale
            elif atom.sign == "//":
                part = Fraction(scale, atom.divisor)
                self.add(atom.argument, part)
                self._widen(part - scale, 0)
            else:
                self._widen(0, scale * (atom.divisor - 1))

    def _widen(self, one: int | Fraction, two: int | Fraction) -> None:
        self.low += min(one, two)
        self.high += max(one, two)

    def bounds(self) -> tuple[float, float]:
        low: Any = self.low
        high: Any = self.high
        for size, coefficient in self.row.items():
            if not coefficient:
                continue
            ends = [coefficient * end for end in _size_interval(size)]
            low, high = low + min(ends), high + max(ends)
        return _rounded(low, ceil), _rounded(high, floor)


def _rounded(value: Any, rounding: Any) -> float:
    if isinstance(value, Fraction):
        return rounding(value)
    return value
