"""One program made faster: its forms are searched, compiled, checked and timed in the whole."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from derive.cost.accuracy import relative_error, tolerance
from derive.cost.backend import Runnable
from derive.programs.layers import SearchedLayer
from derive.programs.optimized import Array
from derive.programs.optimized_program import OptimizedProgram, compiled, verdict
from derive.programs.passes.normalise import shaped
from derive.programs.passes.weight_folding import folded
from derive.programs.task import Task
from derive.programs.variants import SearchedVariant, search_variants, variants_of
from derive.results.candidates import Candidate
from derive.results.selection import SELECTION
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import CodegenError
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program
from einalg.runtime.clock import CHECKING, COMPILING, MEASURING, SEARCHING, check_time
from einalg.runtime.measurement import Measurement
from einalg.text.wording import counted

log = logging.getLogger("einalg")

Times = tuple[Measurement, Measurement]  # before and after
SECONDS_TO_MEASURE = 0.15  # of one form
QUICK_COMPILATION = 1.0  # seconds: where it takes less, a form is tried even if time is over,
QUICK_SHARE = 0.25  # and less than this share of all seconds, unless nothing is to be searched
MAX_ROUNDING = 16.0  # times NumPy's error in the same types; compiled code sums in another order
UNSOUND = (
    "code for a program has other values than the reference (by %.1e of the largest), and no other "
    "form of it is right"
)


@dataclass(frozen=True)
class ReferenceCall:
    """A call of a program: its weights, its other inputs, and the outputs of the reference."""

    program: Program
    weights: Mapping[str, Array]
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]

    @property
    def arrays(self) -> dict[str, Array]:
        """All that the program reads."""
        return {**self.weights, **self.inputs}

    def error(self, run: Runnable) -> float:
        """Return the largest relative error of what runs."""
        return self._error(run(**self.inputs))

    def rounding(self) -> float:
        """Return what the types allow, or a multiple of what NumPy's rounding in them makes."""
        error = self._error(execute(self.program, self.arrays))
        return max(tolerance(self.program), MAX_ROUNDING * error)

    def _error(self, results: Mapping[str, Array]) -> float:
        return relative_error(self.expected, results, self.program, self.arrays)


@dataclass(frozen=True)
class CompiledVariant:
    """A form compiled: the program that runs, and its largest relative error."""

    variant: SearchedVariant
    program: Program
    run: Runnable
    error: float


@dataclass(frozen=True)
class Trial:
    """How forms are compiled and checked: on an example, with errors up to `max_error`."""

    example: ReferenceCall
    task: Task
    max_error: float

    def compiled(self, variant: SearchedVariant) -> CompiledVariant | None:
        """Return a form compiled; None where that fails, or its values are other ones.

        Nor may it leave out an input of the program, which a call gives it.
        """
        program = variant.derived
        if not self.example.inputs.keys() <= program.inputs.keys():
            return None
        backend, weights = self.task.backend, self.example.weights
        try:
            run = compiled(program, backend, weights, variant.slices)
        except CodegenError as failure:
            log.warning(
                "einalg: an optimized program does not compile, and is not taken: %s", failure
            )
            return None
        error = self.example.error(run)
        if error <= self.max_error:
            return CompiledVariant(variant, program, run, error)
        log.warning("einalg: an optimized program deviates by %.1e, and is not taken", error)
        return None

    def measure(self, variants: Sequence[CompiledVariant]) -> list[Measurement]:
        """Measure a call of each on the example, in turns."""
        runs = [variant.run for variant in variants]
        return self.task.backend.measure(runs, self.example.inputs)


def optimize_program(
    program: Program, weights: Mapping[str, Array], values: Mapping[str, Array], task: Task
) -> OptimizedProgram:
    """Make a program faster; `values` are those of its inputs and outputs in a call.

    Where time ends that, or an interrupt, the program is the best that was measured until then. A
    form that needs no search is tried in any case where that is quick, or nothing is to be
    searched.
    """
    clock = task.clock
    example = _example(program, weights, values)
    began = clock.now()
    with clock.phase(COMPILING, "the program as it is"):
        original_run = task.need(lambda: compiled(program, task.backend, weights))
    compile_seconds = clock.now() - began
    with clock.phase(CHECKING, "the program as it is"):
        original = clock.insist(lambda: _original(program, original_run, example))
        max_error = tolerance(program) if task.accuracy is None else task.accuracy
        is_right = original.error <= max_error or original.error <= example.rounding()
    if not is_right:
        log.warning(
            "einalg: a program as it is deviates by %.1e when it is compiled, and is not taken",
            original.error,
        )
    forms = Forms(Trial(example, task, max_error), original, is_right)
    at_least = clock.finishing()
    if not task.seconds or compile_seconds < min(QUICK_COMPILATION, QUICK_SHARE * task.seconds):
        at_least = at_least.unlimited()
    with at_least.bounding():
        forms.search(program, compile_seconds)
    with at_least.bounding():
        forms.compile()
    if not is_right and not forms.alternatives and not task.is_compared:
        raise CodegenError(f"{UNSOUND % original.error}\n  please report it with the model")
    with clock.finishing().at_least(SECONDS_TO_MEASURE * forms.count).bounding():
        forms.measure()
    with clock.bounding():
        forms.refine()
    return forms.best_program()


class Forms:
    """The forms of a program, as far as they are searched, compiled and measured.

    The best is the program as it is until another one was measured to be faster; where that is not
    right, another one at once.
    """

    def __init__(self, trial: Trial, original: CompiledVariant, is_right: bool):
        self.trial, self.original, self.is_right = trial, original, is_right
        self.searched: list[SearchedVariant] = []
        self.alternatives: list[CompiledVariant] = []
        self._best = original
        self._times: Times | None = None  # of a call, of the original and of the best
        self._trial_seconds = 0.0  # of the longest trial

    @property
    def count(self) -> int:
        """How many forms are compiled."""
        return 1 + len(self.alternatives)

    def search(self, program: Program, compile_seconds: float) -> None:
        """Search the layers of all forms; time to compile as many as there are is left."""
        task = self.trial.task
        with task.clock.phase(SEARCHING, "forms of the program"):
            variants = variants_of(
                folded(shaped(program)[0]),
                task.backend.has_slices,
                task.reserving(compile_seconds).is_spent,
            )
            first = [variant for variant in variants if variant.slices == variants[0].slices]
            reserved = (len(first) + 1) * (compile_seconds + SECONDS_TO_MEASURE)
            self.searched = search_variants(variants, task.reserving(reserved))
        layers = [replace(layer, candidate=None) for layer in self.searched[-1].layers]
        unchanged = replace(self.original.variant, layers=layers)
        self.original = replace(self.original, variant=unchanged)
        self._best = self.original

    def compile(self) -> None:
        """Compile the forms that are searched, and keep those that are right.

        One is tried if there is time at all, or nothing else is right; no other one where that
        would end too late.
        """
        if self.is_right:
            check_time()
        clock = self.trial.task.clock.finishing()
        some = [variant for variant in self.searched if variant.is_searched]
        if not some and not (self.is_right and clock.course.is_stopped):
            some = self.searched[-1:]
        for number, variant in enumerate(some, 1):
            began = clock.now()
            with clock.phase(COMPILING, f"form {number} of {len(some)}"):
                alternative = self.trial.compiled(variant)
            if alternative is not None:
                self.alternatives.append(alternative)
            self._trial_seconds = max(self._trial_seconds, clock.now() - began)
            if self.alternatives and clock.left < self._trial_seconds:
                break
        if self.alternatives and not self.is_right:
            self._best = self.alternatives[0]

    def measure(self) -> None:
        """Measure all forms, and choose the fastest."""
        candidates = [self.original, *self.alternatives]
        words = counted(len(candidates), "form")
        with self.trial.task.clock.phase(MEASURING, words):
            times = self.trial.measure(candidates)
        position = _fastest(times, self.is_right or not self.alternatives)
        self._best, self._times = candidates[position], (times[0], times[position])
        if self._best is self.original and self.alternatives:
            log.warning(
                "einalg: a program is not faster than it was (%.3f ms), and stays as it is",
                times[0].seconds * 1e3,
            )

    def refine(self) -> None:
        """Try other candidates of the layers of the best form in their places.

        What is best for a layer alone need not be best where its results are read: what follows may
        be computed where they are stored. A trial takes as long as those before; there is none
        where the time is not enough.
        """
        clock = self.trial.task.clock
        if self._best is self.original:
            return
        for number, candidate in _alternatives(self._best.variant.layers):
            if clock.left <= self._trial_seconds:
                break
            began = clock.now()
            layers = list(self._best.variant.layers)
            layers[number] = replace(layers[number], candidate=candidate)
            with clock.phase(COMPILING, "another candidate of a layer"):
                other = self.trial.compiled(replace(self._best.variant, layers=layers))
            if other is not None:
                self._compare(other)
            self._trial_seconds = max(self._trial_seconds, clock.now() - began)

    def _compare(self, other: CompiledVariant) -> None:
        """Measure a form beside the best, and take it if it is clearly faster."""
        with self.trial.task.clock.phase(MEASURING, "3 forms"):
            first, before, after = self.trial.measure([self.original, self._best, other])
        self._times = first, before
        if after.seconds * (1 + SELECTION.noise) < before.seconds:
            self._best, self._times = other, (first, after)

    def best_program(self) -> OptimizedProgram:
        """Return the best form as an optimized program."""
        before = self.original.program
        made = _optimized_program(before, self._best, self._times)
        return replace(made, is_right=self._best is not self.original or self.is_right)


def _example(
    program: Program, weights: Mapping[str, Array], values: Mapping[str, Array]
) -> ReferenceCall:
    inputs = {name: values[name] for name in program.inputs if name not in weights}
    expected = {name: values[name] for name in program.outputs}
    return ReferenceCall(program, weights, inputs, expected)


def _original(program: Program, run: Runnable, example: ReferenceCall) -> CompiledVariant:
    """Return the program as it is; its layers are not known yet."""
    return CompiledVariant(SearchedVariant(program, []), program, run, example.error(run))


def _fastest(times: Sequence[Measurement], may_stay: bool) -> int:
    """Return the position of the fastest form.

    The first is the program as it is: it counts where it `may_stay`, and must be clearly faster.
    """
    positions = range(len(times)) if may_stay else range(1, len(times))
    seconds = [measured.seconds for measured in times]
    seconds[0] *= 1 + SELECTION.noise
    return min(positions, key=lambda position: seconds[position])


def _alternatives(layers: Sequence[SearchedLayer]) -> list[tuple[int, Candidate]]:
    """Return the other candidates with the numbers of their layers, the longest layer first."""
    numbers = sorted(range(len(layers)), key=lambda number: -_seconds(layers[number]))
    alternatives = []
    for number in numbers:
        for candidate in layers[number].alternatives:
            alternatives.append((number, candidate))
    return alternatives


def _seconds(layer: SearchedLayer) -> float:
    """Return the time of all statements that are this layer."""
    if layer.candidate is None:
        return 0.0
    return len(layer.names) * layer.candidate.cost


def _optimized_program(
    program: Program, best: CompiledVariant, times: Times | None
) -> OptimizedProgram:
    variant = best.variant
    layers = list(variant.layers)
    return OptimizedProgram(
        program,
        lifted(best.program),
        lambda: layers,
        times,
        best.error,
        verdict(layers),
        best.run,
        variant.changes,
        variant.slices,
    )
