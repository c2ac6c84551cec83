"""Remainders and rounded quotients of integers are integers, compiled as well: no float on the way
rounds what it cannot hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import einalg as ea
from einalg.language.ir.dtypes import bounds, is_float, numpy_dtype
from einalg.language.ir.program import Program
from tests.helpers.cuda_kernels import run_programs as run_on_shim
from tests.helpers.kernels import run_programs

TEXTS = (
    "Mod(n[i], 7)",
    "Mod(n[i], m[i])",
    "Mod(n[i], -7)",
    "floor(n[i]/2)",
    "ceiling(n[i]/3)",
    "floor(n[i]/m[i])",
    "ceiling(n[i]/(2*m[i]))",
    "floor(n[i])",
    "floor(n[i]/2 + 1/3)",
    "ceiling(n[i]/6 - m[i]/4)",
    "Quotient(n[i], m[i])",
    "Max(Mod(n[i], 5), floor(m[i]/4))",
    "Mod(n[i], 3)*i + floor(i**2/3)",
    "Sum[j:9](Mod(n[j], 9))",
    "Piecewise((floor(n[i]/2), n[i] > 5), (Mod(m[i], 4), True))",
)
FRACTIONS = (
    "{p}*n[i]/{q}",
    "n[i]*m[i]/x[i]",
    "n[i]**2/x[i]",
    "x[i]/(n[i]*m[i])",
    "{p}*n[i]/({q}*m[i]) + x[i]",
    "Max({p}*n[i]/{q} - m[i]/{p}, 1)",
    "Piecewise((1, {p}*n[i]/{q} + x[i]/4 > 5), (0, True))",
    "floor({p}*n[i]/{q} + x[i]/4)",
    "floor(n[i]*m[i]/({q}*m[0]))",
    "ceiling(n[i]/({q}*m[i]))",
    "Piecewise((1, n[i]*m[i]/{q} > {p}), (0, True))",
    "Sum[j:3]({p}*n[j]/{q})",
)
DTYPES = ("i16", "i32", "i64", "u8", "u32")
SIZE = 9


def expression(text: str, dtype: str) -> Program:
    tensors = {name: ea.tensor(name, (SIZE,), dtype) for name in "nm" if f"{name}[" in text}
    return ea.Program([("O", ea.parse(f"O[i:{SIZE}] = {text}", **tensors))])


def arrays_of(dtype: str, numbers: list[int], divisors: list[int]) -> dict[str, Any]:
    return {
        "n": np.array(numbers, numpy_dtype(dtype)),
        "m": np.array(divisors, numpy_dtype(dtype)),
    }


def ends(dtype: str) -> tuple[int, int]:
    """Return the ends of a type; the longest one has room for the numerators of sums of fractions
    only up to a part of it.
    """
    low, high = bounds(dtype)
    if dtype == "i64":
        return low // 8, high // 8
    return int(low), int(high)


@st.composite
def operands(draw: Any, dtype: str) -> dict[str, Any]:
    """Numbers at the ends of a type too, and divisors that are not 0."""
    low, high = ends(dtype)
    numbers = st.sampled_from([low, low + 1, high - 1, high]) | st.integers(low, high)
    divisors = st.integers(max(low, -high // 4), high // 4).filter(bool)
    return arrays_of(
        dtype,
        draw(st.lists(numbers, min_size=SIZE, max_size=SIZE)),
        draw(st.lists(divisors, min_size=SIZE, max_size=SIZE)),
    )


@pytest.mark.parametrize("dtype", ("i8", "i16", "i32", "u8", "u32"))
@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_a_fraction_may_have_parts_that_its_integers_do_not_hold(dtype: str, data: Any) -> None:
    p, q = data.draw(st.integers(2, 100000)), data.draw(st.sampled_from([100003, 200003]))
    _, high = bounds(dtype)
    numbers = st.lists(st.integers(high // 4, high // 2), min_size=SIZE, max_size=SIZE)
    arrays = arrays_of(dtype, data.draw(numbers), data.draw(numbers))
    arrays["x"] = np.arange(1, SIZE + 1, dtype=np.float32)
    tensors = {"n": dtype, "m": dtype, "x": "f32"}
    programs = []
    for text in FRACTIONS:
        body = text.format(p=p, q=q)
        read = {n: ea.tensor(n, (SIZE,), t) for n, t in tensors.items() if f"{n}[" in body}
        programs.append(ea.Program([("O", ea.parse(f"O[i:{SIZE}] = {body}", **read))]))
    inputs = [{name: arrays[name] for name in program.inputs} for program in programs]
    for program, values, results in zip(programs, inputs, run_programs(programs, inputs)):
        expected = np.asarray(ea.evaluate(program, **values), float)
        np.testing.assert_allclose(results["O"], expected, 1e-5)


def check(run: Any, dtype: str, arrays: dict[str, Any]) -> None:
    programs = [expression(text, dtype) for text in TEXTS]
    inputs = [{name: arrays[name] for name in program.inputs} for program in programs]
    for text, program, values, results in zip(TEXTS, programs, inputs, run(programs, inputs)):
        expected = ea.evaluate(program, **values)
        assert not is_float(program["O"].dtype), text
        assert np.array_equal(results["O"], expected), (text, dtype, values)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_compiled_integers_are_exact(dtype: str, data: Any) -> None:
    check(run_programs, dtype, data.draw(operands(dtype)))


@pytest.mark.parametrize("dtype", ("i8", "u8", "i32", "u32", "u64"))
def test_a_number_that_the_type_does_not_hold_bounds_every_integer(dtype: str) -> None:
    low, high = bounds(dtype)
    below, above = low - 2**33, min(high + 2**33, 2**64 - 1)
    texts = [f"Max(n[i], {below})", f"Min(n[i], {above})"]
    for number in (below, above):
        for relation in ("<", "<=", ">", ">="):
            texts.append(f"Piecewise((1, n[i] {relation} {number}), (0, True))")
        texts.append(f"Piecewise((1, Eq(n[i], {number})), (0, True))")
        texts.append(f"Piecewise((1, Ne({number}, n[i])), (0, True))")
    numbers = np.array([low, low + 1, high, high - 1, high // 2] + [0] * 4, numpy_dtype(dtype))
    programs = [expression(text, dtype) for text in texts]
    for program, found in zip(programs, run_programs(programs, [{"n": numbers}] * len(texts))):
        assert found["O"].tolist() == ea.evaluate(program, n=numbers).tolist(), program


@pytest.mark.parametrize("dtype", ("i32", "i64"))
def test_integers_on_a_device_are_exact(dtype: str) -> None:
    low, high = ends(dtype)
    numbers = [low, low + 1, -7, -1, 0, 1, 2**24 + 1, high - 1, high]
    check(run_on_shim, dtype, arrays_of(dtype, numbers, [-5, 3, 2, -2, 7, 1, -1, 9, 4]))


@pytest.mark.parametrize("dtype", ("i32", "i64"))
def test_divisions_that_would_stop_the_processor(dtype: str) -> None:
    low, _ = bounds(dtype)
    arrays = arrays_of(dtype, [low, 5] + [1] * 7, [-1, 0] + [1] * 7)
    remainder, quotient = (expression(f"{f}(n[i], m[i])", dtype) for f in ("Mod", "Quotient"))
    one, two = run_programs([remainder, quotient], [arrays, arrays])
    assert one["O"].tolist() == [0] * 9
    assert two["O"].tolist() == [low, 0] + [1] * 7


@pytest.mark.parametrize(
    "text, dtype, expected",
    [
        ("Mod(n[i], 5)", "u8", "u8"),
        ("Mod(n[i], -5)", "u8", "i16"),
        ("floor(-n[i]/2)", "u16", "i32"),
        ("ceiling(n[i]/2)", "bool", "i64"),
        ("Mod(n[i], 5/2)", "i32", "f32"),
        ("floor(n[i]/2 + sqrt(2))", "i32", "f32"),
        ("floor(n[i]/2)/2", "i32", "f32"),
        ("floor(n[i]/2)", "f16", "f16"),
        ("Mod(i*i, 3)", "i32", "i64"),
    ],
)
def test_element_types(text: str, dtype: str, expected: str) -> None:
    assert expression(text, dtype)["O"].dtype == expected
