"""The forms of a program that are compiled: which are right, how fast each is, and the best."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

from derive.programs.forms.variants import SearchedVariant, is_better
from derive.programs.optimization.layer_search import Results, with_results
from derive.programs.optimization.trial import CompiledVariant, Trial
from derive.programs.task import Task
from derive.results.selection import SELECTION
from einalg.runtime.clock import CHECKING, COMPILING, MEASURING, Clock, OutOfTime
from einalg.runtime.measurement import Measurement
from einalg.text.wording import counted

log = logging.getLogger("einalg")

SECONDS_TO_MEASURE = 0.15  # of one form
CALLS_TO_MEASURE = 2  # of one form, that there are in any case
QUICK_COMPILATION = 1.0  # seconds: where the first form takes less, and less than this
QUICK_SHARE = 0.25  # share of all, the program as it is is timed beside it in any case
MAX_MEASURING_SHARE = 0.1  # of the time that is left, that timing forms in turns may take
RECOMPILED_SHARE = 0.5  # of a form, that is compiled again where some layers were searched
MAX_SLOWNESS = 1.5  # times the fastest form: the layers of slower ones are not searched


class Forms:
    """The forms of a program, as far as they are compiled and measured, with the `results` of
    their layers.

    The `best` is the first that is right until another one was measured to be faster. What was not
    done to its end, since time was over, is `unfinished`.
    """

    def __init__(self, trial: Trial):
        self.trial, self.is_right = trial, True
        self.original: CompiledVariant | None = None  # the program as it is
        self.compiled: list[CompiledVariant] = []  # its forms that are right
        self.best: CompiledVariant
        self.results = Results()
        self.first_seconds = 0.0  # of the first trial
        self.trial_seconds = 0.0  # of the last trial
        self.unfinished: list[str] = []
        self._measured: dict[int, Measurement] = {}  # by the identity of what is compiled
        self._tried: list[SearchedVariant] = []  # that were compiled, right or not

    @property
    def task(self) -> Task:
        """The task for which forms are tried."""
        return self.trial.task

    @property
    def clock(self) -> Clock:
        """The clock of the task."""
        return self.task.clock

    @property
    def candidates(self) -> list[CompiledVariant]:
        """What may run: the program as it is, if it is compiled, and its forms."""
        if self.original is None:
            return self.compiled
        return [self.original, *self.compiled]

    def beside_best(self, new: Sequence[CompiledVariant]) -> list[CompiledVariant]:
        """Return the best form and new ones; before them the program as it is, where it may be as
        fast.
        """
        original = self.original
        if original is None or original is self.best or self._is_slow(original):
            return [self.best, *new]
        return [original, self.best, *new]

    def _is_slow(self, form: CompiledVariant) -> bool:
        """Tell whether a form was measured to be far slower than the best."""
        best, own = self.measured(self.best), self.measured(form)
        if best is None or own is None:
            return False
        return own.seconds > MAX_SLOWNESS * best.seconds

    @contextmanager
    def step(self, clock: Clock, words: str = "") -> Iterator[None]:
        """Take a step, which ends where time is over or an interrupt comes, and go on after it.

        If it has `words`, it is unfinished then.
        """
        with clock.bounding():
            if words:
                self.unfinished.append(words)
            yield
            if words:
                self.unfinished.remove(words)

    def quick_clock(self) -> Clock:
        """Return a clock that has time in any case where compiling a form takes little.

        Quick code says nothing of how long that takes.
        """
        if not self.best.run.is_optimized:
            return self.clock.finishing()
        quick = QUICK_COMPILATION
        if self.task.seconds:
            quick = min(quick, QUICK_SHARE * self.task.seconds)
        if self.first_seconds < quick:
            return self.clock.finishing().unlimited()
        return self.clock.finishing()

    def clock_until_right(self) -> Clock:
        """Return a clock that has time in any case where nothing is right yet."""
        clock = self.clock.finishing()
        return clock if self.is_right else clock.unlimited()

    def is_too_late(self) -> bool:
        """Tell whether compiling another form would leave no time for one after a search."""
        needed = (1 + RECOMPILED_SHARE) * self.trial_seconds
        return self.is_right and self.clock.left < needed

    def require_time(self) -> None:
        """Raise `OutOfTime` where it is too late for another form."""
        if self.is_too_late():
            raise OutOfTime

    @property
    def seconds_to_measure(self) -> float:
        """The seconds that measuring a form beside the best takes, at least."""
        return 2 * max(SECONDS_TO_MEASURE, CALLS_TO_MEASURE * self.seconds(self.best))

    def compile(self, variant: SearchedVariant, words: str) -> CompiledVariant | None:
        """Compile a form, and keep it if it is right."""
        began = self.clock.now()
        with self.clock.phase(COMPILING, words):
            form = self.trial.compiled(variant)
        self.trial_seconds = self.clock.now() - began
        self._tried.append(variant)
        if form is None:
            return None
        self.compiled.append(form)
        if not self.is_right:
            self.original, self.best, self.is_right = None, form, True
        return form

    def compile_measured(self, before: SearchedVariant, words: str) -> CompiledVariant | None:
        """Compile a form with what was measured for its layers alone, if that was not tried yet.

        What is only estimated may be what is not accurate in the whole.
        """
        variant = with_results(before, self.measured_results())
        return self.compile(variant, words) if self.is_new(variant) else None

    def compile_original(self) -> None:
        """Compile the program as it is; where nothing else is right, it is the best."""
        with self.clock.phase(COMPILING, "the program as it is"):
            original = self.task.need(self.trial.original)
        with self.clock.phase(CHECKING, "the program as it is"):
            is_right = self.clock.insist(lambda: self.trial.is_right(original))
        if not is_right:
            log.warning(
                "einalg: a program as it is deviates by %.1e when it is compiled, and is not taken",
                original.error,
            )
        if is_right or not self.compiled:
            self.original = original
        if not self.compiled:
            self.best, self.is_right = original, is_right

    def measured_results(self) -> Results:
        """Return what was measured for layers, without what is only estimated."""
        measured = Results()
        for identity, layer in self.results.items():
            if layer.candidate is not None and layer.candidate.measured:
                measured[identity] = layer
        return measured

    def is_new(self, variant: SearchedVariant) -> bool:
        """Tell whether no form with the same candidates was compiled, right or not."""
        tried = [*self._tried, *(form.variant for form in self.compiled)]
        return identity(variant) not in set(map(identity, tried))

    def measure(self, candidates: Sequence[CompiledVariant]) -> list[Measurement]:
        """Measure some that may run, in turns, within a share of the time."""
        clock = self.clock.finishing()
        limit = clock.within(MAX_MEASURING_SHARE * clock.left)
        limit = limit.at_least(SECONDS_TO_MEASURE * len(candidates))
        with limit.limiting(), clock.phase(MEASURING, counted(len(candidates), "form")):
            times = self.trial.measure(candidates)
        for candidate, measured in zip(candidates, times):
            self._measured[id(candidate)] = measured
        return times

    def choose(self, candidates: Sequence[CompiledVariant]) -> None:
        """Measure some that may run, and choose the fastest.

        The program as it is must be clearly so.
        """
        self.measure(candidates)
        self.best = min(candidates, key=self._weighed)
        if self.best is self.original and self.compiled:
            log.warning(
                "einalg: a program is not faster than it was (%.3f ms), and stays as it is",
                self.seconds(self.best) * 1e3,
            )

    def choose_new(self) -> None:
        """Measure what was compiled since the last choice, and choose the fastest, the best so far
        among them.
        """
        new = [form for form in self.compiled if self.measured(form) is None]
        if new:
            self.choose(self.beside_best(new))

    def take_if_faster(self, other: CompiledVariant) -> bool:
        """Measure a form beside the best, and take it if it is clearly faster."""
        before, after = self.measure(self.beside_best([other]))[-2:]
        if after.seconds * (1 + SELECTION.noise) >= before.seconds:
            return False
        self.best = other
        return True

    def measured(self, form: CompiledVariant | None) -> Measurement | None:
        """Return what was measured of a form; None where nothing was."""
        return self._measured.get(id(form))

    def seconds(self, form: CompiledVariant, default: float = 0.0) -> float:
        """Return the seconds of a call of a form, where they were measured."""
        measured = self.measured(form)
        return default if measured is None else measured.seconds

    def competing(self) -> list[CompiledVariant]:
        """Return the forms whose layers are worth a search, the fastest first."""
        known = [form for form in self.compiled if self.measured(form) is not None]
        if not known:
            return self.compiled[:1]
        known.sort(key=self._weighed)
        limit = MAX_SLOWNESS * self._weighed(known[0])
        return [form for form in known if self._weighed(form) <= limit]

    def _weighed(self, form: CompiledVariant) -> float:
        """Return the time of a form by which it is chosen."""
        seconds = self.seconds(form)
        if form is self.original:
            return seconds * (1 + SELECTION.noise)
        return seconds


def identity(variant: SearchedVariant) -> Hashable:
    """Return what differs between forms that are made of one program."""
    used = []
    for layer in variant.layers:
        used.append(layer.candidate.program if layer.candidate and is_better(layer) else None)
    return variant.changes, variant.slices, tuple(used)
