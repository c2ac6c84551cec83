"""Candidates as machine code of a device, and what a child process is asked to do with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from codegen.ir.nodes import Function
from codegen.targets.cuda.device.nvcc import Cubin, Nvcc
from codegen.targets.cuda.launch import Grid, Launch
from codegen.targets.cuda.text.geometry import launch
from codegen.targets.cuda.text.printer import cuda_source
from codegen.tuning.measuring.refusal import compiled_or_refused
from codegen.tuning.measuring.task import LASTING, CandidateTask, Outcome, without_body
from einalg.runtime.processes import in_parallel

Kernels = Sequence[Function]  # of a candidate, in order
SPILLS = "registers are spilled"


@dataclass(frozen=True)
class DeviceCandidate:
    """Machine code, and the kernels in it, without their bodies, with how each is started."""

    image: bytes
    kernels: tuple[Function, ...]
    launches: tuple[Launch, ...]


@dataclass(frozen=True, kw_only=True)
class DeviceTask(CandidateTask):
    """Kernels that run on the device of this machine."""

    module = "codegen.tuning.measuring.device_child"
    candidates: Sequence[DeviceCandidate]


@dataclass(frozen=True)
class KernelCompiler:
    """Compiles candidates for a compute capability, within some seconds each.

    One that spills registers is refused: another point has the same products without.
    """

    nvcc: Nvcc
    sm: int
    grid: Grid
    seconds: float

    def text(self, kernels: Kernels) -> str:
        """Return the CUDA text of a candidate, which tells it from others."""
        return cuda_source(list(kernels), self.grid)

    def compiled(self, codes: Mapping[int, Kernels]) -> dict[int, DeviceCandidate | Outcome]:
        """Return the machine code of each candidate by its number, or why it has none."""
        texts = [self.text(kernels) for kernels in codes.values()]
        work = partial(machine_code, self.nvcc, self.sm, self.seconds)
        candidates: dict[int, DeviceCandidate | Outcome] = {}
        for (number, kernels), cubin in zip(codes.items(), in_parallel(work, texts), strict=True):
            if isinstance(cubin, Outcome):
                candidates[number] = cubin
            else:
                candidates[number] = self._candidate(kernels, cubin)
        return candidates

    def _candidate(self, kernels: Kernels, cubin: Cubin) -> DeviceCandidate | Outcome:
        if any(usage.spilled for usage in cubin.usage.values()):
            return Outcome(reason=SPILLS, strikes=LASTING)
        launches = [launch(kernel, number, self.grid) for number, kernel in enumerate(kernels)]
        return DeviceCandidate(cubin.image, tuple(map(without_body, kernels)), tuple(launches))


def machine_code(nvcc: Nvcc, sm: int, seconds: float, text: str) -> Cubin | Outcome:
    """Return the machine code of a CUDA source, or why there is none."""
    return compiled_or_refused(lambda: nvcc.compile_anew(text, sm, seconds))
