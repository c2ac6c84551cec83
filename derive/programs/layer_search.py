"""The search over the layers of a program, within the time that there is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from derive.programs.layers import Layer, SearchedLayer, known_layer, search_layer
from derive.programs.task import Task
from einalg.errors import EinalgError

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
    interrupted = False
    try:
        for number, layer in enumerate(layers):
            if layer.identity not in results:
                if task.left <= 0:
                    log.warning(
                        "einalg: the time is spent after %d of %d searches; "
                        "other layers stay as they are",
                        number,
                        len(layers),
                    )
                    break
                if task.progress:
                    task.progress(layer, number, len(layers))
                results[layer.identity] = _search_one(layer, task)
            result = results[layer.identity]
            searched.append(replace(result, names=layer.names, weights=layer.weights))
    except KeyboardInterrupt:
        log.warning("einalg: interrupted; layers that were not searched stay as they are")
        interrupted = True
    for layer in layers[len(searched) :]:
        searched.append(SearchedLayer.of(layer, timed_out_after=task.seconds))
    if interrupted:
        return [_to_be_continued(layer) for layer in searched]
    return searched


def _search_one(layer: Layer, task: Task) -> SearchedLayer:
    seconds = max(MIN_LAYER_SECONDS, MAX_LAYER_SHARE * task.left)
    budget = replace(task.budget, seconds=min(task.budget.seconds, seconds))
    try:
        return search_layer(layer, budget, task.seconds, task.backend, task.rules)
    except EinalgError as error:
        log.warning("einalg: a layer stays as it is: %s", error)
        return SearchedLayer.of(layer)


def _to_be_continued(layer: SearchedLayer) -> SearchedLayer:
    """Return a layer that any later run searches again, where time ended its search."""
    if layer.timed_out_after is None:
        return layer
    return replace(layer, timed_out_after=0.0)
