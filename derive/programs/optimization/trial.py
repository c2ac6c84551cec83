"""Forms of a program compiled, checked against the reference, and timed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

from derive.cost.accuracy import relative_error, tolerance
from derive.cost.backend import Runnable
from derive.matching import kernels_of
from derive.programs.forms.variants import SearchedVariant
from derive.programs.optimized import Array
from derive.programs.optimized_program import REPEATS, compiled, difference_of_memory
from derive.programs.task import Task
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import CodegenError
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, in_double
from einalg.runtime.clock import check_time
from einalg.runtime.measurement import Measurement

log = logging.getLogger("einalg")

MAX_ADDED_UP = 64.0  # times what types allow, that rounding may add up to in many statements
MAX_DEVIATION = 0.1  # of the largest element: more is no rounding, whatever the types
MAX_ROUNDING = 16.0  # times NumPy's error in the same types; compiled code sums in another order
MAX_OF_EXACT = 2.0  # times that, of a form that has the right values in double precision
DEPENDS_ON_ROUNDING = (
    "results depend on rounding: NumPy's error in the same types is {:.1e}, "
    "that of this form in double precision {:.1e}"
)


@dataclass(frozen=True)
class ReferenceCall:
    """A call of a program: its weights, its other inputs, and the outputs of the reference."""

    program: Program
    weights: Mapping[str, Array]
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]

    @classmethod
    def of(
        cls, program: Program, weights: Mapping[str, Array], values: Mapping[str, Array]
    ) -> ReferenceCall:
        """Return the call in which inputs and outputs have these values."""
        inputs = {name: values[name] for name in program.inputs if name not in weights}
        expected = {name: values[name] for name in program.outputs}
        return cls(program, weights, inputs, expected)

    @property
    def arrays(self) -> dict[str, Array]:
        """All that the program reads."""
        return {**self.weights, **self.inputs}

    def error(self, run: Runnable) -> float:
        """Return the largest relative error of what runs."""
        return self._error(run(**self.inputs))

    def error_in(self, program: Program) -> float:
        """Return the largest relative error of a program that NumPy computes in its types."""
        return self._error(execute(program, self.arrays, between_blocks=check_time))

    def _error(self, results: Mapping[str, Array]) -> float:
        return relative_error(self.expected, results, self.program, self.arrays)


@dataclass(frozen=True)
class CompiledVariant:
    """A form compiled: the program that runs, its largest relative error, and the seconds of the
    call that was checked. `remark` says in words why a large error is no fault of it.
    """

    variant: SearchedVariant
    program: Program
    run: Runnable
    error: float
    seconds: float = 0.0
    remark: str = ""

    @property
    def changes(self) -> tuple[str, ...]:
        """What differs from the program in words, and the remark."""
        return (*self.variant.changes, self.remark) if self.remark else self.variant.changes

    def kernel_seconds(self) -> dict[str, float]:
        """Return the seconds of its kernels; none of what is not timed kernel by kernel."""
        time = getattr(self.run, "time", None)
        return {} if time is None else dict(time(REPEATS))


@dataclass(frozen=True)
class Trial:
    """How forms are compiled and checked: on an example, with errors up to `max_error`."""

    example: ReferenceCall
    task: Task
    max_error: float

    @classmethod
    def of(cls, example: ReferenceCall, task: Task) -> Trial:
        """Return the trials of a task, with the accuracy that is asked for or that types allow."""
        max_error = tolerance(example.program) if task.accuracy is None else task.accuracy
        return cls(example, task, max_error)

    @cached_property
    def own_error(self) -> float:
        """The error that NumPy's rounding in the types of the program makes."""
        return self.example.error_in(self.example.program)

    @cached_property
    def rounding(self) -> float:
        """What the types of the program allow, or a multiple of what rounding in them makes."""
        return max(tolerance(self.example.program), MAX_ROUNDING * self.own_error)

    def original(self) -> CompiledVariant:
        """Return the program as it is, compiled, whatever its error."""
        program = self.example.program
        run = compiled(program, self.task.backend, self.example.weights)
        began = self.task.clock.now()
        error = self.example.error(run)
        seconds = self.task.clock.now() - began
        return CompiledVariant(SearchedVariant(program, []), program, run, error, seconds)

    def is_right(self, original: CompiledVariant) -> bool:
        """Tell whether the program as it is deviates by no more than rounding."""
        return original.error <= self.max_error or original.error <= self.rounding

    def expected_cycles(self, variant: SearchedVariant) -> float | None:
        """Return the cycles that a call of a form is expected to take; None without a model, or
        without code.
        """
        flat = lifted(variant.derived)
        try:
            return self.task.backend.expected_cycles(flat, kernels_of(flat))
        except CodegenError as failure:
            log.debug("einalg: the cycles of a program are not known: %s", failure)
            return None

    def expected_seconds(self, variant: SearchedVariant) -> float:
        """Return about how long compiling a form takes, optimized in full; 0 without code."""
        flat = lifted(variant.derived)
        try:
            return self.task.backend.expected_seconds(flat, kernels_of(flat))
        except CodegenError as failure:
            log.debug("einalg: how long a program takes to compile is not known: %s", failure)
            return 0.0

    def compiled(
        self, variant: SearchedVariant, compares: bool = True, optimizes: bool = True
    ) -> CompiledVariant | None:
        """Return a form compiled; None where that fails, or its values are other ones.

        Nor may it read or give memory of another size or type: what runs on addresses relies on
        these. It ignores the inputs of the program that it does not read. Unless it `compares`
        them, its kernels are not timed beside libraries; unless it `optimizes` them in full, they
        are compiled sooner.
        """
        program = variant.derived
        difference = difference_of_memory(self.example.program, program, variant.slices)
        if difference is not None:
            log.warning("einalg: an optimized program %s, and is not taken", difference)
            return None
        backend, weights = self.task.backend, self.example.weights
        try:
            inputs = self.example.program.inputs
            run = compiled(
                program,
                backend,
                weights,
                variant.slices,
                inputs=inputs,
                compares=compares,
                optimizes=optimizes,
            )
        except CodegenError as failure:
            log.warning(
                "einalg: an optimized program does not compile, and is not taken: %s", failure
            )
            return None
        error = self.example.error(run)
        if error <= self.max_error or self._is_rounding(error):
            return CompiledVariant(variant, program, run, error)
        if self._is_as_near_as_own(variant, error):
            exact = self.example.error_in(in_double(program))
            if exact <= self.max_error:
                remark = DEPENDS_ON_ROUNDING.format(self.own_error, exact)
                return CompiledVariant(variant, program, run, error, remark=remark)
        log.warning("einalg: an optimized program deviates by %.1e, and is not taken", error)
        return None

    def _is_rounding(self, error: float) -> bool:
        """Tell whether an error is what rounding adds up to in a deep network."""
        limit = min(MAX_ADDED_UP * self.max_error, MAX_DEVIATION)
        if self.task.accuracy is not None or not error <= limit:
            return False
        return isfinite(self.rounding) and error <= self.rounding

    def _is_as_near_as_own(self, variant: SearchedVariant, error: float) -> bool:
        """Tell whether a form may be right where rounding takes away all digits: NumPy's values in
        the same types are about as far from those in double precision.
        """
        if self.task.accuracy is not None or variant.slices is not None or not isfinite(error):
            return False
        return isfinite(self.own_error) and error <= MAX_OF_EXACT * self.own_error

    def measure(self, variants: Sequence[CompiledVariant]) -> list[Measurement]:
        """Measure a call of each on the example, in turns."""
        runs = [variant.run for variant in variants]
        return self.task.backend.measure(runs, self.example.inputs)
