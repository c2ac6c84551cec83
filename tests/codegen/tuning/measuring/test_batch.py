"""Candidates in child processes: whatever one of them does, each has its times or a reason."""

from __future__ import annotations

import ctypes
import re
import signal
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.ir.nodes import Buf, Function
from codegen.runtime import call_frame
from codegen.runtime.array_arguments import Array
from codegen.runtime.kernel_call import generated_kernel
from codegen.targets.c.thread_pool import REGIONS
from codegen.tuning.measuring import batch
from codegen.tuning.measuring.batch import BatchRunner
from codegen.tuning.measuring.child import CandidateCall
from codegen.tuning.measuring.compilation import CandidateCompiler, machine_code
from codegen.tuning.measuring.task import (
    LASTING,
    OUTCOMES,
    CompiledCandidate,
    MeasuringTask,
    Outcome,
    outcome_from_line,
)
from codegen.tuning.value_comparison import fill_unlike, same_values
from einalg.language.ir.dtypes import dtype_name
from einalg.runtime.clock import Clock, OutOfTime
from einalg.runtime.timing import MeasuringPolicy
from tests.helpers.kernels import compiler, quick_compiler

SIZE, HANG_SECONDS = 8, 4.0
POLICY = MeasuringPolicy(0.0, 2, 2)
FUNCTION = Function("O", (Buf("A", (SIZE,), "f32"),), Buf("O", (SIZE,), "f32"), ())
BODIES = {
    "right": "for (int i = 0; i < 8; i++) out[i] = 2 * in[i];",
    "crash": "*(volatile float *)0 = 1;",
    "wrong": "for (int i = 0; i < 8; i++) out[i] = 3 * in[i];",
    "hang": "for (;;) pause();",
    "unwritten": "out[0] = 2 * in[0];",
    "also right": "for (int i = 7; i >= 0; i--) out[i] = in[i] + in[i];",
    "counts": "static int runs; out[0] = ++runs;",
}
SEQUENCE = """\
void kernels(long count, void (*const *run)(void *const *), void *const *const *buffers) {
  for (long k = 0; k < count; k++) run[k](buffers[k]);
}
"""


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompiledCandidate]:
    text = f"#include <stdint.h>\n#include <unistd.h>\n{REGIONS}\n{SEQUENCE}"
    for position, body in enumerate(BODIES.values()):
        text += (
            f"void kernel_{position}(void *const *buffers) {{\n"
            f"  const float *in = buffers[0]; float *out = buffers[1];\n  {body}\n}}\n"
        )
    content = machine_code(quick_compiler(), 60.0, text)
    assert isinstance(content, bytes), content
    path = tmp_path_factory.mktemp("candidates") / "candidates.so"
    path.write_bytes(content)
    return {name: CompiledCandidate(path, k, FUNCTION) for k, name in enumerate(BODIES)}


def task(expected: Array | None, is_cold: bool = False) -> MeasuringTask:
    array = np.arange(SIZE, dtype=np.float32)
    arrays = {"A": array}
    return MeasuringTask(
        candidates=(),
        compiler=compiler(),
        arrays=arrays,
        constants=(),
        output="O",
        dtype="f32",
        expected=expected,
        first_seconds=HANG_SECONDS,
        is_cold=is_cold,
        policy=POLICY,
        cold_policy=POLICY,
    )


def test_each_candidate_has_its_times_or_a_reason(
    candidates: Mapping[str, CompiledCandidate],
) -> None:
    """A crash and a hang cost one candidate each; the others run in another process."""
    numbered = dict(enumerate(candidates.values()))
    expected = 2.0 * np.arange(SIZE)
    outcomes = BatchRunner(task(expected, is_cold=True)).outcomes(numbered)
    named = {name: outcomes[number] for number, name in enumerate(candidates)}
    reasons = {name: outcome.reason for name, outcome in named.items() if outcome.reason}
    assert reasons == {
        "crash": "crash: SIGSEGV",
        "wrong": "wrong values",
        "hang": "time-out",
        "unwritten": "not a number",
        "counts": "not a number",
    }
    strikes = {name: outcome.strikes for name, outcome in named.items() if outcome.reason}
    assert strikes == {
        "crash": 1,
        "wrong": LASTING,
        "hang": 0,
        "unwritten": LASTING,
        "counts": LASTING,
    }
    for name in ("right", "also right"):
        assert named[name].seconds and named[name].cold_seconds == named[name].score
    assert named["wrong"].score is None


def test_runs_of_brief_code_are_one_call(
    candidates: Mapping[str, CompiledCandidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call from here takes longer than such a run."""
    candidate = candidates["counts"]
    run = generated_kernel(ctypes.CDLL(str(candidate.library)), FUNCTION, candidate.position)
    calls: list[Any] = []
    monkeypatch.setattr(
        call_frame, "call_function", lambda *call: [calls.append(call), call[0](*call[1:])]
    )
    out, marker = np.zeros(SIZE, np.float32), np.zeros(1, np.int64)
    call = CandidateCall(run, {"A": np.ones(SIZE, np.float32), "O": out}, 3, marker)
    turn = call.many(5)
    assert (out[0], turn.runs, len(calls), marker[0]) == (5, 5, 1, 3)


def test_without_a_reference_the_first_values_stay_the_expected_ones(
    candidates: Mapping[str, CompiledCandidate],
) -> None:
    runner = BatchRunner(task(None))
    assert runner.outcomes({0: candidates["right"]})[0].seconds
    outcomes = runner.outcomes({1: candidates["wrong"], 2: candidates["also right"]})
    assert outcomes[1].reason == "wrong values" and outcomes[2].seconds


@pytest.mark.parametrize("name", ["unwritten", "crash"])
def test_where_the_first_is_refused_nothing_is_compared_with_it(
    name: str, candidates: Mapping[str, CompiledCandidate]
) -> None:
    """Elements that it does not write are not the same in two runs."""
    runner = BatchRunner(task(None))
    outcomes = runner.outcomes({0: candidates[name], 1: candidates["right"]})
    assert outcomes[0].strikes and outcomes[1].reason == "there are no values to compare with"
    assert runner.task.expected is None


@pytest.mark.parametrize("said", ["", "no JSON\n", '{"candidate": 9, "seconds": 1.0}\n'])
def test_a_process_that_tells_nothing_is_no_endless_loop(
    said: str, candidates: Mapping[str, CompiledCandidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: Any, seconds: float) -> tuple[int, str]:
        (folder,) = re.findall(r"main\(\['(.*)'\]\)", command[-1])
        (Path(folder) / OUTCOMES).write_text(said)
        return 0, ""

    monkeypatch.setattr(batch, "run_command", run)
    outcomes = BatchRunner(task(np.zeros(SIZE))).outcomes(dict(enumerate(candidates.values())))
    reasons = {(outcome.reason, outcome.strikes) for outcome in outcomes.values()}
    assert len(outcomes) == len(BODIES) and reasons == {("its process reported nothing", 0)}


def test_a_process_that_ends_from_outside_is_no_fault_of_the_code(
    candidates: Mapping[str, CompiledCandidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the end of one that has not begun a candidate."""
    ends = iter([-signal.SIGKILL, -signal.SIGSEGV])
    monkeypatch.setattr(batch, "run_command", lambda *_: (next(ends), ""))
    chosen = {3: candidates["right"], 4: candidates["wrong"]}
    outcomes = BatchRunner(task(np.zeros(SIZE))).outcomes(chosen)
    refused = [(outcome.reason, outcome.strikes) for outcome in outcomes.values()]
    assert refused == [("crash: SIGKILL", 0), ("crash: SIGSEGV", 0)]


def test_there_is_time_for_the_turns_of_slow_candidates(
    candidates: Mapping[str, CompiledCandidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run may take nearly as long as a first one: two turns, warm and with empty caches."""
    limits: list[float] = []

    def run(command: Any, seconds: float) -> tuple[int, str]:
        limits.append(seconds)
        return -signal.SIGKILL, ""

    monkeypatch.setattr(batch, "run_command", run)
    monkeypatch.setattr(batch, "START_SECONDS", 0.0)
    BatchRunner(task(np.zeros(SIZE))).outcomes({0: candidates["right"]})
    loading, values, turns, caches = 1, 2, 2, 2
    assert limits[0] >= HANG_SECONDS * (loading + values + turns * caches)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint8, np.int64, np.bool_])
def test_elements_that_are_not_written_are_never_the_expected_ones(dtype: Any) -> None:
    expected = np.array([0, 1, 77, -1, 127, 300]).astype(dtype)
    if expected.dtype.kind == "f":
        expected[1:3] = np.nan, np.inf
    out = expected.copy()
    fill_unlike(out, expected)
    for element, other in zip(out, expected):
        assert not same_values(np.array([element]), np.array([other]), dtype_name(dtype))


def test_integers_are_equal_modulo_their_type() -> None:
    wide = np.array([300, -3, 128])
    assert same_values(wide.astype(np.uint8), wide, "u8")
    assert same_values(wide.astype(np.int8), wide, "i8")
    assert not same_values(wide.astype(np.uint8) + np.uint8(1), wide, "u8")


def test_a_torn_line_is_no_outcome() -> None:
    assert outcome_from_line('{"candidate": 3, "sec') is None
    assert outcome_from_line('{"candidate": 3, "else": 1}') is None


class Workers:
    """An executor of which the first worker dies, and the second finds a broken pool."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, work: Any, *arguments: Any) -> Future[Any]:
        self.calls += 1
        if self.calls == 2:
            raise RuntimeError("the pool is broken")
        future: Future[Any] = Future()
        if self.calls == 1:
            future.set_exception(OSError("a worker was killed"))
        else:
            future.set_result(b"code")
        return future


def test_a_killed_worker_loses_one_candidate(tmp_path: Path) -> None:
    """A file that is lost is compiled again, each of its candidates alone."""
    workers = Workers()
    compiling = CandidateCompiler(compiler(), tmp_path, 60.0, workers)  # type: ignore[arg-type]
    functions = dict.fromkeys(range(3), FUNCTION)
    results = compiling.compiled(functions)
    lost = {number for number, result in results.items() if isinstance(result, Outcome)}
    assert lost == {0} and workers.calls == 4
    assert results[0] == Outcome(reason="no worker: RuntimeError")


def test_a_source_that_is_refused_has_the_reason_of_the_compiler() -> None:
    refused = machine_code(quick_compiler(), 60.0, "this is no C")
    assert isinstance(refused, Outcome) and refused.strikes == LASTING
    assert str(refused.reason).startswith("the compiler refuses it")


def test_a_worker_that_does_not_answer_costs_no_more_than_the_time(tmp_path: Path) -> None:
    """What it has not begun is taken back."""
    futures: list[Future[Any]] = []

    class Silent:
        def submit(self, work: Any, *arguments: Any) -> Future[Any]:
            futures.append(Future())
            return futures[-1]

    compiling = CandidateCompiler(compiler(), tmp_path, 60.0, Silent())  # type: ignore[arg-type]
    with Clock.of(0.05).limiting(), pytest.raises(OutOfTime):
        compiling.compiled(dict.fromkeys(range(5), FUNCTION))
    assert len(futures) == 2 and all(future.cancelled() for future in futures)
