"""Reading simplifies, and never changes a value that exists."""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from einalg.errors import UndefinedError

POINTS = (-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, 5.0)
# An inner and an outer function, and what both together are read as.
READ = [
    ("log(x[i])", "exp({})", "x[i]"),
    ("log(x[i])", "exp(2*{})", "x[i]**2"),
    ("log(x[i])", "exp(-{})", "1/x[i]"),
    ("sqrt(x[i])", "({})**2", "x[i]"),
    ("sqrt(x[i])", "{0}*{0}", "x[i]"),
    ("x[i]**2", "sqrt({})", "Abs(x[i])"),
    ("1/x[i]", "1/({})", "x[i]"),
    ("x[i]**2", "({})/x[i]", "x[i]"),
    ("x[i]", "{0} - {0} + x[i]", "x[i]"),
    ("exp(x[i])", "log({})", "x[i]"),
    ("asin(x[i])", "sin({})", "x[i]"),
    ("acos(x[i])", "cos({})", "x[i]"),
    ("atan(x[i])", "tan({})", "x[i]"),
    ("asinh(x[i])", "sinh({})", "x[i]"),
    ("acosh(x[i])", "cosh({})", "x[i]"),
    ("atanh(x[i])", "tanh({})", "x[i]"),
    ("Abs(x[i])", "({})**2", "x[i]**2"),
]
LEFT = ["log(x[i]**2)", "log(2*x[i])", "asin(sin(x[i]))", "sqrt(x[i]*y[i])", "(x[i]**3)**(1/3)"]


def _value(expression: ea.Scope | ea.Program, point: float) -> float | None:
    """Return the value at a point; None where there is none."""
    try:
        return float(ea.evaluate(expression, x=np.array([point]))[0])
    except UndefinedError:
        return None


@pytest.mark.parametrize(("inner", "outer", "read"), READ)
def test_what_is_read_has_the_values_of_both_steps(inner: str, outer: str, read: str) -> None:
    whole = ea.parse(f"O[i] = {outer.format(inner)}", x=(1,))
    assert whole == ea.parse(f"O[i] = {read}", x=(1,))
    steps = ea.parse(f"T[i] = {inner}\nO[i] = {outer.format('T[i]')}", x=(1,))
    common = 0
    for point in POINTS:
        value = _value(steps, point)
        if value is not None:
            common += 1
            assert _value(whole, point) == pytest.approx(value, abs=1e-12)
    assert common > 1


@pytest.mark.parametrize("text", LEFT)
def test_what_may_have_another_value_stays_as_it_is(text: str) -> None:
    shapes = {name: (4,) for name in "xy" if f"{name}[" in text}
    assert text in str(ea.parse(f"O[i] = {text}", **shapes))
