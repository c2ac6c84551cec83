"""Layers that differ in their sizes or layout: what was derived for one is taken for the others.

A search takes seconds; its derivation is followed at other sizes, and proven there, in a fraction
of a second. The model of costs says where that is worth it, corrected by what was measured. Where
that saves nothing, there are the derivations that come with einalg.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from math import inf, log2

from derive.cost.backend import Backend
from derive.cost.model import CostModel, calibrated, total
from derive.matching import kernels_of, with_operator_names
from derive.programs.forms.common_forms import common_forms
from derive.programs.forms.known_forms import KnownForm, StoredForms, with_forms
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

Experience = tuple[float, float, float]  # scale, original scale and ratio of a `KnownForm`
FormsOf = Callable[[str], Sequence[KnownForm]]  # a family
MAX_OUTLINES = 4  # that are followed for a layer in each layout
MAX_COMMON = 3  # forms of a layer, of those that come with einalg, that are measured
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
        self.backend, self.rules = backend, rules
        self._stored = StoredForms(backend, rules)
        self._families: dict[str, list[KnownForm]] = {}

    @cached_property
    def model(self) -> CostModel:
        """The model of this machine, whose rates are measured where something is to be estimated
        and they are not known.
        """
        return calibrated(self.backend)

    def learn(self, layer: SearchedLayer, others: Iterable[Candidate] = ()) -> bool:
        """Learn the derivations of a layer that was searched, and of `others` that were measured
        for it, however slow; tell whether there are any.
        """
        derived = list(_derived(layer, others))
        if not layer.original or not derived:
            return False
        self._keep(layer, self._experience(layer, layer.original, derived))
        return True

    def refuse(self, layer: Layer, wrong: Iterable[Candidate]) -> None:
        """Learn of derived candidates whose code has other values than the layer, or that have
        none: they are neither followed nor measured again.
        """
        self._keep(layer, ((candidate, (1.0, 1.0, inf)) for candidate in wrong))

    def _experience(
        self, layer: Layer, original: float, candidates: Iterable[Candidate]
    ) -> Iterator[tuple[Candidate, Experience]]:
        """Yield candidates for a layer that takes so many seconds, with what is known of each."""
        original_scale = original / self._estimate(layer.program)
        for candidate in candidates:
            scale = candidate.cost / self._estimate(candidate.program)
            yield candidate, (scale, original_scale, candidate.cost / original)

    def _keep(self, layer: Layer, rows: Iterable[tuple[Candidate, Experience]]) -> None:
        """Keep the derivations of candidates for a layer, with what is known of each.

        What is not only estimated is kept on disk, too. Where time ends that, those before are
        kept.
        """
        new, lasting = (defaultdict[str, list[KnownForm]](list) for _ in range(2))
        try:
            for candidate, experience in rows:
                for place, outline in outlines(layer, candidate):
                    form = KnownForm(outline, sizes(place), *experience)
                    new[family(place)].append(form)
                    if candidate.measured or not form.is_right:
                        lasting[family(place)].append(form)
        finally:
            for name, forms in new.items():
                self._families[name] = with_forms(self._forms(name), forms)
            for name, forms in lasting.items():
                self._stored.add(name, forms)

    def _forms(self, name: str) -> list[KnownForm]:
        """Return the forms of a family that were measured on this machine, with those on disk."""
        if name not in self._families:
            self._families[name] = self._stored.read(name)
        return self._families[name]

    def _estimate(self, program: Program) -> float:
        return max(MIN_SECONDS, total(self.model, kernels_of(lifted(program))))

    def follow(self, layer: Layer) -> SearchedLayer | None:
        """Return a layer with the best form that a derivation for other sizes leads to.

        None where no such form is expected to save time.
        """
        nearest = _nearest(layer, self._forms, MAX_OUTLINES)
        right = [form for form in nearest if form.is_right]
        for form, candidate in self._promising(layer, right):
            return SearchedLayer.of(
                layer, candidate=candidate, original=form.original, is_adapted=True
            )
        return None

    def common(self, layer: Layer) -> list[Candidate]:
        """Return a layer as it is, and the best that derivations which come with einalg lead to.

        Nothing where these are not expected to save time. Those that were measured on this machine
        are left out: what they save there is known.
        """
        known = {form.outline for form in _nearest(layer, self._forms)}
        nearest = _nearest(layer, _common, MAX_OUTLINES, known)
        if not nearest:
            return []
        promising = list(islice(self._promising(layer, nearest), MAX_COMMON))
        if not promising:
            return []
        original = self._candidate(layer, lifted(layer.program), (), promising[0][0].original)
        return [original, *(candidate for _, candidate in promising)]

    def _promising(
        self, layer: Layer, forms: Sequence[KnownForm]
    ) -> Iterator[tuple[FollowedForm, Candidate]]:
        """Yield what derivations lead to where that is expected to save time, the best first.

        Each is proven when it is due.
        """
        for form in sorted(self._followed(layer, forms), key=lambda form: form.cost):
            if form.share < MIN_SHARE:
                return
            candidate = self._candidate(layer, form.program, form.moves, form.cost)
            if candidate.verdict != DIFFERENT:
                yield form, candidate

    def _candidate(
        self, layer: Layer, program: Program, moves: tuple[Move, ...], cost: float
    ) -> Candidate:
        """Return a flat program as a candidate for a layer, with the verdict on its equality."""
        return Candidate(
            program,
            with_operator_names(kernels_of(program)),
            moves,
            cost,
            verdict_of(layer.program, program),
            backend=self.backend,
            expression=layer.program,
        )

    def _followed(self, layer: Layer, forms: Sequence[KnownForm]) -> Iterator[FollowedForm]:
        if not forms:
            return
        original = self._estimate(layer.program)
        for form in forms:
            try:
                program, moves = form.outline.followed_from(layer.program, ALL)
                flat = lifted(program)
                cost = form.scale * self._estimate(flat)
            except EinalgError as error:
                log.debug("a derivation does not apply at other sizes: %s", error)
                continue
            if self._are_allowed(moves):
                yield FollowedForm(flat, moves, cost, form.original_scale * original)

    def _are_allowed(self, moves: Sequence[Move]) -> bool:
        """Tell whether all moves are those of rules that layers are searched with."""
        if self.rules is None:
            return True
        names = {rule.name for rule in self.rules}
        return all(move.rule in names for move in moves)


def _nearest(
    layer: Layer,
    forms_of: FormsOf,
    most: int | None = None,
    known: Container[Outline] = (),
) -> list[KnownForm]:
    """Return the derivations for a layer, and those for what it is with channels last, those that
    are expected to save most first.

    They are those that are not `known`, `most` of each kind, or all.
    """

    def unknown(forms: Iterable[KnownForm]) -> Iterator[KnownForm]:
        return islice((form for form in forms if form.outline not in known), most)

    nearest = list(unknown(_nearest_of_family(layer, forms_of)))
    inside = LayerInside.of(layer)
    if inside is None:
        return nearest
    return [*nearest, *unknown(_of_whole(inside, _nearest_of_family(inside.layer, forms_of)))]


def _of_whole(inside: LayerInside, forms: Iterable[KnownForm]) -> Iterator[KnownForm]:
    """Yield derivations of the layer inside as those of the whole, where they are."""
    for form in forms:
        outline = inside.of_whole(form.outline)
        if outline is not None:
            yield replace(form, outline=outline)


def _common(name: str) -> Sequence[KnownForm]:
    """Return the forms of a family that come with einalg."""
    return common_forms().get(name, ())


def _nearest_of_family(layer: Layer, forms_of: FormsOf) -> list[KnownForm]:
    """Return each derivation as it was found for the nearest sizes, the most promising first.

    What was measured far from the layer's sizes counts less than what was measured near them.
    """
    here, nearest = sizes(layer), dict[Outline, KnownForm]()

    def distance(form: KnownForm) -> float:
        pairs = zip(form.sizes, here)
        return sum(abs(log2(one / other)) for one, other in pairs)

    for form in sorted(forms_of(family(layer)), key=distance):
        nearest.setdefault(form.outline, form)
    return sorted(nearest.values(), key=lambda form: log2(form.ratio) / (1 + distance(form)))


def outlines(layer: Layer, candidate: Candidate) -> Iterator[tuple[Layer, Outline]]:
    """Yield the derivation of a candidate for a layer, and its rest for the layer inside that has
    channels last, if it goes on there.
    """
    try:
        outline = Outline.of(layer.program, candidate.moves, ALL)
    except EinalgError as error:
        log.debug("a derivation of a layer is not followed again: %s", error)
        return
    yield layer, outline
    inside = LayerInside.of(layer)
    rest = inside.of_inside(outline) if inside is not None else None
    if inside is not None and rest is not None:
        yield inside.layer, rest


def _derived(layer: SearchedLayer, others: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the derived candidates of a layer once, the best first, then others."""
    known = set[tuple[Move, ...]]()
    for candidate in (layer.candidate, *layer.alternatives, *others):
        if candidate is not None and candidate.moves and candidate.moves not in known:
            known.add(candidate.moves)
            yield candidate


def family(layer: Layer) -> str:
    """Return the text of a layer without its sizes; extents of windows are none of these, nor are 0
    and 1, nor is where a range begins.

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
    return iterator[1] not in fixed and _extent(iterator) > 1


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
