"""The values that index arithmetic takes: at a point, and over a box (design §2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from einalg.language.index.protocols import DividedForm, LinearForm

Ranges = Mapping[Any, tuple[int, int]]


def form_value(form: LinearForm, env: Mapping[Any, Any]) -> Any:
    total: Any = form.const
    for atom, coefficient in form.terms:
        total = total + coefficient * (env[atom] if atom.is_Symbol else _quotient_value(atom, env))
    return total


def _quotient_value(atom: DividedForm, env: Mapping[Any, Any]) -> Any:
    value = form_value(atom.argument, env)
    return value // atom.divisor if atom.sign == "//" else value % atom.divisor


def form_interval(form: LinearForm, ranges: Ranges) -> tuple[int, int]:
    low = high = form.const
    for atom, coefficient in form.terms:
        a, b = _index_interval(atom, ranges) if atom.is_Symbol else _quotient_interval(atom, ranges)
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
    return (low % k, high % k) if low // k == high // k else (0, k - 1)
