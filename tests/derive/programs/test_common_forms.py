"""Derivations of common layers that come with einalg."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest

from bench import common_forms as maker
from bench.common_forms import KINDS, OTHERS, Convolution
from derive.programs.forms import common_forms as stored
from derive.programs.forms import similar_layers
from derive.programs.forms.common_forms import PATH, as_text, common_forms
from derive.programs.forms.known_forms import MAX_KEPT, StoredForms
from derive.programs.forms.layers import SearchedLayer, measure_layer
from derive.programs.forms.similar_layers import SimilarLayers, families, family
from derive.programs.optimization import layer_search
from derive.programs.optimization.layer_search import search_layers
from derive.programs.task import Task
from derive.results import verification
from derive.results.verification import verdict_of
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.outlines import Outline
from einalg.api.backend import LocalBackend
from einalg.errors import CodegenError, EinalgError
from einalg.runtime.clock import Clock

BACKEND = LocalBackend()
WINDOW = Convolution((3, 3))
VARIANTS = ((1, True), *OTHERS)
ODD_SIZES = ((3, 5), (1, 7), (2, 11), (5, 2), (7, 13))
pytestmark = pytest.mark.usefixtures("own_cache", "usual_rates", "has_common_forms")


@pytest.fixture
def has_common_forms(monkeypatch):
    monkeypatch.setattr(similar_layers, "common_forms", common_forms)


def share_that_holds(kind, batch, is_padded, channels, size):
    """Follow all derivations of a kind at other sizes; none leads to another program.

    The sizes are those of each phase of a dilated window.
    """
    usual, count = kind.layer(16, 24, batch, is_padded), 0
    start = kind.program(channels, kind.dilation * size, batch, is_padded)
    forms = similar_layers._nearest(usual, similar_layers._common)
    for form in forms:
        with suppress(EinalgError):  # a tile may be larger than what is left of an image
            program, _ = form.outline.followed_from(start, ALL)
            assert verdict_of(start, lifted(program)) in {"proved", "tested"}
            count += 1
    return count / len(forms)


def fits(kind, is_padded, size):
    """Tell whether the window of a kind is no larger than an image."""
    return is_padded or all(taps <= size for taps in kind.window)


def test_derivations_hold_at_other_sizes():
    """Every fifth at one odd size by day, in turns."""
    shares = {}
    for number, (kind, variant) in enumerate(product(KINDS, VARIANTS)):
        sizes = ODD_SIZES[number // 5 % len(ODD_SIZES)]
        if number % 5 == 0 and fits(kind, variant[1], sizes[1]):
            shares[kind, variant, sizes] = share_that_holds(kind, *variant, *sizes)
    assert len(shares) > 5 and all(shares.values())


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_derivations_hold_at_all_odd_sizes(kind):
    for variant, sizes in product(VARIANTS, ODD_SIZES):
        if fits(kind, variant[1], sizes[1]):
            assert share_that_holds(kind, *variant, *sizes) > 0


def test_all_that_is_stored_is_of_kinds_that_are_searched():
    reached = set()
    for kind, variant in product(KINDS, VARIANTS):
        reached |= families(kind.layer(16, 24, *variant))
    assert common_forms().keys() <= reached
    assert PATH.read_text(encoding="utf-8") == as_text(common_forms())


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_window_has_derivations_in_both_layouts(variant):
    for name in families(WINDOW.layer(64, 56, *variant)):
        assert common_forms()[name]


def test_rules_that_are_left_out_are_not_applied():
    layer = WINDOW.layer(64, 56)
    original, *forms = SimilarLayers(BACKEND).common(layer)
    assert not original.moves and all(form.verdict == "proved" for form in forms)
    used = {move.rule for form in forms for move in form.moves}
    allowed = [rule for name, rule in ALL.items() if name in used]
    assert len(SimilarLayers(BACKEND, allowed).common(layer)) == len(forms) + 1
    without = [rule for rule in allowed if rule.name != "bilinear factorisation"]
    assert SimilarLayers(BACKEND, without).common(layer) == []


def test_what_was_derived_on_this_machine_is_not_measured_again():
    """Also where it was measured to save nothing; the other derivations are as they were."""
    layer, similar = WINDOW.layer(64, 56), SimilarLayers(BACKEND)
    before = {form.moves for form in similar.common(layer)}
    best = similar.common(layer)[1]
    similar.learn(measured(layer, [best], cost=2e-3))
    after = {form.moves for form in similar.common(layer)}
    assert best.moves in before and best.moves not in after and () in after


def measured(layer, candidates, cost=0.5e-3):
    """A layer with a form that was measured to take so long, where the layer takes 1 ms."""
    best = replace(candidates[-1], cost=cost, measured=True)
    return SearchedLayer.of(layer, candidate=best, original=1e-3, is_adapted=True)


@pytest.mark.parametrize("cost, searched", [(0.5e-3, []), (2e-3, [0, 1])])
def test_forms_are_measured_for_the_largest_layer_of_a_kind_and_searched_for_last(
    cost, searched, monkeypatch
):
    """The others are derived from it; where nothing is gained, they are searched."""
    layers = [WINDOW.layer(64, 56), WINDOW.layer(40, 28)]
    order, looks = [], []

    def measure(layer, candidates, accuracy, clock):
        looks.append(layer)
        return measured(layer, candidates, cost), []

    def search(layer, budget, seconds, backend, rules, clock, accuracy):
        order.append(layers.index(layer))
        return SearchedLayer.of(layer, original=1e-3)

    monkeypatch.setattr(layer_search, "measure_layer", measure)
    monkeypatch.setattr(layer_search, "search_layer", search)
    task = Task(BACKEND, 10.0, Clock.of(10.0, now=lambda: 0.0))
    monkeypatch.setattr(layer_search.Expectation, "seconds", lambda self, layer: 20.0)
    results = search_layers(layers, task, lambda layer: float(layer.work))
    assert looks == [layers[0]] and order == searched
    if not searched:
        assert all(results[layer.identity].is_adapted for layer in layers)


def test_a_form_that_is_not_accurate_is_dropped_alone(monkeypatch):
    layer = WINDOW.layer(64, 14)
    original, wrong, right = SimilarLayers(BACKEND).common(layer)[:3]
    errors = iter([1e-7, 1.0, 1e-7, 0.0])  # the last one is that of rounding alone
    monkeypatch.setattr(verification, "relative_error", lambda *_: next(errors))
    result, refused = measure_layer(layer, [original, wrong, right], None, Clock.of(600.0))
    assert refused == [wrong]
    assert [form.measured for form in (original, wrong, right)] == [True, False, True]
    assert wrong.moves not in {form.moves for form in (result.candidate, *result.alternatives)}


def test_the_file_is_made_of_what_is_searched(tmp_path, monkeypatch):
    def search(layer, budget, seconds, backend, clock):
        return measured(layer, SimilarLayers(BACKEND).common(layer))

    monkeypatch.setattr(maker, "search_layer", search)
    monkeypatch.setattr(maker, "SIZES", {2: ((64, 56),)})
    monkeypatch.setattr(maker, "calibrated", similar_layers.calibrated)
    path = tmp_path / "forms.json"
    maker.work([WINDOW], 1.0, path, None)
    monkeypatch.setattr(stored, "PATH", path)
    written = stored.common_forms.__wrapped__()
    assert len(written) >= len(VARIANTS)
    for name, forms in written.items():
        assert forms[0].outline in [form.outline for form in common_forms()[name]]


def test_all_forms_that_were_measured_are_known_later():
    """However slow they are, and however many are known: none is measured with every call."""
    layer, similar = WINDOW.layer(64, 56), SimilarLayers(BACKEND)
    keep_others(layer, similar_layers.MAX_OUTLINES)
    original, *forms = similar.common(layer)
    slow = [replace(form, cost=1.0, measured=True) for form in forms]
    searched = SearchedLayer.of(layer, candidate=original, original=1e-3, is_adapted=True)
    assert slow and similar.learn(searched, slow)
    left = {form.moves for form in SimilarLayers(BACKEND).common(layer)}
    assert left.isdisjoint(form.moves for form in slow)


def keep_others(layer, count, first=100, **experience):
    """Keep so many derivations for the sizes of a layer; they apply nowhere."""
    form = replace(common_forms()[family(layer)][0], **experience)
    for tile in range(first, first + count):
        move = replace(form.outline.groups[0][0], args={"tile": tile})
        other = replace(form, outline=Outline(((move,),)), sizes=similar_layers.sizes(layer))
        StoredForms(BACKEND).add(family(layer), [other])


@pytest.mark.parametrize("fails", [True, False])
def test_what_cannot_be_measured_is_searched_and_tried_for_the_next_layer(fails, monkeypatch):
    layers, looks = [WINDOW.layer(64, 56), WINDOW.layer(40, 28)], []

    def measure(layer, candidates, accuracy, clock):
        looks.append(layer)
        if fails:
            raise CodegenError("no code")
        return SearchedLayer.of(layer), []  # time was over

    def search(layer, *_, **options):
        assert options["accuracy"] == 1e-3
        return SearchedLayer.of(layer, original=1e-3)

    monkeypatch.setattr(layer_search, "measure_layer", measure)
    monkeypatch.setattr(layer_search, "search_layer", search)
    task = Task(BACKEND, 10.0, Clock.of(10.0, now=lambda: 0.0), accuracy=1e-3)
    results = search_layers(layers, task, lambda layer: float(layer.work))
    assert looks == layers and len(results) == 2


def test_what_cannot_be_followed_again_is_not_written(monkeypatch):
    monkeypatch.setattr(maker, "outlines", lambda layer, candidate: iter(()))
    monkeypatch.setattr(
        maker,
        "search_layer",
        lambda layer, *_, **__: measured(layer, SimilarLayers(BACKEND).common(layer)),
    )
    monkeypatch.setattr(maker, "calibrated", similar_layers.calibrated)
    found, layer = maker.Maker(1.0), WINDOW.layer(64, 56)
    assert found._row(layer, layer, layer)["forms"] == 0 and not found.families


@pytest.mark.parametrize("is_late", [True, False])
def test_forms_are_measured_for_the_longest_layer_of_each_kind_without_a_search(
    is_late, monkeypatch
):
    """Where time is too short for that, it is no longer for the next layer of the kind."""
    layers, looks = [WINDOW.layer(40, 28), WINDOW.layer(64, 56)], []

    def measure(layer, candidates, accuracy, clock):
        looks.append((layer, clock.left))
        return SearchedLayer.of(layer) if is_late else measured(layer, candidates), []

    monkeypatch.setattr(layer_search, "measure_layer", measure)
    task = Task(BACKEND, 10.0, Clock.of(10.0, now=lambda: 0.0))
    results = layer_search.similar_forms(layers, task, lambda layer: float(layer.work))
    assert looks == [(layers[1], 10.0)] and len(results) == (0 if is_late else 2)
    assert all(layer.is_adapted and not layer.is_searched for layer in results.values())


def test_a_fast_form_is_followed_however_many_slow_ones_are_known():
    """They are kept so that none is measured again, and are no reason to lose the fast one."""
    layer, similar = WINDOW.layer(64, 56), SimilarLayers(BACKEND)
    _, *forms = similar.common(layer)
    keep_others(layer, MAX_KEPT)
    keep_others(layer, similar_layers.MAX_OUTLINES, scale=9.0, ratio=9.0)
    assert similar.learn(measured(layer, forms[:1]))
    keep_others(layer, MAX_KEPT, first=1000, scale=9.0, ratio=9.0)
    adapted = SimilarLayers(BACKEND).follow(layer)
    assert adapted is not None and adapted.candidate.moves == forms[0].moves


def test_of_many_forms_the_fastest_are_followed():
    """What was measured near the sizes of a layer counts more."""
    layer, other, similar = WINDOW.layer(64, 56), WINDOW.layer(128, 28), SimilarLayers(BACKEND)
    near, far = similar.common(layer)[1], similar.common(other)[-1]
    keep_others(layer, similar_layers.MAX_OUTLINES, scale=0.9, ratio=0.9)
    similar.learn(measured(other, [far], cost=0.3e-3))
    similar.learn(measured(layer, [near], cost=0.4e-3))
    nearest = similar_layers._nearest(layer, SimilarLayers(BACKEND)._forms, 2)
    assert [round(form.ratio, 6) for form in nearest[:2]] == [0.4, 0.3]


@pytest.mark.parametrize("has_code", [True, False])
def test_forms_that_are_wrong_are_compiled_once(has_code, monkeypatch):
    """They are no reason to say that time was too short, and no later call tries them again."""
    layers = [WINDOW.layer(64, 56), WINDOW.layer(40, 28)]
    looks, runs, compiled = [], [], verification._compiled

    def compile_right(candidate, weights, stats):
        looks.append(candidate.moves)
        if not candidate.moves:
            runs.append(compiled(candidate, weights, stats))
        return runs[-1] if has_code or not candidate.moves else None

    def error(expected, result, program, arrays):
        return 1.0 if looks[-1] else 0.0

    monkeypatch.setattr(verification, "_compiled", compile_right)
    monkeypatch.setattr(verification, "relative_error", error)
    task = Task(BACKEND, 600.0, Clock.of(600.0))
    layer_search.similar_forms(layers, task, lambda layer: float(layer.work))
    tried = [moves for moves in looks if moves]
    assert tried and len(set(tried)) == len(tried) <= similar_layers.MAX_COMMON
    left = {form.moves for form in SimilarLayers(BACKEND).common(layers[0])}
    assert left.isdisjoint(tried)
    assert SimilarLayers(BACKEND).follow(layers[0]) is None
