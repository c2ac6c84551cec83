"""The protocol by which derivation uses code generation: the two packages do not know each other
(design §5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from einalg.language.analysis.batching import Slices
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.options import Kind, accepting
from einalg.runtime.clock import Clock
from einalg.runtime.direct_call import AddressFunction
from einalg.runtime.measurement import Measurement

KernelOf = Callable[[str, Scope], Kernel]


class Runnable(Protocol):
    """A compiled program: call it with arrays by name."""

    @property
    def workspace(self) -> int:
        """The bytes that it holds for what is between its kernels."""
        ...

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that it was compiled of, generated ones with their source."""
        ...

    def __call__(self, **arrays: Any) -> Any: ...

    def bind(self, **arrays: Any) -> Runnable:
        """Return the same with values of some inputs; what depends on these alone is computed
        once.
        """
        ...

    @property
    def has_open_choices(self) -> bool:
        """Whether some kernels were not compared with libraries when it was compiled."""
        ...

    @property
    def is_optimized(self) -> bool:
        """Whether its code was optimized in full when it was compiled."""
        ...

    def accepting(self, inputs: Mapping[str, Tensor]) -> Runnable:
        """Return the same, which accepts arrays of these inputs too and ignores those that it does
        not read.
        """
        ...

    @property
    def copied(self) -> frozenset[str]:
        """The bound inputs of which later changes are not seen."""
        ...

    def direct(self, names: Sequence[str]) -> AddressFunction | None:
        """Return the same on memory of the caller: of the inputs of a call and of the outputs, in
        this order; None where it cannot.
        """
        ...

    def source(self, language: str = "c") -> str: ...

    def identity(self) -> str | None:
        """Return a digest of what runs, kernel by kernel; None where that is not known."""
        ...

    def record(self) -> Any:
        """Return what `Backend.known` restores it from, as JSON values; None where nothing is
        stored.
        """
        ...


class BackgroundKernels(Protocol):
    """Kernels that are compiled while the caller does something else."""

    @property
    def is_free(self) -> bool:
        """Whether more of them may begin now."""
        ...

    def kernel_timers(self, kernels: Sequence[Kernel]) -> list[Callable[[], Measurement]]:
        """Return functions as `Backend.kernel_timers` does; what they need is begun, not done."""
        ...

    def finish(self) -> None:
        """Wait until nothing is compiled any more, so that measurements are not disturbed.

        Raises `OutOfTime` where the time for the work under way is over before.
        """
        ...

    def stop(self) -> None:
        """Give up what is not compiled yet."""
        ...


class Backend(Protocol):
    """Compiles, checks and times flat programs on one target."""

    def compile(
        self,
        program: Program,
        kernels: Sequence[Kernel],
        target: str | None = None,
        compares: bool = True,
        optimizes: bool = True,
    ) -> Runnable:
        """Compile for this target, or for the one that `target` names.

        Unless it `compares` them, generated kernels are taken without timing libraries beside
        them: that is quick, and nothing is stored of it. Unless it `optimizes` the code in full,
        that is compiled sooner.
        """
        ...

    def expected_cycles(self, program: Program, kernels: Sequence[Kernel]) -> float | None:
        """Return the cycles of a run of a flat program by the model of generated code.

        None where the target has no such model. Raises `OutOfTime` where the time for the work
        under way is over.
        """
        ...

    def expected_seconds(self, program: Program, kernels: Sequence[Kernel]) -> float:
        """Return about how long it takes to compile a flat program, optimized in full."""
        ...

    def known(self, record: Any, program: Program, kernel_of: KernelOf) -> Runnable | None:
        """Return a flat program as it was compiled when its record was made, without looking at its
        statements; None where it must be compiled.

        `kernel_of` gives the kernel of a statement.
        """
        ...

    def bound(self, runnable: Any, weights: Mapping[str, Any]) -> Runnable:
        """Return a compiled program with its weights bound: as copies, or where they are."""
        ...

    @property
    def has_slices(self) -> bool:
        """Whether it offers `in_slices`."""
        ...

    def in_slices(self, runnable: Any, slices: Slices) -> Runnable:
        """Return a compiled program of one slice as one of all of them."""
        ...

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
        ...

    def measure(
        self, runnables: Sequence[Runnable], arrays: Mapping[str, Any]
    ) -> list[Measurement]:
        """Measure a run of each, in turns, so that a busy moment of the machine meets all of them.

        The turns go on until the times are sharp, a share of time for each is spent, or the time
        for the work under way is over.
        """
        ...

    def kernel_timers(self, kernels: Sequence[Kernel]) -> list[Callable[[], Measurement]]:
        """Return functions that measure each kernel by itself, on random inputs; `CodegenError`
        where it does not compile.

        What they need is compiled now, together, so that nothing else runs while one is measured.
        """
        ...

    def background_kernels(self) -> BackgroundKernels:
        """Return what compiles kernels beside the work under way; whoever asks for it stops it."""
        ...

    def rates(self) -> Mapping[str, float]:
        """Return the fields of a `derive.cost.model.Roofline`, measured on this machine."""
        ...

    def tune(
        self, programs: Sequence[tuple[Program, Sequence[Kernel], int]], clock: Clock
    ) -> str | None:
        """Search for the fastest schedules of flat programs, which compilations use from then on.

        Each comes with its kernels and its runs in a call. Returns in words what was gained; None
        where no kernel has another schedule than before, or the target has none.
        """
        ...

    def identity(self) -> str:
        """Return all that measured seconds depend on: target, processor, threads, compiler,
        versions.
        """
        ...

    def reference(self, program: Program, arrays: Mapping[str, Any]) -> dict[str, Any]: ...


BACKEND = Kind(
    "a backend", accepting(lambda value: hasattr(value, "compile")), "leave it out for this machine"
)
