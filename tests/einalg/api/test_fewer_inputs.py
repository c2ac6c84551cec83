"""Programs that read fewer inputs than the expression that they equal: calls stay as they were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.programs.passes.normalise import shaped
from einalg.language.ir.program import as_program
from tests.helpers.c_project import check

PAIR = {"A": (6,), "B": (6,)}
CANCELLED = [
    ("T[i] = A[i] + B[i]\nO[i] = T[i] - B[i]", PAIR, {"A"}),
    ("T[i] = A[i]*B[i]\nO[i] = 3*A[i] + T[i] - A[i]*B[i]", PAIR, {"A"}),
    ("T[i] = tanh(B[i])\nO[i] = T[i] + A[5-i] - tanh(B[i])", PAIR, {"A"}),
    ("O[i] = A[i] + Sum[k](B[i,k]) - Sum[j](B[i,j])", {"A": (6,), "B": (6, 5)}, {"A"}),
    (
        "O[i,j] = Sum[k](A[i,k]*W[k,j]) + Sum[k](B[i,k]*V[k,j]) - Sum[l](V[l,j]*B[i,l])",
        {"A": (3, 4), "W": (4, 5), "B": (3, 4), "V": (4, 5)},
        {"A", "W"},
    ),
]


def arrays_of(shapes: Mapping[str, Any], dtype: Any = np.float32) -> dict[str, Any]:
    draw = np.random.default_rng(3)
    return {name: draw.integers(-9, 9, shape).astype(dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize(("text", "shapes", "read"), CANCELLED)
def test_candidates_read_fewer_inputs(text: str, shapes: Any, read: Any, tmp_path: Path) -> None:
    expression, arrays = ea.parse(text, **shapes), arrays_of(shapes)
    derivation = ea.derive(expression, measure=False, states=60)
    fewer = [set(candidate.program.inputs) == read for candidate in derivation.candidates]
    number, expected = fewer.index(True), ea.evaluate(expression, **arrays)
    derivation.save(tmp_path / "derivation.json")
    for known in (derivation, ea.Derivation.load(tmp_path / "derivation.json")):
        candidate = known.candidates[number]
        assert candidate.verdict == "proved"
        assert list(candidate.inputs) == list(as_program(expression).inputs)
        run = candidate.compile()
        np.testing.assert_allclose(run(**arrays), expected, rtol=1e-5, atol=1e-5)


def _without_b() -> tuple[Any, dict[str, Any]]:
    """Return a candidate of `A + B - B` that does not read B, and arrays."""
    text, shapes, read = CANCELLED[0]
    candidates = ea.derive(ea.parse(text, **shapes), measure=False, states=60).candidates
    return next(c for c in candidates if set(c.program.inputs) == read), arrays_of(shapes)


def test_what_is_not_read_is_given_bound_or_left_out() -> None:
    candidate, arrays = _without_b()
    run, a, b = candidate.compile(), arrays["A"], arrays["B"]
    for call in (run, run.bind(), run.bind_in_place()):
        for given_arrays in ({"A": a, "B": b}, {"B": b.tolist(), "A": a}, {"A": a}):
            np.testing.assert_array_equal(call(**given_arrays), a)
    np.testing.assert_array_equal(run.bind(B=b)(A=a), a)
    np.testing.assert_array_equal(run.bind(A=a)(B=b), a)
    run.repeated(A=a, B=b)()
    assert run.time(1, A=a, B=b)
    for wrong in (b[:2], [1, 2], [[1], [2, 3]]):
        with pytest.raises(ea.ShapeError, match="B"):
            run(A=a, B=wrong)
    with pytest.raises(ea.ShapeError, match="C"):
        run(A=a, B=b, C=b)


def test_an_exported_function_takes_all_inputs_in_their_order(tmp_path: Path) -> None:
    candidate, _ = _without_b()
    folder = candidate.export_c(tmp_path / "out", "sums")
    header = (folder / "sums.h").read_text()
    assert "void sums(const float *A, const float *B, float *O," in header
    assert "a call takes" in check(folder, "-O1")
    folder = candidate.export_c(tmp_path / "one", "sums", weights={"B": np.ones(6, np.float32)})
    assert "void sums(const float *A, float *O," in (folder / "sums.h").read_text()


def test_the_order_of_arguments_is_that_of_the_expression(tmp_path: Path) -> None:
    expression = ea.parse("O[i] = A[i] + Sum[k](B[i,k])", A=(6,), B=(6, 5))
    inputs = list(as_program(expression).inputs)
    candidates = ea.derive(expression, measure=False, states=20).candidates
    assert len({tuple(candidate.program.inputs) for candidate in candidates}) > 1
    for number, candidate in enumerate(candidates[:3]):
        folder = candidate.export_c(tmp_path / str(number), "sums")
        arguments = ", ".join(f"const float *{name}" for name in inputs)
        assert f"void sums({arguments}, float *O," in (folder / "sums.h").read_text()


def test_an_optimized_program_takes_all_inputs(tmp_path: Path) -> None:
    """Of integers all that cancels may go: there is no NaN."""
    tensors = {name: ea.tensor(name, (4, 6), "i32") for name in "AB"}
    expression = ea.parse("T[n,i] = A[n,i] + B[n,i]\nO[n,i] = 2*T[n,i] - 2*B[n,i]", **tensors)
    arrays = arrays_of({name: tensor.shape for name, tensor in tensors.items()}, np.int32)
    o = ea.optimize(expression, seconds=0, prefer="einalg")
    ((program, *_),) = o.programs()
    assert list(program.inputs) == ["A"]
    assert o.direct() is not None
    o.save(tmp_path / "saved")
    for run in (o, ea.Optimized.load(tmp_path / "saved")):
        np.testing.assert_array_equal(run(**arrays), 2 * arrays["A"])
    folder = o.export_c(tmp_path / "out", "twice")
    assert "(const int32_t *A, const int32_t *B, int32_t *O," in (folder / "twice.h").read_text()


TERMS = st.sampled_from(
    ["Sum[{k}](B[i,{k}])", "Max[{k}](B[i,{k}]*C[{k}])", "A[i]*Sum[{k}](C[{k}]*B[i,{k}])"]
)
SUM = "O[i] = {base} + {factor}*{one} - {factor}*{two}"


@given(TERMS, st.sampled_from(["A[i]", "D[i]*A[i]", "Sum[m](B[i,m])"]), st.integers(1, 3))
def test_reductions_that_cancel_in_a_model_stay(term: str, base: str, factor: int) -> None:
    """A model keeps NaN: its sums are no statements where these would cancel."""
    text = SUM.format(base=base, factor=factor, one=term.format(k="k"), two=term.format(k="j"))
    shapes = {"A": (6,), "B": (6, 5), "C": (5,), "D": (6,)}
    used = {name: shape for name, shape in shapes.items() if f"{name}[" in text}
    program, arrays = as_program(ea.parse(text, **used)), arrays_of(used)
    result, _ = shaped(program)
    assert set(result.inputs) == set(program.inputs)
    np.testing.assert_array_equal(ea.evaluate(result, **arrays), ea.evaluate(program, **arrays))
    arrays["B"][2, 3] = np.nan
    np.testing.assert_array_equal(ea.evaluate(result, **arrays), ea.evaluate(program, **arrays))
