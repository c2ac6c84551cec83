"""Statements that differ in names alone share their code, and each reads its own tensors; whatever
else differs has code of its own.
"""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from codegen.program.building.deduplicate import kernel_signature
from codegen.program.compile import compile_program
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.language import ops
from einalg.language.analysis.canonical import key
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, as_program, in_double, statement_tensor
from einalg.language.ir.tensor import Constant


def codes(compiled):
    return compiled.source().count("void kernel_") - compiled.source().count("void kernel_0_")


def assert_right(program, compiled, **given):
    expected = execute(in_double(program), given)
    found = compiled(**given)
    for name, value in (found if isinstance(found, dict) else {program.outputs[0]: found}).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5)


def arrays(program, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: (rng.standard_normal(t.shape) / t.shape[-1] ** 0.5).astype(np.float32)
        for name, t in program.inputs.items()
    }


def test_equal_statements_have_one_code():
    program = ea.parse(
        "T[i,j] += A[i,k]*B[k,j]\nU[x,y] += Z[k,y]*T[x,k]\nO[i,j] += C[k,j]*U[i,k]",
        **dict.fromkeys("ABCZ", (12, 12)),
    )
    compiled = compile_program(program)
    assert codes(compiled) == 1
    assert_right(program, compiled, **arrays(program))


@pytest.mark.parametrize("names", ["WAV", "AWV", "VWA"])
def test_what_is_known_ahead_is_told_from_what_is_not(names):
    """Whatever the names, whose order is that of a product's factors."""
    first, second, data = names
    text = f"T[i,j] += {data}[i,k]*{first}[k,j]\nU[i,j] += T[i,k]*{second}[k,j]\nO[i,j] += U[i,k]*T[k,j]"
    program = ea.parse(
        text,
        **{data: (70, 70)},
        **{name: ea.tensor(name, (70, 70), role="weight") for name in (first, second)},
    )
    given = arrays(program)
    compiled = compile_program(program, kernels_of(program))
    assert_right(program, compiled, **given)
    bound = compiled.bind(**{name: given[name] for name in (first, second)})
    np.testing.assert_allclose(
        bound(**{data: given[data]}), execute(in_double(program), given)["O"], rtol=1e-4, atol=1e-4
    )


def test_layers_of_a_network_have_one_code():
    statements, read = [], ea.tensor("A", (1, 16, 9, 9))
    for k in range(3):
        scope = ops.conv2d(read, ea.tensor(f"K{k}", (16, 16, 3, 3), role="weight"), padding=1)
        statements.append((f"C{k}", scope))
        read = statement_tensor(f"C{k}", scope)
    program = Program(statements)
    given = {n: a / 4 for n, a in arrays(program).items()}
    compiled = compile_program(program, kernels_of(program)).bind(
        **{n: a for n, a in given.items() if n != "A"}
    )
    assert len({kernel.source for kernel in compiled.kernels if kernel.source}) <= 1
    np.testing.assert_allclose(
        compiled(A=given["A"]), execute(in_double(program), given)["C2"], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("text", "tensors"),
    [
        ("T[i] = A[i] + 1\nO[i] = T[i] + 2", {"A": (5,)}),
        (
            "T[i] = A[i]*2\nU[j] = B[j]*2\nO[i] = T[i] + U[i]",
            {"A": (5,), "B": ea.tensor("B", (5,), "f64")},
        ),
        ("T[i] = A[i]*B[i]\nO[i] = T[i]*T[i]", {"A": (5,), "B": (5,)}),
        (
            "T[i] = A[i]*P[i]\nO[i] = T[i]*Q[i]",
            {
                "A": (2,),
                "P": Constant("P", (2,), "f32", (1, 2)),
                "Q": Constant("Q", (2,), "f32", (1, 3)),
            },
        ),
    ],
)
def test_what_differs_has_its_own(text, tensors):
    program = as_program(ea.parse(text, **tensors))
    compiled = compile_program(program)
    assert codes(compiled) == len(program.statements)
    assert_right(program, compiled, **arrays(program))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("A.pad(1, fill=2).pad(2, fill=5)[i-2]", "A.pad(1, fill=7).pad(2, fill=5)[i-2]"),
        ("A.pad(1, fill=2).pad(2, fill=5)[i-2]", "A.pad(2, fill=2).pad(1, fill=5)[i-2]"),
        ("A.pad(1, fill=2).pad(2, fill=5)[i-2]", "A.pad(1, fill=5).pad(2, fill=2)[i-2]"),
        ("A.pad(3, fill=5)[i-2]", "A.pad(1, fill=2).pad(2, fill=5)[i-2]"),
        (
            "A.pad(1).pad(1, fill=2).pad(1, fill=5)[i-3]",
            "A.pad(1).pad(1, fill=3).pad(1, fill=5)[i-3]",
        ),
    ],
)
def test_paddings_are_told_apart_layer_by_layer(one, two):
    program = ea.parse(f"P[i:9,j] = {one}*W[j]\nQ[i:9,j] = {two}*W[j]\nP, Q", A=(5,), W=(2,))
    compiled = compile_program(program)
    assert codes(compiled) == 2
    assert_right(program, compiled, **arrays(program))


def test_which_of_two_tensors_has_no_value_at_some_points_is_told():
    """Both statements read the two alike, and one of the two has gaps."""
    i, A = ea.indices("i"), ea.tensor("A", (6,))
    first, second = ea.L[i](A[i], where=i >= 3), ea.L[i](3 * A[i])
    T, B = statement_tensor("T", first), statement_tensor("B", second)
    one = ea.L[i:6](T.pad(1, fill=7)[i] + 2 * B.pad(1, fill=7)[i])
    two = ea.L[i:6](B.pad(1, fill=7)[i] + 2 * T.pad(1, fill=7)[i])
    program = Program([("T", first), ("B", second), ("P", one), ("Q", two)], ["P", "Q"])
    assert_right(program, compile_program(program), **arrays(program))


@pytest.mark.parametrize("fill", [0, 3])
def test_an_operator_sees_what_is_read_where_a_statement_has_no_value(fill):
    """Large enough for code of operators, which knows nothing of conditions."""
    i, j, k = ea.indices("i j k")
    A, B = ea.tensor("A", (96, 128)), ea.tensor("B", (128, 160))
    triangle = ea.L[i, j](A[i, j], where=j <= i)
    T = statement_tensor("T", triangle)
    product = ea.L[i, j](ea.Sum[k](T.pad(0, 0, fill=fill)[i, k] * B[k, j]))
    program = Program([("T", triangle), ("O", product)])
    assert_right(program, compile_program(program, kernels_of(program)), **arrays(program))


def test_fills_of_paddings_without_elements_are_told_apart_where_values_are_missing():
    text = """
    T = L[i:6](A[i], where=i >= 2)
    O[i:6, j:4] = T.pad(0)[i]*B[j]
    P[i:6, j:4] = T.pad(0, fill=3)[i]*B[j]
    """
    program = ea.parse(text, A=(6,), B=(4,))
    assert_right(program, compile_program(program), **arrays(program))
    one, other = (key(program[name]) for name in ("O", "P"))
    assert one != other


def test_values_that_are_missing_at_some_points_are_told_apart():
    text = "T[i] = L[j:8](A[j], where=j >= 2).pad(1)[i] + 0*A[i]\nV[i] = L[j:8](A[j]).pad(1)[i] + T[i]\nO[i] = V[i] + A[i]"
    program = lifted(as_program(ea.parse(text, A=(8,))))
    compiled = compile_program(program)
    assert_right(program, compiled, **arrays(program))


def steps(count, size=9):
    """What a recurrent network does: each step reads its own row of the inputs, and lies at its own
    place of all.
    """
    text = ["Y[t,j] += X[t,k]*W[k,j]", "S0[t:1,j] = tanh(Y[0,j])"]
    text += [
        f"S{n}[t:{n}:{n + 1},j] = tanh(Y[{n},j] + 2*S{n - 1}[{n - 1},j])" for n in range(1, count)
    ]
    text += [
        f"O[t:{count},j] = "
        + " + ".join(f"S{n}.pad(({n},{count - 1 - n}),0)[t,j]" for n in range(count))
    ]
    return ea.parse("\n".join(text), X=(count, size), W=(size, size))


@pytest.mark.parametrize("library", ["", "numpy"])
def test_steps_that_read_parts_of_one_tensor_have_one_code(library, monkeypatch):
    monkeypatch.setenv("EINALG_LIBRARIES", library)
    program = steps(12)
    compiled = compile_program(program, kernels_of(program))
    assert codes(compiled) <= 4  # the product, the first step, the others, all of them joined
    assert_right(program, compiled, **arrays(program))


def test_parts_of_inputs_and_of_values_at_several_places():
    text = "T[i] = A[1,i]*B[2,0,i]\nU[i] = A[3,i]*B[1,1,i]\nV[i] = A[0,i]*A[1,i]\nW[i] = A[2,i]*A[3,i]\nO[i] = T[i] + U[i] + V[i] + W[i]"
    program = ea.parse(text, A=(4, 5), B=(3, 2, 5))
    compiled = compile_program(program)
    assert codes(compiled) == 4  # T and U share; V and W read one tensor at two places
    assert_right(program, compiled, **arrays(program))


def test_weights_that_several_statements_read_are_packed_once(monkeypatch):
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    text = "T[i,j] += A[i,k]*W[k,j]\nU[i,j] += T[i,k]*W[k,j]\nO[i,j] += U[i,k]*W[k,j]"
    program = ea.parse(text, A=(64, 96), W=ea.tensor("W", (96, 96), role="weight"))
    given = arrays(program)
    bound = compile_program(program, kernels_of(program)).bind(W=given["W"])
    packed = [array for step in bound._running for array in step.run.ready.values()]
    assert len(packed) == 3 and len({id(array) for array in packed}) == 1
    np.testing.assert_allclose(
        bound(A=given["A"]), execute(in_double(program), given)["O"], rtol=1e-4, atol=1e-4
    )


def test_what_is_known_ahead_is_told_also_where_values_are_missing() -> None:
    """Weights are packed ahead, and inputs of the same kind are not."""
    text = (
        "S = L[j,k](W[j,k], where=k>=2)\nT = L[j,k](B[j,k], where=k>=2)\n"
        "O = L[i:6,j](Sum[k:8](A[i,k]*S.pad(0,1)[j,k]))\nP = L[i:6,j](Sum[k:8](A[i,k]*T.pad(0,1)[j,k]))"
    )
    W = ea.tensor("W", (9, 8), role="weight")
    program = ea.parse(text, A=(6, 8), W=W, B=(9, 8))
    kernels = {kernel.output: kernel for kernel in kernels_of(program)}
    scopes = dict(program.statements)
    one, two = (kernel_signature(kernels[name], scopes, {"W", "S"}).key for name in ("O", "P"))
    assert one != two
