"""The error of compiled results: relative to the elements that are computed, not to the fill of a
mask.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import einalg as ea
from derive.cost.accuracy import relative_error
from einalg.language.ir.program import as_program

VALUES = np.linspace(-3, 3, 8)
FILLS = [-3.4e38, -1e12, -1e9, -1e4]


def error(text, wanted, found, given=None, **shapes):
    program = as_program(ea.parse(text, **shapes))
    return relative_error({"O": np.asarray(wanted)}, np.asarray(found, np.float32), program, given)


@pytest.mark.parametrize("fill", FILLS)
def test_a_fill_does_not_hide_the_error_of_others(fill):
    """The fill itself is rounded to its type."""
    text = f"O[i] = Piecewise((A[i], M[i] > 0), ({fill}, True))"
    wanted = np.array([*VALUES, fill, fill])
    assert error(text, wanted, wanted, A=(10,), M=(10,)) < 1e-6
    assert error(text, wanted, [*(VALUES + 0.3), fill, fill], A=(10,), M=(10,)) == pytest.approx(
        0.1, rel=1e-3
    )
    assert error(text, wanted, [*VALUES, fill, fill / 2], A=(10,), M=(10,)) == pytest.approx(
        0.5, rel=1e-3
    )


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize(
    "text", ["O[i] = A[i] + M[i]", "O[i] = A[i] + Piecewise(({}, M[i] > 0), (0, True))"]
)
def test_a_mask_that_is_added(fill, text):
    mask = (
        np.array([0] * 8 + [fill] * 2) if "Piecewise" not in text else np.array([0] * 8 + [1] * 2)
    )
    wanted = np.array([*VALUES, fill + 1, fill - 2])
    given = {"A": np.zeros(10), "M": mask}
    assert error(text.format(fill), wanted, wanted, given, A=(10,), M=(10,)) < 1e-6
    assert error(
        text.format(fill), wanted, [*(VALUES + 0.3), fill + 1, fill - 2], given, A=(10,), M=(10,)
    ) == pytest.approx(0.1, rel=1e-3)


def test_fills_of_paddings_and_of_constants():
    padded, wanted = "O[i:10] = A.pad((0, 2), fill=-1e9)[i]", np.array([*VALUES, -1e9, -1e9])
    assert error(padded, wanted, [*(VALUES + 0.3), -1e9, -1e9], A=(8,)) == pytest.approx(0.1)
    mask = ea.constant("M", [0] * 8 + [-(10**9)] * 2)
    assert error(
        "O[i] = A[i] + M[i]", wanted, [*(VALUES + 0.3), -1e9, -1e9], A=(10,), M=mask
    ) == pytest.approx(0.1)


def test_numbers_that_are_no_larger_change_nothing():
    assert error("O[i] = A[i] + 2", [2.0, 4.0], [2.0, 3.0], A=(2,)) == 0.25
    assert error("O[i] = A[i] + 2", [2.0, 2.0], [2.0, 1.0], A=(2,)) == 0.5
    assert error(
        "O[i] = A[i]*B[i]", [0.001, 100.0], [0.0, 100.0], {"A": np.array([1, 100])}, A=(2,), B=(2,)
    ) == pytest.approx(1e-5)


def test_elements_that_are_nothing_but_rounding():
    assert error("O[i] = A[i] - B[i]", [0.0, 0.0], [1e-8, 0.0], A=(2,), B=(2,)) == pytest.approx(
        1e-8
    )
    assert error(
        "O[i] = Piecewise((A[i] - B[i], i < 1), (1, True))", [0.0, 1.0], [1e-8, 1.0], A=(2,), B=(2,)
    ) == pytest.approx(1e-8)
    assert error("O[i] = A[i]", [np.nan, np.inf], [np.nan, 1.0], A=(2,)) == np.inf


@pytest.mark.parametrize("fill", ["-3.4e38", "-1e9"])
def test_a_masked_expression_is_derived(fill):
    d = ea.derive(
        ea.parse(
            f"O[i,j:8] += A[i,k]*B[k,j]\nP[i,j] = Piecewise((O[i,j], j <= i), ({fill}, True))",
            A=(8, 8),
            B=(8, 8),
        ),
        states=4,
        seconds=300,
    )
    assert d.best.error is not None and d.best.error < 1e-5


@pytest.mark.parametrize("piece", [1, 3, 10, 64])
def test_of_large_results_a_part_at_a_time_is_compared(piece, monkeypatch):
    monkeypatch.setattr("derive.cost.accuracy.CHUNK_ELEMENTS", piece)
    wanted = np.array([*VALUES, -1e9, -1e9])
    given = {"A": np.zeros(10), "M": np.array([0] * 8 + [-1e9] * 2)}
    changed = wanted.copy()
    changed[2] += 0.3
    assert error("O[i] = A[i] + M[i]", wanted, wanted, given, A=(10,), M=(10,)) < 1e-6
    assert error("O[i] = A[i] + M[i]", wanted, changed, given, A=(10,), M=(10,)) == pytest.approx(
        0.1, rel=1e-3
    )
    changed[0] = np.nan
    assert error("O[i] = A[i] + M[i]", wanted, changed, given, A=(10,), M=(10,)) == np.inf


def test_a_comparison_takes_little_memory(monkeypatch):
    monkeypatch.setattr("derive.cost.accuracy.CHUNK_ELEMENTS", 2**14)
    wanted = np.random.default_rng(0).standard_normal(2**20)
    found = wanted.astype(np.float32)
    program = as_program(ea.parse("O[i] = A[i] + 1", A=(2**20,)))
    tracemalloc.start()
    try:
        assert 0 < relative_error({"O": wanted}, found, program) < 1e-6
        assert tracemalloc.get_traced_memory()[1] < wanted.nbytes / 2
    finally:
        tracemalloc.stop()
