"""One program made faster: its forms are searched, compiled, checked and timed in the whole."""

from __future__ import annotations

import logging
import time
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

log = logging.getLogger("einalg")

MAX_ROUNDING = 16.0  # times NumPy's error in the same types; compiled code sums in another order
UNSOUND = (
    "code for a program has other values than the reference (by %.1e of the largest), and no other "
    "form of it is right"
)


@dataclass(frozen=True)
class Example:
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

    example: Example
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

    def seconds(self, variants: Sequence[CompiledVariant]) -> list[float]:
        """Return the time of a call of each, on the example."""
        runs = [variant.run for variant in variants]
        return self.task.backend.seconds(runs, self.example.inputs)


def optimize_program(
    program: Program, weights: Mapping[str, Array], values: Mapping[str, Array], task: Task
) -> OptimizedProgram:
    """Make a program faster; `values` are those of its inputs and outputs in a call."""
    example = _example(program, weights, values)
    began = time.perf_counter()
    original_run = compiled(program, task.backend, weights)
    compile_seconds = time.perf_counter() - began
    variants = variants_of(
        folded(shaped(program)[0]),
        task.backend.has_slices,
        task.reserving(compile_seconds).is_spent,
    )
    first = [variant for variant in variants if variant.slices == variants[0].slices]
    searched = search_variants(variants, task.reserving(len(first) * compile_seconds))
    max_error = tolerance(program) if task.accuracy is None else task.accuracy
    trial = Trial(example, task, max_error)
    original = _original(program, original_run, searched[-1], example)
    is_right = original.error <= max_error or original.error <= example.rounding()
    if not is_right:
        log.warning(
            "einalg: a program as it is deviates by %.1e when it is compiled, and is not taken",
            original.error,
        )
    alternatives, trial_seconds = _compiled_alternatives(searched, trial)
    if not is_right and not alternatives and not task.is_compared:
        raise CodegenError(f"{UNSOUND % original.error}\n  please report it with the model")
    candidates = [original, *alternatives]
    times = trial.seconds(candidates)
    position = _fastest(times, is_right or not alternatives)
    best, seconds = candidates[position], times[position]
    if best is not original:
        best, seconds = _refined(best, seconds, trial, trial_seconds)
    elif alternatives:
        log.warning(
            "einalg: a program is not faster than it was (%.3f ms), and stays as it is",
            times[0] * 1e3,
        )
    made = _optimized_program(program, best, (times[0], seconds))
    return replace(made, is_right=best is not original or is_right)


def _example(
    program: Program, weights: Mapping[str, Array], values: Mapping[str, Array]
) -> Example:
    inputs = {name: values[name] for name in program.inputs if name not in weights}
    expected = {name: values[name] for name in program.outputs}
    return Example(program, weights, inputs, expected)


def _original(
    program: Program, run: Runnable, variant: SearchedVariant, example: Example
) -> CompiledVariant:
    """Return the program as it is, with layers that stay as they are."""
    layers = [replace(layer, candidate=None) for layer in variant.layers]
    unchanged = SearchedVariant(program, layers)
    return CompiledVariant(unchanged, program, run, example.error(run))


def _compiled_alternatives(
    variants: Sequence[SearchedVariant], trial: Trial
) -> tuple[list[CompiledVariant], float]:
    """Return the forms that are right, and the seconds of the longest trial of one.

    One is tried at least; no other one where that would end too late.
    """
    searched = [variant for variant in variants if variant.is_searched]
    alternatives: list[CompiledVariant] = []
    longest = 0.0
    for variant in searched or variants[-1:]:
        began = time.perf_counter()
        alternative = trial.compiled(variant)
        if alternative is not None:
            alternatives.append(alternative)
        longest = max(longest, time.perf_counter() - began)
        if alternatives and trial.task.spent + longest > trial.task.seconds:
            break
    return alternatives, longest


def _fastest(times: Sequence[float], may_stay: bool) -> int:
    """Return the position of the fastest form.

    The first is the program as it is: it counts where it `may_stay`, and must be clearly faster.
    """
    positions = range(len(times)) if may_stay else range(1, len(times))
    handicapped = [times[0] * (1 + SELECTION.noise), *times[1:]]
    return min(positions, key=lambda position: handicapped[position])


def _refined(
    best: CompiledVariant, seconds: float, trial: Trial, trial_seconds: float
) -> tuple[CompiledVariant, float]:
    """Return the best form and its seconds with other candidates of its layers, if that is faster.

    What is best for a layer alone need not be best where its results are read: what follows may be
    computed where they are stored. A trial takes as long as those before; there is none where the
    time is not enough.
    """
    try:
        for number, candidate in _alternatives(best.variant.layers):
            if trial.task.left <= trial_seconds:
                break
            began = time.perf_counter()
            layers = list(best.variant.layers)
            layers[number] = replace(layers[number], candidate=candidate)
            other = trial.compiled(replace(best.variant, layers=layers))
            if other is not None:
                before, after = trial.seconds([best, other])
                seconds = before
                if after * (1 + SELECTION.noise) < before:
                    best, seconds = other, after
            trial_seconds = max(trial_seconds, time.perf_counter() - began)
    except KeyboardInterrupt:
        log.warning("einalg: interrupted; the best program until now is taken")
    return best, seconds


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
    program: Program, best: CompiledVariant, seconds: tuple[float, float]
) -> OptimizedProgram:
    variant = best.variant
    layers = list(variant.layers)
    return OptimizedProgram(
        program,
        lifted(best.program),
        lambda: layers,
        seconds,
        best.error,
        verdict(layers),
        best.run,
        variant.changes,
        variant.slices,
    )
