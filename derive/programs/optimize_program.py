"""One program made faster: its forms are compiled, checked and timed in the whole, then searched.

The first form that runs is the program folded and fused, in the layout that the model of costs
prefers, with what is known of its layers: it needs no search, and nothing is measured for it. Then
its kernels are compared with those of libraries, and its layers get the forms that were derived for
similar ones. The other forms follow, so that each search is of a layer of which it is known how
long it takes, in a form that is worth it.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from derive.cost.model import Roofline, known_rates
from derive.programs.forms.expected_gain import saved_share
from derive.programs.forms.layers import Layer, SearchedLayer
from derive.programs.forms.layout_mixture import by_statement, mixture
from derive.programs.forms.rewriting.convolutions import convolution_kinds
from derive.programs.forms.rewriting.search import Rewritten, rewritings
from derive.programs.forms.variants import (
    CHANNELS_LAST,
    SearchedVariant,
    Variant,
    changed_variants,
    channels_last_variant,
    is_better,
    is_substituted,
    rewritten_variants,
    unchanged,
)
from derive.programs.layer_search import (
    Results,
    search_layers,
    similar_forms,
    with_known_layers,
    with_results,
)
from derive.programs.optimized import Array
from derive.programs.optimized_program import REPEATS, OptimizedProgram, verdict
from derive.programs.passes.normalise import shaped
from derive.programs.passes.shared_values import shared
from derive.programs.passes.summation_order import in_best_order
from derive.programs.passes.unread_parts import without_unread_parts
from derive.programs.passes.weights.addition import with_folded_weights
from derive.programs.task import Task
from derive.programs.trial import CompiledVariant, ReferenceCall, Trial
from derive.results.candidates import Candidate
from derive.results.selection import SELECTION
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import CodegenError
from einalg.language.analysis.canonical import key
from einalg.language.ir.program import Program
from einalg.runtime.clock import CHECKING, COMPILING, MEASURING, SEARCHING, Clock, check_time
from einalg.runtime.measurement import Measurement
from einalg.text.wording import counted, milliseconds

log = logging.getLogger("einalg")

SECONDS_TO_MEASURE = 0.15  # of one form
QUICK_COMPILATION = 1.0  # seconds: where the first form takes less, and less than this
QUICK_SHARE = 0.25  # share of all, the program as it is is timed beside it in any case
MAX_ORIGINAL_SHARE = 0.1  # of the time that is left, that this may take before the first search
MAX_FOLDING_SHARE = 0.5  # of the time that is left, that folding and fusing may take
MIN_FOLDING_SECONDS = 2.0  # that these may take in any case: what they leave is slow to compile
MAX_LAYOUT_SHARE = 0.2  # of the time that is left, that choosing a layout by the model may take
MAX_COMPARING_SHARE = 0.5  # of the time that is left, that comparing with libraries may take
MAX_MEASURING_SHARE = 0.1  # of the time that is left, that timing forms in turns may take
MAX_REWRITING_SHARE = 0.25  # of the time that is left, that applying substitutions may take
MAX_REWRITTEN = 2  # programs that substitutions lead to, of which the forms are compiled
MAX_JOINING_SHARE = 0.5  # of the time that is left, that making the other forms may take
MAX_FORMS_SHARE = 0.5  # of the time that is left, that compiling more than one of these may take
RECOMPILED_SHARE = 0.5  # of a form, that is compiled again where some layers were searched
MAX_SIMILAR_SHARE = 0.25  # of the time that is left, that forms of similar layers may take
CALLS = 4  # of the program as it is: it is checked, called before it is timed, and timed twice
MAX_ORIGINAL_SLOWNESS = 8.0  # times the best form, that the program as it is hardly takes
MAX_SLOWNESS = 1.5  # times the fastest form: the layers of slower ones are not searched
MAX_SEARCHED_FORMS = 2  # that are compiled again, with what was found for their layers
MAX_TIMING_SHARE = 0.02  # of the time that is left, that timing the kernels of a form may take
MAX_MIXING_SHARE = 0.05  # of the time that is left, that timing the kernels of two layouts may take
MIXING_TRIALS = 2  # that there must be time for before a mixture of layouts is compiled
OTHER_FORM = 0.5  # of what a layer of another form than the fastest saves, that counts
SIMILAR = "forms of similar layers"
UNSOUND = (
    "code for a program has other values than the reference (by %.1e of the largest), and no other "
    "form of it is right"
)


def optimize_program(
    program: Program, weights: Mapping[str, Array], values: Mapping[str, Array], task: Task
) -> OptimizedProgram:
    """Make a program faster; `values` are those of its inputs and outputs in a call.

    Where time ends that, or an interrupt, the program is the best that was measured until then.
    """
    clock = task.clock
    forms = Forms(Trial.of(ReferenceCall.of(program, weights, values), task))
    forms.begin()
    with forms.at_least_where_quick().bounding():
        forms.compare_with_libraries()
    with forms.at_least_where_quick().bounding():
        forms.compare_with_original()
    with clock.bounding():
        forms.take_similar()
    with forms.until_right().bounding():
        forms.compile_others()
    with clock.bounding():
        forms.compile_rewritten()
    if not forms.is_right and not task.is_compared:
        raise CodegenError(f"{UNSOUND % forms.error}\n  please report it with the model")
    with forms.measuring(forms.count).bounding():
        forms.measure()
    with clock.bounding():
        forms.mix_layouts()
    with clock.bounding():
        forms.search()
    with clock.finishing().bounding():
        forms.compile_searched()
    with clock.bounding():
        forms.mix_layouts()
    with clock.bounding():
        forms.refine()
    with clock.bounding():
        forms.time_original()
    return forms.best_program()


class Forms:
    """The forms of a program, as far as they are compiled, measured and searched.

    The best is the first that is right until another one was measured to be faster.
    """

    def __init__(self, trial: Trial):
        self.trial, self.is_right = trial, True
        self._original: CompiledVariant | None = None  # the program as it is
        self._compiled: list[CompiledVariant] = []  # its forms that are right
        self._measured: dict[int, Measurement] = {}  # by the identity of what is compiled
        self._results = Results()
        self._layer_seconds: dict[str, float] = {}  # of a call, by the identity of a layer
        self._without = set[str]()  # layers, by their identity, without a form of similar ones
        self._tried: list[SearchedVariant] = []  # that were compiled, right or not
        self._mixtures: list[Program] = []  # of layouts, that were compiled
        self._first_seconds = 0.0  # of the first trial
        self._trial_seconds = 0.0  # of the last trial
        self._is_cut = False  # by the end of time
        self._plain: SearchedVariant  # the program folded and fused
        self._preferred: SearchedVariant  # the same in the layout of the first form
        self._best: CompiledVariant

    @property
    def task(self) -> Task:
        """The task for which forms are tried."""
        return self.trial.task

    @property
    def clock(self) -> Clock:
        """The clock of the task."""
        return self.task.clock

    @property
    def error(self) -> float:
        """The largest relative error of the best form."""
        return self._best.error

    @property
    def candidates(self) -> list[CompiledVariant]:
        """What may run: the program as it is, if it is compiled, and its forms."""
        if self._original is None:
            return self._compiled
        return [self._original, *self._compiled]

    @property
    def count(self) -> int:
        """How many there are that may run."""
        return len(self.candidates)

    def begin(self) -> None:
        """Compile the program folded and fused; as it is where that is not right."""
        clock = self.clock
        self._plain = self.task.need(self._fused)
        preferred = self._preferred = self._in_preferred_layout()
        began = clock.now()
        with clock.phase(COMPILING, "the program"):
            first = self.task.need(lambda: self.trial.compiled(preferred, compares=False))
        if first is not None:
            self._compiled.append(first)
            self._best = first
        else:
            self._compile_original()
        self._first_seconds = self._trial_seconds = clock.now() - began

    def _fused(self) -> SearchedVariant:
        """Return the program folded and fused, as far as there is time for that."""
        clock = self.clock.finishing()
        limit = clock.within(MAX_FOLDING_SHARE * clock.left).at_least(MIN_FOLDING_SECONDS)
        if not self.task.seconds:
            limit = clock.unlimited()
        with self.clock.phase(SEARCHING, "forms of the program"):
            program = self._folded(self.trial.example.program, limit)
            return with_known_layers(unchanged(program), self.task)

    def _folded(self, program: Program, limit: Clock) -> Program:
        """Return a program folded and fused, as far as a clock has time for that."""

        def is_late() -> bool:
            self._is_cut |= limit.is_over
            return limit.is_over

        program = shared(shaped(program, is_late)[0], is_late)
        rates = known_rates(self.task.backend) or Roofline()
        program = without_unread_parts(in_best_order(program, rates, is_late))
        return with_folded_weights(program, is_late)

    def _in_preferred_layout(self) -> SearchedVariant:
        """Return the program folded and fused in the layout that costs less by the model.

        Where there is no time to find that out, in the layout that it has.
        """
        preferred = self._plain
        limit = self.clock.within(MAX_LAYOUT_SHARE * self.clock.left)
        with limit.bounding(), self.clock.phase(SEARCHING, "the layout of the program"):
            check_time()
            last = channels_last_variant(self._plain.program)
            if last is not None:
                cycles = self.trial.expected_cycles(self._plain)
                other = with_known_layers(last, self.task)
                if cycles and (self.trial.expected_cycles(other) or inf) < cycles:
                    preferred = other
        return preferred

    def compare_with_libraries(self) -> None:
        """Compile the first form once more, its kernels compared with those of libraries."""
        if not self._compiled or not self._best.run.has_open_choices:
            return
        is_cut, self._is_cut = self._is_cut, True
        clock = self.at_least_where_quick()
        if clock.left < RECOMPILED_SHARE * self._first_seconds:
            return
        began, first = clock.now(), self._best
        limit = clock.within(MAX_COMPARING_SHARE * clock.left)
        with limit.limiting(), clock.phase(COMPILING, "the program, with libraries"):
            compared = self.trial.compiled(first.variant)
        self._trial_seconds += clock.now() - began
        if compared is not None:
            self._compiled, self._best = [compared], compared
        self._is_cut = is_cut

    def _compile_original(self) -> None:
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
        if is_right or not self._compiled:
            self._original = original
        if not self._compiled:
            self._best, self.is_right = original, is_right

    def at_least_where_quick(self) -> Clock:
        """Return a clock that has time in any case where a form is compiled quickly."""
        quick = QUICK_COMPILATION
        if self.task.seconds:
            quick = min(quick, QUICK_SHARE * self.task.seconds)
        if self._first_seconds < quick:
            return self.clock.finishing().unlimited()
        return self.clock.finishing()

    def compare_with_original(self) -> None:
        """Compile the program as it is where that takes little of the time."""
        left = self.at_least_where_quick().left
        if self._original is None and self._first_seconds <= MAX_ORIGINAL_SHARE * left:
            self._compile_original()

    def take_similar(self) -> None:
        """Compile the first form once more, with what was derived for layers that are similar."""
        if not self._compiled or self._is_too_late():
            return
        first = self._compiled[0]
        variant = self._with_similar(first.variant)
        if not self._is_new(variant) or self._is_too_late():
            return
        if self._compile(variant, SIMILAR) is None and not self._is_too_late():
            self._compile_measured(first.variant, SIMILAR)

    def _with_similar(self, variant: SearchedVariant) -> SearchedVariant:
        """Return a form with what was derived for layers that are similar, or comes with einalg."""
        known = with_results(variant, self._results)
        if not any(self._is_without_form(layer) for layer in known.layers):
            return known
        task = replace(self.task, clock=self.clock.within(MAX_SIMILAR_SHARE * self.clock.left))
        with self.clock.phase(SEARCHING, SIMILAR):
            layers = [layer for layer in known.unsearched if layer.identity not in self._without]
            results = similar_forms(layers, task, _work, known.layers)
        if not task.clock.is_over:
            self._without |= {layer.identity for layer in layers} - results.keys()
        self._results = {**results, **self._results}
        return with_results(variant, self._results)

    def _is_without_form(self, layer: SearchedLayer) -> bool:
        """Tell whether it is not known yet if there is a form of similar layers for a layer."""
        return layer.original is None and layer.identity not in self._without

    def compile_others(self) -> None:
        """Compile the other forms, whether or not anything is known of their layers.

        All but one of them leave time for searches.
        """
        is_cut, self._is_cut = self._is_cut, True
        if self._is_too_late():
            return
        clock, program = self.clock, self._plain.program
        with clock.phase(SEARCHING, "forms of the program"):
            late = clock.within(MAX_JOINING_SHARE * clock.left)
            changed = changed_variants(program, self.task.backend.has_slices, lambda: late.is_over)
        others = self._without_preferred(changed)
        limit = clock.within(MAX_FORMS_SHARE * clock.left)
        for number, variant in enumerate(others, 1):
            if self._is_too_late() or (number > 1 and limit.left < self._trial_seconds):
                return
            self._compile_with_similar(variant, f"form {number} of {len(others)}")
        self._is_cut = is_cut

    def _compile_with_similar(self, variant: Variant, words: str) -> None:
        """Compile a form with what is known of its layers and of similar ones; where that is wrong,
        with less of it.
        """
        known = with_known_layers(variant, self.task)
        similar = self._with_similar(known)
        if self._compile(similar, words) is not None:
            return
        for less in (with_results(known, self._measured_results()), known):
            if self._is_new(less) and not self._is_too_late() and self._compile(less, words):
                return

    def _without_preferred(self, changed: Sequence[Variant]) -> Sequence[Variant]:
        """Return the forms besides the one that was compiled first."""
        if self._preferred is self._plain:
            return changed
        others = [form for form in changed if form.changes != self._preferred.changes]
        return [self._plain, *others]

    def compile_rewritten(self) -> None:
        """Compile the forms of the programs that substitutions lead to, the most promising first.

        One that is compiled already, since a pass does the same, is left out.
        """
        if not self.task.substitutions.rules:
            return
        if self._is_too_late():
            self._is_cut = True
            return
        known = {key(form.variant.program) for form in self._compiled}
        for number, rewritten in enumerate(self._rewritten(), 1):
            words = f"substituted form {number}"
            limit = self.clock.within(MAX_FOLDING_SHARE * self.clock.left)
            with self.clock.phase(SEARCHING, words):
                program = self._folded(rewritten.program, limit)
                variants = rewritten_variants(program, rewritten)
            for variant in variants:
                identity = key(variant.program)
                if self._is_too_late():
                    self._is_cut = True
                    return
                if identity not in known:
                    known.add(identity)
                    self._compile(with_known_layers(variant, self.task), words)

    def _rewritten(self) -> list[Rewritten]:
        """Return the most promising programs to which substitutions lead, of different costs."""
        late = self.clock.within(MAX_REWRITING_SHARE * self.clock.left)
        rates = known_rates(self.task.backend) or Roofline()
        promising: dict[float, Rewritten] = {}
        with self.clock.phase(SEARCHING, "substitutions"):
            program = self.trial.example.program
            kinds = convolution_kinds(program)
            patterns = self.task.substitutions.patterns(kinds, late)
            for rewritten in rewritings(program, patterns, rates, is_late=lambda: late.is_over):
                promising.setdefault(rewritten.seconds, rewritten)
        self._is_cut |= late.is_over
        return list(promising.values())[:MAX_REWRITTEN]

    def until_right(self) -> Clock:
        """Return a clock that has time in any case where nothing is right yet."""
        clock = self.clock.finishing()
        return clock if self.is_right else clock.unlimited()

    def _is_too_late(self) -> bool:
        """Tell whether compiling another form would leave no time for one after a search."""
        needed = (1 + RECOMPILED_SHARE) * self._trial_seconds
        return self.is_right and self.clock.left < needed

    def _compile(self, variant: SearchedVariant, words: str) -> CompiledVariant | None:
        """Compile a form, and keep it if it is right."""
        began = self.clock.now()
        with self.clock.phase(COMPILING, words):
            form = self.trial.compiled(variant)
        self._trial_seconds = self.clock.now() - began
        self._tried.append(variant)
        if form is None:
            return None
        self._compiled.append(form)
        if not self.is_right:
            self._original, self._best, self.is_right = None, form, True
        return form

    def measuring(self, count: int) -> Clock:
        """Return the clock of timing so many forms in turns."""
        clock = self.clock.finishing()
        limit = clock.within(MAX_MEASURING_SHARE * clock.left)
        return limit.at_least(SECONDS_TO_MEASURE * count)

    def measure(self) -> None:
        """Measure all that may run, and choose the fastest."""
        candidates = self.candidates
        with self.clock.phase(MEASURING, counted(len(candidates), "form")):
            self._choose(candidates, self.trial.measure(candidates))

    def _choose(self, candidates: Sequence[CompiledVariant], times: Sequence[Measurement]) -> None:
        """Choose the fastest; the program as it is must be clearly so."""
        for candidate, measured in zip(candidates, times):
            self._measured[id(candidate)] = measured
        self._best = min(candidates, key=self._weighed)
        if self._best is self._original and self._compiled:
            log.warning(
                "einalg: a program is not faster than it was (%.3f ms), and stays as it is",
                self._measured[id(self._original)].seconds * 1e3,
            )

    def _weighed(self, form: CompiledVariant) -> float:
        """Return the time of a form by which it is chosen."""
        seconds = self._measured[id(form)].seconds
        if form is self._original:
            return seconds * (1 + SELECTION.noise)
        return seconds

    def mix_layouts(self) -> None:
        """Compile a form whose statements have the layouts that suit them, if that may be faster.

        Of the fastest form and the one that differs from it by its layout alone, the kernels are
        timed.
        """
        layouts = self._layouts()
        if layouts is None:
            return
        whole = sum(self._measured[id(form)].seconds for form in layouts)
        if (1 + REPEATS) * whole > MAX_MIXING_SHARE * self.clock.left:
            return
        if self.clock.left < MIXING_TRIALS * self._trial_seconds:
            return
        with self.clock.phase(MEASURING, "the kernels of both layouts"):
            first, last = map(_kernel_seconds, layouts)
        if not first or not last:
            return
        variant = mixture(layouts[0].variant, first, last, self.task.backend)
        if variant is None or variant.program in self._mixtures:
            return
        self._mixtures.append(variant.program)
        known = with_results(with_known_layers(variant, self.task), self._results)
        form = self._compile(known, "a form of both layouts")
        if form is not None:
            self._is_taken(form)

    def _layouts(self) -> tuple[CompiledVariant, CompiledVariant] | None:
        """Return the fastest form that is compiled in two layouts: with channels where they were,
        and with channels last. None where there is no such form.
        """
        fastest: dict[tuple[str, ...], CompiledVariant] = {}
        for form in self._competing():
            fastest.setdefault(form.variant.changes, form)
        for changes in fastest:
            others = changes
            if changes[-1:] == (CHANNELS_LAST,):
                others = changes[:-1]
            first, last = fastest.get(others), fastest.get((*others, CHANNELS_LAST))
            if first is not None and last is not None:
                return first, last
        return None

    def search(self) -> None:
        """Search the layers of the forms that are about as fast as the fastest."""
        competing = self._competing()
        layers = [layer for form in competing for layer in form.variant.unsearched]
        if not layers:
            return
        seconds = self._seconds_of_layers(competing)
        # The kernels of the first form were new, as those of what is found will be; where forms of
        # similar layers are compiled, few are.
        trial_seconds = max(self._first_seconds, self._trial_seconds)
        if any(layer.is_adapted for layer in competing[0].variant.layers):
            trial_seconds *= RECOMPILED_SHARE
        reserved = trial_seconds + 2 * SECONDS_TO_MEASURE
        with self.clock.phase(SEARCHING, "layers"):
            task = self.task.reserving(reserved)
            known = [layer for form in competing for layer in form.variant.layers]
            results = search_layers(layers, task, lambda layer: seconds[layer.identity], known)
            self._results = {**self._results, **results}

    def _competing(self) -> list[CompiledVariant]:
        """Return the forms whose layers are worth a search, the fastest first."""
        known = [form for form in self._compiled if id(form) in self._measured]
        if not known:
            return self._compiled[:1]
        known.sort(key=self._weighed)
        limit = MAX_SLOWNESS * self._weighed(known[0])
        return [form for form in known if self._weighed(form) <= limit]

    def _seconds_of_layers(self, forms: Sequence[CompiledVariant]) -> dict[str, float]:
        """Return the seconds that layers take in a call; less counts of a form that is slower."""
        seconds: dict[str, float] = {}
        weight = 1.0
        for form in forms:
            measured = self._measured.get(id(form))
            whole = measured.seconds if measured is not None else 1.0
            for identity, own in _seconds_in(form, whole, self.clock.left).items():
                self._layer_seconds.setdefault(identity, own)
                seconds[identity] = max(seconds.get(identity, 0.0), weight * own)
            weight = OTHER_FORM
        return seconds

    def compile_searched(self) -> None:
        """Compile forms with what was found for their layers, the most promising first."""
        promising = self._promising()
        new = []
        for number, (before, variant) in enumerate(promising[:MAX_SEARCHED_FORMS], 1):
            if new and self.clock.finishing().left < self._trial_seconds:
                break
            words = f"searched form {number} of {len(promising)}"
            form = self._compile(variant, words) or self._compile_measured(before.variant, words)
            if form is not None:
                new.append(form)
        if not new:
            return
        candidates = [self._best, *new]
        if self._original is not None and self._original is not self._best:
            candidates = [self._original, *candidates]
        limit = self.measuring(len(candidates))
        with limit.limiting(), self.clock.phase(MEASURING, counted(len(candidates), "form")):
            self._choose(candidates, self.trial.measure(candidates))

    def _promising(self) -> list[tuple[CompiledVariant, SearchedVariant]]:
        """Return forms, each as it is compiled and with what was found for its layers, those that
        are expected to be fastest first.

        They are those that are not compiled yet, though it be since a layer is faster as it is.
        """
        rows = []
        for form in self._competing():
            variant = with_results(form.variant, self._results)
            if self._is_new(variant):
                rows.append((self._expected(form, variant), form, variant))
        rows.sort(key=lambda row: row[0])
        promising: dict[Hashable, tuple[CompiledVariant, SearchedVariant]] = {}
        for _, form, variant in rows:
            promising.setdefault(_identity(variant), (form, variant))
        return list(promising.values())

    def _is_new(self, variant: SearchedVariant) -> bool:
        """Tell whether no form with the same candidates was compiled, right or not."""
        tried = [*self._tried, *(form.variant for form in self._compiled)]
        return _identity(variant) not in set(map(_identity, tried))

    def _compile_measured(self, before: SearchedVariant, words: str) -> CompiledVariant | None:
        """Compile a form with what was measured for its layers alone, if that was not tried yet.

        What is only estimated may be what is not accurate in the whole.
        """
        variant = with_results(before, self._measured_results())
        return self._compile(variant, words) if self._is_new(variant) else None

    def _measured_results(self) -> Results:
        """Return what was measured for layers, without what is only estimated."""
        measured = Results()
        for identity, layer in self._results.items():
            if layer.candidate is not None and layer.candidate.measured:
                measured[identity] = layer
        return measured

    def _expected(self, form: CompiledVariant, variant: SearchedVariant) -> float:
        """Return the seconds that a form is expected to take with what was found.

        A layer takes no longer with that than before: what it saved before was only estimated.
        """
        saved, runs = 0.0, variant.slices.count if variant.slices else 1
        shares = {layer.identity: saved_share(layer) for layer in form.variant.layers}
        for layer in _new(form, variant):
            alone = (layer.original or 0.0) * len(layer.names) * runs
            share = max(0.0, saved_share(layer) - shares[layer.identity])
            saved += share * self._layer_seconds.get(layer.identity, alone)
        measured = self._measured.get(id(form))
        return (measured.seconds if measured is not None else 0.0) - saved

    def refine(self) -> None:
        """Try other candidates of the layers of the best form in their places.

        What is best for a layer alone need not be best where its results are read: what follows may
        be computed where they are stored. A trial takes as long as those before; there is none
        where the time is not enough.
        """
        refined = self._fastest_with_alternatives()
        if refined is None:
            return
        for number, candidate in _alternatives(refined.variant.layers):
            if self.clock.left <= self._trial_seconds:
                break
            layers = list(refined.variant.layers)
            layers[number] = replace(layers[number], candidate=candidate)
            variant = replace(refined.variant, layers=layers)
            other = self._compile(variant, "another candidate of a layer")
            if other is not None and self._is_taken(other):
                refined = other

    def _fastest_with_alternatives(self) -> CompiledVariant | None:
        """Return the fastest form with several candidates of a layer; None if it is far slower."""
        for form in self._competing():
            if any(layer.alternatives for layer in form.variant.layers):
                return form
        return None

    def _is_taken(self, other: CompiledVariant) -> bool:
        """Measure a form beside the best, and take it if it is clearly faster."""
        candidates = [self._best, other]
        if self._original is not None and self._original is not self._best:
            candidates = [self._original, *candidates]
        limit = self.measuring(len(candidates))
        with limit.limiting(), self.clock.phase(MEASURING, counted(len(candidates), "form")):
            times = self.trial.measure(candidates)
        for candidate, measured in zip(candidates, times):
            self._measured[id(candidate)] = measured
        before, after = times[-2:]
        if after.seconds * (1 + SELECTION.noise) >= before.seconds:
            return False
        self._best = other
        return True

    def time_original(self) -> None:
        """Time the program as it is at last, where there was no time for it before."""
        measured = self._measured.get(id(self._best))
        calls = CALLS * MAX_ORIGINAL_SLOWNESS * (measured.seconds if measured is not None else 0.0)
        if self._original is not None or self.clock.left < self._first_seconds + calls:
            return
        self._compile_original()
        if self._original is not None and self.clock.left > CALLS * self._original.seconds:
            candidates = [self._original, self._best]
            with self.clock.phase(MEASURING, counted(len(candidates), "form")):
                self._choose(candidates, self.trial.measure(candidates))

    def best_program(self) -> OptimizedProgram:
        """Return the best form as an optimized program."""
        layers = self._told_layers()
        variant = self._best.variant
        ended_after = None
        if self._is_cut:
            ended_after = 0.0 if self.clock.course.is_stopped else self.task.seconds
        return OptimizedProgram(
            self.trial.example.program,
            lifted(self._best.program),
            lambda: layers,
            self._times(),
            self._best.error,
            verdict(layers),
            self._best.run,
            self._changes(),
            variant.slices,
            self.is_right,
            ended_after=ended_after,
        )

    def _changes(self) -> tuple[str, ...]:
        """Return in words what differs from the program, and what substitutions gained."""
        changes = self._best.variant.changes
        if not self.task.substitutions.rules:
            return changes
        if not is_substituted(self._best.variant):
            return (*changes, "no substitution made it faster")
        seconds, others = self._measured.get(id(self._best)), []
        for form in self.candidates:
            if not is_substituted(form.variant) and id(form) in self._measured:
                others.append(self._measured[id(form)].seconds)
        if not others or seconds is None:
            return changes
        times = milliseconds(min(others)), milliseconds(seconds.seconds)
        return (*changes, "{} without substitutions, {} with them".format(*times))

    def _times(self) -> tuple[Measurement, Measurement] | None:
        """Return the times of a call, of the program as it is and of the best form."""
        before, after = self._measured.get(id(self._original)), self._measured.get(id(self._best))
        if before is None or after is None:
            return None
        return before, after

    def _told_layers(self) -> list[SearchedLayer]:
        """Return the layers of the best form; a candidate is told where it is in the form."""
        variant = self._best.variant
        if self._best is self._original:
            variant = self._plain
        layers = []
        for layer, result in zip(variant.layers, with_results(variant, self._results).layers):
            if layer.original is not None and self._best is not self._original:
                layers.append(layer)
            elif is_better(result):
                layers.append(replace(result, candidate=None))
            else:
                layers.append(result)
        return layers


def _new(before: CompiledVariant, after: SearchedVariant) -> Iterator[SearchedLayer]:
    """Yield the layers that were not searched before, and of which more is known now."""
    for layer, result in zip(before.variant.layers, after.layers):
        has_changed = layer.original is None or result.candidate is not layer.candidate
        if not layer.is_searched and result.original is not None and has_changed:
            yield result


def _identity(variant: SearchedVariant) -> Hashable:
    """Return what differs between forms that are made of one program."""
    used = []
    for layer in variant.layers:
        used.append(id(layer.candidate) if is_better(layer) else None)
    return variant.changes, variant.slices, tuple(used)


def _work(layer: Layer) -> float:
    """Return the operations of all statements that are this layer."""
    return float(layer.work * len(layer.names))


def _kernel_seconds(form: CompiledVariant) -> dict[str, float]:
    """Return the seconds of the kernels of a form; none of what is not timed kernel by kernel."""
    time = getattr(form.run, "time", None)
    return {} if time is None else dict(time(REPEATS))


def _seconds_in(form: CompiledVariant, whole: float, left: float) -> dict[str, float]:
    """Return the seconds of a call that each layer takes, of those that were not searched.

    Kernels are timed one by one where that is quick, else seconds are shared by the work.
    """
    layers, times = form.variant.unsearched, {}
    if (1 + REPEATS) * whole < MAX_TIMING_SHARE * left:
        times = by_statement(_kernel_seconds(form), form.variant.program.names)
    if all(name in times for layer in layers for name in layer.names):
        return {layer.identity: sum(times[name] for name in layer.names) for layer in layers}
    work = {layer.identity: _work(layer) for layer in layers}
    return {identity: whole * own / sum(work.values()) for identity, own in work.items()}


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
