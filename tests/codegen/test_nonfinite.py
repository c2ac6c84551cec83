"""NaN and infinities in generated code: C, also behind whole vectors, CUDA, and ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.targets.cuda.lowering.lower import lower_cuda
from codegen.targets.cuda.shim import Shim
from tests.helpers.kernels import flat, run_programs

NAN, INF = math.nan, math.inf
SIZES = (1, 5, 7, 16, 17, 33, 120)


def compiled(expressions: list[Any], arrays: list[dict[str, Any]]) -> list[Any]:
    """The results of several expressions as C in one file."""
    programs = [flat(expression) for expression in expressions]
    return [results["O"] for results in run_programs(programs, arrays)]


def test_extremes_keep_nan_at_every_place_of_rows_of_any_length() -> None:
    expressions, arrays, expected = [], [], []
    for size in SIZES:
        for op in ("Max", "Min"):
            rows = np.arange(size * (size + 1), dtype=np.float32).reshape(size + 1, size)
            rows[np.arange(size), np.arange(size)] = NAN
            expressions.append(ea.parse(f"O[i] = {op}[j](A[i, j])", A=rows.shape))
            arrays.append({"A": rows})
            expected.append(np.arange(size + 1) < size)
    for result, places in zip(compiled(expressions, arrays), expected, strict=True):
        assert np.array_equal(np.isnan(result), places)


TEXTS = [
    "Max(A[i], B[i])",
    "Min(B[i], A[i])",
    "Max(A[i], 0)",
    "Min(1, Max(A[i], B[i], -1))",
    "Piecewise((1, isnan(A[i])), (2, isinf(A[i])), (3, isfinite(A[i])), (4, True))",
    "Piecewise((1, Not(A[i] < B[i])), (0, True))",
    "A[i]*Piecewise((1, A[i] > 0), (0, True))",
    "3*A[i]*B[i]*Piecewise((1, B[i] > A[i]), (0, True))/4",
    "Mod(A[i], B[i])",
    "Quotient(A[i], B[i])",
    "A[i]*(erf(B[i]) + 1)/2",
]
NUMBERS = np.array([NAN, INF, -INF, 1e9, -1e9, 1e-9, 0.1, -2.5, 7], np.float32)


def drawn(size: int, seed: int) -> dict[str, Any]:
    """Two rows of numbers, some of which are special."""
    draw = np.random.default_rng(seed)
    rows = np.where(
        draw.random((2, size)) < 0.5, draw.choice(NUMBERS, (2, size)), draw.normal(size=(2, size))
    ).astype(np.float32)
    return {"A": rows[0], "B": rows[1]}


def referred(text: str, arrays: dict[str, Any]) -> tuple[Any, dict[str, Any], Any]:
    """A statement of two rows, the arrays that it reads, and its values by the reference."""
    size = len(arrays["A"])
    scope = ea.parse(f"O[i] = {text}", A=(size,), B=(size,))
    read = {name: arrays[name] for name in scope.tensors}
    with np.errstate(all="ignore"):
        return scope, read, np.asarray(ea.evaluate(scope, **read), float).astype(np.float32)


@pytest.mark.parametrize("size", [1, 7, 16, 17, 33])
def test_values_as_the_reference(size: int) -> None:
    cases = []
    for seed in range(3):
        for text in TEXTS:
            cases.append((text, *referred(text, drawn(size, 100 * size + seed))))
    results = compiled([scope for _, scope, _, _ in cases], [read for _, _, read, _ in cases])
    for (text, _, read, expected), result in zip(cases, results, strict=True):
        assert np.allclose(result, expected, rtol=1e-3, equal_nan=True), (text, read)


def test_a_product_is_scaled_before_it_is_too_large() -> None:
    x = np.full(17, 3e38, np.float32)
    gelu = ea.parse("O[i] = A[i]*(erf(A[i]/sqrt(2)) + 1)/2", A=x.shape)
    (result,) = compiled([gelu], [{"A": x}])
    assert np.array_equal(result, x)


@pytest.mark.parametrize("size", [1, 33, 200])
def test_cuda_text_keeps_nan(size: int) -> None:
    scope = ea.parse("O[i] = Max[j](A[i, j])", A=(3, size))
    shim = Shim([lower_cuda("O", scope)])
    for place in {0, size // 2, size - 1}:
        rows = np.arange(3 * size, dtype=np.float32).reshape(3, size)
        rows[1, place] = NAN
        assert np.isnan(shim.run(0, {"A": rows})).tolist() == [False, True, False]


def test_cuda_text_of_elements() -> None:
    for seed, text in enumerate(TEXTS[3:8]):
        scope, read, expected = referred(text, drawn(16, seed))
        result = Shim([lower_cuda("O", scope)]).run(0, read)
        assert np.allclose(result, expected, rtol=1e-3, equal_nan=True), (text, read)


def test_models_of_onnx_keep_nan() -> None:
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from codegen.targets.onnx import onnx_model
    from derive.matching import kernels_of

    x = np.array([[1, NAN, 3], [NAN, 2, 1], [1, 2, NAN], [1, 2, 3]], np.float32)
    for text in ("O[i] = Max[j](A[i, j])", "O[i] = Min[j](A[i, j]*A[i, j])"):
        program = flat(ea.parse(text, A=x.shape))
        kernels = kernels_of(program)
        model = onnx_model(list(program.inputs.values()), {}, [(program, kernels, None)], ["O"])
        session = onnxruntime.InferenceSession(model.SerializeToString())
        (result,) = session.run(None, {"A": x})
        assert np.isnan(result).tolist() == [True, True, True, False]
