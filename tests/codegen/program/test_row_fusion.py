"""Statements that compute a value of each row, as parts of what reads them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.lowering.schedule import DEFAULT
from codegen.program.building.row_fusion import row_groups, with_row_groups
from codegen.program.compile import compile_program, known_program
from derive.matching import kernel_of, kernels_of
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, as_program
from tests.helpers.batches import batches
from tests.helpers.kernels import check, run_programs, spread_compiler

SOFTMAX = """
T[i] = Max[k](A[i,k])
S[i] = Sum[k](exp(A[i,k] - T[i]))
O[i,j] = exp(A[i,j] - T[i])/S[i]
""".strip()
SHAPE = (96, 512)


STORED = """
T[i] = Max[k](A[i,k])
E[i,j] = exp(A[i,j] - T[i])
S[i] += E[i,k]
O[i,j] = E[i,j]/S[i]
""".strip()


def parsed(text: str, **tensors: object) -> Program:
    return as_program(ea.parse(text, **{"A": SHAPE, **tensors}))


def longest_groups(program: Program) -> list[tuple[str, ...]]:
    """The statements that may be parts of others."""
    groups = row_groups(program, kernels_of(program), (), DEFAULT)
    return [choices[-1].parts for choices in groups]


@pytest.mark.parametrize("text", [SOFTMAX, STORED])
def test_softmax_is_one_kernel(text: str) -> None:
    program = parsed(text)
    run = compile_program(program, kernels_of(program))
    assert [kernel.output for kernel in run.kernels] == ["O"]
    assert run.source().count("exp_bounded_f32(A") == 1
    array = np.random.default_rng(0).standard_normal(SHAPE).astype("f")
    check(program, {"O": execute(program, {"A": array})["O"]}, {"O": run(A=array)})
    row = json.loads(json.dumps(run.record()))
    again = known_program(row, program, kernel_of)
    assert again is not None and again.program == run.program
    np.testing.assert_array_equal(again(A=array), run(A=array))


@pytest.mark.parametrize("where", ["j <= i", "j >= i", "(j <= i) & (j >= i - 9)", "2*j <= 3*i - 5"])
@pytest.mark.parametrize("last", ["O", "P"])
def test_a_row_that_ends_early_has_its_value_in_its_kernel(where: str, last: str) -> None:
    """As an output it is 0 where it has no value, and read by a sum it is anything there."""
    text = f"T[i:96] = Max[k:512](A[i,k], where={where.replace('j', 'k')})\n"
    text += f"O = L[i:96, j:512](exp(A[i,j] - T[i]), where={where})"
    if last == "P":
        text += f"\nP[i:96] = Sum[j:512](O[i,j], where={where})\nU[i:96] = 2*P[i]"
    program = parsed(text)
    assert longest_groups(program)[-1] == ("T",)
    run = compile_program(program, kernels_of(program))
    array = np.random.default_rng(0).standard_normal(SHAPE).astype("f")
    expected = execute(program, {"A": array})
    check(program, {n: expected[n] for n in program.outputs}, {program.outputs[0]: run(A=array)})


def test_what_is_a_part_has_none_of_its_own() -> None:
    """Each statement is computed once, whatever is chosen."""
    program = parsed("T[i] += A[i,k]\nU[i] += A[i,k]/T[i]\nO[i,j] = A[i,j]/U[i]")
    groups = row_groups(program, kernels_of(program), (), DEFAULT)
    assert [choices[-1].parts for choices in groups] == [("U", "T"), ("T",)]
    run = compile_program(program, kernels_of(program))
    array = np.random.default_rng(0).uniform(1, 2, SHAPE).astype("f")
    check(program, {"O": execute(program, {"A": array})["O"]}, {"O": run(A=array)})


@pytest.mark.parametrize(
    "text",
    [
        "T[j] = Sum[k](A[k,j])\nO[i,j] = A[i,j] - T[j]",  # of a column
        "T[i] = Sum[k](A[i,k])\nO[i,j] = A[i,j] - T[i]\nT, O",  # which is a result
        "T[i] = Sum[k](A[i,k])\nO[i,j] = A[i,j] - T[j]*T[i]",
        "T[i] = Sum[k](A[i,k])\nO[i,j] = A[i,j] - T.pad(1)[i-1]",
        "T[i] = Sum[k](A[i,k])\nO[i,j] = A[i,j] - T[i]\nP[i,j] = A[i,j] + T[i]\nO, P",
        "T[i] = Sum[k](B[i,k])\nO[i,j] = A[i,j] - T[i]",  # nothing is shared
        "T[i] = A[i,3]\nO[i,j] = A[i,j] - T[i]",  # nothing is reduced
        "T[i,j] = A[i,j]**2\nO[i,j] = T[i,j]/A[i,j]",  # no row of it is
        "T[i,j] = A[i,j]**2\nO[i,j] = A[i,j]*Sum[k:95](T[i,k])",  # not all of it is
        "T[i,j] = A[i,j]**2\nO[i] += T[i,j]*A[i,j]",  # nothing else reads it
    ],
)
def test_what_stays_apart(text: str) -> None:
    square = (96, 96)
    tensors = {"A": square, "B": square}
    if "B" not in text:
        del tensors["B"]
    assert longest_groups(as_program(ea.parse(text, **tensors))) == []


def test_elements_of_a_single_long_row_stay() -> None:
    """One thread would compute the row, where all of them compute its elements otherwise."""
    text = "E[j] = exp(A[j])\nO[j] = E[j]/Sum[k](E[k])"
    assert longest_groups(parsed(text, A=(DEFAULT.parallel,))) == []
    assert longest_groups(parsed(text, A=(512,))) == [("E",)]


def test_types_that_a_statement_rounds_to_stay() -> None:
    half = ea.tensor("A", SHAPE, "f16")
    assert longest_groups(parsed("T[i] = Sum[k](A[i,k])\nO[i,j] = A[i,j] - T[i]", A=half)) == []


REDUCTIONS = ("Sum", "Max", "Min")
FIRST = ("A[i,k]", "A[i,k]**2", "exp(A[i,k])", "A[i,k]*g[k]")
SECOND = ("E[i,k]", "A[i,k] - T[i]", "(A[i,k] - T[i])**2", "exp(A[i,k] - T[i])", "A[i,k]*T[i]")
LAST = (
    "E[i,j]*S[i]",
    "(A[i,j] - T[i])/(S[i] + 9)",
    "exp(A[i,j] - T[i])*S[i]",
    "A[i,j]*T[i] + S[i]*g[j]",
)
ROW_PROGRAMS = st.tuples(
    *(st.sampled_from(REDUCTIONS), st.sampled_from(FIRST)),
    *(st.sampled_from(REDUCTIONS), st.sampled_from(SECOND), st.sampled_from(LAST)),
    *(st.integers(1, 5), st.integers(1, 300)),
)


@settings(max_examples=batches(1), deadline=None)
@given(st.lists(ROW_PROGRAMS, min_size=8, max_size=8))
def test_values(drawn: list[tuple[str, str, str, str, str, int, int]]) -> None:
    originals, programs, arrays = [], [], []
    random = np.random.default_rng(0)
    for one, first, other, second, last, rows, columns in drawn:
        elements = "E[i,j] = A[i,j]*T[i] + T[i]\n" if "E[" in second else ""
        if not elements:
            last = last.replace("E[i,j]", "A[i,j]")
        text = f"T[i] = {one}[k]({first})\n{elements}S[i] = {other}[k]({second})\nO[i,j] = {last}"
        tensors = {"A": (rows, columns), "g": (columns,)}
        if "g[" not in text:
            del tensors["g"]
        original = as_program(ea.parse(text, **tensors))
        choices = next(row_groups(original, kernels_of(original), (), DEFAULT), [])
        for group in choices[1:]:
            originals.append(original)
            programs.append(with_row_groups(original, [group]))
            values = {name: random.uniform(0, 1, shape) for name, shape in tensors.items()}
            arrays.append({name: array.astype("f") for name, array in values.items()})
    results = run_programs(programs, arrays, cc=spread_compiler)
    for original, values, found in zip(originals, arrays, results):
        check(original, {"O": execute(original, values)["O"]}, {"O": found["O"]})
