"""What derivation asks of code generation, on this machine: the backend of `derive.cost.backend`
(design §5).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from codegen.measure import calibration
from codegen.program.batched_executable import BatchedExecutable
from codegen.program.compile import compile_program, known_program
from codegen.targets.cuda.device.find import find_driver
from einalg.errors import DeviceError
from einalg.language.analysis.batching import Slices
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, in_double
from einalg.language.ir.scope import Scope
from einalg.runtime.timing import DEFAULT_POLICY, median_seconds
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest

log = logging.getLogger("einalg")

TARGETS = ("cpu", "cuda")
SLOW = 1.0  # seconds of a run, from which on it is not repeated
TIMES = DiskCache("times", ".json", "times of whole models")
CLEAR = 1.25  # times another one's seconds, above which nobody would measure again
AGAIN = 0.5  # seconds that this may take


class LocalBackend:
    """Compiles and times with `codegen`, on this machine, for `target` unless asked for another."""

    def __init__(self, target: str = "cpu", accuracy: float | None = None):
        self.target, self.accuracy = target, accuracy

    def compile(
        self, program: Program, kernels: Sequence[Kernel], target: str | None = None
    ) -> Any:
        return compile_program(
            program, kernels, require_target(target or self.target), accuracy=self.accuracy
        )

    def known(
        self, record: Any, program: Program, kernel_of: Callable[[str, Scope], Kernel]
    ) -> Any:
        """A program as it was compiled when its record was made; None where it must be compiled."""
        if self.target != "cpu":
            return None
        return known_program(record, program, kernel_of)

    @property
    def has_slices(self) -> bool:
        """Whether a program of one slice may run for each of many: a device had better see all at
        once.
        """
        return self.target == "cpu"

    def in_slices(self, runnable: Any, slices: Slices) -> Any:
        """A compiled program of one slice as one of all of them."""
        return BatchedExecutable(runnable, slices)

    def kernel_timers(self, kernels: Sequence[Kernel]) -> list[Callable[[], float]]:
        """Functions that give the median time of each kernel by itself; what they need is compiled
        now.
        """
        return calibration.kernel_timers(kernels, self.target, self.accuracy)

    def rates(self) -> dict[str, float]:
        """What the roofline model needs to know of this machine."""
        return calibration.rates(self.target, self.accuracy)

    def identity(self) -> str:
        """What measurements depend on besides the kernel."""
        return calibration.identity(self.target, self.accuracy)

    def seconds(self, runnables: Sequence[Any], arrays: Mapping[str, Any]) -> list[float]:
        """The median of several runs of each, in turns, after a first one; on a device, without the
        way there and back.
        """
        if self.target == "cuda":
            runs = DEFAULT_POLICY.min_runs
            return [sum(runnable.time(runs, **arrays).values()) for runnable in runnables]
        generated = all(getattr(runnable, "is_generated", False) for runnable in runnables)
        calls = [partial(runnable, **arrays) for runnable in runnables]
        return median_seconds(calls, same_thread_pool=generated)

    def seconds_of_all(self, runnables: Sequence[Any], arrays: Mapping[str, Any]) -> list[float]:
        """As `seconds`, where some may be slow: of what takes longer than `SLOW`, a single run
        counts.
        """
        once = [self._once(runnable, arrays) for runnable in runnables]
        quick = iter(
            self.seconds([runnable for runnable, s in zip(runnables, once) if s <= SLOW], arrays)
        )
        return [s if s > SLOW else next(quick) for s in once]

    def seconds_of_both(
        self, itself: Callable[[], Any], ours: Callable[[], Any], what: str, is_known: bool
    ) -> tuple[float, float] | None:
        """Of a model in its framework and as it is now; where this `is_known`, as they were before,
        unless these leave doubt that costs little.

        None, with a warning, where the framework cannot run it.
        """
        key = text_digest("times", what)
        try:
            first, second = map(float, json.loads(is_known and TIMES.read(key) or b"[0, 0]"))
        except (ValueError, TypeError):
            first, second = 0.0, 0.0
        is_clear = max(first, second) > CLEAR * min(first, second)
        if not is_clear and DEFAULT_POLICY.min_runs * (first + second) < AGAIN:
            try:
                itself()  # what a framework does at its first call only does not count
            except (RuntimeError, MemoryError) as error:  # as frameworks say that memory is lacking
                log.warning(
                    "einalg: the framework cannot run the model here, so its time is not known: %s",
                    str(error).partition("\n")[0],
                )
                return None
            first, second = self.seconds_of_all([itself, ours], {})
            TIMES.replace(key, json.dumps([first, second]).encode())
        return first, second

    def _once(self, runnable: Any, arrays: Mapping[str, Any]) -> float:
        began = perf_counter()
        runnable(**arrays)
        return perf_counter() - began

    def reference(self, program: Program, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs computed in double precision, as they are written."""
        return execute(in_double(program), arrays)


def require_target(target: str) -> str:
    if target not in TARGETS:
        raise DeviceError(f"there is no target {target!r}\n  use one of: {', '.join(TARGETS)}")
    return target


def require_device(target: str) -> None:
    """`DeviceError` where nothing can be measured for a target."""
    if target == "cuda":
        find_driver()
