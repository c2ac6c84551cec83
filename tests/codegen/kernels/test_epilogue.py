"""What is made of results before they are stored: in every order of axes and tiling, and only where
each result is read for one element.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.kernels.contraction.cost_model import plan
from codegen.kernels.contraction.problem import contraction_of
from codegen.program.building import reviewed_records
from codegen.program.building.deduplicate import kernel_signature
from codegen.program.building.epilogue_fusion import fusible_pairs
from codegen.program.building.problem import BuildProblem
from codegen.program.compile import compile_program
from codegen.program.executable import Executable
from codegen.tuning import kernel_choice
from codegen.tuning.kernel_choice import ChoicePolicy
from codegen.tuning.spaces import contraction as contraction_spaces
from codegen.tuning.spaces.contraction import MIN_WORK
from derive.matching import kernels_of, match
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, as_program, in_double
from einalg.language.ir.scope import Scope
from tests.helpers.batches import batches
from tests.helpers.contractions import SMALL, UNSHRUNK, Case, convolutions, products
from tests.helpers.epilogues import Finished, check_finished, statements
from tests.helpers.kernels import quick_compiler


@st.composite
def readers(draw: Any, cases: Any) -> Finished:
    """Contractions with statements that read every result once."""
    case = draw(cases.filter(is_contraction))
    return Finished(case, draw(statements(case.scope, case.dtype)))


def is_contraction(case: Case) -> bool:
    kernel = match(case.scope, "T")
    found = contraction_of(kernel, case.scope, case.dtype) if kernel else None
    if found is None or case.scope.dtype != case.dtype or case.scope.where:
        return False
    return plan(found, SMALL) is not None and bool(found.columns or found.rows)


@pytest.mark.parametrize("cases", [products, convolutions])
def test_every_result_once(cases: Any) -> None:
    @settings(max_examples=batches(2), phases=UNSHRUNK)
    @given(
        st.lists(
            readers(cases()).filter(lambda case: case.whole is not None), min_size=4, max_size=8
        )
    )
    def check(found: list[Finished]) -> None:
        check_finished(found)

    check()


@pytest.fixture
def generated(tmp_path: Any, monkeypatch: Any) -> None:
    """A cache that is empty, and no library that could be faster."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setenv("EINALG_LIBRARIES", "")


def compiled(text: str, **tensors: Any) -> tuple[Program, Executable]:
    program = as_program(ea.parse(text, **tensors))
    return program, compile_program(program, kernels_of(program), compiler=quick_compiler())


def assert_right(program: Program, run: Executable, tolerance: float = 1e-5) -> None:
    rng = np.random.default_rng(1)
    arrays = {
        name: rng.standard_normal(t.shape).astype(np.float32) for name, t in program.inputs.items()
    }
    expected = execute(in_double(program), arrays)
    found = run(**arrays)
    for name, values in (found if isinstance(found, dict) else {program.outputs[0]: found}).items():
        np.testing.assert_allclose(
            values,
            expected[name],
            rtol=tolerance,
            atol=tolerance * np.abs(expected[name]).max(initial=1),
        )


PRODUCT = "T[i,j] += A[i,k]*B[k,j]\n"
ONE = {
    "bias, activation and residual": "O[i,j] = Max(T[i,j] + C[j] + R[i,j], 0)",
    "a function of two uses": "O[i,j] = T[i,j]/(1 + exp(-T[i,j]))",
    "turned": "O[j,i] = tanh(T[i,j] + C[j])",
    "of other axes": "O[p,q,j] = T[6*p+q,j] + D[q,j]",
    "of axes that are cut": "O[p,q,j] = T[3*p+q,j] + F[q,j]",
    "of columns that are cut": "O[p,i,q:17] = T[i,17*p+q] + G[p,i]",
    "by its sign": "O[i,j] = Piecewise((T[i,j], T[i,j] > 0), (T[i,j]/10, True))",
    "by slopes": "O[i,j] = Piecewise((T[i,j]*C[j], T[i,j] > 0), (T[i,j]*E[3,2], True))",
    "of one axis": "O[x:1224] = T[x//34, x%34] + 1",
    "with its operand": "O[i:36,j] = T[i,j] + B[i,j]",
    "with a part of a tensor": "O[i,j] = T[i,j] + E[3,j]",
    "in a longer sum": "O[i,j] = T[i,j]*T[i,j] + C[j]\nP[i] += O[i,j]",
}
SHAPES = {
    "A": (36, 50),
    "B": (50, 34),
    "C": (34,),
    "R": (36, 34),
    "D": (6, 34),
    "E": (5, 34),
    "F": (3, 34),
    "G": (2, 36),
}


@pytest.mark.parametrize("text", ONE.values(), ids=ONE)
@pytest.mark.usefixtures("generated")
def test_a_reader_is_a_part_of_its_operator(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # whatever it costs with the vectors of this machine
    monkeypatch.setattr(contraction_spaces, "MIN_EPILOGUE_RATE", 0.0)
    program, run = compiled(PRODUCT + text, **SHAPES)
    assert len(run.kernels) == len(program.statements) - 1
    assert_right(program, run)


APART = {
    "read by two": "O[i,j] = T[i,j] + 1\nP[i,j] = T[i,j] - 1",
    "a result itself": "O[i,j] = T[i,j] + 1\nT, O",
    "at its border": "O[i:36, j:34] = T.pad(0,1)[i,j+1] + 1",
    "in part": "O[i:36, j:30] = T[i,j] + 1",
    "several times": "O[i:36, j:34, k:2] = T[i,j] + k",
    "from two places": "O[i:36, j:34] = T[i,j] + T[35-i,j]",
    "summed": "O[i] += T[i,j]",
    "where a place counts": "O[i:36, j:34] = Piecewise((T[i,j], j < 3), (0, True))",
    "in another type": "O[i,j] = T[i,j] < 1",
    "in pairs, which were slow": "O[p:17, i, q:2] = T[i,2*p+q] + 1",
    "backwards": "O[i:36, j:34] = T[35-i,j] + 1",
}


@pytest.mark.parametrize("text", APART.values(), ids=APART)
@pytest.mark.usefixtures("generated")
def test_a_reader_of_another_kind_stays_apart(text: str) -> None:
    program, run = compiled(PRODUCT + text, **SHAPES)
    assert len(run.kernels) == len(program.statements)
    assert_right(program, run)


@pytest.mark.usefixtures("generated")
def test_a_reader_of_two_operators_is_a_part_of_the_last_one() -> None:
    text = (
        "S[i,j] += A[i,k]*B[k,j]\nT[i,j] += R[i,k]*B2[k,j]\nO[i,j] = tanh(S[i,j] + T[i,j] + C[j])"
    )
    program, run = compiled(text, B2=(34, 34), **SHAPES)
    assert [(k.op, k.output, k.epilogue is not None) for k in run.kernels] == [
        ("matmul", "S", False),
        ("matmul", "O", True),
    ]
    assert_right(program, run)


@pytest.mark.usefixtures("generated")
def test_padded_convolutions_of_several_images() -> None:
    text = "T[n,f,h,w] += A.pad(0,0,1,(0,2))[n,c,2*h+r-1,w+s]*K[f,c,r,s]\nO[n,f,h,w] = Max(T[n,f,h,w] + b[f] + R[n,f,h,w], 0)"
    program, run = compiled(
        text,
        A=(3, 16, 13, 11),
        K=ea.tensor("K", (21, 16, 3, 3), role="weight"),
        b=(21,),
        R=(3, 21, 7, 11),
    )
    assert [kernel.epilogue is not None for kernel in run.kernels] == [True]
    assert_right(program, run)


@pytest.mark.usefixtures("generated")
def test_layers_that_differ_in_names_share_their_code() -> None:
    text = "".join(
        f"T{k}[i,j] += {x}[i,k]*W{k}[k,j]\nA{k}[i,j] = Max(T{k}[i,j] + b{k}[j] + {x}[i,j], 0)\n"
        for k, x in enumerate(("A", "A0", "A1"))
    )
    weights = {f"W{k}": ea.tensor(f"W{k}", (40, 40), role="weight") for k in range(3)}
    program, run = compiled(text, A=(23, 40), **weights, **{f"b{k}": (40,) for k in range(3)})
    assert len(run.kernels) == 3 and len({kernel.source for kernel in run.kernels}) == 1
    assert_right(program, run)


@pytest.mark.usefixtures("generated")
def test_sums_of_several_steps_are_finished_once() -> None:
    """A depth of many steps, each of which adds to what is stored."""
    program, run = compiled(
        PRODUCT + "O[i,j] = T[i,j]*T[i,j] + C[j]", A=(9, 40000), B=(40000, 70), C=(70,)
    )
    assert len(run.kernels) == 1
    assert_right(program, run, 1e-4)


@pytest.mark.parametrize("ahead", [True, False])
def test_what_is_in_doubt_is_measured_again(ahead: bool, tmp_path: Any, monkeypatch: Any) -> None:
    """Of a library that is as fast as the generated code, a start keeps nothing for good."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(kernel_choice, "POLICY", ChoicePolicy(repeat_seconds=1e9))
    measured: list[str] = []

    def measure(
        calls: Any, inputs: Any, scope: Scope, output: str, constants: Any
    ) -> kernel_choice.Selection:
        measured.append(output)
        seconds = {
            name: 1.0 if (name == kernel_choice.GENERATED) == ahead else 1.02 for name in calls
        }
        return kernel_choice.Selection(
            {name: kernel_choice.Figures(s, 0.01) for name, s in seconds.items()}
        )

    monkeypatch.setattr(kernel_choice, "_measured", measure)
    monkeypatch.setattr(kernel_choice, "_choices", {})
    program, run = compiled(PRODUCT + ONE["bias, activation and residual"], **SHAPES)
    for start in range(1, 3):
        monkeypatch.setattr(kernel_choice, "_choices", {})
        monkeypatch.setattr(reviewed_records, "_reviewed", set())
        program, run = compiled(PRODUCT + ONE["bias, activation and residual"], **SHAPES)
        assert measured == (start + 1) * ["O"]
        assert [kernel.epilogue is not None for kernel in run.kernels] == (
            [True] if ahead else [False, False]
        )
    assert_right(program, run)
    monkeypatch.setattr(kernel_choice, "POLICY", ChoicePolicy(repeat_seconds=0.0))
    monkeypatch.setattr(reviewed_records, "_reviewed", set())
    monkeypatch.setattr(BuildProblem, "fused_function", None)
    program, run = compiled(
        PRODUCT + ONE["bias, activation and residual"], **SHAPES
    )  # where there is no time for doubts, nothing is generated
    assert len(measured) == 3
    assert_right(program, run)


def test_a_library_that_is_faster_keeps_its_operator(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    asked: list[str] = []

    def first_library(key: str, calls: Any, measure: Any) -> str:
        asked.append(key)
        return next(name for name in calls if name != kernel_choice.GENERATED)

    monkeypatch.setattr(kernel_choice, "cached_choice", first_library)
    program, run = compiled(PRODUCT + ONE["bias, activation and residual"], **SHAPES)
    assert MIN_WORK <= 36 * 34 * 50 and asked
    assert [kernel.epilogue for kernel in run.kernels] == [None, None]
    assert_right(program, run)


@pytest.mark.usefixtures("generated")
def test_no_element_at_all() -> None:
    program, run = compiled(PRODUCT + "O[i,j] = T[i,j] + C[j]", A=(0, 5), B=(5, 8), C=(8,))
    assert run(A=np.zeros((0, 5)), B=np.zeros((5, 8)), C=np.zeros(8)).shape == (0, 8)
    assert program.outputs == ("O",)


def test_long_programs_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the statements, twice the work: steps of a recurrence come by the thousand."""
    looked = []
    tensors = Scope.tensors

    def counted(scope: Scope) -> Any:
        looked.append(scope)
        return tensors.__get__(scope)

    def work(steps: int) -> int:
        lines = [
            f"P{k}[i] += {f'O{k - 1}' if k else 'A'}[j]*B[i,j]\nO{k}[i] = Max(P{k}[i], 0)"
            for k in range(steps)
        ]
        program = as_program(ea.parse("\n".join(lines), A=(4,), B=(4, 4)))
        kernels = kernels_of(program)
        looked.clear()
        scopes = dict(program.statements)
        signatures = {k.output: kernel_signature(k, scopes, ()) for k in kernels}
        assert len(fusible_pairs(program, kernels, (), signatures)) == steps
        return len(looked)

    monkeypatch.setattr(Scope, "tensors", property(counted))
    assert work(40) < 3 * work(20)
