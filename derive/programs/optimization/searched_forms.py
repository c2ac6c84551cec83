"""Forms of a program with what searches find for their layers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from derive.programs.forms.expected_gain import saved_share
from derive.programs.forms.layers import SearchedLayer
from derive.programs.forms.layout_mixture import by_statement
from derive.programs.forms.variants import SearchedVariant
from derive.programs.optimization.adapted_forms import work
from derive.programs.optimization.compiled_forms import (
    RECOMPILED_SHARE,
    Forms,
    identity,
)
from derive.programs.optimization.layer_search import (
    MIN_LAYER_SECONDS,
    search_layers,
    with_results,
)
from derive.programs.optimization.trial import CompiledVariant
from derive.programs.optimized_program import REPEATS
from derive.results.candidates import Candidate
from einalg.runtime.clock import SEARCHING, OutOfTime

MAX_SEARCHED_FORMS = 2  # that are compiled again, with what was found for their layers
MAX_TIMING_SHARE = 0.02  # of the time that is left, that timing the kernels of a form may take
LEAST_NEW_SHARE = 0.25  # of what the first trial of a form took, that another one takes
OTHER_FORM = 0.5  # of what a layer of another form than the fastest saves, that counts


class SearchedForms:
    """The forms whose layers are searched, and that are compiled with the results."""

    def __init__(self, forms: Forms):
        self._forms = forms
        self._layer_seconds: dict[str, float] = {}  # of a call, by the identity of a layer

    def search(self) -> None:
        """Search the layers of the forms that are about as fast as the fastest."""
        forms = self._forms
        competing = forms.competing()
        layers = [layer for form in competing for layer in form.variant.unsearched]
        if not layers:
            return
        seconds = self._seconds_of_layers(competing)
        # The kernels of the first form were new, as those of what is found will be; where forms of
        # similar layers are compiled, few are.
        trial_seconds = max(forms.first_seconds, forms.trial_seconds)
        if any(layer.is_adapted for layer in competing[0].variant.layers):
            trial_seconds *= RECOMPILED_SHARE
        trial_seconds *= self._share_with_results(len(layers))
        reserved = trial_seconds + forms.seconds_to_measure
        with forms.clock.phase(SEARCHING, "layers"):
            task = forms.task.reserving(reserved)
            known = [layer for form in competing for layer in form.variant.layers]
            results = search_layers(layers, task, lambda layer: seconds[layer.identity], known)
            forms.results = {**forms.results, **results}

    def _share_with_results(self, layers: int) -> float:
        """Return the share of a form's kernels that are new with what searches find at most.

        Where there is not the time to search many of the layers, the others stay as they are.
        """
        searched = self._forms.clock.left / MIN_LAYER_SECONDS
        return max(LEAST_NEW_SHARE, min(1.0, searched / layers))

    def _seconds_of_layers(self, competing: Sequence[CompiledVariant]) -> dict[str, float]:
        """Return the seconds that layers take in a call; less counts of a form that is slower."""
        seconds: dict[str, float] = {}
        weight, clock = 1.0, self._forms.clock
        for form in competing:
            whole = self._forms.seconds(form, default=1.0)
            for layer, own in _seconds_in(form, whole, clock.left).items():
                self._layer_seconds.setdefault(layer, own)
                seconds[layer] = max(seconds.get(layer, 0.0), weight * own)
            weight = OTHER_FORM
        return seconds

    def compile(self) -> None:
        """Compile forms with what was found for their layers, the most promising first."""
        forms, promising = self._forms, self._promising()
        new = []
        for number, (before, variant) in enumerate(promising[:MAX_SEARCHED_FORMS], 1):
            if new and forms.clock.finishing().left < forms.trial_seconds:
                break
            words = f"searched form {number} of {len(promising)}"
            form = forms.compile(variant, words) or forms.compile_measured(before.variant, words)
            if form is not None:
                new.append(form)
        if new:
            forms.choose(forms.beside_best(new))

    def _promising(self) -> list[tuple[CompiledVariant, SearchedVariant]]:
        """Return forms, each as it is compiled and with what was found for its layers, those that
        are expected to be fastest first.

        They are those that are not compiled yet, though it be since a layer is faster as it is.
        """
        rows = []
        for form in self._forms.competing():
            variant = with_results(form.variant, self._forms.results)
            if self._forms.is_new(variant):
                rows.append((self._expected(form, variant), form, variant))
        rows.sort(key=lambda row: row[0])
        promising: dict[Hashable, tuple[CompiledVariant, SearchedVariant]] = {}
        for _, form, variant in rows:
            promising.setdefault(identity(variant), (form, variant))
        return list(promising.values())

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
        return self._forms.seconds(form) - saved


def refine(forms: Forms) -> None:
    """Try other candidates of the layers of the fastest form in their places.

    What is best for a layer alone need not be best where its results are read: what follows may be
    computed where they are stored. A trial takes as long as those before; there is none where the
    time is not enough.
    """
    refined = _fastest_with_alternatives(forms)
    if refined is None:
        return
    for number, candidate in _alternatives(refined.variant.layers):
        if forms.clock.left <= forms.trial_seconds + forms.seconds_to_measure:
            raise OutOfTime
        layers = list(refined.variant.layers)
        layers[number] = replace(layers[number], candidate=candidate)
        variant = replace(refined.variant, layers=layers)
        other = forms.compile(variant, "another candidate of a layer")
        if other is not None and forms.take_if_faster(other):
            refined = other


def _fastest_with_alternatives(forms: Forms) -> CompiledVariant | None:
    """Return the fastest form with several candidates of a layer; None if it is far slower."""
    for form in forms.competing():
        if any(layer.alternatives for layer in form.variant.layers):
            return form
    return None


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


def _new(before: CompiledVariant, after: SearchedVariant) -> Iterator[SearchedLayer]:
    """Yield the layers that were not searched before, and of which more is known now."""
    for layer, result in zip(before.variant.layers, after.layers):
        has_changed = layer.original is None or result.candidate is not layer.candidate
        if not layer.is_searched and result.original is not None and has_changed:
            yield result


def _seconds_in(form: CompiledVariant, whole: float, left: float) -> dict[str, float]:
    """Return the seconds of a call that each layer takes, of those that were not searched.

    Kernels are timed one by one where that is quick, else seconds are shared by the work.
    """
    layers, times = form.variant.unsearched, {}
    if (1 + REPEATS) * whole < MAX_TIMING_SHARE * left:
        times = by_statement(form.kernel_seconds(), form.variant.program.names)
    if all(name in times for layer in layers for name in layer.names):
        return {layer.identity: sum(times[name] for name in layer.names) for layer in layers}
    works = {layer.identity: work(layer) for layer in layers}
    return {layer: whole * own / sum(works.values()) for layer, own in works.items()}
