"""The values that index arithmetic takes: at a point, and over a box (design §2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from einalg.affine import Affine, Index, Quotient

Ranges = Mapping["Index", tuple[int, int]]


def form_value(form: Affine, env: Mapping[Index, Any]) -> Any:
    total: Any = form.const
    for atom, coefficient in form.terms:
        total = total + coefficient * (env[atom] if atom.is_Symbol else _quotient_value(atom, env))  # pyright: ignore
    return total


def _quotient_value(atom: Quotient, env: Mapping[Index, Any]) -> Any:
    value = form_value(atom.argument, env)
    return value // atom.divisor if atom.sign == "//" else value % atom.divisor


def form_interval(form: Affine, ranges: Ranges) -> tuple[int, int]:
    low = high = form.const
    for atom, coefficient in form.terms:
        a, b = _index_interval(atom, ranges) if atom.is_Symbol else _quotient_interval(atom, ranges)  # pyright: ignore
        if coefficient < 0:
            a, b = b, a
        low, high = low + coefficient * a, high + coefficient * b
    return low, high


def _index_interval(index: Index, ranges: Ranges) -> tuple[int, int]:
    low, high = ranges[index]
    return low, max(low, high - 1)


def _quotient_interval(atom: Quotient, ranges: Ranges) -> tuple[int, int]:
    low, high = form_interval(atom.argument, ranges)
    k = atom.divisor
    if atom.sign == "//":
        return low // k, high // k
    return (low % k, high % k) if low // k == high // k else (0, k - 1)
