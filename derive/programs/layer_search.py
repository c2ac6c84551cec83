"""The search over the layers of a program, within the time that there is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from derive.programs.layers import Layer, SearchedLayer, known_layer, search_layer
from derive.programs.task import Task
from einalg.errors import EinalgError
from einalg.runtime.clock import SEARCHING
from einalg.text.wording import milliseconds

log = logging.getLogger("einalg")

MAX_LAYER_SHARE = 0.25  # of the seconds that are left, that one layer may take
MIN_LAYER_SECONDS = 1.0  # that it may take at least


def search_layers(layers: Sequence[Layer], task: Task) -> list[SearchedLayer]:
    """Return the layers with the results of their searches: from disk, or made now.

    Each is searched within its share of the seconds that are left; equal ones once.
    """
    known = [known_layer(layer, task.seconds, task.backend, task.rules) for layer in layers]
    missing = [layer for layer, stored in zip(layers, known) if stored is None]
    searched = iter(_search_in_order(missing, task))
    return [next(searched) if stored is None else stored for stored in known]


def _search_in_order(layers: Sequence[Layer], task: Task) -> list[SearchedLayer]:
    results: dict[str, SearchedLayer] = {}  # by identity
    searched: list[SearchedLayer] = []
    with task.clock.bounding():
        for number, layer in enumerate(layers):
            if layer.identity not in results:
                if task.left <= 0:
                    break
                if task.progress:
                    task.progress(layer, number, len(layers))
                results[layer.identity] = _search_one(layer, f"{number + 1} of {len(layers)}", task)
            result = results[layer.identity]
            searched.append(replace(result, names=layer.names, weights=layer.weights))
    count = len(searched)
    for layer in layers[count:]:
        searched.append(SearchedLayer.of(layer, timed_out_after=task.seconds))
    if task.clock.course.is_stopped:
        log.warning("einalg: interrupted; layers that were not searched stay as they are")
        return [_to_be_continued(layer) for layer in searched]
    if count < len(layers):
        log.warning(
            "einalg: the time is spent after %d of %d searches; other layers stay as they are",
            count,
            len(layers),
        )
    return searched


def _search_one(layer: Layer, number: str, task: Task) -> SearchedLayer:
    """Search a layer within its share of the time, and say what came of it."""
    seconds = max(MIN_LAYER_SECONDS, MAX_LAYER_SHARE * task.left)
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
