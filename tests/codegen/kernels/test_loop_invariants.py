"""Values that are the same in all steps of a loop: computed before it, with the same results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.ir.nodes import Apply, For, Function, walk
from codegen.kernels.expensive_values.loop_invariants import with_values_before_loops
from codegen.lowering.lower import lower
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program
from tests.helpers.batches import batches
from tests.helpers.kernels import check, run_functions, spread_compiler

SHAPES = {"A": (6, 40), "B": (6,), "C": (40,), "D": (6, 5)}
EXPENSIVE = ("div", "sqrt", "exp", "log")
PARTS = ("B[i]", "C[j]", "A[i,j]", "D[i,2]", "(i + 1)", "3")
FORMS = (
    *("{0}/sqrt({1} + 2)", "exp({0}*{1})", "{0}/({1} + 2)", "log({0} + 2)*{1}"),
    *("{0} + 1/sqrt({1} + 3)", "Piecewise(({0}/sqrt({1} + 2), A[i,j] > 0.5), ({1}, True))"),
)


def function_of(text: str, dtype: str = "f32") -> Function:
    tensors = {name: ea.tensor(name, shape, dtype) for name, shape in SHAPES.items()}
    return lower("O", ea.parse(text, **tensors))


def is_root(node: object) -> bool:
    return isinstance(node, Apply) and node.op == "sqrt"


def in_vectors(function: Function) -> list[str]:
    """The expensive operations in the innermost loops."""
    operations = []
    for loop in walk(function):
        if isinstance(loop, For) and loop.kind == "vec":
            for node in walk(loop):
                if isinstance(node, Apply) and node.op in EXPENSIVE:
                    operations.append(node.op)
    return operations


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("O[i,j] = C[j]*(A[i,j] - B[i])/sqrt(D[i,1]/40 + 0.001) + C[j]", []),
        ("O[i,j] = A[i,j]/(1 + exp(B[i]))", []),
        ("O[i,j] = A[i,j]/(0.5 + exp(B[i]))", ["div"]),
        ("O[i,j] = A[i,j]/(1 + exp(B[i]) + D[i,3])", ["div"]),
        ("O[i,j] = A[i,j]/(exp(B[i]) - 1)", ["div"]),  # the reciprocal may be infinite
        ("O[i,j] = A[i,j]/sqrt(C[j])", ["div", "sqrt"]),
        ("O[i,j] = A[i,j]*log(B[i])*exp(D[i,3]) + C[j]", []),
        ("O[i,j] = Piecewise((1/sqrt(B[i]), A[i,j] > 0), (0, True))", ["div", "sqrt"]),
        ("O[i,j] = A[i,j] + B[i]", []),
    ],
)
def test_what_stays_in_the_loop(text: str, left: list[str]) -> None:
    assert sorted(in_vectors(with_values_before_loops(function_of(text)))) == left


def test_several_loops_share_a_value() -> None:
    function = function_of("O[i:6, j:40] = (1 + A.pad(0, 9)[i, j-9])/sqrt(B[i])", "f64")
    assert in_vectors(function).count("sqrt") == 2
    roots = [node for node in walk(with_values_before_loops(function)) if is_root(node)]
    assert len(roots) == 1


def _bodies() -> Iterator[st.SearchStrategy[str]]:
    for form in FORMS:
        yield st.builds(form.format, st.sampled_from(PARTS), st.sampled_from(PARTS))


@settings(max_examples=batches(1), deadline=None)
@given(st.lists(st.tuples(st.one_of(*_bodies()), st.one_of(*_bodies())), min_size=12, max_size=12))
def test_values(pairs: list[tuple[str, str]]) -> None:
    programs, functions, arrays = [], [], []
    random = np.random.default_rng(0)
    for first, second in pairs:
        for body in (f"{first} + {second}", f"Sum[k:40]({first}*A[i,k]*{second})"):
            tensors = {name: ea.tensor(name, shape) for name, shape in SHAPES.items()}
            programs.append(as_program(ea.parse(f"O[i:6,j:40] = {body}", **tensors)))
            ((name, scope),) = programs[-1].statements
            functions.append(with_values_before_loops(lower(name, scope)))
            values = {name: random.uniform(0, 1, shape) for name, shape in SHAPES.items()}
            arrays.append({name: array.astype("f") for name, array in values.items()})
    results = run_functions(functions, arrays, cc=spread_compiler)
    for program, values, result in zip(programs, arrays, results):
        read = {name: values[name] for name in program.tensors}
        check(program, execute(program, read), {"O": result})
