"""Kernels that are compiled in the background, so that they can be measured at once later."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codegen.measure.calibration import kernel_timers
from codegen.targets.c.object_store import BackgroundCompiler
from einalg.language.ir.kernel import Kernel
from einalg.runtime.measurement import Measurement
from einalg.runtime.processors import core_count

MAX_COMPILERS = 3  # that run beside a search, one core of which is its own


class BackgroundTimers:
    """A `derive.cost.backend.BackgroundKernels` of this machine.

    It takes no work on a machine of one core, and none for a device.
    """

    def __init__(self, target: str, accuracy: float | None):
        self._target, self._accuracy = target, accuracy
        self._compiler: BackgroundCompiler | None = None
        threads = min(MAX_COMPILERS, core_count() - 1)
        if target == "cpu" and threads > 0:
            self._compiler = BackgroundCompiler(threads)

    @property
    def is_free(self) -> bool:
        """Whether more kernels may begin to be compiled now."""
        return self._compiler is not None and self._compiler.is_free

    def kernel_timers(self, kernels: Sequence[Kernel]) -> list[Callable[[], Measurement]]:
        """Return functions that measure each kernel by itself; what they need is begun."""
        return kernel_timers(kernels, self._target, self._accuracy, self._compiler)

    def finish(self) -> None:
        """Wait until nothing is compiled any more; `OutOfTime` where time is over before."""
        if self._compiler is not None:
            self._compiler.finish()

    def stop(self) -> None:
        """Give up what is not compiled yet."""
        if self._compiler is not None:
            self._compiler.stop()
