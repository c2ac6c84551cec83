"""`ea.tune`: kernels are tuned and stay tuned, and the result can be read."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.lowering.schedule import Schedule
from codegen.program.compile import compile_program
from codegen.program.tune import (
    ProgramTuning,
    RepeatedProgram,
    TuningOptions,
    repeated_units,
)
from codegen.tuning.search.program_tuner import INTERRUPTED, TRIALS_OVER
from codegen.tuning.search.tuner import UNCOMPARED, UnitShare, UnitTuning, UntunedUnit
from codegen.tuning.spaces.loops import LoopsSpace
from codegen.tuning.spaces.space import CodeCandidate
from codegen.tuning.spaces.unit import CodeUnit, RepeatedUnit
from derive.matching import kernels_of
from einalg.api.schedules.tuning import Tuning
from einalg.errors import CodegenError
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program
from einalg.runtime.clock import Clock
from tests.helpers.dask_cluster import dask_client
from tests.helpers.kernels import compiler

TEXT = "O[i,j] += A[i,k]*B[k,j]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(folder))


def test_a_program_is_tuned_and_runs() -> None:
    program = ea.parse(TEXT, A=(8, 40), B=(40, 24))
    heard: list[object] = []
    tuning = ea.tune(program, trials=3, progress=heard.append, seconds=1e6)
    (unit,) = tuning.units
    assert unit.trials == len(tuning.curve) == 3 and heard and not tuning.left_out
    assert tuning.best is unit and tuning.seconds <= tuning.start_seconds
    assert tuning.log.read_text().count("\n") == 3
    arrays = {"A": np.ones((8, 40), np.float32), "B": np.ones((40, 24), np.float32)}
    np.testing.assert_array_equal(compile_program(program)(**arrays), np.full((8, 24), 40.0))


@pytest.mark.filterwarnings("ignore")
def test_candidates_are_compiled_by_dask() -> None:
    """In processes of their own, of which one is killed on the way: it loses what it had."""
    killed: list[int] = []
    with dask_client(workers=2, processes=True) as client:

        def kill(_: object) -> None:
            if not killed:
                killed.append(min(client.run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        program = ea.parse(TEXT, A=(9, 31), B=(31, 26))
        executor = client.get_executor()
        tuning = ea.tune(program, trials=8, executor=executor, progress=kill, seconds=1e6)
    (unit,) = tuning.units
    assert killed and unit.trials == 8 and len(tuning.curve) >= 4
    arrays = {"A": np.ones((9, 31), np.float32), "B": np.ones((31, 26), np.float32)}
    np.testing.assert_array_equal(compile_program(program)(**arrays), np.full((9, 26), 31.0))


def test_integers_that_wrap_are_tuned() -> None:
    """Sums of 300 terms, of which a reference keeps all digits."""
    left, right = ea.tensor("A", (4, 300), dtype="u8"), ea.tensor("B", (300, 6), dtype="u8")
    tuning = ea.tune(ea.ops.matmul(left, right), trials=1, seconds=1e6)
    assert len(tuning.units) == 1 and not tuning.refused


def network() -> tuple[Program, dict[str, np.ndarray]]:
    """Return a network of which two kernels are equal: products whose results are clipped."""
    shapes = {"V": (24, 24), "W": (24, 24), "Y": (24, 24)}
    weights = {name: ea.tensor(name, shape, role="weight") for name, shape in shapes.items()}
    text = (
        "T[i,j] += Max(A[i,k], 0)*V[k,j]\nU[i,j] += Max(T[i,k], 0)*W[k,j]\n"
        "O[i,j] += Max(U[i,k], 0)*Y[k,j]"
    )
    arrays = {name: np.ones(shape, np.float32) for name, shape in {"A": (8, 24), **shapes}.items()}
    return ea.parse(text, A=(8, 24), **weights), arrays


def test_a_network_is_tuned_as_it_was_optimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tune` optimizes it where it was not; equal kernels are tuned once."""
    units: list[list[RepeatedUnit]] = []

    def tune_programs(programs: Any, options: TuningOptions, clock: Clock) -> ProgramTuning:
        units.append(repeated_units(programs, compiler()))
        return ProgramTuning((), (), Path())

    monkeypatch.setattr("einalg.api.schedules.tuning.tune_programs", tune_programs)
    optimized = ea.optimize(*network(), seconds=0)
    for model in (optimized, optimized.graph):
        ea.tune(model)
        assert sorted(own.count for own in units[-1]) == [1, 1, 2]


@pytest.mark.nightly
def test_a_network_is_tuned() -> None:
    tuning = ea.tune(ea.optimize(*network(), seconds=0), trials=9, seconds=1e6)
    assert len(tuning.curve) == 27 and not tuning.left_out and "2x in a run" in str(tuning)
    assert tuning.seconds <= tuning.start_seconds
    again = ea.optimize(*network(), seconds=0)
    np.testing.assert_array_equal(again(np.ones((8, 24))), np.full((8, 24), 24.0**3))


def test_what_is_known_before_a_run_is_not_tuned() -> None:
    weights = {name: ea.tensor(name, (8, 8), role="weight") for name in "VW"}
    text = "T[i,j] += V[i,k]*W[k,j]\nO[i,j] += A[i,k]*T[k,j]"
    program = ea.parse(text, A=(4, 8), **weights)
    units = repeated_units([RepeatedProgram(program, kernels_of(program), 5)], compiler())
    assert [(own.unit.name, own.count) for own in units] == [("O", 5)]


def test_a_model_for_a_device_is_not_tuned_for_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    optimized = ea.optimize(*network(), seconds=0)
    monkeypatch.setattr(optimized.backend, "target", "cuda")
    with pytest.raises(ea.UseError, match="optimized for 'cuda'"):
        ea.tune(optimized)


def test_no_time_is_a_result() -> None:
    tuning = ea.tune(TEXT, seconds=0, A=(8, 20), B=(20, 24))
    assert not tuning.units and tuning.best is None and not tuning.curve
    assert "allow more seconds" in str(tuning) and "allow more seconds" in tuning._repr_html_()


def test_a_model_of_calls_alone_has_no_kernel_to_tune() -> None:
    onnx = pytest.importorskip("onnx", reason="this is a model of the package onnx")
    from tests.helpers.onnx_models import model, node

    outputs = {"y": None, "i": (onnx.TensorProto.INT64, None)}
    made = model([node("TopK", "x k", "y i")], {"x": (3, 7)}, outputs, {"k": np.array([2])})
    tuning = ea.tune(made)
    assert not tuning.units and "no kernel of einalg's to tune" in str(tuning)
    assert "more seconds" not in str(tuning)


def test_an_early_interrupt_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("einalg.api.schedules.tuning._programs", interrupt)
    tuning = ea.tune(TEXT, A=(8, 20), B=(20, 24))
    assert tuning.reason.startswith("it was interrupted") and not tuning.units


def unit_tuning(elapsed: float) -> UnitTuning:
    scope = ea.parse("O[i] = A[i]", A=(3,))
    space = LoopsSpace(CodeUnit(Kernel(EOP, {}, ("A",), "O"), scope), CpuModel())
    start, winner = CodeCandidate(space, Schedule()), CodeCandidate(space, Schedule(row=8))
    curve = ((1, elapsed, 4e-3), (2, elapsed + 1, 4e-3), (3, elapsed + 2, 1e-3))
    refused = {"time-out": 2}
    return UnitTuning("O = A<B", start, winner, 4e-3, 1e-3, 3, curve, refused, "all were made")


def test_a_result_of_several_kernels_reads_as_one() -> None:
    """A run computes the second one three times."""
    share = UnitShare(3, 2, 1.5, 2e-6)
    other = replace(unit_tuning(5.0), is_stored=False, reason=UNCOMPARED, share=share)
    tuning = Tuning((unit_tuning(1.0), other), [UntunedUnit({}, "no time")], Path("log.jsonl"))
    expected = [16e-3, 16e-3, 13e-3, 13e-3, 13e-3, 4e-3]
    assert [seconds for *_, seconds in tuning.curve] == pytest.approx(expected)
    assert tuning.refused == {"time-out": 4}
    for reason in ("all were made", UNCOMPARED, "no time"):
        assert f"{reason} (1 kernel)" in tuning.reason
    text, page = str(tuning), tuning._repr_html_()
    for words in ("4 ms -> 1 ms (4.00x), 3 trials", "loops: ", "row=8", "log.jsonl"):
        assert words in text
    assert "4 candidates refused: time-out" in text and "1 kernel" in text
    for words in ("3x in a run, 75% of its time", "1.5 s spent", "promises 2 µs", "16 ms -> 4 ms"):
        assert words in text
    assert text.count("not used later") == 1 and page.count(">yes<") == page.count(">no<") == 1
    assert "<polyline" in page and "O = A&lt;B" in page


@pytest.mark.parametrize(
    ("untuned", "reason"),
    [
        (
            [UntunedUnit({"wrong values": 3}, TRIALS_OVER)],
            "all candidates that were tried were refused",
        ),
        ([UntunedUnit({}, INTERRUPTED)], "it was interrupted"),
    ],
)
def test_why_nothing_was_tuned(untuned: list[UntunedUnit], reason: str) -> None:
    tuning = Tuning((), untuned, Path("log.jsonl"))
    assert tuning.left_out == 1 and tuning.reason.startswith(reason)
    text = str(tuning)
    assert reason in text and "more seconds" not in text
    assert ("3 candidates refused: wrong values" in text) == bool(untuned[0].refused)


def test_a_unit_without_a_start_is_told_as_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codegen.program.tune.cheapest", lambda unit, target: None)
    with pytest.raises(CodegenError, match="please report"):
        ea.tune(TEXT, A=(8, 20), B=(20, 24))
