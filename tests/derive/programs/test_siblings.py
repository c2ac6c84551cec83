"""Products that read one tensor are joined, whatever their sizes; what does not fit stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from derive.programs.forms.variants import changed_variants
from derive.programs.passes import horizontal_fusion
from derive.programs.passes.horizontal_fusion import joined
from einalg.language import ops
from einalg.language.ir.program import Program, as_program, statement_tensor


def weight(name, *shape):
    return ea.tensor(name, shape, role="weight")


def given_for(program, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(tensor.shape) for name, tensor in program.inputs.items()}


def assert_same(one, two):
    given = given_for(one)
    np.testing.assert_allclose(
        ea.evaluate(two, **given), ea.evaluate(one, **given), rtol=1e-9, atol=1e-12
    )


def products(program):
    return [name for name, scope in program.statements if "Sum[" in str(scope)]


def attention(rows=5, width=6):
    """Three projections of one tensor, of which two have other widths than the third."""
    text = "Q[i,d] += A[i,k]*U[k,d]\nK[j,d] += A[j,k]*V[k,d]\nX[j,e] += A[j,k]*W[k,e]\nS[i,j] += Q[i,d]*K[j,d]\nO[i,e] += S[i,j]*X[j,e]"
    return as_program(
        ea.parse(
            text,
            A=(rows, width),
            U=weight("U", width, 4),
            V=weight("V", width, 4),
            W=weight("W", width, 7),
        )
    )


def test_projections_are_joined():
    program = attention()
    found = joined(program)
    assert len(products(found)) == 3 and found["Q_K_X"].shape == (5, 15)
    assert_same(program, found)
    assert joined(found) is found


def test_convolutions_are_joined():
    read = ea.tensor("A", (1, 3, 6, 7))
    rows = [
        (f"C{k}", ops.conv2d(read, weight(f"W{k}", n, 3, 3, 3), padding=1))
        for k, n in enumerate((4, 2))
    ]
    rows.append(("O", ops.relu(ops.concat([statement_tensor(*row) for row in rows], axis=1))))
    program = Program(rows, ["O"])
    found = joined(program)
    assert len(products(found)) == 1
    assert_same(program, found)


@pytest.mark.parametrize(
    ("text", "tensors"),
    [
        (
            "P[i,j] += A[i,k]*V[k,j]\nQ[i,j] += B[i,k]*W[k,j]\nO[i,j] = P[i,j]*Q[i,j]",
            dict(A=(2, 3), B=(2, 3)),
        ),  # of two tensors
        (
            "P[i,j] += A[i,k]*B[k,j]\nQ[i,j] += A[i,k]*C[k,j]\nO[i,j] = P[i,j]*Q[i,j]",
            dict(A=(2, 3), B=(3, 4), C=(3, 4)),
        ),  # nothing is a weight
        (
            "P[i,j] += A[i,k]*V[k,j]\nQ[k,j] += A[i,k]*U[i,j]\nO[i,j] = P[i,j]*Q[1,j]",
            dict(A=(2, 3)),
        ),  # over other axes
        (
            "P[i,j] += A[i,k]*V[k,j]\nQ[i,j] += P[i,k]*S[k,j]\nO[i,j] = P[i,j]*Q[i,j]",
            dict(A=(2, 3)),
        ),  # one after the other
        ("P[i,j] += A[i,k]*V[k,j]\nO[i,j] = P[i,j] + 1", dict(A=(2, 3))),  # there is but one
    ],
)
def test_what_does_not_fit_stays(text, tensors):
    weights = {"V": (3, 4), "W": (3, 4), "U": (2, 4), "S": (4, 4)}
    used = {name: weight(name, *shape) for name, shape in weights.items() if f"{name}[" in text}
    program = as_program(ea.parse(text, **tensors, **used))
    assert joined(program) is program


def test_the_whole_is_compared_in_every_form(tmp_path, monkeypatch):
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    program = attention(40, 30)
    given = {name: array.astype(np.float32) for name, array in given_for(program).items()}
    forms = [form.changes for form in changed_variants(program)]
    assert forms == [("products joined",)]
    o = ea.optimize(program, given, seconds=300)
    np.testing.assert_allclose(o(A=given["A"]), ea.evaluate(program, **given), rtol=1e-3, atol=1e-3)
    (part,) = o.parts.values()
    assert part.changes in (*forms, ()) and all(words in str(o.report) for words in part.changes)


def shifted_products(count, shifts):
    """Products of windows of one tensor, of which those at the same place can be joined."""
    weights = {f"W{number}": weight(f"W{number}", 4, 1 + number % 3) for number in range(count)}
    lines = []
    for number in range(count):
        lines.append(f"P{number}[i,j] = Sum[k:4](A[i,k+{number % shifts}]*W{number}[k,j])")
    total = " + ".join(f"P{number}[i,0]" for number in range(count))
    return ea.parse("\n".join([*lines, f"O[i] = {total}"]), A=(3, 4 + shifts), **weights)


@pytest.mark.parametrize("shifts", [1, 3, 24])
def test_what_cannot_be_joined_is_not_tried(shifts, monkeypatch):
    program, moves = shifted_products(24, shifts), []
    apply = horizontal_fusion.apply
    monkeypatch.setattr(horizontal_fusion, "apply", lambda *given: moves.append(1) or apply(*given))
    changed = joined(program)
    assert len(products(changed)) == shifts and len(moves) == 24 - shifts
    assert_same(program, changed)


def test_no_more_are_joined_than_there_is_time_for():
    program = shifted_products(24, 3)
    answers = iter([False] * 5 + [True] * 100)
    changed = joined(program, lambda: next(answers))
    assert len(products(changed)) == 24 - 5
    assert_same(program, changed)
    assert joined(program, lambda: True) is program
