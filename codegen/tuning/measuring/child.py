"""The process in which candidates run: whatever one of them does, the tuner lives on.

It marks the candidate that runs, so that the tuner knows which one has ended the process. A first
run that takes too long ends it by a signal, since compiled code cannot be interrupted.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

import numpy as np

from codegen.hardware.cpu import machine
from codegen.runtime.array_arguments import Array
from codegen.runtime.call_frame import repeated
from codegen.runtime.kernel_call import GeneratedKernel, generated_kernel
from codegen.runtime.memory_planning import aligned
from codegen.runtime.protocol import KernelFunction, prepared
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS
from codegen.targets.c.thread_pool import attached
from codegen.tuning.measuring.task import (
    LASTING,
    MARKER,
    OUTCOMES,
    VALUES,
    CompiledCandidate,
    MeasuringTask,
    Outcome,
    read_task,
)
from codegen.tuning.value_comparison import fill_unlike, same_values, valued
from einalg.runtime.measurement import Measurement, Turn
from einalg.runtime.timing import Stopwatch, measure, processor_watch

EVICTED_CACHES = 8  # of the second level, that are read between two runs with empty caches


@dataclass(frozen=True)
class CandidateCall:
    """A call of the candidate `number`, which it marks."""

    run: KernelFunction
    buffers: Mapping[str, Array]
    number: int
    marker: Any

    def __call__(self) -> None:
        self.marker[0] = self.number
        self.run(self.buffers)

    def many(self, runs: int) -> Turn:
        """Time so many runs, by one call where nothing is packed in between."""
        if not isinstance(self.run, GeneratedKernel) or self.run.packs:
            return processor_watch(self, runs)
        self.marker[0] = self.number
        dispatcher = repeated(self.run, self.buffers, runs)
        return processor_watch(dispatcher.call(), 1).shared(runs)


@dataclass(frozen=True)
class Child:
    """A task, with the memory of its results and the places where it tells what it does."""

    task: MeasuringTask
    buffers: Mapping[str, Array]
    folder: Path
    marker: Any
    outcomes: TextIO

    @classmethod
    def of(cls, folder: Path, outcomes: TextIO) -> Child:
        task = read_task(folder)
        output = task.candidates[0].function.output
        buffers = {**task.arrays, task.output: aligned(output.shape, output.dtype)}
        marker = np.memmap(folder / MARKER, np.int64, "r+", shape=(1,))
        return cls(task, buffers, folder, marker, outcomes)

    def run(self) -> None:
        """Run all candidates once, and those that have the right values in turns."""
        runs: dict[int, KernelFunction] = {}
        first: dict[int, float] = {}
        out, expected = self.buffers[self.task.output], self.task.expected
        for number, candidate in enumerate(self.task.candidates):
            self.marker[0] = number
            with Alarm(self.task.first_seconds):
                run = self.loaded(candidate)
            if expected is None:
                self.seconds(run, np.zeros_like(out))
                expected = out.copy()
                np.save(self.folder / VALUES, expected)
            seconds = self.seconds(run, expected)
            defined = self.task.defined
            wanted = valued(expected, defined)
            reason = difference(valued(out, defined), wanted, self.task.dtype)
            if reason is not None:
                self.tell(number, Outcome(reason=reason, strikes=LASTING))
                continue
            runs[number], first[number] = run, seconds
        self.measure(runs, first)

    def loaded(self, candidate: CompiledCandidate) -> KernelFunction:
        library = ctypes.CDLL(str(candidate.library))
        attached(self.task.compiler, library, COMPILE_TIMEOUT_SECONDS)
        run = generated_kernel(library, candidate.function, candidate.position)
        known = {name: self.task.arrays[name] for name in self.task.constants}
        return prepared(run, known)

    def seconds(self, run: KernelFunction, expected: Array) -> float:
        """Return the time of a first run; elements that it does not write are none expected."""
        fill_unlike(self.buffers[self.task.output], expected)
        with Alarm(self.task.first_seconds):
            began = perf_counter()
            run(self.buffers)
            return perf_counter() - began

    def measure(self, runs: Mapping[int, KernelFunction], first: Mapping[int, float]) -> None:
        """Tell the times of candidates; of one that is late, that of its first run."""
        latest = self.task.policy.latest(first.values())
        calls: dict[str, CandidateCall] = {}
        for number, run in runs.items():
            if first[number] > latest:
                self.tell(number, Outcome(seconds=first[number], spread=1.0))
            else:
                calls[str(number)] = CandidateCall(run, self.buffers, number, self.marker)
        warm = measure(calls, self.task.policy, same_thread_pool=True, watch=_many_runs)
        cold: dict[str, Measurement] = {}
        if self.task.is_cold:
            cold = measure(calls, self.task.cold_policy, same_thread_pool=True, watch=_cold_watch())
        for name, figures in warm.items():
            outcome = Outcome(figures.minimum, None, figures.spread, figures.busy)
            if name in cold:
                outcome = replace(outcome, cold_seconds=cold[name].minimum)
            self.tell(int(name), outcome)

    def tell(self, number: int, outcome: Outcome) -> None:
        self.outcomes.write(outcome.line(number))
        self.outcomes.flush()


def difference(values: Array, expected: Array, dtype: str) -> str | None:
    """Return how values differ from the expected ones, in words; None where they do not."""
    if same_values(values, expected, dtype):
        return None
    if values.dtype.kind == "f" and np.isnan(values).any() and not np.isnan(expected).any():
        return "not a number"
    return "wrong values"


def _many_runs(call: Callable[[], Any], runs: int) -> Turn:
    """Time runs of a candidate together, since a call from here takes longer than brief code."""
    assert isinstance(call, CandidateCall)
    return call.many(runs)


def _cold_watch() -> Stopwatch:
    """Return a stopwatch of single runs, before each of which other data fill the caches."""
    others = np.ones(EVICTED_CACHES * machine().level2 // 8)

    def watch(call: Callable[[], Any], runs: int) -> Turn:
        others.sum()
        return processor_watch(call, 1)

    return watch


class Alarm:
    """Ends this process where a block takes longer than some seconds."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def run_child(arguments: Sequence[str], child: Callable[[Path, TextIO], Any]) -> None:
    """Do the task of a folder, with what runs candidates of its kind."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    (name,) = arguments
    folder = Path(name)
    with (folder / OUTCOMES).open("a", encoding="utf-8") as outcomes:
        child(folder, outcomes).run()


def main(arguments: Sequence[str]) -> None:
    """Do the task of a folder on this processor."""
    run_child(arguments, Child.of)
