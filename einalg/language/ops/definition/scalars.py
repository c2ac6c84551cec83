"""Numbers among the parameters of operators."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.scalar_operand import has_sizes_alone


def is_number(value: Any) -> bool:
    """Return whether `value` is a Python, NumPy or SymPy number; a NumPy array of no axes is one,
    an einalg scalar is not.

    >>> import numpy as np
    >>> is_number(np.float32(2)), is_number("2")
    (True, False)
    """
    if isinstance(value, sympy.Expr):
        return bool(value.is_number and value.is_extended_real)
    if isinstance(value, (bool, int, float)):
        return True
    return getattr(value, "shape", None) == () and hasattr(value, "item")


def is_scalar(value: Any) -> bool:
    """Return whether `value` is a number, or an expression of symbolic sizes alone.

    >>> import einalg as ea
    >>> N, A = ea.size("N"), ea.tensor("A", (4,))
    >>> is_scalar(2.5), is_scalar(1 / sympy.sqrt(N)), is_scalar(A[0] * N)
    (True, True, False)
    """
    return is_number(value) or (isinstance(value, sympy.Expr) and has_sizes_alone(value))


def exact_scalar(value: Any, name: str, infinite: bool = False) -> Any:
    """Return an expression of symbolic sizes as it is, and a number as `exact_number` does."""
    if is_scalar(value) and not is_number(value):
        return value
    return exact_number(value, name, infinite)


def exact_number(value: Any, name: str, infinite: bool = False) -> Any:
    """Return a real number as SymPy has it; NaN is refused, and so is an infinite one unless it has
    a meaning there.
    """
    if not is_number(value):
        raise ShapeError(f"{name} must be a number, not {value!r}\n  e.g. {name}=1")
    plain = value
    if hasattr(value, "item") and not isinstance(value, sympy.Expr):
        plain = value.item()
    if isinstance(plain, bool):
        plain = int(plain)
    exact = sympy.sympify(plain)
    if exact is sympy.nan or not (infinite or exact.is_finite):
        raise ShapeError(f"{name} is {value}, which is not a finite number\n  e.g. {name}=1")
    return exact


def positive(value: Any, name: str) -> Any:
    """Return a finite number above 0."""
    exact = exact_number(value, name)
    if not exact > 0:
        raise ShapeError(f"{name} must be above 0, not {value}\n  e.g. {name}=1")
    return exact


def epsilon(value: Any) -> Any:
    """Return the small number that a normalization adds to a variance: finite, not negative."""
    exact = exact_number(value, "eps")
    if exact < 0:
        raise ShapeError(f"eps must not be negative, but is {value}\n  e.g. eps=1e-05")
    return exact
