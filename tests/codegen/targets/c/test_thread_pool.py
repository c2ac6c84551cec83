"""Parallel loops: every part is run once, by whoever comes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import compile_program

PROGRAM = ea.parse(
    "T[i,j] += A[i,k]*B[k,j]\nO[i,j] = exp(-T[i,j]*T[i,j]) + A[i,j]", A=(301, 301), B=(301, 301)
)
RUN = """
import os, numpy as np, einalg as ea
from codegen.program.compile import compile_program
p = ea.parse("T[i,j] += A[i,k]*B[k,j]\\nO[i,j] = exp(-T[i,j]*T[i,j]) + A[i,j]", A=(301, 301), B=(301, 301))
a, b = (np.random.default_rng(k).normal(size=(301, 301)).astype(np.float32) for k in range(2))
run, t = compile_program(p), a @ b
right = lambda: np.allclose(run(A=a, B=b), np.exp(-t * t) + a, atol=1e-4)
"""


def printed(text: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN + text],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("threads", ["1", "2", "7", "2,1"])
def test_any_number_of_threads(threads: str) -> None:
    assert (
        printed("print([right() for _ in range(20)] == [True] * 20)", OMP_NUM_THREADS=threads)
        == "True"
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """Its parent's are not there: who waited for them would wait for ever."""
    text = """
assert right()
child = os.fork()
if not child:
    os._exit(0 if all(right() for _ in range(5)) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), right())
"""
    assert printed(text, OMP_NUM_THREADS="3") == "0 True"


def test_calls_from_several_threads() -> None:
    a, b = (np.random.default_rng(k).normal(size=(301, 301)).astype(np.float32) for k in range(2))
    run = compile_program(PROGRAM)
    expected = run(A=a, B=b)
    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(lambda _: run(A=a, B=b), range(60)):
            assert np.array_equal(found, expected)


def test_the_threads_of_a_program_get_its_signals() -> None:
    text = """
import signal, threading
assert right()
came = []
signal.signal(signal.SIGUSR1, lambda *_: came.append(threading.current_thread() is threading.main_thread()))
os.kill(os.getpid(), signal.SIGUSR1)
print(came)
"""
    assert printed(text, OMP_NUM_THREADS="4") == "[True]"
