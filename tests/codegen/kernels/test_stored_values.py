"""Values that a reduction and its reader compute: stored once, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Alloc, Apply, Function, walk
from codegen.ir.scalars.functions import general_function
from codegen.kernels.expensive_values.stored_values import with_stored_values
from codegen.lowering.lower import lower
from codegen.program.compile import compile_program
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program, as_program
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK
from tests.helpers.kernels import check, evaluated, run_functions, spread_compiler

MACHINE = CpuModel(32, 16, 32 << 10, 1 << 20)
SOFTMAX = "O[i,j] = exp(A[i,j]-Max[s](A[i,s]))/Sum[r](exp(A[i,r]-Max[s](A[i,s])))"
SHIFTED = "O[i,j] = exp(A[i,j]-B[i])/Sum[r](exp(A[i,r]-B[i]))"
ACROSS = "O[b,j,i] = exp(A[b,j,i]-B[b,i])/Sum[r](exp(A[b,r,i]-B[b,i]))"
FUNCTIONS = ("exp({})", "tanh({})", "erf({})", "log(3+{})", "sqrt(3+{})", "1/(3+{})", "(3+{})**1.7")


def loops(text: str, **shapes: tuple[int, ...]) -> Function:
    return loops_of(text, "f32", shapes)


def loops_of(text: str, dtype: str, shapes: dict[str, tuple[int, ...]]) -> Function:
    tensors = {name: ea.tensor(name, shape, dtype) for name, shape in shapes.items()}
    return lower("O", ea.parse(text, **tensors))


def calls(function: Function, *names: str) -> int:
    """The places of a function where it computes some functions, bounded ones included."""
    applied = (node.op for node in walk(function) if isinstance(node, Apply))
    return sum(general_function(op) in names for op in applied)


def arrays(program: Program, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        name: random.uniform(-1, 1, tensor.shape).astype(tensor.dtype.replace("f", "float"))
        for name, tensor in program.tensors.items()
    }


def compare(program: Program, function: Function, values: dict[str, Any]) -> None:
    (result,) = run_functions([function], [values], cc=spread_compiler)
    check(program, execute(program, values), {"O": result})


@pytest.mark.parametrize("size", [49, 197, 384, 4096, 1 << 17])
@pytest.mark.parametrize(
    ("text", "shapes"),
    [(SOFTMAX, {"A": (5, 0)}), (SHIFTED, {"A": (5, 0), "B": (5,)})],
    ids=["softmax", "shifted"],
)
def test_one_exponential_for_each_element(
    text: str, shapes: dict[str, tuple[int, ...]], size: int
) -> None:
    sizes = {name: tuple(n or size for n in shape) for name, shape in shapes.items()}
    function = loops(text, **sizes)
    assert calls(function, "exp") == 2
    stored = with_stored_values(function, MACHINE)
    assert calls(stored, "exp") == 1
    assert not any(isinstance(node, Alloc) and node.buf.shape for node in walk(stored))


def test_the_generated_text_has_one_exponential() -> None:
    run = compile_program(ea.parse(SHIFTED, A=(9, 192), B=(9,)))
    assert run.source().count("= exp_f32(") == 1


@pytest.mark.parametrize("size", [1, 2, 7, 15, 16, 17, 33, 49, 197])
def test_rows_of_any_length(size: int) -> None:
    for text, shapes in (
        (SOFTMAX, {"A": (5, size)}),
        (SHIFTED, {"A": (5, size), "B": (5,)}),
        (ACROSS, {"A": (2, size, 37), "B": (2, 37)}),
    ):
        program = as_program(ea.parse(text, **shapes))
        function = with_stored_values(loops(text, **shapes), MACHINE)
        compare(program, function, arrays(program))


def test_an_axis_of_the_middle_is_stored_where_it_is_written_last() -> None:
    function = loops(ACROSS, A=(5, 31, 192), B=(5, 192))
    assert calls(function, "exp") == 2
    assert calls(with_stored_values(function, MACHINE), "exp") == 1


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_are_stored_beside_in_single_precision(dtype: str) -> None:
    """They are rounded once, as before: the results have the same bits."""
    function = loops_of("O[i,j] = exp(A[i,j])/Sum[r](exp(A[i,r]))", dtype, {"A": (7, 197)})
    stored = with_stored_values(function, MACHINE)
    rows = [node.buf for node in walk(stored) if isinstance(node, Alloc) and node.buf.shape]
    assert calls(stored, "exp") == 1
    assert [(row.shape, row.dtype) for row in rows] == [((197,), "f32")]
    A = np.random.default_rng(0).normal(size=(7, 197)).astype(numpy_dtype(dtype))
    before, after = run_functions([function, stored], [{"A": A}] * 2)
    assert before.tobytes() == after.tobytes()


def test_a_row_on_the_stack_of_a_thread_has_an_end() -> None:
    text = "O[i,j,k:3] = exp(A[i,j])/Sum[r](exp(A[i,r])) + k"
    long, short = loops(text, A=(2, 1 << 18)), loops(text, A=(2, 1 << 8))
    assert with_stored_values(long, MACHINE) == long
    assert calls(with_stored_values(short, MACHINE), "exp") == 1


MASKED = {
    "causal": "O[i,j] = Piecewise((exp(A[i,j])/Sum[r](exp(A[i,r]), where=r <= i), j <= i), (0, True))",
    "selected": "O[i,j] = Piecewise((exp(A[i,j]), B[i,j] > 0), (0, True))"
    "/Sum[r](Piecewise((exp(A[i,r]), B[i,r] > 0), (0, True)))",
    "added": "O[i,j] = exp(A[i,j]+B[i,j])/Sum[r](exp(A[i,r]+B[i,r]))",
    "part": "O[i,j] = exp(A[i,j])/Sum[r:20](exp(A[i,r]))",
    "shifted": "O[i,j:30] = exp(A[i,j+7])/Sum[r](exp(A[i,r]))",
    "turned": "O[i,j] = exp(A[i,36-j])/Sum[r](exp(A[i,r]))",
    "two sums": "O[i,j] = exp(A[i,j])/Sum[r](exp(A[i,r]))/Sum[r](B[i,r]*exp(A[i,r]))",
    "two functions": "O[i,j] = exp(A[i,j])/Sum[r](exp(A[i,r])) + tanh(A[i,j])/Sum[r](tanh(A[i,r]))",
    "all": "O[i,j] = exp(A[i,j])/Sum[r,s](exp(A[r,s]))",
    "columns": "O[i,j] = exp(A[i,j])/Sum[r](exp(A[r,j]))",
    "both": "O[i,j] = exp(A[i,j])/Sum[r](exp(A[i,r]))/Sum[r](exp(A[r,j]))",
    "square": "O[i,j] = exp(A[j,i])/Sum[r](exp(A[r,i]))",
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("text", MASKED.values(), ids=MASKED)
def test_masks_parts_and_other_orders(text: str, dtype: str) -> None:
    shapes = {name: (37, 37) for name in "AB" if f"{name}[" in text}
    tensors = {name: ea.tensor(name, shape, dtype) for name, shape in shapes.items()}
    program = as_program(ea.parse(text, **tensors))
    function = with_stored_values(lower("O", dict(program.statements)["O"]), MACHINE)
    compare(program, function, arrays(program))


def test_nan_and_infinities_stay() -> None:
    function = loops(SOFTMAX, A=(6, 49))
    A = np.random.default_rng(0).normal(size=(6, 49)).astype(np.float32)
    A[0, 3], A[1, 48], A[2, 0], A[3, :], A[4, 5:9] = np.nan, np.inf, -np.inf, -np.inf, np.inf
    before, after = run_functions([function, with_stored_values(function, MACHINE)], [{"A": A}] * 2)
    assert np.array_equal(np.isfinite(before), np.isfinite(after))
    assert np.allclose(before, after, rtol=1e-6, equal_nan=True)


@st.composite
def statements(draw: Any) -> tuple[str, dict[str, tuple[int, ...]]]:
    """A statement that divides by a reduction of what it computes itself."""
    term = draw(st.sampled_from(FUNCTIONS))
    if draw(st.booleans()):
        term = term.format("{}*B[i]")
    reduction = draw(st.sampled_from(("Sum", "Max", "Min", "Prod")))
    rows, row = draw(st.integers(1, 9)), draw(st.sampled_from((1, 3, 16, 17, 40, 65, 130)))
    element, summed, shape = "A[i,j]", "A[i,r]", (rows, row)
    if draw(st.booleans()):
        element, summed, shape = "A[j,i]", "A[r,i]", (row, rows)
    outer = draw(st.sampled_from(("{}/(9+{})", "{}-{}", "Max({},{}/2)", "B[i]*{}+{}")))
    total = f"{reduction}[r]({term.format(summed)}/2)"
    text = f"O[i,j] = {outer.format(f'({term.format(element)}/2)', total)}"
    shapes = {"A": shape, "B": (rows,)}
    return text, {name: size for name, size in shapes.items() if f"{name}[" in text}


@settings(max_examples=batches(2), phases=UNSHRUNK)
@given(st.lists(statements(), min_size=8, max_size=12), st.sampled_from(("f32", "f64")))
def test_any_function_in_any_reduction(
    cases: list[tuple[str, dict[str, tuple[int, ...]]]], dtype: str
) -> None:
    programs = []
    for text, shapes in cases:
        tensors = {name: ea.tensor(name, shape, dtype) for name, shape in shapes.items()}
        programs.append(as_program(ea.parse(text, **tensors)))
    inputs = [arrays(program, seed) for seed, program in enumerate(programs)]
    functions = [
        with_stored_values(lower("O", dict(program.statements)["O"]), MACHINE)
        for program in programs
    ]
    results = run_functions(functions, inputs, cc=spread_compiler)
    for program, values, result in zip(programs, inputs, results):
        check(program, evaluated(program, values), {"O": result})


def test_what_is_cheap_is_computed_again() -> None:
    function = loops("O[i,j] = (A[i,j]-B[i])/Sum[r](A[i,r]-B[i])", A=(9, 197), B=(9,))
    assert with_stored_values(function, MACHINE) is function
    squares = loops("O[i,j] = A[i,j]**2/(1+A[i,j]**2)/Sum[r](1/(1+A[i,r]**2))", A=(9, 197))
    assert with_stored_values(squares, MACHINE) == squares
