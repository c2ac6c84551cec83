"""Public functions take text with shapes in the place of an expression, as `parse` does."""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea

TEXT, SHAPES = "O[i] += A[i,j]*x[j]", {"A": (4, 5), "x": (5,)}
EXPR = ea.parse(TEXT, **SHAPES)


def test_derive() -> None:
    d = ea.derive(TEXT, measure=False, depth=1, **SHAPES)
    assert d.expression["O"] == EXPR


@pytest.mark.parametrize("other", [TEXT, EXPR])
def test_prove(other) -> None:
    assert ea.prove(TEXT, other, **SHAPES).verdict == "proved"
    assert ea.prove(other, "O[i] += A[i,j]*x[4-j]", **SHAPES).verdict == "different"


def test_the_tensors_of_the_other_side_are_known() -> None:
    assert ea.prove(EXPR, "O[i] += x[j]*A[i,j]").verdict == "proved"
    assert ea.prove("O[i] += x[j]*A[i,j]", EXPR).verdict == "proved"


def test_distance() -> None:
    assert ea.distance(TEXT, "matmul", **SHAPES) == ea.distance(EXPR, "matmul")


def test_session() -> None:
    s = ea.Session(TEXT, **SHAPES)
    assert s.expr["O"] == EXPR
    assert ea.Session(TEXT, rules=["staging"], **SHAPES).expr == s.expr


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_evaluate_takes_shapes_from_the_arrays(dtype) -> None:
    A, x = np.arange(20, dtype=dtype).reshape(4, 5), np.arange(5, dtype=dtype)
    assert np.array_equal(ea.evaluate(TEXT, A=A, x=x), A @ x)
    assert np.array_equal(ea.evaluate(TEXT, A=A.tolist(), x=x.tolist()), A @ x)


def test_mapping_table_and_footprint() -> None:
    assert str(ea.mapping_table(TEXT, **SHAPES)) == str(ea.mapping_table(EXPR))


def test_shapes_that_a_text_does_not_name_are_left_aside() -> None:
    assert ea.Session("O[i] = 2*x[i]", **SHAPES).expr.inputs.keys() == {"x"}
    assert ea.prove("O[i] = 2*x[i]", "O[i] = x[i] + x[i]", **SHAPES)


def test_several_statements() -> None:
    text = "T[i,j] = A[i,j]*x[j]\nO[i] += T[i,j]"
    assert ea.prove(TEXT, text, **SHAPES).verdict == "proved"


@pytest.mark.parametrize("name", ["a", "b", "seed", "tensors"])
def test_a_tensor_of_a_proof_may_have_the_name_of_a_parameter(name: str) -> None:
    assert ea.prove(f"O[i] = {name}[i]", f"O[i] = {name}[i]", **{name: ("N",)}).verdict == "proved"
    assert ea.prove(a="O[i] = x[i]", b="O[i] = 2*x[i]", x=("N",)).verdict == "different"


@pytest.mark.parametrize("name", ["self", "name", "before", "after"])
def test_a_tensor_of_a_rule_may_have_the_name_of_a_parameter(name: str) -> None:
    rule = ea.substitutions.Rule("r", f"O[i] = {name}[i]", f"O[i] = 2*{name}[i]", **{name: (3,)})
    assert list(rule.before.inputs) == [name]


@pytest.mark.parametrize(
    ("function", "name"), [(ea.parse, "text"), (ea.Session, "expr"), (ea.mutants, "expr")]
)
def test_a_tensor_may_have_the_name_of_the_parameter_for_the_text(function, name: str) -> None:
    function(f"O[i] = 2*{name}[i]", **{name: (3,)})


def test_an_array_may_have_the_name_of_the_parameter_for_the_text() -> None:
    assert list(ea.evaluate("O[i] = 2*expr[i]", expr=[1, 2])) == [2, 4]


def test_a_tensor_may_have_the_name_of_an_option() -> None:
    d = ea.derive("O[i] = 2*seed[i] + depth[i]", seed=(4,), depth=(4,), states=1, measure=False)
    assert list(d.expression.inputs) == ["seed", "depth"]
    assert ea.derive("O[depth] = 2*A[depth]", A=(4,), depth=1, measure=False).best.verdict


MISTAKES = [
    (lambda: ea.derive("O[i] = Z[i,0]", A=(4,)), ea.NotationError, "unknown tensor 'Z'"),
    (lambda: ea.derive("O[i] = 2*A[i]", A=(4,), dpeth=2), ea.UseError, "write depth=2"),
    (lambda: ea.derive(EXPR, A=(4, 5)), ea.UseError, "derive has no option A"),
    (lambda: ea.derive("O[i] = Z[i,0]"), ea.NotationError, r"derive\(..., Z=\(8, 64\)\)"),
    (lambda: ea.prove("O[i] = A[i]", "O[i] = B[i]", A=(4,)), ea.NotationError, r"prove\(..., B="),
    (lambda: ea.Session("O[i] = A[i]"), ea.NotationError, r"Session\(..., A="),
    (lambda: ea.distance("O[i] = A[i]", "relu"), ea.NotationError, r"distance\(..., A="),
    (lambda: ea.evaluate("O[i] = A[i]"), ea.NotationError, r"evaluate\(..., A=np.ones\(\(8,\)\)\)"),
    (lambda: ea.evaluate("O[i] = A[i]", A=[1], B=[2]), ea.ShapeError, "B is not an input"),
]  # fmt: skip


@pytest.mark.parametrize("mistake, kind, message", MISTAKES)
def test_mistakes(mistake, kind, message) -> None:
    with pytest.raises(kind, match=message):
        mistake()
