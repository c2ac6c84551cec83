"""Programs as ONNX models: onnxruntime gives the values of the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import einalg as ea
from derive.matching import kernels_of
from einalg.errors import CodegenError
from einalg.language.index.remainder import Quotient
from einalg.language.ir.dtypes import bounds, numpy_dtype
from einalg.language.ir.program import Program, as_program
from tests.helpers.batches import examples
from tests.helpers.expressions import EXPRESSIONS
from tests.helpers.expressions.values import ARRAYS
from tests.helpers.kernels import agrees, evaluated, flat
from tests.helpers.operators.harness import CASES, load_cases, parameter_sets
from tests.helpers.random_programs import SLOW, programs_with_arrays

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from codegen.targets.onnx import onnx_model  # noqa: E402

load_cases()
SETS = 2  # parameter sets of each case
WITHOUT = ("atan2", "tgamma", "lgamma")  # which ONNX has no operator for


def model_of(program: Program) -> Any:
    return onnx_model(
        list(program.inputs.values()), {}, [(program, kernels_of(program), None)], program.outputs
    )


def nodes(expression: Any) -> list[str]:
    """The operators of the model, without the names of its results."""
    return [
        node.op_type for node in model_of(flat(expression)).graph.node if node.op_type != "Identity"
    ]


def values_of(model: Any, program: Program, arrays: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        name: np.asarray(arrays[name]).astype(numpy_dtype(t.dtype))
        for name, t in program.inputs.items()
    }
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = session.run(None, given)
    return dict(zip(program.outputs, map(np.asarray, found)))


def check(program: Program, arrays: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Fail where the model of a program has other values; a function that ONNX has not is told as
    such.
    """
    try:
        model = model_of(program)
    except CodegenError as error:
        assert str(error).rpartition(" ")[2] in WITHOUT
        return
    found = values_of(model, program, arrays)
    for name, values in expected.items():
        dtype = program[name].dtype
        assert agrees(found[name], values, dtype), (
            f"{name} ({dtype}) of\n{program}\nis\n{found[name]}\nexpected\n{values}"
        )


@pytest.mark.parametrize("name", sorted(CASES))
def test_operators(name: str) -> None:
    for case in CASES[name].values():
        for _, (expression, arrays, expected) in parameter_sets(name, case, SETS):
            program = flat(expression)
            check(
                program,
                arrays,
                expected if isinstance(expected, dict) else {program.outputs[0]: expected},
            )


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_expressions(name: str) -> None:
    program = flat(EXPRESSIONS[name]())
    check(program, ARRAYS[name], evaluated(program, ARRAYS[name]))


@settings(max_examples=examples(30, at_night=600), suppress_health_check=SLOW)
@given(programs_with_arrays())
def test_random_programs(case: Any) -> None:
    program, arrays = case
    check(program, arrays, evaluated(program, arrays))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("O[i:4] = Sum[s:7](Sum[r:5](A[i]*B[i])*Sum[r:1, w:1](A[i]**2))", (4, 4)),
        ("O[i:4] = Sum[s:7](A[i]*Sum[r:1](A[s])*Sum[r:5](A[i]*B[i]))", (7, 4)),
        ("O[i:1] = Sum[s:2](A[i]*B[i])", (1, 1)),
        ("O[i,j] = Sum[s:3](3*A[i]*B[j])/2", (4, 5)),
        (
            "O[i,j] = Sum[()](A[i], where=(Eq(i%2,1))) + Sum[()](A[i]*B[j], where=(Eq(i%2,0)))",
            (4, 5),
        ),
        ("O[i,j] = Max[()](A[i], where=(Eq(i%2,1)))*B[j]", (4, 5)),
        ("O[i:6,j] = B[j] + Sum[()](A[2], where=(Eq(i%2,1)))", (4, 5)),
    ],
)
def test_sums_over_what_does_not_vary(text: str, sizes: tuple[int, int]) -> None:
    program = flat(ea.parse(text, A=sizes[:1], B=sizes[1:]))
    arrays = {
        name: np.random.default_rng(0).normal(size=tensor.shape).astype(np.float32)
        for name, tensor in program.inputs.items()
    }
    check(program, arrays, evaluated(program, arrays))


A, K = ea.tensor("A", (2, 6, 9, 8)), ea.tensor("K", (4, 6, 3, 3))


@pytest.mark.parametrize(
    ("expression", "operators"),
    [
        (ea.ops.matmul(ea.tensor("X", (5, 7)), ea.tensor("Y", (7, 3))), ["MatMul"]),
        (
            ea.parse("O[i,j] += X[k,i]*Y[j,k]", X=(7, 5), Y=(3, 7)),
            ["Transpose", "Transpose", "MatMul"],
        ),
        (ea.ops.conv2d(A, K, stride=2, padding=(1, 0), dilation=(1, 2)), ["Slice", "Conv"]),
        (ea.ops.conv2d(A, ea.tensor("K", (6, 3, 3, 3)), groups=2), ["Conv"]),
        (
            ea.ops.conv_transpose2d(A, ea.tensor("K", (6, 4, 4, 4)), stride=2, padding=1),
            ["ConvTranspose"],
        ),
        (ea.ops.max_pool2d(A, 3, stride=2, padding=1), ["MaxPool"]),
        (ea.ops.avg_pool2d(A, (2, 3), stride=1), ["AveragePool"]),
        (ea.parse("O[n,i] = A[n,2*i+1]", A=(3, 9)), ["Slice"]),
        (ea.parse("O[i:20,j] = A[i//5, i%5]*B[j]", A=(4, 5), B=(6,)), ["Mul"]),
        (ea.parse("O[i] = A[i,i]", A=(4, 4)), ["Slice"]),
        (ea.parse("O[i,k] = Max(A.pad(0,1)[i,k-1], 0)", A=(4, 5)), ["Pad", "Max"]),
        (
            ea.parse("O[n,h] += A[n,c,h+r]*K[c,r]*K[c,r]", A=(2, 3, 8), K=(3, 4)),
            ["Pow", "Gather", "Transpose", "Einsum"],
        ),
    ],
)
def test_operators_of_the_model(expression: Any, operators: list[str]) -> None:
    assert [operator for operator in nodes(expression) if operator != "Reshape"] == operators


def test_a_half_of_the_channels_is_a_slice() -> None:
    half = ea.parse("O[n,f,h,w] += A[n,c+3,h+r,w+s]*K[f,c,r,s]", A=(2, 6, 9, 8), K=(4, 3, 3, 3))
    assert nodes(half) == ["Slice", "Conv"]


@pytest.mark.parametrize(
    "text",
    [
        *(f"O[i] = {name}(A[i])" for name in ("tan", "atan", "asinh", "erf", "erfc", "sinh")),
        *(f"O[i] = {name}(A[i]/8)" for name in ("asin", "acos", "atanh", "cosh")),
        "O[i] = acosh(A[i]**2 + 1)",
        "O[i] = atan(1e200*A[i]) + erf(1e10*A[i]) + asin(Max(-1, Min(1, A[i])))",
    ],
)
def test_functions_of_double_precision(text: str) -> None:
    """Which onnxruntime has no kernels for."""
    values = np.random.default_rng(0).uniform(-6, 6, 33)
    values[:5] = 0, 1e-9, -1e-3, 7.5, -7.5
    program = flat(ea.parse(text, A=ea.tensor("A", (33,), "f64")))
    expected = evaluated(program, {"A": values})["O"]
    found = values_of(model_of(program), program, {"A": values})["O"]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


DTYPES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "text",
    [
        "O[i] = Piecewise((A[i], i > 2), (B[i], True))",
        "O[i] = Piecewise((A[i], C[i] > 0), (B[i], True))",
        "O[i] = Max(A[i], B[i])",
        "O[i] = Min(A[i], B[i])",
        "O[()] = Max[i](A[i])",
        "O[i:3] = Min[j:3](A[i + j])",
        "O[()] = Sum[i](A[i])",
        "O[i:8] = A.pad(2)[i-1]",
        "O[i:8] = A.pad(1, fill=1).pad(1)[i-1]",
        "O[i:2] = A[2*i]",
    ],
)
def test_every_type_has_its_operators(text: str, dtype: str) -> None:
    tensors = {name: ea.tensor(name, (6,), dtype) for name in "AB"}
    used = {name: tensor for name, tensor in tensors.items() if f"{name}[" in text or name == "A"}
    if "C[" in text:
        used["C"] = ea.tensor("C", (6,))
    program = flat(ea.parse(text, **used))
    random = np.random.default_rng(0)
    arrays = {name: random.integers(0, 2, 6).astype(numpy_dtype(used[name].dtype)) for name in used}
    check(program, arrays, evaluated(program, arrays))


@pytest.mark.parametrize("dtype", ("i16", "i32", "i64", "u8"))
@pytest.mark.parametrize(
    "text", ["Mod(A[i], 3)", "floor(A[i]/3)", "ceiling(A[i]/2 + A[i]/3)", "Quotient(A[i], i + 2)"]
)
def test_rounded_quotients_of_integers(text: str, dtype: str) -> None:
    low, high = bounds(dtype)
    program = flat(ea.parse(f"O[i] = {text}", A=ea.tensor("A", (6,), dtype)))
    arrays = {"A": np.array([low // 8, 0, 1, 7, 2, high // 8], numpy_dtype(dtype))}
    check(program, arrays, evaluated(program, arrays))


def test_convolutions_of_double_precision() -> None:
    program = flat(ops_in("f64"))
    random = np.random.default_rng(0)
    arrays = {name: random.normal(size=t.shape) for name, t in program.inputs.items()}
    check(program, arrays, evaluated(program, arrays))


def ops_in(dtype: str) -> Any:
    data = ea.tensor("A", (1, 2, 5, 4), dtype)
    weights = ea.tensor("K", (3, 2, 2, 2), dtype)
    return ea.ops.avg_pool2d(ea.ops.conv2d(data, weights, padding=1), 2)


X, Y = ea.tensor("X", (7,)), ea.tensor("Y", (7,))
N, M = ea.tensor("N", (7,), "i32"), ea.tensor("M", (7,), "i32")
SUM_OF_TWO = ea.parse("O[i] = X[i] + Y[i]", X=X, Y=Y)


@pytest.mark.parametrize(
    ("expression", "operator"),
    [
        (ea.parse("O[i] = X[i] % Y[i]", X=X, Y=Y), "Mod"),
        (ea.parse("O[i] = N[i] % M[i]", N=N, M=M), "Mod"),
        (ea.Scope(SUM_OF_TWO.iterators, (), Quotient(*SUM_OF_TWO.body.args)), "Floor"),
        (ea.parse("O[i] = erfc(X[i])", X=X), "Erf"),
        (ea.parse("O[i] = X[i]**3*Y[i]", X=X, Y=Y), "Pow"),
        (ea.ops.cast(X, "bf16"), "Cast"),
        (
            ea.parse(
                "O[i,j] += A[i,k]*B[k,j]",
                A=ea.tensor("A", (4, 5)),
                B=ea.tensor("B", (5, 3), "f64"),
            ),
            "Einsum",
        ),
    ],
    ids=str,
)
def test_functions_that_are_several_operators(expression: ea.Scope, operator: str) -> None:
    program, rng = flat(expression), np.random.default_rng(0)
    arrays = {}
    for name, tensor in program.inputs.items():
        values = rng.normal(size=tensor.shape) * 3
        if tensor.dtype == "i32":
            values = rng.choice([-5, -3, -2, 2, 3, 7], tensor.shape)
        arrays[name] = values.astype(numpy_dtype(tensor.dtype))
    assert operator in nodes(expression)
    check(program, arrays, evaluated(program, arrays))


def test_an_inner_scope_is_computed_once() -> None:
    text = "O[i] = (L[j:7](exp(X[j])))[6-i] + 2*(L[j:7](exp(X[j])))[i]"
    program = as_program(ea.parse(text, X=X))
    model = model_of(program)
    assert [node.op_type for node in model.graph.node].count("Exp") == 1
    x = np.linspace(-2, 2, 7, dtype=np.float32)
    values = values_of(model, program, {"X": x})["O"]
    np.testing.assert_allclose(values, np.exp(x[::-1]) + 2 * np.exp(x), rtol=1e-6)


def test_extremes_of_long_products_are_reduced_in_64_bits() -> None:
    program = flat(ea.parse("O[i:2] = Mod(Max[k:2](n[k]*n[i]), 7)", n=ea.tensor("n", (2,), "i32")))
    arrays = {"n": np.array([100000, 3], np.int32)}
    check(program, arrays, {"O": np.asarray(ea.evaluate(program, **arrays))})


def test_an_integer_that_onnx_has_not() -> None:
    program = flat(ea.parse("O[i:2] = Max(n[i], 2**70)", n=ea.tensor("n", (2,), "i64")))
    with pytest.raises(CodegenError, match=f"no integer type for {2**70}"):
        model_of(program)
