"""Scalar functions, constants and types: compiled, they have the values of the reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from codegen.ir.nodes import Apply, Number
from codegen.ir.scalars.folding import apply, cast
from codegen.ir.types import common
from codegen.lowering.lower import lower
from einalg.errors import CodegenError
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import as_program
from tests.helpers.kernels import agrees, evaluated, run_functions

i, j = ea.indices("i j")
SIZE = 40
POSITIVE = ("log", "sqrt", "gamma", "loggamma", "acosh")
UNIT = ("asin", "acos", "atanh")
FUNCTIONS: dict[str, Any] = {
    **{
        f.__name__: f
        for f in (
            sympy.exp,
            sympy.log,
            sympy.tanh,
            sympy.erf,
            sympy.erfc,
            sympy.sin,
            sympy.cos,
            sympy.tan,
            sympy.sinh,
            sympy.cosh,
        )
    },
    **{
        f.__name__: f
        for f in (
            sympy.asin,
            sympy.acos,
            sympy.atan,
            sympy.asinh,
            sympy.acosh,
            sympy.atanh,
            sympy.gamma,
            sympy.loggamma,
        )
    },
    **{f.__name__: f for f in (sympy.Abs, sympy.sign, sympy.floor, sympy.ceiling)},
    "sqrt": sympy.sqrt,
    "square": lambda x: x**2,
    "seventh power": lambda x: x**7,
    "inverse": lambda x: 1 / (x + sympy.Rational(1, 3)),
    "inverse square": lambda x: (x + sympy.Rational(1, 3)) ** -2,
    "power": lambda x: (x**2 + 1) ** sympy.Rational(3, 7),
    "exponential of base 3": lambda x: 3**x,
    "atan2": lambda x: sympy.atan2(x, x + 2),
    "remainder": lambda x: sympy.Mod(x, sympy.Rational(3, 4)),
    "fractions": lambda x: x * sympy.Rational(2, 3) - sympy.Rational(5, 7),
    "irrational": lambda x: sympy.sqrt(2) * x / sympy.pi + sympy.E,
    "huge and tiny": lambda x: x * 10**30 + sympy.Float("1e-30"),
    "logarithm of one more": lambda x: sympy.log(1 + x**2),
    "exponential less one": lambda x: 3 * sympy.exp(x) - 3 - x,
    "sigmoid": lambda x: 1 / (1 + sympy.exp(-x)),
    "clipped": lambda x: ea.Min(ea.Max(x, -1), 1),
    "sums and signs": lambda x: -(x - 2) - (3 - x) * (-x) - 4,
    "choice": lambda x: sympy.Piecewise(
        (1, x > 1), (x, (x < -1) | sympy.Eq(x, 0)), (sympy.exp(x), True)
    ),
    "negated": lambda x: sympy.Piecewise((x, sympy.Not(sympy.And(x > -1, x < 1))), (2, True)),
    "exclusive": lambda x: sympy.Piecewise((x, sympy.Xor(x > -1, x > 1)), (2, True)),
}


def argument(name: str) -> np.ndarray[Any, Any]:
    low, high = (1.0, 3.0) if name in POSITIVE else (-0.9, 0.9) if name in UNIT else (-2.0, 2.0)
    return np.linspace(low, high, SIZE).astype(np.float32).astype(np.float64)


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Any]:
    cases = {
        (name, dtype): function for name, function in FUNCTIONS.items() for dtype in ("f32", "f64")
    }
    kernels = [
        lower("O", ea.L[i](function(ea.tensor("A", (SIZE,), dtype)[i])))
        for (_, dtype), function in cases.items()
    ]
    return dict(zip(cases, run_functions(kernels, [{"A": argument(name)} for name, _ in cases])))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str, dtype: str, found: Any) -> None:
    scope = ea.L[i](FUNCTIONS[name](ea.tensor("A", (SIZE,), dtype)[i]))
    assert scope.dtype == dtype
    assert agrees(
        found[name, dtype], evaluated(as_program(scope), {"A": argument(name)})["O"], dtype
    )


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_small_numbers_keep_their_digits(dtype: str) -> None:
    """1 + x and exp(x) round what is far below 1 away."""
    a = ea.tensor("A", (SIZE,), dtype)
    values = np.logspace(-30, -1, SIZE).astype(numpy_dtype(dtype))
    bodies = [sympy.log(1 + a[i]), sympy.exp(a[i]) - 1, 2 - 2 * sympy.exp(-a[i])]
    scopes = [ea.L[i](body) for body in bodies]
    found = run_functions([lower("O", scope) for scope in scopes], [{"A": values}] * len(scopes))
    exact = values.astype(np.float64)
    for scope, got, expected in zip(
        scopes, found, (np.log1p(exact), np.expm1(exact), -2 * np.expm1(-exact))
    ):
        for result in (got, execute(as_program(scope), {"A": values})["O"]):
            assert np.allclose(result, expected, rtol=1e-6 if dtype == "f32" else 1e-14, atol=0), (
                scope
            )


def test_infinities_and_nan() -> None:
    a, b = ea.tensor("A", (40,)), ea.tensor("B", (40,))
    values = np.tile(np.array([np.inf, -np.inf, np.nan, 0.0], np.float32), 10)
    bodies = [sympy.exp(a[i]), ea.Max(a[i], 0), ea.Min(a[i], 5), sympy.tanh(a[i]), a[i] - b[i]]
    ones = np.ones(40, np.float32)
    found = run_functions(
        [lower("O", ea.L[i](body)) for body in bodies], [{"A": values, "B": ones}] * len(bodies)
    )
    with np.errstate(all="ignore"):
        expected = [
            np.exp(values),
            np.maximum(values, 0),
            np.minimum(values, 5),
            np.tanh(values),
            values - 1,
        ]
    for body, got, wanted in zip(bodies, found, expected):
        assert np.array_equal(got, wanted, equal_nan=True), body


@pytest.mark.parametrize("shape", [(3, 5), (4, 1000), (1000, 4)])
def test_extremes_keep_what_stands_before_and_after_nan(shape: tuple[int, int]) -> None:
    """They give NaN or pass over it, but lose no other element."""
    a = ea.tensor("A", shape)
    for at in (0, shape[1] // 2, shape[1] - 1):
        values = np.random.default_rng(at).standard_normal(shape).astype(np.float32)
        values[:, at] = np.nan
        scopes = [ea.L[i](reduce[j](a[i, j])) for reduce in (ea.Max, ea.Min)]
        found = run_functions([lower("O", scope) for scope in scopes], [{"A": values}] * 2)
        for got, wanted in zip(found, (np.nanmax(values, 1), np.nanmin(values, 1))):
            assert np.array_equal(np.where(np.isnan(got), wanted, got), wanted)


def test_masked_softmax() -> None:
    """Rows of -inf beside numbers: exp(-inf) is 0, also under the flags that reassociate sums."""
    j, k, m = ea.indices("j k m")
    a = ea.tensor("A", (3, 50))
    values = np.where(
        np.arange(50) > np.array([[10], [30], [48]]), -np.inf, np.linspace(-5, 5, 50)
    ).astype(np.float32)
    peak = ea.Max[k:50](a[i, k])
    (found,) = run_functions(
        [
            lower(
                "O", ea.L[i, j](sympy.exp(a[i, j] - peak) / ea.Sum[m:50](sympy.exp(a[i, m] - peak)))
            )
        ],
        [{"A": values}],
    )
    weights = np.exp(values - values.max(1, keepdims=True))
    assert np.allclose(found, weights / weights.sum(1, keepdims=True), rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_integers_at_the_ends_of_their_range(dtype: str) -> None:
    info = np.iinfo(numpy_dtype(dtype))
    values = np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], info.dtype)
    a = ea.tensor("A", (6,), dtype)
    t = ea.indices("t")
    bodies = [a[i] + 1, a[i] * a[i], ea.Max(a[i], 1), ea.Max[t:6](a[t])]
    kernels = [lower("O", ea.L[i:6](body)) for body in bodies]
    found = run_functions(kernels, [{"A": values}] * 4)
    with np.errstate(over="ignore"):
        expected = [
            values + info.dtype.type(1),
            values * values,
            np.maximum(values, 1),
            np.full(6, info.max),
        ]
    for got, wanted in zip(found, expected):
        assert got.dtype == info.dtype and np.array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["i64", "f32", "f64"])
def test_powers_in_a_product_are_computed_in_its_type(dtype: str) -> None:
    """A square of i32 as a factor of what is wider does not wrap round: SymPy has it also for a
    product of two that are cast.
    """
    a, b = ea.tensor("A", (3,), "i32"), ea.tensor("B", (3,), dtype)
    bodies = [a[i] ** 2 * b[i], a[i] * b[i] * a[i] ** 2, b[i] * (a[i] + 1) ** 2]
    values, factors = np.array([100000, -70000, 46341], np.int32), np.array([1, -2, 3])
    found = run_functions(
        [lower("O", ea.L[i](body)) for body in bodies], [{"A": values, "B": factors}] * 3
    )
    exact = values.astype(np.int64)
    for got, wanted in zip(
        found, [exact**2 * factors, exact**3 * factors, factors * (exact + 1) ** 2]
    ):
        np.testing.assert_allclose(got, wanted.astype(got.dtype), rtol=1e-6)


def test_comparisons_of_mixed_signs() -> None:
    a, b = ea.tensor("A", (4,), "i8"), ea.tensor("B", (4,), "u32")
    (found,) = run_functions(
        [lower("O", ea.L[i](a[i] < b[i]))], [{"A": [-1, -1, 5, 0], "B": [0, 2**32 - 1, 4, 1]}]
    )
    assert found.tolist() == [True, True, False, True]


@pytest.mark.parametrize("flag", ["-UNOTHING", "-DEINALG_SOFTWARE_HALF"])
def test_every_half(flag: str) -> None:
    """All 65536 bit patterns to float and back, by the compiler's own type and by the bits."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    a = ea.tensor("A", (65536,), "f16")
    wide, same = run_functions(
        [lower("O", ea.L[i](a[i] * ea.tensor("B", (65536,))[i])), lower("O", ea.L[i](a[i]))],
        [{"A": halves, "B": np.ones(65536)}, {"A": halves}],
        flag,
    )
    assert np.array_equal(wide, halves.astype(np.float32), equal_nan=True)
    assert np.array_equal(same, halves, equal_nan=True)


@pytest.mark.parametrize("flag", ["-UNOTHING", "-DEINALG_SOFTWARE_HALF"])
@pytest.mark.parametrize("factor", [0.5, 0.25, 1.5, 1.0009765625, 3.0, 1 / 1024])
def test_rounding_to_half(factor: float, flag: str) -> None:
    """Products of every half with a number, rounded: ties, denormals, and what becomes infinite."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    factors = np.full(65536, factor, np.float16)
    scope = ea.L[i](ea.tensor("A", (65536,), "f16")[i] * ea.tensor("B", (65536,), "f16")[i])
    (found,) = run_functions([lower("O", scope)], [{"A": halves, "B": factors}], flag)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = (halves.astype(np.float32) * factors.astype(np.float32)).astype(np.float16)
    assert np.array_equal(found, expected, equal_nan=True)


def test_a_function_without_code() -> None:
    with pytest.raises(CodegenError, match="zeta"):
        lower("O", ea.Scope([(i, 0, 4)], (), sympy.zeta(ea.tensor("A", (4,))[i])))


def test_a_constant_that_no_integer_type_holds_is_a_float() -> None:
    sums = lower("O", ea.L[i](ea.tensor("A", (4,), "i64")[i] + 2**70))
    alone = lower("O", ea.Scope([(i, 0, 4)], (), sympy.Integer(2**70)))
    for found in run_functions([sums, alone], [{"A": np.ones(4, np.int64)}, {}]):
        assert found.tolist() == [2.0**70] * 4


def test_folding() -> None:
    x, zero, one = Apply("exp", (Number(1, "f32"),), "f32"), Number(0, "weak"), Number(1, "weak")
    assert apply("mul", [x, zero]) == Number(0, "f32")
    assert apply("mul", [one, x]) == x and apply("add", [x, zero]) == x
    assert apply("mul", [Number(-1, "weak"), x]) == Apply("neg", (x,), "f32")
    assert apply("max", [x, Number(-np.inf, "f32"), x]) == x
    assert apply("select", [Number(True, "bool"), x, zero]) == x
    assert apply("select", [Number(False, "bool"), x, zero]) == Number(0, "f32")
    assert apply("and", [Number(True, "bool"), Number(True, "bool")], "bool") == Number(
        True, "bool"
    )
    assert cast(x, "f32") is x and cast(zero, "f64") == Number(0, "f64")


def test_types_of_constants() -> None:
    half = Number(0.5, "weak float")
    assert common([Apply("exp", (half,), "f64"), half]) == "f64"
    assert common([Number(2, "weak"), half]) == "f32"
    assert common([Number(1, "weak"), Number(0, "weak")]) == "bool"
    assert common([Number(2, "weak")]) == "i64"
    truth = Apply("ne", (Number(1, "f32"), Number(0, "f32")), "bool")
    assert common([truth, Number(1, "weak")]) == "bool"
    assert common([truth, Number(2, "weak")]) == common([truth, Number(-1, "weak")]) == "i64"


def test_truth_values_beside_numbers() -> None:
    """A number that is no truth value is not computed as one."""
    A, D = ea.tensor("A", (4,)), ea.tensor("D", (4,), "bool")
    i = ea.indices("i")
    bodies = [
        3 * ea.Piecewise((2, A[i] > 0), (D[i], True)),
        ea.Piecewise((D[i], A[i] > 0), (-1, True)) - A[i],
        A[i] * ea.Max(D[i], 2),
        A[i] * ea.Min(D[i], -3),
        ea.Piecewise((1, A[i] > 0), (D[i], True)),
        A[i] + ea.Max(D[i], 1),
    ]
    scopes = [ea.L[i](body) for body in bodies]
    arrays = {"A": np.array([1.0, -1, 2, 0]), "D": np.array([True, True, False, False])}
    given = [{name: arrays[name] for name in scope.tensors} for scope in scopes]
    kernels = [lower("O", scope) for scope in scopes]
    for scope, values, result in zip(scopes, given, run_functions(kernels, given)):
        np.testing.assert_array_equal(result, ea.evaluate(scope, **values), str(scope))


def test_sums_of_fractions_are_one_fraction_where_a_digit_decides() -> None:
    """Fifths of whole numbers add up to a whole number."""
    A, B = ea.tensor("A", (31,)), ea.tensor("B", (31,), "i64")
    i = ea.indices("i")
    sums = [A[i] / 5 + B[i] ** 2 / 5, A[i] / 3 + B[i] / 3 + sympy.Rational(1, 3), A[i] / 7 + i / 7]
    bodies: list[Any] = []
    for total in sums:
        bodies += [sympy.floor(total), sympy.ceiling(total), ea.Mod(total, 1), ea.Mod(total, -2)]
        bodies += [ea.Piecewise((1, total >= 3), (0, True)), sympy.Eq(total, 2), total < 4]
        bodies += [sympy.sign(total - 3)]
    scopes = [ea.L[i](body) for body in bodies]
    rng = np.random.default_rng(0)
    arrays = {"A": rng.integers(-20, 20, 31), "B": rng.integers(-20, 20, 31)}
    given = [{name: arrays[name] for name in scope.tensors} for scope in scopes]
    kernels = [lower("O", scope) for scope in scopes]
    for scope, values, result in zip(scopes, given, run_functions(kernels, given)):
        expected = np.asarray(ea.evaluate(scope, **values), float)
        np.testing.assert_allclose(
            np.asarray(result, float), expected, atol=1e-4, err_msg=str(scope)
        )
        (numpy_result,) = [execute(as_program(scope), values)]
        found = numpy_result["O"] if isinstance(numpy_result, dict) else numpy_result
        np.testing.assert_allclose(
            np.asarray(found, float), expected, atol=1e-4, err_msg=str(scope)
        )
