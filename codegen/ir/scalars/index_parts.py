"""The parts of a body that are made of indices alone, as index arithmetic and conditions."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.errors import NotationError
from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.bounds import is_of_64_bits
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.remainder import ROUNDING
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access

LARGEST_INDEX = 2**31


def index_condition(body: Any) -> Constraint | None:
    """Return a comparison of index expressions as a condition; of `!=`, the opposite.

    None for any other comparison.
    """
    left, right = index_form(body.lhs), index_form(body.rhs)
    if left is None or right is None or not (is_index_number(left) and is_index_number(right)):
        return None
    if isinstance(body, (sympy.Eq, sympy.Ne)):
        return Constraint(left - right, "==")
    if isinstance(body, (sympy.GreaterThan, sympy.StrictGreaterThan)):
        left, right = right, left
    difference = right - left
    if isinstance(body, (sympy.StrictLessThan, sympy.StrictGreaterThan)):
        difference = difference - 1
    return Constraint(difference, ">=")


def index_form(body: Any) -> Affine | None:
    """Return a part of a body that is made of indices and integers alone, as index arithmetic."""
    if isinstance(body, (IndexArithmetic, sympy.Integer)):
        return affine(body)
    if not isinstance(body, (sympy.Add, sympy.Mul, *ROUNDING)) or body.has(Access, Reduce):
        return None
    try:
        return affine(body)
    except NotationError:
        return None


def index_interval(form: Affine) -> tuple[int, int]:
    """Return closed bounds of index arithmetic, whatever the ranges of its indices are.

    >>> index_interval(2 * Index("i") % 6)
    (0, 4)
    """
    return form.interval(_any_ranges(form))


def is_index_number(form: Affine) -> bool:
    """Return whether index arithmetic needs no longer integers than an index has at most, nor does
    a part of it.

    >>> i = Index("i")
    >>> is_index_number(4 * i - 1), is_index_number(2**40 * i), is_index_number((2**40 * i + 1) % 7)
    (True, False, False)
    """
    return is_of_64_bits(form, _any_ranges(form))


def _any_ranges(form: Affine) -> dict[Index, tuple[int, int]]:
    return dict.fromkeys(form.indices, (1 - LARGEST_INDEX, LARGEST_INDEX))
