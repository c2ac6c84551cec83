"""Forms of a program in which layers have what was derived for similar ones."""

from __future__ import annotations

from dataclasses import replace

from derive.programs.forms.layers import Layer, SearchedLayer
from derive.programs.forms.variants import SearchedVariant, Variant
from derive.programs.optimization.compiled_forms import Forms
from derive.programs.optimization.layer_search import (
    similar_forms,
    with_known_layers,
    with_results,
)
from einalg.runtime.clock import SEARCHING

MAX_SIMILAR_SHARE = 0.25  # of the time that is left, that forms of similar layers may take
SIMILAR = "forms of similar layers"


class AdaptedForms:
    """The forms of a program with what was derived for layers that are similar, or comes with
    einalg; each layer is looked up once.
    """

    def __init__(self, forms: Forms):
        self._forms = forms
        self._without = set[str]()  # layers, by their identity, for which there is nothing

    def compile_first(self) -> None:
        """Compile the first form of the program once more, with what was derived for others."""
        forms = self._forms
        if not forms.compiled:
            return
        forms.require_time()
        first = forms.compiled[0]
        variant = self._adapted(first.variant)
        if not forms.is_new(variant):
            return
        forms.require_time()
        if forms.compile(variant, SIMILAR) is None and not forms.is_too_late():
            forms.compile_measured(first.variant, SIMILAR)

    def compile(self, variant: Variant, words: str) -> None:
        """Compile a form with what is known of its layers and of similar ones; where that is wrong,
        with less of it.
        """
        forms = self._forms
        known = with_known_layers(variant, forms.task)
        if forms.compile(self._adapted(known), words) is not None:
            return
        for less in (with_results(known, forms.measured_results()), known):
            if forms.is_new(less) and not forms.is_too_late() and forms.compile(less, words):
                return

    def _adapted(self, variant: SearchedVariant) -> SearchedVariant:
        """Return a form with what was derived for layers that are similar, or comes with einalg."""
        forms = self._forms
        known = with_results(variant, forms.results)
        if not any(self._is_without_form(layer) for layer in known.layers):
            return known
        clock = forms.clock.within(MAX_SIMILAR_SHARE * forms.clock.left)
        task = replace(forms.task, clock=clock)
        with forms.clock.phase(SEARCHING, SIMILAR):
            layers = [layer for layer in known.unsearched if layer.identity not in self._without]
            results = similar_forms(layers, task, work, known.layers)
        if not clock.is_over:
            self._without |= {layer.identity for layer in layers} - results.keys()
        forms.results = {**results, **forms.results}
        return with_results(variant, forms.results)

    def _is_without_form(self, layer: SearchedLayer) -> bool:
        """Tell whether it is not known yet if there is a form of similar layers for a layer."""
        return layer.original is None and layer.identity not in self._without


def work(layer: Layer) -> float:
    """Return the operations of all statements that are this layer."""
    return float(layer.work * len(layer.names))
