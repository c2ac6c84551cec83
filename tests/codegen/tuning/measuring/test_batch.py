"""Candidates in child processes: whatever one of them does, each has its times or a reason."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.ir.nodes import Buf, Function
from codegen.runtime.array_arguments import Array
from codegen.targets.c.thread_pool import REGIONS
from codegen.tuning.measuring.batch import BatchRunner
from codegen.tuning.measuring.compilation import CandidateCompiler, Refusal, machine_code
from codegen.tuning.measuring.task import CompiledCandidate, MeasuringTask, outcome_from_line
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
}


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompiledCandidate]:
    text = f"#include <stdint.h>\n#include <unistd.h>\n{REGIONS}\nvoid kernels(void) {{}}\n"
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
        (), compiler(), arrays, (), "O", "f32", expected, HANG_SECONDS, is_cold, POLICY, POLICY
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
    }
    for name in ("right", "also right"):
        assert named[name].seconds and named[name].cold_seconds == named[name].score
    assert named["wrong"].score is None


def test_without_a_reference_the_first_one_is_right(
    candidates: Mapping[str, CompiledCandidate],
) -> None:
    chosen = [candidates[name] for name in ("wrong", "right")]
    outcomes = BatchRunner(task(None)).outcomes(dict(enumerate(chosen)))
    assert outcomes[0].seconds and outcomes[1].reason == "wrong values"


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
    lost = {number for number, result in results.items() if isinstance(result, Refusal)}
    assert lost == {0} and workers.calls == 4
    assert results[0] == Refusal("no worker: RuntimeError")


def test_a_source_that_is_refused_has_the_reason_of_the_compiler() -> None:
    refused = machine_code(quick_compiler(), 60.0, "this is no C")
    assert isinstance(refused, Refusal) and refused.reason.startswith("the compiler refuses it")
