"""The search over the layers of forms, within the time that there is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from derive.programs.forms.expected_gain import Expectation, next_layer, saved_share
from derive.programs.forms.layers import (
    Layer,
    SearchedLayer,
    keep_layer,
    known_layer,
    measure_layer,
    search_layer,
)
from derive.programs.forms.similar_layers import SimilarLayers, families, family
from derive.programs.forms.variants import SearchedVariant, Variant
from derive.programs.task import Task
from derive.results.candidates import Candidate
from einalg.errors import EinalgError
from einalg.runtime.clock import PROVING, SEARCHING, Clock
from einalg.text.wording import milliseconds

log = logging.getLogger("einalg")

MIN_LAYER_SHARE = 0.25  # of the seconds that are left, that one of many layers may take
MAX_LAYER_SHARE = 0.5  # that one may take from which much is expected
ADAPTED_SHARE = 0.1  # of what a search saves, that it saves where a form is derived for other sizes
MIN_GAIN = 1e-12  # seconds
MIN_LAYER_SECONDS = 1.0  # that it may take at least
Results = dict[str, SearchedLayer]  # by the identity of a layer
TIME_IS_OVER = (
    "einalg: the time is over after %d of %d searches, of which those that promised most came "
    "first; the other layers have the best form that needs no search, and a call with more seconds "
    "goes on from here"
)


def with_known_layers(variant: Variant, task: Task) -> SearchedVariant:
    """Return a form with what earlier searches found for its layers; nothing is searched."""
    layers = []
    for layer in variant.layers:
        known = known_layer(layer, task.seconds, task.backend, task.rules)
        layers.append(known or SearchedLayer.of(layer, timed_out_after=task.seconds))
    return SearchedVariant(variant.program, layers, variant.changes, variant.slices)


def with_results(variant: SearchedVariant, results: Results) -> SearchedVariant:
    """Return a form with what searches found for those of its layers that were not searched."""
    layers = []
    for layer in variant.layers:
        result = layer
        if not layer.is_searched:
            result = results.get(layer.identity, layer)
        layers.append(replace(result, names=layer.names, weights=layer.weights))
    return replace(variant, layers=layers)


def similar_forms(
    layers: Sequence[Layer],
    task: Task,
    seconds: Callable[[Layer], float],
    known: Iterable[SearchedLayer] = (),
) -> Results:
    """Return the forms of layers that need no search, of the arguments of `search_layers`.

    They were derived for similar layers; derivations that come with einalg are measured for the
    longest layer of each kind.
    """
    run = _LayerSearches(layers, task, seconds)
    with task.clock.bounding():
        run.begin(known)
        longest: dict[str, Layer] = {}
        for layer in sorted(layers, key=lambda layer: -seconds(layer)):
            longest.setdefault(family(layer), layer)
        for layer in longest.values():
            if layer.identity not in run.results and task.left > 0:
                run.measure_common(layer, task.clock)
    return run.results


def search_layers(
    layers: Sequence[Layer],
    task: Task,
    seconds: Callable[[Layer], float],
    known: Iterable[SearchedLayer] = (),
) -> Results:
    """Search layers, equal ones once, and return the results.

    First comes the one that is expected to save most in a second of its search, where `seconds` are
    those that all of a layer takes in a call. What is derived for a layer, or was for one of the
    `known` or in an earlier network, is taken for those that differ from it in their sizes or
    layout; these are searched at last. So is a layer for which a derivation comes with einalg,
    once that is measured to save time.
    """
    run = _LayerSearches(layers, task, seconds)
    with task.clock.bounding():
        run.begin(known)
        while task.left > 0 and run.search_next():
            pass
    if task.clock.course.is_stopped:
        log.warning("einalg: interrupted; layers that were not searched stay as they are")
        return {identity: _to_be_continued(layer) for identity, layer in run.results.items()}
    if any(identity not in run.results for identity in run.waiting):
        log.warning(TIME_IS_OVER, run.searched, run.count)
    return run.results


class _LayerSearches:
    """Searches of layers under way: those that are `waiting`, and the `results` so far.

    A layer that has a result while it waits has a form that was derived for other sizes.
    """

    def __init__(self, layers: Sequence[Layer], task: Task, seconds: Callable[[Layer], float]):
        self.task, self.seconds = task, seconds
        ordered = sorted(layers, key=lambda layer: -seconds(layer))
        self.waiting = {layer.identity: layer for layer in ordered}
        self.families: dict[str, frozenset[str]] = {}
        self.count, self.searched = len(self.waiting), 0
        self.results = Results()
        self._expectation = Expectation()
        self._similar = SimilarLayers(task.backend, task.rules)
        self._measured = set[str]()  # families, with the derivations that come with einalg
        self._too_short: dict[str, float] = {}  # seconds for that, by family

    def begin(self, known: Iterable[SearchedLayer]) -> None:
        """Take what is known of these layers, and of those of earlier networks."""
        for identity, layer in self.waiting.items():
            self.families[identity] = families(layer)
        for layer in known:
            if layer.is_searched:
                self.learn(layer)
            elif layer.original is not None and layer.identity in self.waiting:
                self.results[layer.identity] = layer
        self.follow(frozenset().union(*self.families.values()))

    def search_next(self) -> bool:
        """Search the layer that promises most, within its share of the time that is left.

        Returns whether there was one. One that has a form is searched if there is time enough.
        """
        task = self.task
        promising = list(filter(self._is_worth_a_search, self.waiting.values()))
        if not promising:
            return False
        layer = next_layer(promising, self._promised_seconds, self._expectation)
        if layer.identity not in self.results and self.measure_common(layer, self._clock(layer)):
            return True
        if task.progress:
            task.progress(layer, self.searched, self.count)
        began = task.clock.now()
        self.searched += 1
        number = f"{self.searched} of {self.count}"
        result = _search_one(layer, number, self._clock(layer), task)
        self._expectation.learn(result, task.clock.now() - began)
        del self.waiting[layer.identity]
        best = _better(self.results.get(layer.identity), result)
        if best is not result:
            keep_layer(best, task.backend, task.rules)
        self.results[layer.identity] = best
        if self.learn(result):
            self.follow(self.families[layer.identity])
        return True

    def measure_common(self, layer: Layer, clock: Clock) -> bool:
        """Measure what derivations that come with einalg lead to for a layer; tell whether that was
        measured. It is for one layer of a family; where time was too short, for another one that
        has more. Those that are wrong are not tried again.
        """
        name, left, candidates = family(layer), clock.left, list[Candidate]()
        if name in self._measured or left <= self._too_short.get(name, 0.0):
            return False
        with clock.phase(PROVING, "forms of common layers"), clock.bounding():
            candidates = self._similar.common(layer)
        if not candidates:
            return False
        try:
            result, wrong = measure_layer(layer, candidates, self.task.accuracy, clock)
        except EinalgError as error:
            log.debug("forms of a common layer are not measured: %s", error)
            return False
        self._similar.refuse(layer, wrong)
        if result.original is None and len(wrong) < len(candidates) - 1:
            self._too_short[name] = left
            return False
        self._measured.add(name)
        if result.original is None:
            return False
        self.task.clock.course.tell_result(f"a common layer: {_outcome(result)}")
        if saved_share(result) > 0:
            self.results[layer.identity] = replace(result, timed_out_after=self.task.seconds)
        measured = [candidate for candidate in candidates if candidate.measured]
        if self._similar.learn(result, measured):
            self.follow(self.families[layer.identity])
        return True

    def _is_worth_a_search(self, layer: Layer) -> bool:
        if layer.identity not in self.results:
            return True
        seconds = self._expectation.seconds(layer)
        return seconds <= self._share(layer) * self.task.left

    def learn(self, layer: SearchedLayer) -> bool:
        """Learn what was derived for a layer; tell whether there is anything."""
        return self._similar.learn(layer)

    def follow(self, names: frozenset[str]) -> None:
        """Take what is known of families of layers for those of them that have no form yet."""
        for identity, layer in self.waiting.items():
            if identity in self.results or names.isdisjoint(self.families[identity]):
                continue
            if self.task.clock.is_over:
                return
            with self.task.clock.phase(PROVING, "forms of other layers"):
                adapted = self._similar.follow(layer)
            if adapted is not None:
                self.results[identity] = replace(adapted, timed_out_after=self.task.seconds)

    def _promised_seconds(self, layer: Layer) -> float:
        """Return the seconds of a call that a search of a layer may make less.

        They are those of all layers that differ in their sizes or layout, and have no form yet.
        """
        if layer.identity in self.results:
            return ADAPTED_SHARE * self.seconds(layer)
        seconds, alike = 0.0, self.families[layer.identity]
        for identity, other in self.waiting.items():
            if identity not in self.results and not alike.isdisjoint(self.families[identity]):
                seconds += self.seconds(other)
        return seconds

    def _clock(self, layer: Layer) -> Clock:
        """Return the clock of a layer's share of the time that is left."""
        return self.task.clock.within(max(MIN_LAYER_SECONDS, self._share(layer) * self.task.left))

    def _share(self, layer: Layer) -> float:
        """Return the share of the time that is left that the search of a layer may take.

        It is that of what it is expected to save, within bounds.
        """
        alike, own, others = self.families[layer.identity], 0.0, 0.0
        for identity, other in self.waiting.items():
            gain = self._expectation.gain(other, self.seconds(other))
            if identity in self.results:
                gain *= ADAPTED_SHARE
            if alike.isdisjoint(self.families[identity]):
                others += gain
            else:
                own += gain
        least = max(MIN_LAYER_SHARE, 1.0 / len(self.waiting))
        share = own / max(own + others, MIN_GAIN)
        return max(least, min(share, MAX_LAYER_SHARE))


def _better(adapted: SearchedLayer | None, searched: SearchedLayer) -> SearchedLayer:
    """Return what a search found for a layer, or the form that it had: where time or an error ended
    the search before anything was measured, or where that form was measured to be faster; then it
    is as if the search had found it.
    """
    if adapted is None or adapted.candidate is None:
        return searched
    candidate = searched.candidate
    if candidate is None or not candidate.measured:
        is_whole = searched.original is not None and searched.timed_out_after is None
        return searched if is_whole else adapted
    if adapted.candidate.measured and adapted.candidate.cost < candidate.cost:
        return replace(adapted, timed_out_after=searched.timed_out_after)
    return searched


def _search_one(layer: Layer, number: str, clock: Clock, task: Task) -> SearchedLayer:
    """Search a layer within the time of a clock and its budget, and say what came of it."""
    clock = clock.within(task.budget.seconds)
    try:
        with clock.phase(SEARCHING, f"layer {number}"):
            result = search_layer(
                layer,
                task.budget,
                task.seconds,
                task.backend,
                task.rules,
                clock=clock,
                accuracy=task.accuracy,
            )
    except EinalgError as error:
        log.warning("einalg: a layer stays as it is: %s", error)
        result = SearchedLayer.of(layer)
    task.clock.course.tell_result(f"layer {number}: {_outcome(result)}")
    return result


def _outcome(layer: SearchedLayer) -> str:
    """Return what came of a search: `1.240 ms → 0.620 ms (proved)  O[i:8] = …`."""
    text = layer.text.splitlines()[-1]
    candidate, original = layer.candidate, layer.original
    if candidate is None or original is None or not candidate.moves:
        return f"stays as it is  {text}"
    times = f"{milliseconds(original)} → {milliseconds(candidate.cost)}"
    return f"{times} ({candidate.verdict})  {text}"


def _to_be_continued(layer: SearchedLayer) -> SearchedLayer:
    """Return a layer that any later run searches again, where time ended its search."""
    if layer.timed_out_after is None:
        return layer
    return replace(layer, timed_out_after=0.0)
