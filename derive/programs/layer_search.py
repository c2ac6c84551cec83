"""The search over the layers of forms, within the time that there is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from derive.programs.forms.expected_gain import Expectation, next_layer
from derive.programs.forms.layers import Layer, SearchedLayer, known_layer, search_layer
from derive.programs.forms.variants import SearchedVariant, Variant
from derive.programs.task import Task
from einalg.errors import EinalgError
from einalg.runtime.clock import SEARCHING
from einalg.text.wording import milliseconds

log = logging.getLogger("einalg")

MAX_LAYER_SHARE = 0.25  # of the seconds that are left, that one of many layers may take
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
        if layer.original is None:
            result = results.get(layer.identity, layer)
        layers.append(replace(result, names=layer.names, weights=layer.weights))
    return replace(variant, layers=layers)


def search_layers(
    layers: Sequence[Layer], task: Task, seconds: Callable[[Layer], float]
) -> Results:
    """Search layers, equal ones once, and return the results.

    First comes the one that is expected to save most in a second of its search, where `seconds` are
    those that all of a layer takes in a call. Each may take a share of the time that is left.
    """
    waiting = {layer.identity: layer for layer in layers}
    count, results, expectation = len(waiting), Results(), Expectation()
    with task.clock.bounding():
        while waiting and task.left > 0:
            layer = next_layer(list(waiting.values()), seconds, expectation)
            if task.progress:
                task.progress(layer, len(results), count)
            began = task.clock.now()
            share = max(MAX_LAYER_SHARE, 1.0 / len(waiting))
            result = _search_one(layer, f"{len(results) + 1} of {count}", share, task)
            expectation.learn(result, task.clock.now() - began)
            results[layer.identity] = result
            del waiting[layer.identity]
    if task.clock.course.is_stopped:
        log.warning("einalg: interrupted; layers that were not searched stay as they are")
        return {identity: _to_be_continued(layer) for identity, layer in results.items()}
    if waiting:
        log.warning(TIME_IS_OVER, len(results), count)
    return results


def _search_one(layer: Layer, number: str, share: float, task: Task) -> SearchedLayer:
    """Search a layer within a share of the time that is left, and say what came of it."""
    seconds = max(MIN_LAYER_SECONDS, share * task.left)
    clock = task.clock.within(min(task.budget.seconds, seconds))
    try:
        with clock.phase(SEARCHING, f"layer {number}"):
            result = search_layer(
                layer, task.budget, task.seconds, task.backend, task.rules, clock=clock
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
