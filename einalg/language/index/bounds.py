"""Values of index arithmetic: at a point, and over a box (design §2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from einalg.language.index.protocols import DividedForm, LinearForm

Ranges = Mapping[Any, tuple[int, int]]


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


def form_interval(form: LinearForm, ranges: Ranges) -> tuple[int, int]:
    """Return closed bounds `[low, high]` over half-open ranges of the indices."""
    low = high = form.const
    for atom, coefficient in form.terms:
        bounds = _index_interval if atom.is_Symbol else _quotient_interval
        a, b = bounds(atom, ranges)
        if coefficient < 0:
            a, b = b, a
        low, high = low + coefficient * a, high + coefficient * b
    return low, high


def _index_interval(index: Any, ranges: Ranges) -> tuple[int, int]:
    low, high = ranges[index]
    return low, max(low, high - 1)


def _quotient_interval(atom: DividedForm, ranges: Ranges) -> tuple[int, int]:
    low, high = form_interval(atom.argument, ranges)
    k = atom.divisor
    if atom.sign == "//":
        return low // k, high // k
    if low // k == high // k:
        return low % k, high % k
    return 0, k - 1
