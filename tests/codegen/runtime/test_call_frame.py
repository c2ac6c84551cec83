"""What is between the kernels of a program: values that live at the same time lie apart, and calls
keep nothing of what they were given.
"""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from codegen.program.compile import compile_program
from codegen.runtime.memory_planning import CACHE_LINE_BYTES, Lifetime, place_values
from derive.matching import kernels_of
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import in_double

LIVES = st.lists(
    st.builds(
        lambda first, more, size: Lifetime(first, first + more, size),
        st.integers(0, 9),
        st.integers(0, 5),
        st.integers(0, 500),
    )
)


@given(LIVES)
def test_values_that_live_together_lie_apart(lives):
    offsets, size = place_values(dict(enumerate(lives)))
    placed = [(life, offsets[k], offsets[k] + life.bytes) for k, life in enumerate(lives)]
    assert all(begin % CACHE_LINE_BYTES == 0 and end <= size for _, begin, end in placed)
    for k, (life, begin, end) in enumerate(placed):
        for other, other_begin, other_end in placed[:k]:
            together = life.first <= other.last and other.first <= life.last
            assert not (together and min(end, other_end) > max(begin, other_begin))


@given(LIVES)
def test_no_more_memory_than_without_sharing(lives):
    _, size = place_values(dict(enumerate(lives)))
    assert size <= sum(-(-life.bytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES for life in lives)
    assert size >= max(
        (sum(x.bytes for x in lives if x.first <= t <= x.last) for t in range(15)), default=0
    )


def chain(steps, size=40):
    """Statements that each read the one before, and in the end also the first."""
    first, last = "T0[i,j] += A[i,k]*W[k,j]", f"O[i,j] = T{steps - 1}[i,j] + T0[j,i]"
    text = [first, *(f"T{n}[i,j] += Max(T{n - 1}[i,k],0)*W[k,j]" for n in range(1, steps)), last]
    return ea.parse("\n".join(text), A=(size, size), W=ea.tensor("W", (size, size), role="weight"))


def arrays(program, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: (rng.standard_normal(t.shape) / t.shape[0] ** 0.5).astype(np.float32)
        for name, t in program.inputs.items()
    }


@pytest.mark.parametrize("libraries", ["", "numpy"])
def test_a_chain_runs_in_the_memory_of_three_values(libraries, monkeypatch):
    monkeypatch.setenv("EINALG_LIBRARIES", libraries)
    program = chain(9)
    values = arrays(program)
    run = compile_program(program).bind(W=values.pop("W"))
    np.testing.assert_allclose(
        run(**values), execute(in_double(program), arrays(program))["O"], rtol=1e-4, atol=1e-5
    )
    assert 3 * 4 * 40 * 40 <= run.workspace < 5 * 4 * 40 * 40
    assert list(run.time(repeats=1, **values)) == list(program.names)


def test_calls_of_several_threads_have_memory_of_their_own():
    program = chain(6)
    weights = arrays(program)["W"]
    run = compile_program(program).bind(W=weights)
    given = [arrays(program, seed)["A"] for seed in range(24)]
    expected = [run(A=a) for a in given]
    with ThreadPoolExecutor(4) as pool:
        for found, value in zip(pool.map(lambda a: run(A=a), given), expected):
            np.testing.assert_array_equal(found, value)


def test_a_program_that_nobody_has_is_freed_at_once():
    """Also one that has been called, and so has a function in C: it is no part of a cycle."""
    gc.disable()
    try:
        run = compile_program(ea.parse("O[i] = A[i] + 1\nP[i] = 2*A[i]", A=(3,)))
        assert {name: value.tolist() for name, value in run(A=np.ones(3, np.float32)).items()} == {
            "O": [2] * 3,
            "P": [2] * 3,
        }
        assert run(A=[1, 2, 3])["O"].tolist() == [2, 3, 4]
        alive = weakref.ref(run)
        del run
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("libraries", ["", "numpy"])
def test_nothing_of_a_call_is_kept_alive(libraries, monkeypatch):
    monkeypatch.setenv("EINALG_LIBRARIES", libraries)
    run = compile_program(
        ea.parse("T[i,j] += A[i,k]*B[k,j]\nO[i,j] = T[i,j] + A[i,j]", A=(64, 64), B=(64, 64))
    )
    a, b = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    out = run(A=a, B=b)
    alive = [weakref.ref(x) for x in (a, b, out)]
    del a, b, out
    gc.collect()
    assert [ref() for ref in alive] == [None, None, None]


def test_an_input_that_is_an_output_too_and_empty_values():
    run = compile_program(ea.parse("T[i] += A[i,j]\nO[i,k] = T[i]*B[k]", A=(3, 0), B=(2,)))
    assert run(A=np.ones((3, 0)), B=np.ones(2)).tolist() == [[0, 0]] * 3


def test_a_user_may_call_tensors_as_packed_weights_are_called(monkeypatch):
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    text = "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = T[i,j] + W_for_T[i,j]"
    program = ea.parse(
        text, A=(64, 96), W=ea.tensor("W", (96, 80), role="weight"), W_for_T=(64, 80)
    )
    given = arrays(program)
    run, expected = (
        compile_program(program, kernels_of(program)),
        execute(in_double(program), given)["O"],
    )
    np.testing.assert_allclose(run(**given), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run.bind(W=given.pop("W"))(**given), expected, rtol=1e-4, atol=1e-5)


def test_a_missing_buffer_is_an_error_and_no_address():
    run = compile_program(ea.parse("O[i] = A[i] + B[i]", A=(3,), B=(3,)))
    with pytest.raises(KeyError):
        run._running[0].run({"A": np.ones(3, np.float32), "O": np.ones(3, np.float32)})


def test_a_call_that_fails_keeps_nothing_alive(monkeypatch):
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    run = compile_program(ea.parse("O[i] = A[i] + 1", A=(3,)))
    run.fill({"A": np.ones(3, np.float32), "O": np.empty(3, np.float32)})
    frame = run._memory.frame

    def broken():
        raise RuntimeError("out of luck")

    frame.calls[:] = [broken]
    a = np.ones(3, np.float32)
    alive = weakref.ref(a)
    with pytest.raises(RuntimeError, match="out of luck"):
        run.fill({"A": a, "O": np.empty(3, np.float32)})
    del a
    gc.collect()
    assert alive() is None
