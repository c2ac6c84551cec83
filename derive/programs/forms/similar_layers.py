"""Layers that differ in their sizes alone: what was derived for one is taken for the others.

A search takes seconds; its derivation is followed at other sizes, and proven there, in
milliseconds. The model of costs says where that is worth it, corrected by what was measured.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import log2

from derive.cost.backend import Backend
from derive.cost.model import CostModel, Roofline, known_rates, total
from derive.matching import kernels_of, with_operator_names
from derive.programs.forms.known_forms import KnownForm, StoredForms
from derive.programs.forms.layers import Layer, Rules, SearchedLayer
from derive.programs.forms.other_layout import LayerInside
from derive.proof.outcome.verdict import DIFFERENT
from derive.results.candidates import Candidate
from derive.results.verification import verdict_of
from derive.rewriting.moves import Move
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.outlines import Outline
from derive.search.starts.channels_last import is_window
from einalg.errors import EinalgError
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.traversal import accesses, reductions

log = logging.getLogger("einalg")

MAX_OUTLINES = 4  # that are followed for a layer
MIN_SHARE = 0.1  # of a layer's time, that a form is expected to save where it is not measured
MIN_SECONDS = 1e-12  # of an estimate
ITERATOR = re.compile(r"\b(\w+):(?:(-?\d+):)?(-?\d+)")  # with its range, in a layer's text


@dataclass(frozen=True)
class FollowedForm:
    """The form that a derivation leads to at the sizes of a layer; `cost` and `original` are the
    seconds that it and the layer are expected to take.
    """

    program: Program
    moves: tuple[Move, ...]
    cost: float
    original: float

    @property
    def share(self) -> float:
        """The share of the layer's time that is saved."""
        return 1.0 - self.cost / max(self.original, MIN_SECONDS)


class SimilarLayers:
    """What was derived for layers, in this network and in earlier ones, by their families."""

    def __init__(self, backend: Backend, rules: Rules = None):
        self.backend, self._stored = backend, StoredForms(backend, rules)
        self._families: dict[str, dict[Outline, list[KnownForm]]] = {}

    @cached_property
    def model(self) -> CostModel:
        """The model of this machine, if its rates are known when there is something to estimate."""
        return known_rates(self.backend) or Roofline()

    def learn(self, layer: SearchedLayer) -> bool:
        """Learn the derivations of a layer that was searched; tell whether there are any."""
        if not layer.original or not any(_derived(layer)):
            return False
        original_scale = layer.original / self._estimate(layer.program)
        for candidate in _derived(layer):
            try:
                outline = Outline.of(layer.program, candidate.moves, ALL)
            except EinalgError as error:
                log.debug("a derivation of a layer is not followed again: %s", error)
                continue
            scale = candidate.cost / self._estimate(candidate.program)
            form = KnownForm(outline, sizes(layer), scale, original_scale)
            self._keep(layer, form, candidate)
            inside = LayerInside.of(layer)
            rest = inside.of_inside(outline) if inside is not None else None
            if inside is not None and rest is not None:
                form = KnownForm(rest, sizes(inside.layer), scale, original_scale)
                self._keep(inside.layer, form, candidate)
        return True

    def _keep(self, layer: Layer, form: KnownForm, candidate: Candidate) -> None:
        """Keep a form of a layer; on disk too, where it was measured."""
        name = family(layer)
        self._forms(name).setdefault(form.outline, []).append(form)
        if candidate.measured:
            self._stored.add(name, form)

    def _forms(self, name: str) -> dict[Outline, list[KnownForm]]:
        """Return the forms of a family, with those on disk."""
        if name not in self._families:
            self._families[name] = {}
            for form in self._stored.read(name):
                self._families[name].setdefault(form.outline, []).append(form)
        return self._families[name]

    def _estimate(self, program: Program) -> float:
        return max(MIN_SECONDS, total(self.model, kernels_of(lifted(program))))

    def follow(self, layer: Layer) -> SearchedLayer | None:
        """Return a layer with the best form that a derivation for other sizes leads to.

        None where no such form is expected to save time.
        """
        forms = sorted(self._followed(layer), key=lambda form: form.cost)
        for form in forms:
            if form.share < MIN_SHARE:
                break
            verdict = verdict_of(layer.program, form.program)
            if verdict == DIFFERENT:
                continue
            candidate = Candidate(
                form.program,
                with_operator_names(kernels_of(form.program)),
                form.moves,
                form.cost,
                verdict,
                backend=self.backend,
                expression=layer.program,
            )
            return SearchedLayer.of(
                layer, candidate=candidate, original=form.original, is_adapted=True
            )
        return None

    def _followed(self, layer: Layer) -> Iterator[FollowedForm]:
        nearest = self._nearest(layer)
        if not nearest:
            return
        original = self._estimate(layer.program)
        for form in nearest:
            try:
                program, moves = form.outline.followed_from(layer.program, ALL)
                flat = lifted(program)
                cost = form.scale * self._estimate(flat)
            except EinalgError as error:
                log.debug("a derivation does not apply at other sizes: %s", error)
                continue
            yield FollowedForm(flat, moves, cost, form.original_scale * original)

    def _nearest(self, layer: Layer) -> list[KnownForm]:
        """Return the derivations for a layer, or for what it is with channels last."""
        nearest = self._nearest_of_family(layer)
        inside = LayerInside.of(layer)
        if inside is None:
            return nearest
        for form in self._nearest_of_family(inside.layer):
            outline = inside.of_whole(form.outline)
            if outline is not None:
                nearest.append(replace(form, outline=outline))
        return nearest

    def _nearest_of_family(self, layer: Layer) -> list[KnownForm]:
        """Return each derivation as it was found for the nearest sizes, the nearest first."""
        here, nearest = sizes(layer), list[KnownForm]()

        def distance(form: KnownForm) -> float:
            pairs = zip(form.sizes, here)
            return sum(abs(log2(one / other)) for one, other in pairs)

        for forms in self._forms(family(layer)).values():
            nearest.append(min(forms, key=distance))
        return sorted(nearest, key=distance)[:MAX_OUTLINES]


def _derived(layer: SearchedLayer) -> Iterator[Candidate]:
    """Yield the derived candidates of a layer, the best first."""
    for candidate in (layer.candidate, *layer.alternatives):
        if candidate is not None and candidate.moves:
            yield candidate


def family(layer: Layer) -> str:
    """Return the text of a layer without its sizes; extents of windows are none of these, nor is
    where a range begins.

    >>> import einalg as ea
    >>> from derive.programs.forms.layers import layers_of
    >>> from einalg.language.ir.program import as_program
    >>> text = "O[f,h:62] += A[c,h+r]*K[f,c,r]"
    >>> (layer,) = layers_of(as_program(ea.parse(text, A=(64, 66), K=(64, 64, 5))))
    >>> family(layer)
    'O[f, h] = Sum[c, r:5](A0[c, h + r]*A1[f, c, r])'
    >>> sizes(layer)
    (64, 62, 64)
    """
    fixed = _taps(layer)

    def without_size(iterator: re.Match[str]) -> str:
        if not _is_size(iterator, fixed):
            return iterator[0]
        if iterator[2] is not None:
            return f"{iterator[1]}:{iterator[2]}:"
        return iterator[1]

    return ITERATOR.sub(without_size, layer.text)


def families(layer: Layer) -> frozenset[str]:
    """Return the families of a layer and of the one inside of it that has channels last.

    Of two layers that share one, each has the forms of the other.
    """
    inside = LayerInside.of(layer)
    if inside is None:
        return frozenset([family(layer)])
    return frozenset([family(layer), family(inside.layer)])


def sizes(layer: Layer) -> tuple[int, ...]:
    """Return the extents that the text of a layer's family leaves out."""
    fixed = _taps(layer)
    iterators = ITERATOR.finditer(layer.text)
    return tuple(_extent(iterator) for iterator in iterators if _is_size(iterator, fixed))


def _is_size(iterator: re.Match[str], fixed: frozenset[str]) -> bool:
    return iterator[1] not in fixed and _extent(iterator) != 1


def _extent(iterator: re.Match[str]) -> int:
    return int(iterator[3]) - int(iterator[2] or 0)


def _taps(layer: Layer) -> frozenset[str]:
    """Return the names of the indices that are summed over windows."""
    names = set[str]()
    for scope in all_scopes(layer.program.result):
        names |= _taps_of(scope)
    return frozenset(names)


def _taps_of(scope: Scope) -> set[str]:
    outputs, names = set(scope.indices), set[str]()
    for node in reductions(scope.body):
        subscripts = [s for access in accesses(node.body) for s in access.subscripts]
        for it in node.iterators:
            if any(is_window(subscript, it, outputs) for subscript in subscripts):
                names.add(it.index.name)
    return names
