"""Layers that differ in their sizes: what was derived for one is taken for the others."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from threading import Barrier, BrokenBarrierError

import pytest

import einalg as ea
from derive.matching import kernels_of
from derive.programs.forms import layers, similar_layers
from derive.programs.forms.known_forms import FAMILIES, KnownForm, StoredForms
from derive.programs.forms.layers import SearchedLayer, layers_of
from derive.programs.forms.other_layout import LayerInside
from derive.programs.forms.similar_layers import SimilarLayers, family, sizes
from derive.programs.optimization import layer_search
from derive.programs.optimization.layer_search import search_layers
from derive.programs.task import Task
from derive.results.candidates import Candidate
from derive.results.pipeline import SearchResult, find_derivation
from derive.rules import ALL
from derive.search.best_first import Budget
from derive.search.candidates import Stats
from derive.search.outlines import Outline
from einalg.api.backend import LocalBackend
from einalg.errors import CodegenError
from einalg.language import ops
from einalg.language.ir.program import as_program
from einalg.runtime.clock import Clock, OutOfTime
from einalg.storage.disk_cache import DiskCache

BACKEND = LocalBackend()
pytestmark = pytest.mark.usefixtures("own_cache", "usual_rates")


def convolution(channels, filters, size, taps=3, stride=1):
    weights = ea.tensor("K", (filters, channels, taps, taps), role="weight")
    data = ea.tensor("A", (1, channels, size, size))
    program = as_program(ops.conv2d(data, weights, stride=stride, padding=taps // 2))
    (layer,) = layers_of(program)
    return layer


@cache
def searched(share=0.5):
    """A convolution with a transform that was measured to save a share of its time."""
    layer = convolution(32, 32, 28)
    result = find_derivation(layer.program, Budget(states=6), None, None)
    transforms = []
    for candidate in result.candidates:
        if any(move.rule == "bilinear factorisation" for move in candidate.moves):
            transforms.append(candidate)
    best = min(transforms, key=lambda candidate: candidate.cost)
    best = replace(best, cost=1e-3 * (1 - share), measured=True)
    return SearchedLayer.of(layer, candidate=best, original=1e-3)


@pytest.mark.parametrize(
    "other, is_alike",
    [
        (convolution(48, 16, 14), True),
        (convolution(32, 32, 28, taps=5), False),
        (convolution(32, 32, 28, stride=2), False),
        (convolution(32, 32, 28, taps=1), False),
    ],
)
def test_windows_and_strides_make_families_and_sizes_do_not(other, is_alike):
    layer = convolution(32, 32, 28)
    assert (family(other) == family(layer)) == is_alike
    if is_alike:
        assert sizes(layer) == (32, 28, 28, 32) and sizes(other) == (16, 14, 14, 48)


@pytest.mark.parametrize("channels, filters, size", [(64, 64, 56), (48, 96, 27), (33, 31, 17)])
def test_a_form_is_derived_again_at_other_sizes(channels, filters, size):
    """It is proved there; its time is estimated by what the first one took."""
    layer = convolution(channels, filters, size)
    similar = SimilarLayers(BACKEND)
    assert similar.follow(layer) is None
    assert similar.learn(searched())
    adapted = similar.follow(layer)
    assert adapted is not None and adapted.is_adapted
    assert adapted.candidate.verdict == "proved" and not adapted.candidate.measured
    assert adapted.candidate.cost < 0.9 * adapted.original
    (output,) = adapted.candidate.program.outputs
    assert adapted.candidate.program[output].shape == layer.program.result.shape


@pytest.mark.parametrize("found_last", [True, False])
def test_a_form_holds_in_the_other_layout(found_last):
    """Inside of a convolution, channels are moved last: what is derived there is what is derived
    for the convolution that has them last, and the other way round.
    """
    layer = convolution(64, 64, 56)
    inside = LayerInside.of(layer)
    assert inside is not None and LayerInside.of(inside.layer) is None
    one, other = layer, inside.layer
    if found_last:
        one, other = inside.layer, layer
    similar = SimilarLayers(BACKEND)
    similar.learn(searched_with_channels_last(one))
    adapted = similar.follow(other)
    assert adapted is not None and adapted.candidate.verdict == "proved"
    rules = [move.rule for move in adapted.candidate.moves]
    assert rules.count("bilinear factorisation") == 1 and ("staging" in rules) == found_last


def searched_with_channels_last(layer):
    """A layer with a transform that reads and makes channels last, which saved half of the time."""
    result = find_derivation(layer.program, Budget(states=8), None, None)
    transforms = []
    for candidate in result.candidates:
        rules = [move.rule for move in candidate.moves]
        has_channels_last = "staging" in rules or LayerInside.of(layer) is None
        if rules.count("bilinear factorisation") == 1 and has_channels_last:
            transforms.append(candidate)
    best = min(transforms, key=lambda candidate: candidate.cost)
    return SearchedLayer.of(layer, candidate=best, original=2 * best.cost)


def test_later_networks_have_what_was_derived_for_earlier_ones():
    """A form that was measured is on disk, as it was found last; a damaged entry is passed over."""
    other = convolution(48, 48, 30)
    SimilarLayers(BACKEND).learn(searched())
    SimilarLayers(BACKEND).learn(searched())
    adapted = SimilarLayers(BACKEND).follow(other)
    assert adapted is not None and adapted.candidate.verdict == "proved"
    stored = StoredForms(BACKEND)
    (form,) = stored.read(family(other))
    assert KnownForm.from_record(json.loads(json.dumps(form.as_record()))) == form
    FAMILIES.replace(stored._key(family(other)), b"[{}]")
    assert SimilarLayers(BACKEND).follow(other) is None
    FAMILIES.replace(stored._key(family(other)), b"{")
    assert stored.read(family(other)) == []


def test_what_is_only_estimated_is_not_kept_on_disk():
    layer = searched()
    estimated = replace(layer, candidate=replace(layer.candidate, measured=False))
    SimilarLayers(BACKEND).learn(estimated)
    assert SimilarLayers(BACKEND).follow(convolution(48, 48, 30)) is None


def test_what_saved_nothing_is_not_taken():
    similar = SimilarLayers(BACKEND)
    similar.learn(searched(share=-0.2))
    assert similar.follow(convolution(32, 32, 29)) is None
    assert not similar.learn(SearchedLayer.of(convolution(32, 32, 28), original=1.0))


@pytest.mark.parametrize("seconds, searches", [(10.0, 1), (1000.0, 3)])
def test_a_whole_family_is_derived_by_one_search(seconds, searches, monkeypatch):
    """The largest layer is searched; the others have its form. They are searched too where there is
    much time, and keep that form where it ends before anything is measured.
    """
    layers = [convolution(40, 40, 28), convolution(64, 64, 56), convolution(56, 56, 28)]
    now, order = [0.0], []

    def search(layer, budget, seconds, backend, rules, clock, accuracy):
        now[0] += min(clock.left, 8.0)
        order.append(layer)
        if len(order) == 1:
            return SearchedLayer.of(layer, candidate=derived(layer), original=1e-3)
        return SearchedLayer.of(layer, original=1e-3, timed_out_after=seconds)

    monkeypatch.setattr(layer_search, "search_layer", search)
    task = Task(BACKEND, seconds, Clock.of(seconds, now=lambda: now[0]))
    results = search_layers(layers, task, lambda layer: float(layer.work))
    assert order == [layers[1], layers[2], layers[0]][:searches]
    adapted = {identity for identity, layer in results.items() if layer.is_adapted}
    assert adapted == {layers[0].identity, layers[2].identity}


def derived(layer):
    """The form of `searched` at the sizes of a layer."""
    similar = SimilarLayers(BACKEND)
    similar.learn(searched())
    adapted = similar.follow(layer)
    assert adapted is not None
    candidate = adapted.candidate
    assert isinstance(candidate, Candidate)
    return replace(candidate, cost=0.5e-3, measured=True)


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": (0, 28, 28, 32)},
        {"sizes": (-1,)},
        {"scale": 0.0},
        {"original_scale": float("nan")},
        {"ratio": 0.0},
    ],
)
def test_forms_of_no_size_or_scale_are_damaged(change):
    """The others of the family are as they were."""
    similar = SimilarLayers(BACKEND)
    similar.learn(searched())
    layer = convolution(48, 48, 30)
    stored = StoredForms(BACKEND)
    (form,) = stored.read(family(layer))
    damaged = replace(form, **change).as_record()
    FAMILIES.replace(stored._key(family(layer)), json.dumps([damaged]).encode())
    assert not stored.read(family(layer))
    assert SimilarLayers(BACKEND).follow(layer) is None
    rows = [damaged, form.as_record()]
    FAMILIES.replace(stored._key(family(layer)), json.dumps(rows).encode())
    assert stored.read(family(layer)) == [form]


@pytest.mark.parametrize("low", [-3, 0, 2])
def test_sizes_of_ranges_that_begin_anywhere(low):
    """Where they begin is a part of the family."""
    layers = []
    for rows, channels in ((32, 64), (48, 60)):
        text = f"O[f,h] = Sum[c:{low}:{channels}](A[f,c+3]*K[h,c+3])"
        (layer,) = layers_of(as_program(ea.parse(text, A=(rows, 70), K=(50, 70))))
        assert sizes(layer) == (rows, 50, channels - low)
        layers.append(layer)
    assert family(layers[0]) == family(layers[1])
    assert (f"c:{low}:" in family(layers[0])) == (low != 0)


def test_forms_that_are_added_at_once_are_all_kept(monkeypatch):
    """Each is added to what is there when it is its turn."""
    SimilarLayers(BACKEND).learn(searched())
    name, stored = family(convolution(32, 32, 28)), StoredForms(BACKEND)
    (form,) = stored.read(name)
    read, both = DiskCache.read, Barrier(2)

    def read_together(cache, key):
        content = read(cache, key)
        with suppress(BrokenBarrierError):
            both.wait(0.2)  # for another one that reads the same
        return content

    monkeypatch.setattr(DiskCache, "read", read_together)
    with ThreadPoolExecutor() as threads:
        others = [replace(form, sizes=(size, 28, 28, 32)) for size in (40, 48)]
        list(threads.map(partial(stored.add, name), ([other] for other in others)))
    assert {known.sizes[0] for known in stored.read(name)} == {32, 40, 48}


def test_all_forms_of_a_layer_are_one_change_that_waits_for_no_longer_than_there_is_time(
    monkeypatch,
):
    """Where another process changes the family, what is measured is known to this one alone."""
    layer, changes = searched(), []
    locked = DiskCache.locked

    def counted(cache, key, seconds):
        changes.append(seconds)
        return locked(cache, key, seconds)

    monkeypatch.setattr(DiskCache, "locked", counted)
    stored, similar = StoredForms(BACKEND), SimilarLayers(BACKEND)
    others = [replace(layer.candidate, moves=layer.candidate.moves[:1], measured=True)]
    clock = Clock.of(0.01, now=lambda: 0.0)
    with locked(FAMILIES, stored._key(family(layer)), 1.0), clock.limiting():
        assert similar.learn(layer, others)
    assert changes == [0.01]
    assert similar.follow(convolution(48, 48, 30)) is not None
    assert stored.read(family(layer)) == []


def test_what_was_measured_is_kept_where_time_ends_then(monkeypatch):
    """The first form is, where the time is over at the second."""
    layer, now = searched(), [0.0]
    other = replace(layer.candidate, moves=layer.candidate.moves[:1])
    outlines = similar_layers.outlines

    def slow(layer, candidate):
        yield from outlines(layer, candidate)
        now[0] = 1.0

    monkeypatch.setattr(similar_layers, "outlines", slow)
    clock = Clock.of(0.5, now=lambda: now[0])
    with pytest.raises(OutOfTime), clock.limiting():
        SimilarLayers(BACKEND).learn(layer, [other])
    assert len(StoredForms(BACKEND).read(family(layer))) == 1


def test_a_search_that_fails_leaves_the_form_of_other_sizes(monkeypatch):
    layers = [convolution(64, 64, 56), convolution(56, 56, 28)]
    searches = []

    def search(layer, budget, seconds, backend, rules, clock, accuracy):
        searches.append(layer)
        if len(searches) > 1:
            raise CodegenError("no code")
        return SearchedLayer.of(layer, candidate=derived(layer), original=1e-3)

    monkeypatch.setattr(layer_search, "search_layer", search)
    task = Task(BACKEND, 1000.0, Clock.of(1000.0, now=lambda: 0.0))
    results = search_layers(layers, task, lambda layer: float(layer.work))
    assert searches == layers and results[layers[1].identity].is_adapted


def test_a_layer_with_an_empty_sum_is_of_another_family():
    texts = (f"O[f,h] = Sum[c](A[f,c]*K[h,c]) + Sum[d:0:{end}](A[f,d]*K[h,d])" for end in (0, 9))
    empty, other = (layers_of(as_program(ea.parse(text, A=(40, 64), K=(50, 64)))) for text in texts)
    assert sizes(empty[0]) == (40, 50, 64) and sizes(other[0]) == (40, 50, 64, 9)
    similar = SimilarLayers(BACKEND)
    similar._forms(family(empty[0])).append(known_form(sizes(empty[0])))
    similar._forms(family(other[0])).append(known_form(sizes(other[0])))
    assert similar.follow(empty[0]) is None and similar.follow(other[0]) is None


def known_form(extents):
    """A derivation that does not apply to products."""
    layer = searched()
    outline = Outline.of(layer.program, layer.candidate.moves, ALL)
    return KnownForm(outline, extents, 1.0, 1.0, 1.0)


def test_the_next_call_has_the_faster_form(monkeypatch):
    """Where a search finds a slower one than was measured for the layer before."""
    layer = convolution(64, 64, 56)
    known = SearchedLayer.of(layer, candidate=derived(layer), original=1e-3, is_adapted=True)

    def search(program, budget, rules, backend, accuracy, most, clock):
        original = Candidate(program, kernels_of(program), (), 0.8e-3, "proved", measured=True)
        return SearchResult(program, [original], Stats(), backend)

    monkeypatch.setattr(layers, "find_derivation", search)
    task = Task(BACKEND, 10.0, Clock.of(10.0, now=lambda: 0.0))
    run = layer_search._LayerSearches([layer], task, lambda layer: 1.0)
    run.begin([])
    run.results[layer.identity] = known
    assert run.search_next()
    assert run.results[layer.identity].candidate == known.candidate
    stored = layers.known_layer(layer, 10.0, BACKEND)
    assert stored.candidate.moves == known.candidate.moves
    assert (stored.original, stored.candidate.cost) == (1e-3, 0.5e-3)
