"""Compiled programs: generated kernels and library calls behind one function of arrays (design §10,
§12).
"""

from __future__ import annotations

import json
import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import median
from time import perf_counter
from types import MappingProxyType
from typing import Any, Protocol, Self

import numpy as np

from codegen.program.building.generated_code import EINALG, KernelCall
from codegen.runtime.array_arguments import Loader, load, loaded, sample, without_ignored
from codegen.runtime.c_dispatch import OnAddresses
from codegen.runtime.call_frame import CallFrame, MemoryPlan, PlannedStep, plan
from codegen.runtime.kernel_call import GeneratedKernel
from codegen.runtime.protocol import GENERATED, Buffers, Packed, packed_inputs, prepared
from einalg.boundary import hide_inside, public, public_by_hand
from einalg.errors import CodegenError, EinalgError, ShapeError
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, require_names, statement_tensor
from einalg.language.ir.tensor import Tensor
from einalg.options import checked, text, whole
from einalg.runtime.buffer_pool import BufferPool
from einalg.runtime.direct_call import ObjectInterface
from einalg.storage.fingerprint import text_digest

LOG = logging.getLogger("einalg")
NOTHING: Buffers = MappingProxyType({})
NUMPY = "numpy executor"


class BuildInfo(Protocol):
    """The parts that a compiled program was built of.

    Its kernels, the text of what is generated, and a record by which it is found again.
    """

    def kernels(self) -> Sequence[Kernel]: ...

    def text(self) -> str: ...

    def record(self) -> Any: ...

    @property
    def has_open_choices(self) -> bool: ...

    @property
    def is_optimized(self) -> bool: ...


@dataclass(frozen=True)
class FixedKernels:
    """Kernels of which no record is made."""

    has_open_choices = False
    is_optimized = True

    fixed: Sequence[Kernel]
    source: Callable[[], str] = str

    def kernels(self) -> Sequence[Kernel]:
        return self.fixed

    def text(self) -> str:
        return self.source()

    def record(self) -> None:
        return None


class Executable:
    """A program that runs: call it with its inputs by name.

    Returns a new array, or a dict of them for a program of several outputs. Calls from several
    threads at once are safe. What depends on constants alone is computed once, here; what depends
    on weights, once by `bind`.
    """

    def __init__(
        self,
        program: Program,
        target: str,
        steps: Sequence[KernelCall],
        made: BuildInfo,
        bound: Buffers = NOTHING,
        copied: frozenset[str] = frozenset(),
    ):
        self.program, self.target = program, target
        self._steps, self._of = tuple(steps), made
        self._bound = {name: array for name, array in bound.items() if name in program.tensors}
        self._done = compile_time_statements(program, lambda t: t.name in self._bound)
        self._done -= {step.output for step in steps if step.library == NUMPY}
        self._shapes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        for name, scope in program.statements:
            if name not in self._done:
                self._shapes[name] = scope.shape, numpy_dtype(scope.dtype)
        results = BufferPool()
        self._made = {name: results.allocator(*self._shapes[name]) for name in program.outputs}
        self.missing = dict(program.inputs)  # what a call gives
        for name in self._bound.keys() & self.missing.keys():
            del self.missing[name]
        self.ignored: dict[str, Tensor] = {}  # what a call may give besides
        self._accepted = dict(self.missing)  # both
        self._load = Loader(self.missing)
        self._memory = threading.local()
        self._ready = self._computed(bound)
        packed: Packed = {}
        self._running: list[KernelCall] = []
        for step in steps:
            if step.output not in self._done:
                run = prepared(step.run, self._ready, packed)
                self._running.append(replace(step, run=run))
        self._copied = copied

    @public_by_hand
    def __call__(self, *arguments: Any, **arrays: Any) -> Any:
        try:
            if arguments:
                require_names(arguments, self._accepted)
            if self._in_c is not None and arrays.keys() == self._accepted.keys():
                return self._in_c(*[arrays[name] for name in self._accepted])
            return self._called(arrays)
        except EinalgError as error:
            hide_inside(error)
            raise

    def _called(self, arrays: Mapping[str, Any]) -> Any:
        results = self._results()
        self.fill({**self._load(without_ignored(arrays, self.ignored)), **results})
        if len(results) > 1:
            return results
        return next(iter(results.values()))

    @cached_property
    def _in_c(self) -> Callable[..., Any] | None:
        """All of a call as a function in C of all arrays that it accepts, in order; else None."""
        outputs, itself = self.program.outputs, weakref.ref(self)

        def otherwise(*arrays: Any) -> Any:
            called = itself()  # which makes the call
            return called and called._called(dict(zip(called._accepted, arrays)))

        finish = None
        if len(outputs) > 1:
            finish = partial(_named, outputs)
        results = tuple(statement_tensor(name, self.program[name]) for name in outputs)
        objects = ObjectInterface((np.ndarray,), otherwise, tuple(self._made.values()), finish)
        run = self.direct([*self._accepted, *outputs])
        return run and run.on_objects(tuple(self._accepted.values()), results, objects)

    def fill(self, buffers: Buffers) -> None:
        """Run on memory of the caller: contiguous arrays of a call's inputs, and of the outputs."""
        frame = self._memory.__dict__.get("frame")
        if frame is None:
            frame = self._memory.frame = self.frame()
        frame.run(buffers)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The program's kernels, generated ones with their source."""
        return tuple(self._of.kernels())

    def record(self) -> Any:
        """Return what `known_program` takes for it, as JSON values.

        None where nothing is recorded, or another run may choose other implementations.
        """
        return self._of.record()

    def identity(self) -> str | None:
        """Return a digest of what runs: the library of each kernel, and the generated code.

        None where that is not known before a call.
        """
        record = self.record()
        code = self._of.text() if record is None else json.dumps(record)
        return text_digest(code, *(f"{step.output} {step.library}" for step in self._steps))

    @property
    def has_open_choices(self) -> bool:
        """Whether it was compiled without some comparisons of its kernels with libraries."""
        return self._of.has_open_choices

    @property
    def is_optimized(self) -> bool:
        """Whether its code was optimized in full when it was compiled."""
        return self._of.is_optimized

    @property
    def is_generated(self) -> bool:
        """Whether no kernel is run by a library, which would have threads of its own."""
        return all(step.library in (EINALG, GENERATED) for step in self._running)

    @property
    def is_native(self) -> bool:
        """Whether all kernels are compiled functions, which need addresses alone."""
        return all(isinstance(step.run, GeneratedKernel) for step in self._running)

    @property
    def workspace(self) -> int:
        """The bytes that a thread keeps for what is between the kernels.

        What does not live at the same time shares them.
        """
        return self._plan.bytes

    @property
    def running(self) -> tuple[KernelCall, ...]:
        """The calls that a run makes, in order."""
        return tuple(self._running)

    @property
    def known(self) -> Buffers:
        """What is known before a run: constants, bound inputs, and what depends on these alone."""
        return MappingProxyType(self._ready)

    @property
    def memory_plan(self) -> MemoryPlan:
        """Where what is between the kernels lies in the memory of a run."""
        return self._plan

    @public
    def bind(self, **arrays: Any) -> Executable:
        """Return the program with some of its inputs bound, as weights are.

        Kernels that depend on these alone run now, once. The arrays are copied, so changing them
        later changes nothing. Raises `ShapeError` as a call does.
        """
        read = without_ignored(arrays, self.ignored)
        self._check_names(read)
        bound = dict(self._ready)
        for name, array in read.items():
            bound[name] = load(self.missing[name], array).copy()
        return self._with(bound, self._copied | read.keys()).accepting(self.ignored)

    @public
    def bind_in_place(self, **arrays: Any) -> Executable:
        """Return the same, where kernels read the memory of the arrays themselves.

        They see later writes to it, but for those inputs that are `copied`.
        """
        read = without_ignored(arrays, self.ignored)
        self._check_names(read)
        bound, copied = dict(self._ready), set(self._copied)
        for name, array in read.items():
            bound[name] = load(self.missing[name], array)
            if bound[name] is not array:
                copied.add(name)
        return self._with(bound, frozenset(copied)).accepting(self.ignored)

    def accepting(self, inputs: Mapping[str, Tensor]) -> Self:
        """Accept arrays of these inputs too; what the program does not read is ignored.

        A program that was simplified may read fewer inputs than it did. The shapes of those that it
        ignores are checked still. Returns the program itself.
        """
        for name, tensor in inputs.items():
            if name not in self.program.tensors:
                self.ignored[name] = tensor
        self._accepted = {**self.missing, **self.ignored}
        vars(self).pop("_in_c", None)  # made for others
        return self

    @property
    def copied(self) -> frozenset[str]:
        """The bound inputs whose later writes are not seen.

        They were copied or packed, or something was computed of them.
        """
        copied = set(self._copied)
        for name in self._done:
            copied |= self.program[name].tensors.keys()
        for step in self._running:
            copied |= packed_inputs(step.run)
        return frozenset(copied & self._bound.keys() & self.program.inputs.keys())

    def _check_names(self, arrays: Mapping[str, Any]) -> None:
        """Raise `ShapeError` for arrays that no input is missing for."""
        unknown = sorted(set(arrays) - set(self.missing))
        if unknown:
            missing = ", ".join(self.missing) or "nothing"
            raise ShapeError(
                f"{unknown[0]} cannot be given; what is missing is {missing}\n  leave it out"
            )

    def _with(self, bound: Buffers, copied: frozenset[str]) -> Executable:
        """Return the program with more inputs bound, some of them as copies."""
        return Executable(self.program, self.target, self._steps, self._of, bound, copied)

    def direct(self, names: Sequence[str]) -> OnAddresses | None:
        """Return the program as a function of addresses, in the order of these names.

        They are all that a call gives, and the outputs; some may be those of inputs that the
        program ignores. None where a library takes part, which reads arrays.
        """
        read = {*names} - self.ignored.keys()
        if not self.is_native or read != {*self.missing, *self.program.outputs}:
            return None
        return OnAddresses(lambda: CallFrame(self._stages, self._plan, self._ready, names))

    @checked(language=text("c", CodegenError))
    def source(self, language: str = "c") -> str:
        """Return the text of the generated kernels; `CodegenError` for another language."""
        if language != "c":
            remedy = "use source('c')"
            if language == "cuda":
                remedy += ", or compile for the target 'cuda'"
            raise CodegenError(
                f"there is no source in {language!r} for the target {self.target!r}\n  {remedy}"
            )
        return self._of.text()

    def repeated(self, **arrays: Any) -> Callable[[], Any]:
        """Return a function that runs all kernels on these arrays, which are placed once.

        This is what a measurement repeats. Without arrays, the inputs are random.
        """
        read = without_ignored(arrays, self.ignored)
        frame = self.frame()
        frame.place({**self._load(read or sample(self.missing)), **self._results()})

        def run() -> None:
            for call in frame.calls:
                call()

        return run

    @checked(repeats=whole(1))
    def time(self, repeats: int = 5, **arrays: Any) -> dict[str, float]:
        """Return the seconds that each kernel takes, by its output.

        They are the median of `repeats` runs of the program after a first one. Without arrays, the
        inputs are random. Where the whole program runs as one step, the only entry is its last
        output.
        """
        read = without_ignored(arrays, self.ignored)
        frame = self.frame(apart=True)
        frame.place({**self._load(read or sample(self.missing)), **self._results()})
        spent: list[list[float]] = [[] for _ in self._running]
        for _ in range(1 + repeats):
            for seconds, call in zip(spent, frame.calls, strict=True):
                began = perf_counter()
                call()
                seconds.append(perf_counter() - began)
        return {step.output: median(seconds[1:]) for step, seconds in zip(self._running, spent)}

    def __repr__(self) -> str:
        width = max(len(step.library) for step in self._steps)
        kernels = {kernel.output: kernel for kernel in self.kernels}
        lines = [f"Compiled for {self.target}:"]
        for step in self._steps:
            line = f"  {step.library:{width}}  {kernels[step.output]}"
            if step.output in self._done:
                line += "  (done once)"
            lines.append(line)
        return "\n".join(lines)

    def _computed(self, bound: Buffers) -> dict[str, np.ndarray[Any, Any]]:
        """Return constants, the bound inputs, and the results of what depends on these alone."""
        ready = {**loaded(self.program.constants, {}), **bound}
        for step in self._steps:
            name = step.output
            if name in self._done and name not in ready:
                scope = self.program[name]
                ready[name] = np.empty(scope.shape, numpy_dtype(scope.dtype))
                step.run(ready)
        return ready

    def _results(self) -> dict[str, np.ndarray[Any, Any]]:
        """New memory for the outputs."""
        return {name: make() for name, make in self._made.items()}

    @cached_property
    def _plan(self) -> MemoryPlan:
        between: dict[str, tuple[tuple[int, ...], str]] = {}
        for name, scope in self.program.statements:
            if name in self._shapes and name not in self.program.outputs:
                between[name] = scope.shape, scope.dtype
        return plan(self._stages, between)

    @cached_property
    def _stages(self) -> list[PlannedStep]:
        return [PlannedStep(step.run, self._touched(step)) for step in self._running]

    def _touched(self, step: KernelCall) -> frozenset[str]:
        """The names of what a step reads and writes."""
        if step.library == NUMPY:
            return frozenset((*self.program.tensors, *self.program.names))
        return frozenset((*self.program[step.output].tensors, step.output))

    def frame(self, apart: bool = False) -> CallFrame:
        """Return memory for a run in one thread; `apart` makes one call for each kernel."""
        return CallFrame(
            self._stages, self._plan, self._ready, (*self.missing, *self.program.outputs), apart
        )


def _named(names: Sequence[str], results: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, results))
