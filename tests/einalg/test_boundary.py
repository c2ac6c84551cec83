"""Errors end at the user's own line, in every public call; a call that does not fit says what to write."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from inspect import isclass, isfunction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.boundary import SETTING, is_boundary, unknown_option
from einalg.errors import EinalgError, UseError
from einalg.language import refusals

A, B = ea.tensor("A", (8, 6)), ea.tensor("B", (6, 5))
i, j = ea.indices("i j")
MISTAKES: dict[str, Callable[[], Any]] = {
    "text": lambda: ea.parse("O[i,j] = A[i,k]", A=(4, 5)),
    "text in the place of an expression": lambda: ea.derive("O[i] = Z[i]", A=(4,)),
    "text of a session": lambda: ea.Session("O[i] = Z[i]"),
    "text that is evaluated": lambda: ea.evaluate("O[i] = Z[i]", A=[3]),
    "scope": lambda: ea.L[i](A[i, j]),
    "range": lambda: ea.L[i:2.5](A[i, 0]),
    "reduction": lambda: ea.Sum[i](A),
    "access": lambda: A[i],
    "subscript": lambda: A[i, i // 0],
    "comparison": lambda: i < "a",
    "padding": lambda: A.pad(1),
    "arithmetic": lambda: A + 1,
    "reflected": lambda: 1 + A,
    "NumPy's function": lambda: np.exp(A),
    "length": lambda: len(A),
    "attribute": lambda: A.sum(),
    "cases": lambda: ea.Piecewise(3),
    "remainder": lambda: ea.Mod(i, 0),
    "program": lambda: ea.Program([]),
    "einsum": lambda: ea.einsum("ij->k", A),
    "operator": lambda: ea.ops.matmul(A, A),
    "options of an operator": lambda: ea.ops.softmax(A, dim=1),
    "number of arguments": lambda: ea.ops.relu(),
    "option": lambda: ea.optimize(ea.parse("O[i] = A[i]", A=(3,)), seconds="soon"),
    "record": lambda: ea.Move.from_json("[]"),
    "folder": lambda: ea.Derivation.load("no folder"),
    "rule": lambda: ea.check_rule(3),
    "name": lambda: ea.Tensor,
    "name of an operator": lambda: ea.ops.softmx,
    "name of a tool": lambda: ea.testing.checkrule,
    "distance": lambda: ea.distance(ea.L[i, j](A[i, j]), "conv9d"),
}


def frames(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_an_error_ends_at_the_line_of_the_user(mistake: Callable[[], Any]) -> None:
    with pytest.raises(EinalgError) as caught:
        mistake()
    assert {Path(name).name for name in frames(caught.value)} == {Path(__file__).name}
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_errors_of_results_end_at_the_line_of_the_user() -> None:
    d = ea.derive("O[i] = 2*A[i] + 1", A=(3,), measure=False)
    s = ea.Session("O[i] = 2*A[i] + 1", A=(3,))
    h = ea.Schedule("O[i] = 2*A[i] + 1", A=(3,))
    run = d.best.compile()
    o = ea.optimize(d.expression, seconds=0)
    mistakes: list[Callable[[], Any]] = [
        lambda: run(A=np.ones(4)),
        lambda: run(1),
        lambda: run.bind(B=1),
        lambda: o(np.ones(4)),
        lambda: d.explain(7),
        lambda: d.why_not("no operator"),
        lambda: d.best.source("fortran"),
        lambda: s.apply(99),
        lambda: s.undo(),
        lambda: s.redo(),
        lambda: s.expr["Z"],
        lambda: h.apply(9999),
        lambda: h.set(rows="many"),
        lambda: h.undo(),
    ]
    for mistake in mistakes:
        with pytest.raises(EinalgError) as caught:
            mistake()
        assert {Path(name).name for name in frames(caught.value)} == {Path(__file__).name}


def test_a_setting_shows_the_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "1")
    with pytest.raises(EinalgError) as caught:
        ea.parse("O[i] = Z[i]")
    assert any(name.endswith("parser.py") for name in frames(caught.value))


def test_the_frames_of_a_rule_of_the_user_stay() -> None:
    @ea.rule("odd", before="A", after="B", requires="nothing")
    def odd(scope: Any) -> Any:
        return ea.parse("O[i] = Z[i]")

    with pytest.raises(EinalgError) as caught:
        list(ea.Session("O[i] = A[i]", A=(3,), rules=[odd]).moves("odd"))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "odd"


def test_an_error_that_the_user_handles_stays_in_the_chain() -> None:
    try:
        raise ValueError("mine")
    except ValueError:
        with pytest.raises(EinalgError) as caught:
            ea.parse("O[i] = Z[i]")
    assert isinstance(caught.value.__context__, ValueError)
    assert not caught.value.__suppress_context__


def test_other_errors_keep_their_frames() -> None:
    def fails(_: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        ea.derive("O[i] = 2*A[i]", A=(3,), measure=False, progress=fails)
    assert any(name.endswith("derivation.py") for name in frames(caught.value))


def test_every_public_function_is_a_boundary() -> None:
    public = {name: getattr(ea, name) for name in ea.__all__}
    public.update(ea.ops.OPERATORS)
    functions = {name: value for name, value in public.items() if isfunction(value)}
    assert len(functions) > 80
    assert not [name for name, value in functions.items() if not is_boundary(value)]


MADE_BY_EINALG = {"Proof", "RuleReport"}  # frozen values without a method that can fail


def test_every_public_class_is_a_boundary() -> None:
    for name in ea.__all__:
        value = getattr(ea, name)
        if not isclass(value) or issubclass(value, (EinalgError, Warning)):
            continue
        if name in MADE_BY_EINALG:
            continue
        methods = [m for key, m in vars(value).items() if isfunction(m) and not key.startswith("_")]
        constructors = [vars(value).get("__init__"), vars(value).get("__new__")]
        functions = [*methods, *(getattr(c, "__func__", c) for c in constructors if c)]
        assert all(map(is_boundary, functions)), name


MISFITS = [
    (lambda: ea.derive(A, dpeth=3), "derive has no option dpeth\n  write depth=3"),
    (lambda: ea.ops.softmax(A, dim=-1), "softmax has no option dim\n  write axis=-1"),
    (lambda: ea.ops.sum(A, axis=1, keepdim=True), "sum has no option axis\n  write axes=1"),
    (lambda: ea.ops.sum(A, keepdim=True), "sum has no option keepdim\n  write keepdims=True"),
    (lambda: ea.ops.matmul(A), "matmul needs B\n  write matmul(A, B, transpose_a=False, transpose_b=False)"),
    (lambda: ea.ops.relu(A, A), "relu takes 1 argument by place, and here are 2\n  write relu(x)"),
    (lambda: ea.ops.exp(A, x=A), "exp has two values for x\n  write exp(x)"),
    (lambda: ea.tensor("A"), "tensor needs shape\n  write tensor(name, shape, dtype='f32', role='input')"),
    (lambda: ea.parse(), "parse needs text\n  write parse(text, **tensors)"),
    (lambda: ea.ops.exp(A, colour=3), "exp has no option colour\n  leave it out; its options: x"),
]  # fmt: skip


@pytest.mark.parametrize("mistake, message", MISFITS, ids=[message for _, message in MISFITS])
def test_a_call_that_does_not_fit_says_what_to_write(
    mistake: Callable[[], Any], message: str
) -> None:
    with pytest.raises(UseError) as caught:
        mistake()
    assert str(caught.value) == message
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    "module, name, meant",
    [
        (ea, "Tensor", "ea.tensor"),
        (ea, "optimise", "ea.optimize"),
        (ea.ops, "MaxPool2d", "ea.ops.max_pool2d"),
        (ea.ops, "LayerNorm", "ea.ops.layer_norm"),
        (ea.testing, "checkrule", "ea.testing.check_rule"),
    ],
)
def test_a_name_that_is_not_there(module: Any, name: str, meant: str) -> None:
    assert not hasattr(module, name)
    with pytest.raises(AttributeError, match=f"\n  write {meant}$"):
        getattr(module, name)


def test_an_array_in_a_remedy_is_not_spelt_out() -> None:
    assert "write axis=..." in str(unknown_option("f", "axsi", np.ones(1000), ["axis"]))


def test_what_a_terminal_shows() -> None:
    script = "import einalg as ea\n\nea.parse('O[n,f] += A[n,c] * Z[f,c]', A=(8, 3))\n"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (
        run.stderr
        == """Traceback (most recent call last):
  File "<string>", line 3, in <module>
einalg.errors.NotationError:\x20
O[n,f] += A[n,c] * Z[f,c]
                   ^
unknown tensor 'Z'
  known: A
  give its shape: parse(..., Z=(8, 3))
"""
    )


def test_operators_that_methods_stand_for_are_there() -> None:
    assert set(ea.ops.OPERATORS) >= set(refusals.METHODS.values()) >= refusals.ALONE
    for method in refusals.METHODS:
        with pytest.raises(AttributeError, match=r"\n  write ea\.ops\.\w+\(A(, \.\.\.)?\)$"):
            getattr(ea.tensor("A", (8, 6)), method)


@pytest.mark.parametrize(
    "written", ["A + x", "A - 2", "3 * A", "A / x", "A ** 2", "A @ B", "x @ B"]
)
def test_what_is_written_for_arithmetic_is_that(written: str) -> None:
    known = {"A": ea.tensor("A", (4, 5)), "B": ea.tensor("B", (5, 3)), "x": ea.tensor("x", (5,))}
    arrays = {
        name: np.arange(1.0, 1 + np.prod(t.shape)).reshape(t.shape) for name, t in known.items()
    }
    with pytest.raises(UseError) as caught:
        eval(written, dict(known))
    remedy = re.search(r"write (ea\.ops\.\w+\(.*?\)), or", str(caught.value))
    assert remedy
    scope = eval(remedy[1], {"ea": ea, **known})
    used = {name: array for name, array in arrays.items() if name in scope.tensors}
    assert np.allclose(ea.evaluate(scope, **used), eval(written, dict(arrays)))


def test_what_ipython_shows(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    script = "import einalg as ea\nea.parse('O[n,f] += A[n,c] * Z[f,c]', A=(8, 3))"
    command = [sys.executable, "-m", "IPython", "--colors=NoColor", "--no-banner", "-c", script]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
    )
    shown = re.sub(r"\x1b\[[0-9;]*m", "", run.stdout + run.stderr)
    assert "parser.py" not in shown and "hidden" not in shown
    lines = shown.splitlines()
    text = lines.index("O[n,f] += A[n,c] * Z[f,c]")
    assert lines[text - 1].rstrip() == "NotationError:"
    assert lines[text + 1] == " " * 19 + "^"
