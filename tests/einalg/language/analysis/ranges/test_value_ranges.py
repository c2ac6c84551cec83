"""Bounds of the values of bodies: no value of a body or of a part of it lies outside."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from einalg.language.analysis.ranges.value_ranges import LARGEST, range_of_scope, value_range
from einalg.language.ir.body import as_factor
from einalg.language.ir.dtypes import bounds, numpy_dtype
from einalg.language.ir.program import Program, as_program, inlined
from einalg.testing import strategies
from tests.helpers.batches import examples
from tests.helpers.naive_evaluator import NOTHING, Naive

DTYPES = (("bool",), ("i8", "u8", "bool"), ("i16", "bool"))


class Bounded(Naive):
    """A program on given arrays, whose parts are compared with the bounds of their values."""

    def of_body(self, body: Any, places: Any) -> Any:
        value = super().of_body(body, places)
        if value is not NOTHING and value == value:
            low, high = value_range(as_factor(body))
            assert low <= value <= high, (body, value)
        return value


def arrays_of(program: Program, data: st.DataObject) -> dict[str, Any]:
    """Return arrays of the ends of their types, and of numbers between these."""
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    arrays = {}
    for name, tensor in program.inputs.items():
        low, high = bounds(tensor.dtype)
        values = [low, high, *generator.integers(low, high + 1, 4)]
        drawn = generator.choice(values, tensor.shape)
        arrays[name] = drawn.astype(numpy_dtype(tensor.dtype))
    return arrays


@settings(max_examples=examples(25, at_night=2000))
@given(st.data(), st.sampled_from(DTYPES), st.booleans())
def test_no_value_of_a_random_scope_is_out_of_bounds(
    data: st.DataObject, dtypes: tuple[str, ...], truths: bool
) -> None:
    scopes = strategies.scopes(
        dtypes=dtypes,
        truths=truths,
        rounding=True,
        far=True,
        constants=True,
        empty=True,
        scalars=True,
        max_points=30,
    )
    program = as_program(data.draw(scopes))
    bounded = Bounded(program, arrays_of(program, data))
    for name in program.names:
        bounded.all_of(name)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(2*b[i] - 1)**40", (0, 1)),
        ("(s[i] - 1)**3", (-(129**3), 126**3)),
        ("Prod[j:5](s[j])", (-(128**5), 128**5)),
        ("Sum[j:5](u[j], where=j < i)", (0, 5 * 255)),
        ("Max[j:5](u[j], where=j < i)", (-np.inf, 255)),
        ("Mod(s[i], 7)", (0, 7)),
        ("Mod(u[i], 300)", (0, 255)),
        ("Mod(s[i], u[i] - 300)", (-300, 0)),
        ("Quotient(s[i], 3)", (-128, 127)),
        ("Quotient(s[i], u[i])", (-np.inf, np.inf)),
        ("sign(s[i])", (-1, 1)),
        ("b[i]**200", (-np.inf, np.inf)),  # more factors than are looked at
        ("i*u[i]**128", (-np.inf, np.inf)),  # the bounds of the power are larger than floats
        ("Min(3*u[i]**100, 7)", (0, 7)),
    ],
)
def test_bounds_of_some_bodies(body: str, expected: tuple[float, float]) -> None:
    tensors = {name: ea.tensor(name, (5,), t) for name, t in zip("bus", ("bool", "u8", "i8"))}
    read = {name: tensor for name, tensor in tensors.items() if f"{name}[" in body}
    assert value_range(ea.parse(f"O[i:5] = {body}", **read).body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x[i,j] - Max[r:5](x[i,r])", (-np.inf, 0)),
        ("x[i,2*j] - Min[r:5](x[i,r])", (0, np.inf)),
        ("7*x[i,j] + Max[r:5](-7*x[i,r])", (0, np.inf)),
        ("3*Min[r:5](x[i,r]*x[i,4-r]) - 3*x[i,j]*x[i,4-j] + 1", (-np.inf, 1)),
        ("x[i,j]/8 + y[j] + u[j] - Max[r:5](x[i,r]/8 + y[r])", (-np.inf, 255)),
        ("x[i,j] - Max[r:5,s:5](x[s,r])", (-np.inf, 0)),
        ("z[j-2] - Max[r:-2:3](z[r])", (-np.inf, 0)),  # of an axis that begins below 0
        ("x[i,j] - Max[r:5](x[j,r])", (-np.inf, np.inf)),  # of another row
        ("x[i,j] - Max[r:4](x[i,r])", (-np.inf, np.inf)),  # not of the whole row
        ("x[i,j] - Max[r:5](x[i,r], where=r < i)", (-np.inf, np.inf)),
        ("x[i,j] - Max[r:3](x[i,2*r])", (-np.inf, np.inf)),
        ("x[i,j] - Max[r:5](x[i,r] + y[r])", (-np.inf, np.inf)),
        ("x[i,j] - 2*Max[r:5](x[i,r])", (-np.inf, np.inf)),
        ("x[i,j] + Max[r:5](x[i,r])", (-np.inf, np.inf)),
        ("x.pad(1, 1)[i,j] - Max[r:5](x.pad(1, 1)[i,r])", (-np.inf, np.inf)),
    ],
)
def test_an_element_is_not_larger_than_the_largest_one(
    body: str, expected: tuple[float, float]
) -> None:
    tensors = {"x": ea.tensor("x", (5, 5)), "y": ea.tensor("y", (5,))}
    tensors |= {"u": ea.tensor("u", (5,), "u8"), "z": ea.tensor("z", ((-2, 3),))}
    read = {name: tensor for name, tensor in tensors.items() if re.search(rf"\b{name}\b", body)}
    assert value_range(ea.parse(f"O[i:5,j:3] = {body}", **read).body) == expected


@pytest.mark.parametrize("factor", ["1", "1/3"])
def test_bounds_of_squares_of_squares_have_few_digits(factor: str) -> None:
    lines = [f"S0[i] = {factor}*u[i]/255"]
    lines += [f"S{k}[i] = S{k - 1}[i]*S{k - 1}[4-i] + u[i]" for k in range(1, 30)]
    lines.append("O[i] = S29[i]")
    program = as_program(ea.parse("\n".join(lines), u=ea.tensor("u", (5,), "u8")))
    assert range_of_scope(inlined(program)) == (0, np.inf)


def test_denominators_of_bounds_are_limited() -> None:
    body = "*".join(["(b[i]/3 + 1/7)"] * 100)
    low, high = value_range(ea.parse(f"O[i:5] = {body}", b=ea.tensor("b", (5,), "bool")).body)
    assert (low, high) == (0, 1)
    assert LARGEST < 21**100
