"""Candidates are checked on inputs that the reference can evaluate."""

from __future__ import annotations

import opt_einsum
import pytest

import einalg as ea
from tests.helpers.c_project import check


def test_a_long_product_is_checked_and_measured():
    """It has more indices than NumPy has axes, and results beyond float32 on normal inputs."""
    letters = [opt_einsum.get_symbol(number) for number in range(41)]
    terms = [letters[number] + letters[number + 1] for number in range(40)]
    matrices = [ea.tensor(f"A{number}", (128, 128)) for number in range(40)]
    expression = ea.einsum(f"{','.join(terms)}->{letters[0]}{letters[40]}", *matrices)
    derivation = ea.derive(expression, states=0, seconds=120)
    best = derivation.best
    assert len(best.kernels) == 39 and best.verdict == "proved"
    assert best.measured and best.error < 1e-4


@pytest.mark.parametrize("dtype", ("i8", "i32", "u16"))
@pytest.mark.parametrize("text", ("A[i]//B[i]", "floor(5/(B[i] - 2))", "A[i] + Max[j:0](A[i])"))
def test_integers_without_a_value_are_compared_with_none(text, dtype):
    """Random divisors are 0 here and there; compiled code has an integer, the reference none."""
    tensors = {name: ea.tensor(name, (40,), dtype) for name in "AB" if f"{name}[" in text}
    best = ea.derive(ea.parse(f"O[i:40] = {text}", **tensors), states=1).best
    assert best.verdict == "proved" and best.measured


def test_inputs_are_smaller_where_a_result_in_between_would_be_infinite():
    """The last statement is finite whatever the powers before it are."""
    lines = ["T0[i,j] = A[i,j]"]
    lines += [f"T{k + 1}[i,j] += T{k}[i,l]*T{k}[l,j]" for k in range(7)]
    lines += ["M[i] = Max[j](Max(T7[i,j], -T7[i,j]))", "O[i,j] = T7[i,j]/M[i]"]
    powers = ea.parse("\n".join(lines), A=(16, 16))
    derivation = ea.derive(powers, states=0, rules=[], seconds=60)
    assert derivation.original.measured


@pytest.mark.parametrize("dtype", ("u8", "i8", "i16"))
def test_integers_are_smaller_where_a_result_in_between_would_overflow(dtype):
    """The last statement compares it with 1, so that it is no longer the same modulo 2**8."""
    text = "T[i] = Prod[r:5](A[i, r])*2\nS[i] = Sum[r:5](2*A[i, r])**3\nO[i] = Max(T[i], S[i], 1)"
    program = ea.parse(text, A=ea.tensor("A", (40, 5), dtype))
    assert ea.derive(program, states=3).original.measured


def test_integers_are_smaller_where_an_inner_scope_would_overflow():
    """It has a type of its own, that is narrower than what it is a part of."""
    text = "O[i:5] = Max((L[i:2](Prod[s:2](A[i,s]**4))).pad((0, 3), fill=1)[i], E[i])"
    tensors = {"A": ea.tensor("A", (2, 2), "u8"), "E": ea.tensor("E", (5,), "i32")}
    for seed in range(4):
        assert ea.derive(ea.parse(text, **tensors), states=3, seed=seed).original.measured


def test_sums_of_many_small_integers_are_checked_with_few_ones():
    """Even ones would be too many."""
    program = ea.parse("T[i] += A[i, j]\nO[i] = T[i]//3", A=ea.tensor("A", (8, 3000), "u8"))
    assert ea.derive(program, states=3).original.measured


def test_an_expression_whose_own_code_is_wrong_is_told_beside_a_candidate_that_is_right():
    """Its first statement stores infinities as integers; as one statement it is right."""
    text = "T[i:4] = Max[j:5](n[i,j], where=j > i + 3)\nO[i:4] = T[i] + x[i]"
    program = ea.parse(text, n=ea.tensor("n", (4, 5), "i64"), x=(4,))
    derivation = ea.derive(program, states=4)
    assert derivation.best.moves and derivation.best.measured
    assert "as it is written, its code gives other values" in str(derivation)
    assert derivation.best.program.outputs[0] in derivation._repr_html_()
    with pytest.raises(ea.CodegenError, match="does not give the values"):
        derivation.original


def test_inputs_are_smaller_where_each_step_enlarges_what_rounding_has_changed(tmp_path):
    """On normal weights a state depends on the last bits of the one before; equal programs differ."""
    lines = ["H0[i] = tanh(x[i])"]
    lines += [f"H{t + 1}[i] = tanh(Sum[j](U[i,j]*H{t}[j]))" for t in range(12)]
    U = ea.tensor("U", (256, 256), role="weight")
    derivation = ea.derive(ea.parse("\n".join(lines), x=(256,), U=U), states=0, seconds=60)
    assert derivation.original.measured and derivation.original.error < 1e-4
    said = check(derivation.original.export_c(tmp_path / "recurrence"))
    assert "1.00e-04 is allowed" in said  # on the same kind of inputs


def test_an_expression_with_reductions_inside_a_reduction_is_measured_as_it_is():
    """Code computes each of them once for a row; computed at every point, they would take long."""
    text = "O[i,j] = exp(A[i,j] - Max[k](A[i,k]))/Sum[l](exp(A[i,l] - Max[k](A[i,k])))"
    derivation = ea.derive(ea.parse(text, A=(2048, 1000)), seconds=60)
    original = derivation.original
    assert original.measured and derivation.best.measured
    assert derivation.best.cost <= original.cost
