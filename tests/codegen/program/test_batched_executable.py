"""A compiled program of one slice that runs for each of many, in one call or one after the other,
on one thread or several.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import einalg as ea
from codegen.program.batched_executable import BatchedExecutable
from codegen.program.compile import compile_program
from derive.matching import kernels_of
from einalg.errors import ShapeError
from einalg.language.analysis.batching import Slices
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.tensor import Tensor
from einalg.runtime.direct_call import address

RNG = np.random.default_rng(0)
TEXT = "T[n,i,j] += A[n,i,k]*W[k,j]\nP[n,i] += T[n,i,j]*B[j]\nO[n,i,j] = Max(T[n,i,j], 0) + P[n,i]"


def program(count, rows=7, inner=13, columns=11):
    W = ea.tensor("W", (inner, columns), role="weight")
    found = ea.parse(TEXT, A=(count, rows, inner), B=(columns,), W=W)
    return ea.Program(found.statements, ("P", "O"))


def arrays(of):
    return {name: RNG.standard_normal(t.shape).astype(np.float32) for name, t in of.inputs.items()}


def made(count, compiled):
    """The program of one, for `count`, with its weights given; what it reads, and what it gives."""
    whole, one = program(count), program(1)
    values = arrays(whole)
    weights = {"W": values.pop("W")}
    run = BatchedExecutable(compiled(one), Slices(count, frozenset("APO"))).bind(**weights)
    return run, values, execute(whole, {**values, **weights})


def plain(one):
    return compile_program(one, kernels_of(one))


def without_compiler(one):
    return compile_program(one, compiler=None)


@pytest.fixture(params=[1, 2, 3])
def threads(request, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", str(request.param))
    return request.param


@pytest.mark.parametrize("compiled", [plain, without_compiler])
@pytest.mark.parametrize("count", [1, 2, 5, 17])
def test_all_slices_have_their_values(threads, count, compiled):
    run, values, expected = made(count, compiled)
    for _ in range(2):
        found = run(**values)
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-4)


def test_on_memory_of_the_caller_in_any_order(threads, monkeypatch):
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    run, values, expected = made(6, plain)
    results = {name: np.full(array.shape, np.nan, np.float32) for name, array in expected.items()}
    names = ["O", "B", "P", "A"]
    memory = {**values, **results}
    at = run.direct(names)
    assert at is not None and run.direct(["O", "A"]) is None
    at([address(memory[name]) for name in names])
    for name in expected:
        np.testing.assert_allclose(results[name], expected[name], rtol=1e-4, atol=1e-4)
    assert run.is_generated and run.workspace == run.one.workspace * min(threads, 6)


def test_inputs_of_other_layouts_and_types_are_converted_and_others_refused(threads):
    run, values, expected = made(4, plain)
    turned = {
        "A": np.asfortranarray(values["A"]).astype(np.float64),
        "B": np.repeat(values["B"], 2)[::2],
    }
    np.testing.assert_allclose(run(**turned)["O"], expected["O"], rtol=1e-4, atol=1e-4)
    with pytest.raises(ShapeError, match=r"A has shape \(4, 7, 13\)"):
        run(A=values["A"][:1], B=values["B"])
    with pytest.raises(ShapeError, match="no array is given for B"):
        run(A=values["A"])


def test_calls_from_several_threads_at_once(threads):
    run, values, expected = made(9, plain)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: run(**values), range(24)):
            np.testing.assert_allclose(found["O"], expected["O"], rtol=1e-4, atol=1e-4)


def test_the_sources_are_those_of_one_slice():
    run, _, _ = made(4, plain)
    assert "void kernel_0" in run.source() and run.source() == run.one.source()


def test_inputs_that_are_not_read_are_ignored(threads, monkeypatch):
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    run, values, expected = made(3, plain)
    run = run.accepting({"X": Tensor("X", (3, 2), "f32")})
    unread = np.zeros((3, 2), np.float32)
    for one in (run, run.bind(X=unread)):
        np.testing.assert_allclose(
            one(**values, X=unread)["O"], expected["O"], rtol=1e-4, atol=1e-4
        )
        np.testing.assert_allclose(one(**values)["O"], expected["O"], rtol=1e-4, atol=1e-4)
    assert run.direct(["X", "A", "B", "O", "P"]) is not None
    with pytest.raises(ShapeError, match=r"X has shape \(3, 2\)"):
        run(**values, X=unread[0])
