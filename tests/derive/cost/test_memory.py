"""What takes more memory than there is is neither run nor compared."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import einalg as ea
from derive.cost.memory import (
    DEFAULT_MEMORY_BYTES,
    comparison_fits_in_memory,
    memory_bytes,
    program_bytes,
    temporary_bytes,
)
from einalg.language.ir.program import as_program

MATMUL = "O[i,j] += A[i,k]*B[k,j]"
SHAPES = dict(A=(64, 32), B=(32, 48))
HELD = 4 * (64 * 32 + 32 * 48 + 64 * 48)


def test_what_a_program_holds():
    program = as_program(ea.parse(MATMUL, **SHAPES))
    assert program_bytes(program) == HELD
    named = ea.parse(
        "T[i] = A[i]*2\nO[i] = T[i] + B[i]",
        A=ea.tensor("A", (5,), "f64"),
        B=ea.tensor("B", (5,), "i32"),
    )
    assert program_bytes(named) == 5 * (8 + 4 + 8 + 8)


def test_the_machine_says_how_much_there_is(monkeypatch):
    assert memory_bytes() > 1 << 28
    monkeypatch.setattr("os.sysconf", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert memory_bytes() == DEFAULT_MEMORY_BYTES


@pytest.mark.parametrize(("there", "fitting"), [(8 * HELD, True), (8 * HELD - 1, False)])
def test_four_times_what_is_held_fits_in_half_of_it(monkeypatch, there, fitting):
    monkeypatch.setattr("derive.cost.memory.memory_bytes", lambda: there)
    program = as_program(ea.parse(MATMUL, **SHAPES))
    assert comparison_fits_in_memory(program, program) == fitting


def test_without_memory_candidates_are_estimated(monkeypatch, tmp_path):
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr("derive.cost.memory.memory_bytes", lambda: HELD)
    found = ea.derive(ea.parse(MATMUL, **SHAPES), states=4, seconds=300)
    assert not any(candidate.measured for candidate in found.candidates)
    a, b = np.ones((64, 32)), np.ones((32, 48))
    assert np.array_equal(found.best.compile()(A=a, B=b), a @ b)


def test_a_candidate_for_which_memory_lacks_is_not_the_best(monkeypatch, tmp_path):
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(
        "derive.results.verification.comparison_fits_in_memory",
        lambda start, candidate: candidate == start,
    )
    found = ea.derive(
        ea.parse("O[i,j] += A[i,j+k]*K[k]", A=(64, 70), K=(7,)), states=4, seconds=300
    )
    assert not found.best.moves and found.best.measured
    assert len(found.candidates) > 1 and not any(
        candidate.measured for candidate in found.candidates[1:]
    )


def test_a_kernel_for_which_memory_lacks_is_not_measured(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr("derive.cost.model.memory_bytes", lambda: 100)
    with caplog.at_level(logging.INFO, "einalg"):
        ea.derive(ea.parse("O[i,j] += A[i,j+k]*K[k]", A=(64, 70), K=(7,)), states=3, seconds=60)
    assert "a kernel is not measured: it reads and writes" in caplog.text


def test_the_statements_that_are_held_at_once():
    """Each until its last reader; of the outputs, none."""
    lines = ["S[i] = A[i]", "T[i] = S[i] + 1", "U[i] = S[i]*T[i]", "O[i:8] = U[2*i]"]
    program = ea.parse("\n".join(lines), A=ea.tensor("A", (16,), "f64"))
    assert temporary_bytes(as_program(program)) == 3 * 16 * 8
    assert temporary_bytes(as_program(ea.parse(MATMUL, **SHAPES))) == 0
