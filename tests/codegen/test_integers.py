"""Remainders and rounded quotients of integers are integers, compiled as well: no float on the way
rounds what it cannot hold.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.program.compile import compile_program
from codegen.targets.c.source_file import c_source
from derive.matching import kernels_of
from einalg.errors import CodegenError
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import bounds, is_float, numpy_dtype
from einalg.language.ir.program import Program, as_program
from tests.helpers.cuda_kernels import TIGHT
from tests.helpers.cuda_kernels import run_programs as run_on_shim
from tests.helpers.kernels import functions, run_programs, spread_compiler

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
run_spread = partial(run_programs, cc=spread_compiler)
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
    for program, values, results in zip(programs, inputs, run_spread(programs, inputs)):
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
    check(run_spread, dtype, data.draw(operands(dtype)))


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
    for program, found in zip(programs, run_spread(programs, [{"n": numbers}] * len(texts))):
        assert found["O"].tolist() == ea.evaluate(program, n=numbers).tolist(), program


CONSTANTS = [
    ("Piecewise((n[i], i < 3), (-1, True))", "u8", "i16"),
    ("Piecewise((n[i], i < 3), (-1, True))", "u32", "i64"),
    ("Piecewise((n[i], i < 3), (300, True))", "u8", "i16"),
    ("Piecewise((n[i], i < 3), (4294967296, True))", "i8", "i64"),
    ("Piecewise((9223372036854775808, i < 3), (n[i], True))", "u16", "u64"),
    ("Max(n[i], 300)", "u8", "i16"),
    ("Max(n[i], -300)", "u8", "u8"),
    ("Min(n[i], -5)", "u32", "i64"),
    ("n[i] + 8589934592", "i32", "i64"),
    ("n[i] + 200", "i8", "i16"),
    ("n[i] - 1 + 2147483648", "u8", "u32"),
    ("n[i] + 2147483647", "i8", "i64"),
    ("300*n[i]", "u8", "i32"),
    ("16777217*n[i]", "i8", "i64"),
    ("Mod(n[i] + 2147483647, 2147483648)", "i8", "i64"),
    ("8589934592*n[i]", "i32", "i64"),
    ("9223372036854775807 + n[i]", "u8", "u64"),
    ("Quotient(9223372036854775807 + n[i], 7)", "u16", "u64"),
    ("8589934592*n[i]", "u16", "i64"),
    ("7*n[0] - 2*n[i]", "u32", "u32"),
    ("n[0]*(5 - 2*n[i]) + 9", "u32", "u32"),
    ("Mod(n[i], 4294967299)", "u32", "i64"),
    ("Quotient(8589934592, n[i])", "u32", "i64"),
    ("floor((n[i] + 5000000000)/7)", "u32", "i64"),
]


@pytest.mark.parametrize("text, dtype, expected", CONSTANTS)
def test_a_constant_that_the_type_does_not_hold_widens_it(
    text: str, dtype: str, expected: str
) -> None:
    program = expression(text, dtype)
    low, high = bounds(dtype)
    numbers = np.array([9, 1, 2, 3, 7, 4, high - 1, high, low or 8], numpy_dtype(dtype))
    values = {"n": numbers}
    assert program["O"].dtype == expected
    (results,) = run_spread([program], [values])
    reduced = numbers.astype(object) * 0 + ea.evaluate(program, **values)
    low, high = bounds(expected)
    in_range = [low <= number <= high for number in reduced]
    assert any(in_range)
    assert np.array_equal(results["O"][in_range], reduced[in_range])


def test_a_type_that_a_constant_widens_holds_all_results() -> None:
    programs, inputs = [], []
    for dtype in ("i8", "u8", "i16", "u16", "i32", "u32"):
        low, high = bounds(dtype)
        numbers = [low, low + 1, high - 1, high, high // 2, 1, 2, 3, 0]
        for constant in (high + 1, 2 * high + 1, -high - 2, 2**30 + 1, 2**31 - 1, -(2**31)):
            if min(low, -high) <= constant <= high:
                continue
            texts = [f"n[i] + {constant}"]
            if high * abs(constant) < 2**63:
                texts.append(f"n[i]*({constant})")
            programs += [expression(text, dtype) for text in texts]
            inputs += [{"n": np.array(numbers, numpy_dtype(dtype))}] * len(texts)
    for program, values, results in zip(programs, inputs, run_spread(programs, inputs)):
        assert results["O"].tolist() == ea.evaluate(program, **values).tolist(), program


WHOLES = [
    ("n[i] + x[i] + n[i]", {"n": "i32", "x": "f32"}),
    ("x[i] - n[i]*m[i]", {"n": "u32", "m": "i32", "x": "f64"}),
    ("n[i] + m[i] + n[i]", {"n": "i32", "m": "i64"}),
    ("m[i]*(1 - n[i])", {"n": "u32", "m": "i64"}),
    ("Max(n[i]*k[i], m[i])", {"n": "i32", "k": "i32", "m": "i64"}),
    ("x[i] + Piecewise((n[i]*k[i], k[i] > 2), (n[i], True))", {"n": "i32", "k": "i32", "x": "f64"}),
    ("n[i]*k[i]*n[i]/7", {"n": "u32", "k": "u32"}),
    ("Sum[j:2](n[j]*k[j]*n[i]/200003)", {"n": "u32", "k": "u32"}),
    ("x[i]*n[i]*k[i]*n[i]", {"n": "u32", "k": "u32", "x": "f32"}),
    ("y[i] - n[i]", {"n": "u64", "y": "f32"}),
    ("x[i] - y[i]*(n[i] - k[i])", {"n": "u64", "k": "u64", "x": "f32", "y": "f32"}),
    ("n[i]/3 + x[i]", {"n": "i32", "x": "f64"}),
    ("sqrt(n[i]) + x[i]", {"n": "u32", "x": "f64"}),
    ("x[i] - y[i] - 1/7", {"x": "f64", "y": "f32"}),
    ("x[i]*y[i]/7", {"x": "f64", "y": "f32"}),
]


@pytest.mark.parametrize("text, dtypes", WHOLES)
def test_parts_have_the_type_of_the_whole(text: str, dtypes: dict[str, str]) -> None:
    large = {"n": 2**31 - 7, "k": 2**31 - 11, "m": 2**31 - 1, "x": 2.0**20, "y": 10.5}
    arrays, tensors = {}, {}
    for name, dtype in dtypes.items():
        arrays[name] = np.array([large[name]] * SIZE).astype(numpy_dtype(dtype))
        tensors[name] = ea.tensor(name, (SIZE,), dtype)
    program = ea.Program([("O", ea.parse(f"O[i:{SIZE}] = {text}", **tensors))])
    expected = np.asarray(ea.evaluate(program, **arrays), float)
    precision = 1e-12
    if program["O"].dtype == "f32":
        precision = 1e-6
    (results,) = run_spread([program], [arrays])
    np.testing.assert_allclose(np.asarray(results["O"], float), expected, precision)
    np.testing.assert_allclose(
        np.asarray(execute(program, arrays)["O"], float), expected, precision
    )


def test_the_least_integer_is_divided_by_a_negative_number() -> None:
    program = expression("floor(n[i]/-7)", "i64")
    values = {"n": np.array([-(2**63)] * 9)}
    (results,) = run_spread([program], [values])
    assert results["O"].tolist() == [2**63 // 7] * 9
    assert execute(program, values)["O"].tolist() == [2**63 // 7] * 9


@pytest.mark.parametrize(
    "text",
    (
        "Abs(n[i] - n[0])",
        "Max(n[i], 3)",
        "n[i] - Min(n[i], 7)",
        "Mod(n[i], 7)*floor(n[i]/3)",
        "Max[k:9](Piecewise((n[k], n[k] < n[i]), (0, True)))",
        "Sum[k:9](n[k]) - n[0] - n[1]",
        "Piecewise((n[i], n[i] > 2**64 - 2), (5, True))",
    ),
)
def test_the_longest_unsigned_integers_are_exact_in_numpy(text: str) -> None:
    program = expression(text, "u64")
    values = {"n": np.array([2**64 - 1, 2**63, 2**63 - 1, 5, 6, 0, 1, 2, 3], np.uint64)}
    assert execute(program, values)["O"].tolist() == ea.evaluate(program, **values).tolist()


@pytest.mark.parametrize(
    "text",
    (
        "Max[k:9](Min(n[k], m[i]))",
        "Min[k:9](Max(n[k], m[i]))",
        "Max[k:9](n[i])",
        "Max[k:9](n[k], where=k <= i)",
        "Min[k:9](n[k], where=k == i)",
    ),
)
def test_extremes_may_be_the_ends_of_a_type(text: str) -> None:
    low, high = bounds("i64")
    arrays = arrays_of("i64", [low, high, 0, 1, 2, 3, 4, 5, low], [high, 7, low, 1, 2, 3, 4, 5, 6])
    program = expression(text, "i64")
    values = {name: arrays[name] for name in program.inputs}
    assert execute(program, values)["O"].tolist() == ea.evaluate(program, **values).tolist()


@pytest.mark.parametrize("dividend", (1, 2**61 + 1))
def test_a_divisor_that_is_0_elsewhere_rounds_nothing(dividend: int) -> None:
    text = f"Piecewise(({dividend}//m[i], Ne(m[i], 0)), (0, True)) + n[i]"
    program = expression(text, "i64")
    values = {"n": np.array([2**61 + 1] * 9), "m": np.arange(9)}
    expected = ea.evaluate(program, **values).tolist()
    assert execute(program, values)["O"].tolist() == expected


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
    one, two = run_spread([remainder, quotient], [arrays, arrays])
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


def onnx_results(program: Program, values: dict[str, Any]) -> Any:
    """Return what ONNX Runtime computes of a program."""
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from codegen.targets.onnx import onnx_model

    inputs = list(program.inputs.values())
    model = onnx_model(inputs, {}, [(program, kernels_of(program), None)], ["O"])
    (result,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, values)
    return result


@pytest.mark.parametrize("text", ("sign(n[i])", "Abs(n[i])", "Max(n[i], m[i])", "n[i]*m[i]"))
def test_a_runtime_of_onnx_computes_with_truth_values(text: str) -> None:
    program = expression(text, "bool")
    arrays = arrays_of("bool", [0, 1, 0, 1, 1, 0, 1, 0, 1], [0, 0, 1, 1, 1, 1, 0, 0, 0])
    values = {name: arrays[name] for name in program.inputs}
    expected = ea.evaluate(program, **values)
    assert onnx_results(program, values).tolist() == expected.tolist()
    (compiled,) = run_spread([program], [values])
    assert compiled["O"].tolist() == expected.tolist()


def test_a_runtime_of_onnx_divides_by_any_integer() -> None:
    """Also where no case takes the quotient by 0, which it computes."""
    for dtype in ("i32", "i64"):
        low, high = bounds(dtype)
        values = arrays_of(
            dtype, [7, low, low, -7, 5, high, 9, low, -1], [0, -1, 1, 2, -3, 7, 9, 0, 4]
        )
        for text in ("{f}(n[i], m[i])", "Piecewise(({f}(n[i], m[i]), Ne(m[i], 0)), (0, True))"):
            for function in ("Mod", "Quotient"):
                program = expression(text.format(f=function), dtype)
                (compiled,) = run_spread([program], [values])
                result = onnx_results(program, values)
                assert np.array_equal(result, compiled["O"]), (text, dtype)


@pytest.mark.parametrize(
    "text", ("Mod(u[i], n[i])", "sign(u[i] - n[i])", "u[i]*n[i] - u[i]", "Max(u[i] - 7, n[i])")
)
def test_a_runtime_of_onnx_computes_with_both_kinds_of_long_integers(text: str) -> None:
    dtypes = {"u": "u64", "n": "i64"}
    tensors = {name: ea.tensor(name, (SIZE,), dtype) for name, dtype in dtypes.items()}
    program = ea.Program([("O", ea.parse(f"O[i:{SIZE}] = {text}", **tensors))])
    values = {
        "u": np.array([0, 1, 2, 7, 8, 2**31, 2**40, 2**53 + 1, 2**63 - 1], np.uint64),
        "n": np.array([-7, 1, 2**40, -(2**40), 8, 9, 10, 11, 12]),
    }
    expected = np.asarray(ea.evaluate(program, **values), float)
    np.testing.assert_allclose(onnx_results(program, values), expected, 2.0**-51)


MIXED = (  # a formula of a long integer without sign, and the value that it has
    ("v[i]*v[i]*u[i] + u[i]", lambda u, v, n: v * v * u + u),
    ("u[i] - Min(v[i], 3)", lambda u, v, n: u - min(v, 3)),
    ("Min(v[i], u[i])*sign(u[i])", lambda u, v, n: min(v, u)),
    ("Min(u[i], Max(v[i], 5))", lambda u, v, n: min(u, max(v, 5))),
    ("Mod(u[i], v[i])", lambda u, v, n: u % v),
    ("floor(u[i]/v[i])", lambda u, v, n: u // v),
    ("Mod(u[i], -2**31)", lambda u, v, n: u % -(2**31)),
    ("Mod(u[i], n[i])", lambda u, v, n: u % n),
    ("Mod(Abs(n[i]), u[i])", lambda u, v, n: abs(n) % u),
    ("Mod(n[i], u[i])", lambda u, v, n: n % u),
    ("Quotient(n[i], u[i])", lambda u, v, n: n // u),
    ("Quotient(u[i], n[i])", lambda u, v, n: u // n),
    ("Piecewise((1, u[i] < n[i]), (0, True))", lambda u, v, n: int(u < n)),
    ("Piecewise((1, n[i] >= u[i]), (0, True))", lambda u, v, n: int(n >= u)),
    ("Piecewise((1, Eq(u[i], n[i])), (0, True))", lambda u, v, n: int(u == n)),
    ("Piecewise((1, u[i] > i - 9), (0, True))", lambda u, v, n: 1),
    ("Abs(v[i] - u[i])", lambda u, v, n: abs(v - u)),
    ("sign(v[i] - u[i]) + n[i]/2", lambda u, v, n: (v > u) - (v < u) + n / 2),
    ("(v[i] - u[i])/n[i]", lambda u, v, n: (v - u) / n),
    ("Max(v[i] - u[i], 3)", lambda u, v, n: max(v - u, 3)),
    ("Min(v[i] - u[i], 3, v[i] - u[0])", lambda u, v, n: min(v - u, 3, v - LARGE[0])),
    (
        "Max(v[i] - u[i], v[i] - u[0], v[i] - 300)",
        lambda u, v, n: max(v - u, v - LARGE[0], v - 300),
    ),
    ("Max(Min(v[i] - u[i], 3) + 7, v[i])", lambda u, v, n: max(min(v - u, 3) + 7, v)),
    ("Mod(v[i] - u[i], 7)", lambda u, v, n: (v - u) % 7),
    ("Mod(v[i] - u[i], n[i])", lambda u, v, n: (v - u) % n),
    ("Quotient(v[i] - u[i], 7)", lambda u, v, n: (v - u) // 7),
    ("Quotient(u[i], -1)", lambda u, v, n: -u),
    ("floor((v[i] - u[i])/7)", lambda u, v, n: (v - u) // 7),
    ("ceiling((v[i] - u[i] + 3)/n[i])", lambda u, v, n: -((v - u + 3) // -n)),
    ("floor(-u[i]/v[i])", lambda u, v, n: -u // v),
    ("Piecewise((1, v[i] - u[i] < 3), (0, True))", lambda u, v, n: int(v - u < 3)),
    ("Piecewise((1, v[i] - u[i] > -3), (0, True))", lambda u, v, n: int(v - u > -3)),
    ("Piecewise((1, v[i] - u[i] <= n[i]), (0, True))", lambda u, v, n: int(v - u <= n)),
    ("Piecewise((1, Ne(v[i] - u[i], n[i])), (0, True))", lambda u, v, n: int(v - u != n)),
    ("Mod(2**64 - 1, n[i])", lambda u, v, n: (2**64 - 1) % n),
    ("-2*u[i]/v[i]", lambda u, v, n: -2 * u / v),
    ("300000*n[i]/7", lambda u, v, n: 300000 * n / 7),
    ("n[i]/7*sign(n[i]) - 2**63", lambda u, v, n: abs(n) / 7 - 2**63),
    ("Quotient(v[i], u[i])*(n[i] - 300)", lambda u, v, n: v // u * (n - 300)),
    ("Quotient(n[i], u[i]) - Quotient(n[i], -v[i])", lambda u, v, n: n // u - n // -v),
    (
        "Quotient(2, Min(v[i], n[i])) - sign(u[i] - 7)",
        lambda u, v, n: 2 // min(v, n) - _sign(u - 7),
    ),
    ("Mod(v[i]**2, n[i]) - sign(v[i] - u[i])", lambda u, v, n: v**2 % n - _sign(v - u)),
    (
        "Abs(v[i] + 1073741825) + Max(65536, u[i]) - Max(v[i], u[i])",
        lambda u, v, n: v + 1073741825 + max(65536, u) - max(v, u),
    ),
    ("16777217*u[i] - n[i]", lambda u, v, n: 16777217 * u - n),
    ("16777217*u[i] - n[i] - 16777216*u[i]", lambda u, v, n: u - n),
    (
        "Max(Piecewise((Quotient(v[i], u[i]), v[i] > 7), (v[i] - 255, True)), Mod(v[i], u[i]))",
        lambda u, v, n: max(v // u if v > 7 else v - 255, v % u),
    ),
    ("Max(u[i] - 2**64, n[i])", lambda u, v, n: max(u - 2**64, n)),
    ("Mod(u[i] - 2**70, n[i] + 2**66)", lambda u, v, n: (u - 2**70) % (n + 2**66)),
    ("Piecewise((1, u[i]*2**50 > 2**100 + n[i]), (0, True))", lambda u, v, n: u > 2**50),
)
ROUNDED_TO = {"u64": 0, "i64": 0, "f64": 2.0**-52, "f32": 2.0**-22}
LARGE = (2**64 - 1, 2**63 + 2**31, 2**63, 2**63 - 1, 2**53 + 1, 7, 6, 300, 1)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


@pytest.mark.parametrize("small, signed", [("u8", "i32"), ("u16", "i64")])
def test_long_integers_without_sign_beside_others(small: str, signed: str) -> None:
    low, high = bounds(signed)
    columns = {
        "u": LARGE,
        "v": [1, 2, 3, 255, 7, 254, 9, 3, 100],
        "n": [low, low + 1, -1, -7, 3, 7, -5, high, -high],
    }
    dtypes = {"u": "u64", "v": small, "n": signed}
    tensors = {name: ea.tensor(name, (SIZE,), dtype) for name, dtype in dtypes.items()}
    programs, arrays = [], []
    for text, _ in MIXED:
        read = {name: tensor for name, tensor in tensors.items() if f"{name}[" in text}
        programs.append(ea.Program([("O", ea.parse(f"O[i:{SIZE}] = {text}", **read))]))
        values = {name: np.array(columns[name], numpy_dtype(dtypes[name])) for name in read}
        arrays.append(values)
    on_host, on_device = run_spread(programs, arrays), run_on_shim(programs, arrays)
    by_numpy = [execute(program, values)["O"] for program, values in zip(programs, arrays)]
    for (text, function), program, compiled, other, third in zip(
        MIXED, programs, on_host, on_device, by_numpy
    ):
        expected = [function(*row) for row in zip(*columns.values())]
        assert other["O"].tolist() == compiled["O"].tolist(), text
        results = [*compiled["O"].tolist(), *third.tolist()]
        for result, value in zip(results, expected * 2, strict=True):
            if not is_float(program["O"].dtype):
                value %= 2**64  # as it is stored
                result %= 2**64
            assert abs(result - value) <= abs(value) * ROUNDED_TO[program["O"].dtype], text


@pytest.mark.parametrize(
    "text, function",
    [
        ("Max(n[i] - m[i], 0)", lambda n, m: max(n - m, 0)),
        ("Min(n[i] - 2*m[i], 3) + 2**33", lambda n, m: min(n - 2 * m, 3) + 2**33),
        ("Mod(n[i] - m[i], 7)", lambda n, m: (n - m) % 7),
        ("Quotient(n[i] - m[i], m[i]) + 2**33", lambda n, m: (n - m) // m + 2**33),
        ("Piecewise((1, n[i] - m[i] > -3), (0, True))", lambda n, m: int(n - m > -3)),
        ("Piecewise((1, n[i] < -m[i]), (0, True))", lambda n, m: int(n < -m)),
        (
            "Piecewise((1, n[i] - m[i] < n[0] - n[1]), (0, True))",
            lambda n, m: int(n - m < 2**32 - 1),
        ),
    ],
)
def test_differences_without_sign_are_compared_with_one(text: str, function: Any) -> None:
    numbers, others = (
        [2**32 - 1, 0, 1, 2, 7, 2**31, 5, 6, 9],
        [2**32 - 1, 1, 3, 2**31, 9, 7, 6, 5, 1],
    )
    arrays = arrays_of("u32", numbers, others)
    program = expression(text, "u32")
    (results,) = run_spread([program], [{name: arrays[name] for name in program.inputs}])
    assert results["O"].tolist() == list(map(function, numbers, others))


def stored(number: int, program: Program) -> int:
    """Return an integer as the type of an output holds it, where it wraps round."""
    low, high = bounds(program["O"].dtype)
    return (number - low) % (high - low + 1) + low


SEEN_WHOLE = (  # functions of what 32 bits do not hold
    ("Mod(n[i]*n[i], 7)", lambda n, m: n * n % 7),
    ("Mod(n[i]*m[i]*n[i], 7)", lambda n, m: n * m * n % 7),
    ("Quotient(n[i]*n[i] - m[i], 65536)", lambda n, m: (n * n - m) // 65536),
    ("sign(n[i]*(n[i] - 1073741825))", lambda n, m: _sign(n * (n - 1073741825))),
    ("Abs(n[i] + m[i]) - Abs(m[i])", lambda n, m: abs(n + m) - abs(m)),
    ("Min(n[i] + m[i], 7)", lambda n, m: min(n + m, 7)),
    ("Max(n[i]*m[i], n[i]*n[i]) - n[i]*m[i]", lambda n, m: max(n * m, n * n) - n * m),
    ("Piecewise((1, n[i]*m[i] > 2**31), (0, True))", lambda n, m: int(n * m > 2**31)),
    ("Piecewise((1, Eq(n[i]*n[i], n[i]*m[i])), (0, True))", lambda n, m: int(n in (m, 0))),
    ("Piecewise((1, n[i]**3 < m[i]**3), (0, True))", lambda n, m: int(n < m)),
)


@pytest.mark.parametrize("dtype", ("u16", "i32", "u32"))
def test_functions_see_what_wraps_round_in_their_type(dtype: str) -> None:
    low, high = bounds(dtype)
    numbers = [low, high, high - 1, high // 2, 7, 3, 1, low + 1, 60000]
    others = [high, high, low, high // 3, 5, 3, 0, high, 60001]
    arrays = arrays_of(dtype, numbers, others)
    programs = [expression(text, dtype) for text, _ in SEEN_WHOLE]
    inputs = [{name: arrays[name] for name in program.inputs} for program in programs]
    for (text, function), program, results in zip(
        SEEN_WHOLE, programs, run_spread(programs, inputs)
    ):
        expected = [stored(function(n, m), program) for n, m in zip(numbers, others)]
        assert results["O"].tolist() == expected, text


REDUCED_DIFFERENCES = (
    ("Max[k:9](n[k] - n[i])", lambda n, i: max(n) - n[i]),
    ("Min[k:9](n[i] - n[k]) + 2**20", lambda n, i: n[i] - max(n) + 2**20),
    ("Mod(Max[k:9](n[k]*m[k] - n[i]), 7)", lambda n, i: (max(x * x for x in n) - n[i]) % 7),
    ("sign(Sum[k:9](n[k] - n[i]))", lambda n, i: _sign(sum(n) - 9 * n[i])),
    ("sign(Prod[k:3](n[k] - 4, where=k > 1))", lambda n, i: _sign(n[2] - 4)),
    ("Max(Sum[k:3](n[k] - n[i]), 0)", lambda n, i: max(sum(n[:3]) - 3 * n[i], 0)),
)


@pytest.mark.parametrize("dtype", ("u8", "u32", "u64"))
def test_reductions_of_differences_have_a_sign(dtype: str) -> None:
    _, high = bounds(dtype)
    numbers = [7, 1, high // 9, 0, high // 7, 3, 3, high // 8, 5]
    arrays = arrays_of(dtype, numbers, numbers)
    programs = [expression(text, dtype) for text, _ in REDUCED_DIFFERENCES]
    inputs = [{name: arrays[name] for name in program.inputs} for program in programs]
    for run in (run_spread, run_on_shim, partial(run_on_shim, schedule=TIGHT)):
        for (text, function), program, results in zip(
            REDUCED_DIFFERENCES, programs, run(programs, inputs)
        ):
            expected = [stored(function(numbers, i), program) for i in range(SIZE)]
            assert results["O"].tolist() == expected, text


def test_terms_on_a_device_are_computed_in_the_type_of_their_sum() -> None:
    """Also in tiles of products, in rows of outputs that share reads, and in parts of a sum."""
    texts = {
        "tiles": "O[h:9,w:5] = Max(Sum[k:7]((u[h,k] - 1)*v[k,w]), 0)",
        "rows": "O[h:6,w:8,c:5] = Max[k:3](p[h,k,c] - q[w,k,c])",
        "parts": "O[h:2] = Max(Sum[k:999](s[h,k] - t[h,k]), 0)",
        "wide": "O[h:9,w:5] += u[h,k]*n[k,w]",
    }
    shapes = dict(u=(9, 7), v=(7, 5), p=(6, 3, 5), q=(8, 3, 5), s=(2, 999), t=(2, 999), n=(7, 5))
    rng = np.random.default_rng(3)
    for dtype in ("u32", "u64"):
        programs, arrays = [], []
        for text in texts.values():
            names = [name for name in shapes if f"{name}[" in text]
            types = {name: dtype if name != "n" else "i32" for name in names}
            tensors = {name: ea.tensor(name, shapes[name], types[name]) for name in names}
            programs.append(as_program(ea.parse(text, **tensors)))
            arrays.append(
                {
                    name: rng.integers(0, 4, shapes[name]).astype(numpy_dtype(types[name]))
                    for name in names
                }
            )
        rows = replace(TIGHT, device_threads=2, min_shared_terms=1 << 20)
        for schedule in (TIGHT, rows):
            results = run_on_shim(programs, arrays, schedule, orders=(0,))
            for program, inputs, found in zip(programs, arrays, results):
                expected = np.asarray(ea.evaluate(program, **inputs)).astype(found["O"].dtype)
                assert np.array_equal(found["O"], expected), program


def test_extremes_over_no_points_are_those_of_their_type() -> None:
    """Not of the longer type in which they are computed."""
    n, u, i, k = ea.tensor("n", (6,), "i32"), ea.tensor("u", (6,), "u64"), *ea.indices("i k")
    v, short = ea.tensor("v", (6,), "u32"), ea.tensor("s", (6,), "i16")
    lower = sympy.Piecewise((sympy.Abs(short[k]), v[k] <= short[k] - 99), (v[i] * v[k], True))
    programs = [
        as_program(ea.L[i:6](ea.Max[k:6](n[k] * n[i], where=k > i))),
        as_program(ea.L[i:6](ea.Min[k:6](n[k] * n[i], where=k > i))),
        as_program(ea.L[i:6](ea.Max[k:6](u[k] - n[i], where=k > i))),
        as_program(ea.L[i:6](ea.Max[k:6](lower, where=k > i))),
    ]
    numbers = [5, 2, 7, 1, 3, 4]
    arrays = [
        {name: np.array(numbers, numpy_dtype(t.dtype)) for name, t in program.inputs.items()}
        for program in programs
    ]
    for run in (run_spread, run_on_shim, partial(run_on_shim, schedule=TIGHT)):
        largest, least, mixed, signed = [results["O"] for results in run(programs, arrays)]
        assert signed[-1] == -(2**63) and signed[:-1].tolist() == largest[:-1].tolist()
        assert (largest[-1], least[-1], mixed[-1]) == (-(2**31), 2**31 - 1, -np.inf)
        assert largest[:-1].tolist() == [
            max(x * y for y in numbers[at + 1 :]) for at, x in enumerate(numbers[:-1])
        ]


def test_numpy_computes_with_integers_of_any_size() -> None:
    least = -(2**63)
    texts = (
        "Abs(n[i]) - m[i]",
        "Quotient(n[i], -m[i]) - 1",
        "Mod(n[i]**2, 1000)",
        "Mod(n[i]*m[i]*n[i], 77)",
        "Mod(Sum[k:9](n[k]*m[k]), 7)",
        "Mod(Prod[k:9](n[k] - 1, where=k < 3), 7)",
        "Mod(Sum[k:9](n[k]), 7)",
    )
    arrays = arrays_of("i64", [least, least + 1, 2**63 - 1, *range(6)], [1, 2, 3] * 3)
    for text in texts:
        program = expression(text, "i64")
        values = {name: arrays[name] for name in program.inputs}
        expected = ea.evaluate(program, **values)
        assert execute(program, values)["O"].tolist() == expected.tolist(), text


def test_numbers_that_are_formulas_have_the_types_of_integers() -> None:
    number = sympy.Max(-7, 0, evaluate=False)
    n, i = ea.tensor("n", (SIZE,), "u64"), ea.indices("i")
    scope = ea.L[i:SIZE](n[i] - sympy.Min(n[i], number) - 16777215)
    program = ea.Program([("O", scope)])
    values = {"n": np.array([2**63 - 1] * SIZE, np.uint64)}
    (compiled,) = run_spread([program], [values])
    assert compiled["O"].tolist() == [2**63 - 16777216] * SIZE


def test_nested_extremes_of_differences_have_short_code() -> None:
    text = "n[i] - m[i]"
    for number in range(6):
        text = f"{('Max', 'Min')[number % 2]}({text}, m[i] - {number}) - n[{number}]"
    (function,) = functions(expression(text, "u64"))
    assert len(c_source([function])) < 100_000


def test_the_least_integer_is_added() -> None:
    """It has no opposite, which could be subtracted."""
    program = expression("n[i] - 2**63 + Max(n[i], 1)", "i64")
    values = {"n": np.arange(SIZE, dtype=np.int64)}
    expected = [n - 2**63 + max(n, 1) for n in range(SIZE)]
    (compiled,) = run_spread([program], [values])
    assert compiled["O"].tolist() == expected
    assert execute(program, values)["O"].tolist() == expected


def test_indices_are_divided_by_elements() -> None:
    program = expression("i//n[i] + (2*i - 7)%n[i] + (i + 1)//(n[i] + 10)", "i32")
    values = {"n": np.array([5, -7, 2, 4, -9, 1, -1, 3, 100], np.int32)}
    rows = enumerate(values["n"].tolist())
    expected = [i // n + (2 * i - 7) % n + (i + 1) // (n + 10) for i, n in rows]
    (compiled,) = run_spread([program], [values])
    assert compiled["O"].tolist() == expected
    assert ea.evaluate(program, **values).tolist() == expected
    i, n = ea.indices("i"), program.tensors["n"]
    assert ea.L[i:SIZE](i % n[i]) == ea.L[i:SIZE](ea.Mod(i, n[i]))


LONG_INDICES = {  # with their values of an element `n` and an index `i`
    "2**66*n[i] - 2**66*i": lambda n, i: 2**66 * (n - i),
    "Mod(2**66*i + n[i], 7)": lambda n, i: (2**66 * i + n) % 7,
    "n[i] + Mod((2**62 + 1)*i//7, 5)": lambda n, i: n + (2**62 + 1) * i // 7 % 5,
    "Piecewise((n[i], 2**66*i < 2**67), (0, True))": lambda n, i: n * (i < 2),
    "sign((2**63 - 1)*i - 2**63) + n[i]": lambda n, i: n - 1 + 2 * (i > 1),
}


def test_index_arithmetic_of_more_than_64_bits() -> None:
    array = np.array([7, 2, -1, 5, -5, 0, 3, -8, 4], np.int16)
    programs = [expression(text, "i16") for text in LONG_INDICES]
    given = [{"n": array}] * len(programs)
    compiled, shown = run_spread(programs, given), run_on_shim(programs, given, TIGHT)
    for program, value, *routes in zip(programs, LONG_INDICES.values(), compiled, shown):
        expected = [value(int(n), i) for i, n in enumerate(array)]
        for results in (*routes, execute(program, {"n": array})):
            assert [int(result) for result in results["O"]] == expected, str(program)


def test_numbers_that_a_sum_leaves_wrap_round_in_their_type() -> None:
    """In a function or a comparison they do not."""
    texts = (
        "Piecewise((0, Ne(3, m[i])), (n[i], True)) - 2",
        "Piecewise((n[i], Piecewise((0, Ne(3, m[i])), (n[i], True)) - 2 >= 0), (7, True))",
    )
    programs = []
    for text in texts:
        n, m = ea.tensor("n", (3,), "u32"), ea.tensor("m", (3,), "bool")
        programs.append(as_program(ea.parse(f"O[i:3] = {text}", n=n, m=m)))
    arrays = {"n": np.array([5, 6, 7], np.uint32), "m": np.array([True, False, True])}
    given = [{name: arrays[name] for name in program.inputs} for program in programs]
    for run in (run_spread, run_on_shim):
        less, chosen = [results["O"].tolist() for results in run(programs, given)]
        assert less == [2**32 - 2] * 3 and chosen == [7] * 3


def test_a_condition_of_more_than_64_bits_is_refused() -> None:
    program = expression("Sum[k:3](n[k], where=(2**63 - 1)*i <= k)", "i16")
    with pytest.raises(CodegenError, match="needs more than 64 bits"):
        compile_program(program)
