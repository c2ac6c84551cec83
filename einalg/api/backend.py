"""The backend of derivations on this machine: a `derive.cost.backend.Backend` by `codegen`."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from codegen.measure import calibration
from codegen.measure.background import BackgroundTimers
from codegen.program.batched_executable import BatchedExecutable
from codegen.program.compile import (
    compile_program,
    expected_cycles,
    expected_seconds,
    known_program,
)
from codegen.program.tune import RepeatedProgram, TuningOptions, tune_programs
from codegen.targets.c.compiler import find_compiler
from codegen.targets.cuda.device.find import find_driver
from einalg.api.export import export_program
from einalg.errors import DeviceError
from einalg.language.analysis.batching import Slices
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, in_double
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.options import Kind, shown
from einalg.runtime.clock import Clock, check_time
from einalg.runtime.measurement import Measurement
from einalg.runtime.timing import DEFAULT_POLICY, measure
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest

log = logging.getLogger("einalg")

TARGETS = ("cpu", "cuda")
TIMES = DiskCache("times", ".json", "times of whole models")


@dataclass(frozen=True)
class ModelTimingPolicy:
    """When a run of a whole model is repeated, and when known times are measured again."""

    clear_ratio: float = 1.25  # of two times, above which nobody would measure again
    max_retry_seconds: float = 0.5  # that measuring again may take


POLICY = ModelTimingPolicy()


class LocalBackend:
    """Compiles and times with `codegen`, on this machine, for `target` unless asked for another.

    Programs hold copies of their weights, unless it `shares_weights`: then kernels read these where
    they are.
    """

    def __init__(
        self, target: str = "cpu", accuracy: float | None = None, shares_weights: bool = False
    ):
        self.target, self.accuracy = target, accuracy
        self._shares_weights = shares_weights

    def compile(
        self,
        program: Program,
        kernels: Sequence[Kernel],
        target: str | None = None,
        compares: bool = True,
        optimizes: bool = True,
    ) -> Any:
        """Compile a flat program with these kernels, for another target if one is named.

        Unless it `compares` them, generated kernels are not timed beside libraries; unless it
        `optimizes` them in full, they are compiled sooner.
        """
        chosen = require_target(self.target if target is None else target)
        return compile_program(
            program,
            kernels,
            chosen,
            accuracy=self.accuracy,
            compares=compares,
            optimizes=optimizes,
        )

    def expected_cycles(self, program: Program, kernels: Sequence[Kernel]) -> float | None:
        """Return the cycles that a run of generated code is expected to take; None on a device."""
        if self.target != "cpu":
            return None
        return expected_cycles(program, kernels)

    def expected_seconds(self, program: Program, kernels: Sequence[Kernel]) -> float:
        """Return about how long compiling takes, optimized in full; 0 on a device."""
        if self.target != "cpu":
            return 0.0
        return expected_seconds(program, kernels)

    def known(
        self, record: Any, program: Program, kernel_of: Callable[[str, Scope], Kernel]
    ) -> Any:
        """Return a program as it was compiled when its record was made; None where it was not."""
        if self.target != "cpu":
            return None
        return known_program(record, program, kernel_of)

    def bound(self, runnable: Any, weights: Mapping[str, Any]) -> Any:
        """Return a compiled program with its weights bound: as copies, or where they are."""
        if self._shares_weights:
            return runnable.bind_in_place(**weights)
        return runnable.bind(**weights)

    @property
    def has_slices(self) -> bool:
        """Whether a program of one slice may run for each of many; a device sees all at once."""
        return self.target == "cpu"

    def in_slices(self, runnable: Any, slices: Slices) -> Any:
        """Return a compiled program of one slice as one of all of them."""
        return BatchedExecutable(runnable, slices)

    def export_c(
        self,
        program: Program,
        kernels: Sequence[Kernel],
        inputs: Mapping[str, Tensor],
        folder: Any,
        name: str | None,
        weights: Mapping[str, Any] | None,
    ) -> Path:
        """Write a flat program as a C project into a folder, as a function of these inputs, of
        which it may ignore some; with these weights inside.
        """
        return export_program(
            program, kernels, inputs, self.target, self.accuracy, folder, name, weights
        )

    def kernel_timers(self, kernels: Sequence[Kernel]) -> list[Callable[[], Measurement]]:
        """Return functions that measure each kernel by itself; what they need is compiled now."""
        return calibration.kernel_timers(kernels, self.target, self.accuracy)

    def background_kernels(self) -> BackgroundTimers:
        """Return what compiles kernels beside a search; whoever asks for it stops it."""
        return BackgroundTimers(self.target, self.accuracy)

    def rates(self) -> dict[str, float]:
        """Return what the roofline model needs to know of this machine."""
        return calibration.rates(self.target, self.accuracy)

    def tune(
        self, programs: Sequence[tuple[Program, Sequence[Kernel], int]], clock: Clock
    ) -> str | None:
        """Search for the fastest schedules of flat programs, each with its runs in a call.

        Returns in words what was gained; None where no kernel has another schedule than before.
        """
        if self.target == "cpu" and find_compiler() is None:
            return None
        repeated = [RepeatedProgram(*own) for own in programs]
        options = TuningOptions(target=self.target)
        return tune_programs(repeated, options, clock).gain_in_words()

    def identity(self) -> str:
        """Return what measurements depend on besides the kernel."""
        return calibration.identity(self.target, self.accuracy)

    def measure(self, runnables: Sequence[Any], arrays: Mapping[str, Any]) -> list[Measurement]:
        """Measure a call of each, in turns, after a first one; one that is slow has two.

        On a device, its own clock counts, and the way there and back does not.
        """
        calls: dict[str, Callable[[], Any]] = {}
        for number, runnable in enumerate(runnables):
            call = partial(runnable, **arrays)
            if self.target == "cuda":
                call = runnable.repeated(**arrays)
            calls[str(number)] = call
        generated = all(getattr(runnable, "is_generated", False) for runnable in runnables)
        measured = measure(
            calls,
            same_thread_pool=generated or self.target == "cuda",
            watch=calibration.stopwatch(self.target),
        )
        return list(measured.values())

    def measure_both(
        self,
        original: Callable[[], Any],
        optimized: Callable[[], Any],
        subject: str,
        is_known: bool,
    ) -> tuple[Measurement, Measurement] | None:
        """Measure a call of a model in its framework and as it is now, in turns.

        Where `is_known` says that they depend on the `subject` alone, known times are taken, unless
        these leave doubt that costs little. None, with a warning, where the framework cannot run
        the model.
        """
        key = text_digest("times", subject)
        known = _stored_times(key) if is_known else None
        if known is not None and not _are_worth_measuring(*known):
            return known
        try:
            original()  # what a framework does at its first call only does not count
        except (RuntimeError, MemoryError) as error:  # as frameworks say that memory is lacking
            log.warning(
                "einalg: the framework cannot run the model here, so its time is not known: %s",
                str(error).partition("\n")[0],
            )
            return None
        before, after = self.measure([original, optimized], {})
        TIMES.replace(key, json.dumps([before.as_record(), after.as_record()]).encode())
        return before, after

    def reference(self, program: Program, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs in double precision, computed as they are written.

        Raises `OutOfTime` where the time for the work under way is over.
        """
        return execute(in_double(program), arrays, between_blocks=check_time)


def _stored_times(key: str) -> tuple[Measurement, Measurement] | None:
    """Return the times that were measured before; None where there are none."""
    try:
        before, after = map(Measurement.from_record, json.loads(TIMES.read(key) or b"[]"))
    except (ValueError, TypeError):
        return None
    if before is None or after is None:
        return None
    return before, after


def _are_worth_measuring(before: Measurement, after: Measurement) -> bool:
    """Say whether times leave doubt about which is less, and measuring them again takes little.

    A busy machine leaves doubt about the figures themselves.
    """
    low, high = sorted((before.seconds, after.seconds))
    if high > POLICY.clear_ratio * low and before.is_settled and after.is_settled:
        return False
    return DEFAULT_POLICY.min_turns * (low + high) < POLICY.max_retry_seconds


def require_target(target: str) -> str:
    """Return the target; `DeviceError` for one that there is not."""
    if isinstance(target, str) and target in TARGETS:
        return target
    remedy = f"use one of: {', '.join(TARGETS)}"
    if not isinstance(target, str):
        remedy += "; several inputs of a model are one tuple: ea.optimize(model, (x, y))"
    raise DeviceError(f"there is no target {shown(target)}\n  {remedy}")


TARGET = Kind("a target", require_target, "use one of: cpu, cuda", DeviceError)


def require_device(target: str) -> None:
    """Raise `DeviceError` where nothing can be measured for a target."""
    if target == "cuda":
        find_driver()
