"""The time of an optimization, by a clock that compiling and searching move: what comes first, what
needs no time, and how much is spent.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

import einalg as ea
from derive.cost.backend import Backend
from derive.programs.forms.expected_gain import Expectation, kind_of, next_layer
from derive.programs.forms.layers import SearchedLayer, layers_of
from derive.programs.forms.similar_layers import SimilarLayers
from derive.programs.forms.variants import changed_variants, is_better, unchanged
from derive.programs.optimization import (
    adapted_forms,
    first_form,
    mixed_layouts,
    other_forms,
    searched_forms,
)
from derive.programs.optimization import optimize as optimizer
from derive.programs.optimization.trial import Trial
from derive.programs.passes.normalise import shaped
from derive.programs.passes.weights.folding import folded
from derive.programs.task import Task
from derive.results.candidates import Candidate
from derive.rewriting.moves import Move
from einalg.api.backend import LocalBackend
from einalg.api.models import network as model_network
from einalg.errors import CodegenError
from einalg.language import ops
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.ir.program import Program, as_program, statement_tensor
from einalg.runtime.clock import Clock
from tests.helpers.measurements import exactly
from tests.helpers.networks import network, sample, weight

BEGAN = 3.0


class Timed(LocalBackend):
    """The backend of this machine by a clock that only compiling and searching move."""

    def __init__(self, compile_seconds, seconds_of=lambda program: 1.0):
        super().__init__()
        self.compile_seconds, self.seconds_of = compile_seconds, seconds_of
        self.now, self.compiled = BEGAN, []

    @property
    def spent(self):
        return self.now - BEGAN

    def compile(self, program, kernels, target=None, compares=True, optimizes=True):
        self.now += self.compile_seconds
        self.compiled.append(program)
        return super().compile(program, kernels, target, compares, optimizes)

    def measure(self, runnables, arrays):
        return [exactly(self.seconds_of(run.program)) for run in runnables]

    def optimized(self, program, seconds):
        """Return the network, and the inputs of a call."""
        given = {n: a.astype(np.float32) for n, a in sample(program).items()}
        clock = Clock.of(seconds, self.now, lambda: self.now)
        graph = model_network(program, given).graph
        arrays, backend = [given[tensor.name] for tensor in graph.inputs], cast("Backend", self)
        return optimizer.optimized(graph, arrays, backend, seconds, clock=clock), given

    def searching(self, monkeypatch, seconds):
        """Let a search take so many seconds and find nothing; return the layers, as they come."""
        searched = []

        def search(layer, budget, allowed, backend, rules, clock, accuracy):
            self.now += min(seconds, clock.left)
            searched.append(layer)
            return SearchedLayer.of(layer, original=1.0)

        monkeypatch.setattr("derive.programs.optimization.layer_search.search_layer", search)
        return searched


def several_shapes(count):
    """A network of convolutions, no two of which are equal."""
    rows, read = [], ea.tensor("A", (1, 8, 9, 9))
    for number in range(count):
        kernel = weight(f"K{number}", 9 + number, read.shape[1], 3, 3)
        rows.append((f"C{number}", ops.conv2d(read, kernel, padding=1)))
        read = statement_tensor(*rows[-1])
    return Program(rows, [rows[-1][0]])


def test_folding_and_fusion_need_no_time(own_cache, monkeypatch):
    """A network whose compilation takes ten seconds of none is folded, in the first program."""
    backend = Timed(10.0)
    searched = backend.searching(monkeypatch, 1.0)
    program = network(channels=8, space=6, layers=3)
    made, given = backend.optimized(program, 0)
    assert not searched and len(backend.compiled) == 1
    (part,) = made.parts.values()
    constants = compile_time_statements(part.after)
    assert len([name for name in part.after.names if name not in constants]) == 6
    np.testing.assert_allclose(
        made(given["A"])[0], ea.evaluate(program, **given), rtol=1e-4, atol=1e-4
    )


def has_channels_last(program):
    return any(scope.shape == (1, 6, 6, 8) for _, scope in program.statements)


@pytest.mark.parametrize("faster", [True, False])
def test_every_layout_is_timed_though_no_layer_is_searched(faster, own_cache, monkeypatch):
    """The one that is measured to be faster is taken."""
    program = network(channels=8, space=6, layers=2)
    (other,) = [form.changes for form in changed_variants(folded(shaped(program)[0]))]
    assert other == ("channels last inside",)
    monkeypatch.setattr(searched_forms, "search_layers", lambda *_: {})
    backend = Timed(1.0, lambda program: 1.0 if has_channels_last(program) == faster else 2.0)
    made, given = backend.optimized(program, 20)
    (part,) = made.parts.values()
    assert part.changes == (other if faster else ())
    np.testing.assert_allclose(
        made(given["A"])[0], ea.evaluate(program, **given), rtol=1e-4, atol=1e-4
    )


def test_what_a_form_saves_is_a_share_of_what_its_layers_take_in_it(own_cache, monkeypatch):
    """A layer that by itself takes far longer than in the whole is no reason to compile its form:
    the one of the other layout, of which more is saved, is compiled first.
    """

    def search(layers, *_):
        results = {}
        for layer in layers:
            is_last = layer.program.result.shape[-1] == 8
            original, share = (1.0, 0.5) if is_last else (100.0, 0.2)
            moves = (Move("a rule of nobody", ("O",), {}),)
            cost = (1 - share) * original
            candidate = Candidate(layer.program, (), moves, cost, "proved", True)
            results[layer.identity] = SearchedLayer.of(
                layer, candidate=candidate, original=original
            )
        return results

    monkeypatch.setattr("derive.programs.forms.layers.MIN_LAYER_OPERATIONS", 1)
    monkeypatch.setattr(searched_forms, "search_layers", search)
    monkeypatch.setattr(searched_forms, "MAX_SEARCHED_FORMS", 1)
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    backend = Timed(1.0, lambda program: 1.0)
    backend.optimized(network(channels=8, space=6, layers=2), 20)
    folded_first, _, channels_last, searched, *_ = map(has_channels_last, backend.compiled)
    assert (folded_first, channels_last, searched) == (False, True, True)


def test_many_forms_leave_time_for_searches(own_cache, monkeypatch):
    """However many layouts there are, all but the first have half of the time at most."""
    (variant,) = changed_variants(folded(shaped(network(channels=8, space=6, layers=2))[0]))
    monkeypatch.setattr(other_forms, "changed_variants", lambda *_: [variant] * 9)
    monkeypatch.setattr(mixed_layouts.MixedLayouts, "compile", lambda mixed: None)
    monkeypatch.setattr("derive.programs.forms.layers.MIN_LAYER_OPERATIONS", 1)
    backend = Timed(4.0)
    searched = backend.searching(monkeypatch, 2.0)
    backend.optimized(network(channels=8, space=6, layers=2), 44)
    assert searched and len(backend.compiled) == 6  # the first program, and 5 of 9 forms


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("compile_seconds", [0.5, 6.0])
@pytest.mark.parametrize("seconds", [20, 60])
def test_seconds_hold(seconds, compile_seconds, layers, own_cache, monkeypatch):
    """However long searches could take, and whatever compiling takes, there is an answer in time.

    Where compiling takes a tenth of it, more than a quarter goes into searches.
    """
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    backend = Timed(compile_seconds, lambda program: 0.01)
    searched = backend.searching(monkeypatch, 100.0)
    backend.optimized(several_shapes(layers), seconds)
    assert searched and backend.spent <= 1.1 * seconds
    share = (backend.spent - compile_seconds * len(backend.compiled)) / seconds
    assert share > (0.25 if compile_seconds <= 0.1 * seconds else 0.05)


def test_the_first_program_is_there_before_anything_else(own_cache, monkeypatch):
    """Where compiling takes all the time, it is compiled once, folded, and nothing is searched."""
    backend = Timed(9.5)
    searched = backend.searching(monkeypatch, 1.0)
    backend.optimized(network(channels=8, space=6), 10)
    assert len(backend.compiled) == 1 and not any(searched)


@pytest.mark.parametrize("prefers_last", [True, False])
def test_the_first_program_has_the_layout_that_costs_less_by_the_model(
    prefers_last, own_cache, monkeypatch
):
    backend = Timed(9.5)

    def cycles(program, kernels):
        return 1.0 if has_channels_last(program) == prefers_last else 2.0

    monkeypatch.setattr(backend, "expected_cycles", cycles)
    made, _ = backend.optimized(network(channels=8, space=6, layers=2), 10)
    (part,) = made.parts.values()
    assert len(backend.compiled) == 1
    assert part.changes == (("channels last inside",) if prefers_last else ())


def test_a_layout_without_code_is_not_the_first(own_cache, monkeypatch):
    """Where no code of it can be made to estimate, the program stays in the layout that it has."""
    backend = Timed(9.5)

    def cycles(program, kernels):
        if has_channels_last(program):
            raise CodegenError("no code")
        return 2.0

    monkeypatch.setattr(backend, "expected_cycles", cycles)
    made, _ = backend.optimized(network(channels=8, space=6, layers=2), 10)
    (part,) = made.parts.values()
    assert len(backend.compiled) == 1 and not part.changes


@pytest.mark.parametrize(("seconds", "compiled"), [(10, 1), (100, 3)])
def test_libraries_are_compared_once_there_is_a_program(seconds, compiled, own_cache, monkeypatch):
    """Without time for that, a later call with more seconds goes on from there."""
    monkeypatch.setenv("EINALG_LIBRARIES", "numpy")
    backend = Timed(9.0)
    backend.searching(monkeypatch, 1.0)
    program = as_program(ea.parse("O[i,j] += A[i,k]*W[k,j]", A=(40, 30), W=weight("W", 30, 20)))
    made, _ = backend.optimized(program, seconds)
    (part,) = made.parts.values()
    assert len(backend.compiled) == compiled  # without libraries, with them, and the original
    assert part.run.has_open_choices == (compiled == 1)
    words = str(part.early_end or "")
    assert words.startswith(f"the {seconds} s were over before") == (compiled == 1)


def test_quick_code_runs_where_there_is_no_time_to_optimize_it(own_cache, monkeypatch):
    """It is not kept: a call with more time optimizes in full. Without a search there is time."""
    backend, program = Timed(0.4), several_shapes(6)
    backend.searching(monkeypatch, 1.0)

    def part_in(seconds):
        backend.compiled.clear()
        made, given = backend.optimized(program, seconds)
        (part,) = made.parts.values()
        expected = ea.evaluate(program, **given)
        np.testing.assert_allclose(made(given["A"])[0], expected, rtol=1e-3, atol=1e-3)
        return part

    for _ in range(2):
        part = part_in(0.5)
        assert not part.run.is_optimized and len(backend.compiled) == 1
        assert "all optimizations of the C compiler" in str(part.early_end)
    part = part_in(100)
    assert part.run.is_optimized and "optimizations" not in str(part.early_end)
    part_in(0.5)
    assert not backend.compiled  # it is known
    assert part_in(0).run.is_optimized


@pytest.mark.parametrize(
    "seconds, compile_seconds, compiled", [(2, 0.3, 2), (4, 0.7, 2), (1, 0.7, 1), (0, 2.0, 1)]
)
def test_the_program_as_it_is_is_timed_where_there_is_time(
    own_cache, seconds, compile_seconds, compiled
):
    """The form that needs no search comes first."""
    backend = Timed(compile_seconds)
    text = "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(T[i,j], 0)"
    program = as_program(ea.parse(text, A=(4, 8), W=weight("W", 8, 3)))
    made, _ = backend.optimized(program, seconds)
    assert len(backend.compiled) == compiled
    (part,) = made.parts.values()
    assert (part.times is not None) == (compiled == 2)


def mixed_layers():
    """A product, and two convolutions of which the first is the larger."""
    rows = [("P", ops.conv2d(ea.tensor("A", (1, 16, 12, 12)), weight("J", 96, 16, 1, 1)))]
    rows.append(("C", ops.conv2d(statement_tensor(*rows[-1]), weight("K", 8, 96, 3, 3), padding=1)))
    rows.append(("D", ops.conv2d(statement_tensor(*rows[-1]), weight("L", 8, 8, 3, 3), padding=1)))
    return Program(rows, ["D"])


def test_what_saves_most_is_searched_first(own_cache, monkeypatch):
    """A convolution by windows comes before a product that takes longer, and of two convolutions
    the longer one, whatever their order in the network.
    """
    backend = Timed(0.01)
    searched = backend.searching(monkeypatch, 1.0)
    monkeypatch.setattr(searched_forms, "MAX_TIMING_SHARE", 0.0)  # seconds are shared by the work
    monkeypatch.setattr(other_forms, "changed_variants", lambda *ready: [])
    monkeypatch.setattr(first_form, "channels_last_variant", lambda program: None)
    backend.optimized(mixed_layers(), 60)
    assert [kind_of(layer) for layer in searched] == ["windows", "windows", "products"]
    assert searched[0].work > searched[2].work > searched[1].work


def test_what_is_expected_is_learned():
    """Where the search of one convolution saved nothing and took long, products come next."""
    layers = layers_of(mixed_layers())
    (product,) = [layer for layer in layers if kind_of(layer) == "products"]
    windows = [layer for layer in layers if layer is not product]
    expectation = Expectation()
    assert next_layer(layers, lambda layer: 1.0, expectation) in windows
    nothing = SearchedLayer.of(windows[0], original=1.0)
    for _ in range(3):
        expectation.learn(nothing, 60.0)
    half = Candidate(product.program, (), (), 0.5, "proved", True)
    expectation.learn(SearchedLayer.of(product, candidate=half, original=1.0), 2.0)
    assert next_layer(layers, lambda layer: 1.0, expectation) is product


@pytest.mark.parametrize(
    ("scope", "kind"),
    [
        (ops.conv2d(ea.tensor("A", (1, 4, 9, 9)), weight("K", 5, 4, 3, 3)), "windows"),
        (
            ops.conv2d(ea.tensor("A", (1, 4, 9, 9)), weight("K", 5, 4, 3, 3), stride=2),
            "strided windows",
        ),
        (
            ops.conv2d(ea.tensor("A", (1, 4, 9, 9)), weight("K", 4, 1, 3, 3), groups=4),
            "windows of each channel",
        ),
        (ops.conv2d(ea.tensor("A", (1, 4, 9, 9)), weight("K", 5, 4, 1, 1)), "products"),
        (ops.matmul(ea.tensor("A", (4, 5)), weight("W", 5, 6)), "products"),
        (ops.avg_pool2d(ea.tensor("A", (1, 4, 9, 9)), 3, stride=1), "windows of one tensor"),
        (ops.softmax(ea.tensor("A", (4, 5)), 1), "other reductions"),
    ],
)
def test_kinds_of_layers(scope, kind, monkeypatch):
    monkeypatch.setattr("derive.programs.forms.layers.MIN_LAYER_OPERATIONS", 1)
    program = shaped(as_program(scope))[0]
    assert kind in {kind_of(layer) for layer in layers_of(program)}


def test_a_search_that_ends_early_says_why(own_cache, monkeypatch, caplog):
    backend = Timed(0.2)
    searched = backend.searching(monkeypatch, 100.0)
    with caplog.at_level(logging.WARNING, "einalg"):
        backend.optimized(several_shapes(5), 3)
    assert f"the time is over after {len(searched)} of " in caplog.text
    assert "of which those that promised most came first" in caplog.text
    assert "a call with more seconds goes on from here" in caplog.text


def test_what_is_known_is_in_the_first_program(own_cache, monkeypatch):
    """The layers that an earlier network had are not searched again, and need no time."""
    text = "T[i,j] += A[i,k]*W[k,j]"
    first = as_program(ea.parse(text, A=(40, 30), W=weight("W", 30, 20)))
    ea.optimize(first, {n: a.astype(np.float32) for n, a in sample(first).items()}, seconds=30)
    larger = ea.parse(
        "T[i,j] += A[i,k]*W[k,j]\nU[i,j] = Max(T[i,j], 0)\nO[i,j] += U[i,k]*V[k,j]",
        A=(40, 30),
        W=weight("W", 30, 20),
        V=weight("V", 20, 50),
    )
    backend = Timed(10.0)
    searched = backend.searching(monkeypatch, 1.0)
    made, _ = backend.optimized(larger, 0)
    (part,) = made.parts.values()
    assert not searched and sorted(layer.stored for layer in part.layers) == [False, True]


@pytest.mark.parametrize(("seconds", "left"), [(0.1, 54.0), (20.0, 40.0), (50.0, 30.0)])
def test_searches_leave_time_for_the_form_with_their_results(seconds: float, left: float) -> None:
    """Forms before may have taken none, as their kernels were stored: a share is left all the
    same.
    """
    task = Task(LocalBackend(), 60.0, Clock.of(60.0, 0.0, lambda: 0.0))
    assert task.reserving(seconds).left == pytest.approx(left)


def in_two_statements(layer):
    """A layer as if its form of two statements had been derived for a similar one."""
    scope = layer.program.result
    inner = statement_tensor("U", scope)
    program = Program([("U", scope), ("O", ops.transpose(ops.transpose(inner)))])
    moves = (Move("a rule of nobody", ("O",), {}),)
    candidate = Candidate(program, (), moves, 0.5, "proved")
    return SearchedLayer.of(layer, candidate=candidate, original=1.0, is_adapted=True)


def derived_is_faster(trial, variants):
    """Of these, the later ones are."""
    times = []
    for number, one in enumerate(variants):
        is_derived = has_two_statements(one.program)
        times.append(exactly((10.0 if is_derived else 100.0) - number))
    return times


def has_two_statements(program):
    return any(name.endswith("_U") for name in program.names)


def fewer_with_channels_first(program, kernels):
    """As a cost model may say, whose rates are those of the machine."""
    return 2.0 if has_channels_last(program) else 1.0


@pytest.mark.parametrize("seconds, is_searched", [(6.5, False), (60.0, True)])
def test_forms_of_similar_layers_come_before_the_other_layout_and_all_searches(
    seconds, is_searched, own_cache, monkeypatch
):
    """They are not lost where time ends then; where there is more, these layers are searched, too,
    and a form that is compiled already is not compiled again.
    """

    def similar(layers, *_):
        return {layer.identity: in_two_statements(layer) for layer in layers}

    monkeypatch.setenv("EINALG_LIBRARIES", "")
    monkeypatch.setattr(adapted_forms, "similar_forms", similar)
    monkeypatch.setattr("derive.programs.forms.layers.MIN_LAYER_OPERATIONS", 1)
    backend = Timed(2.0)
    monkeypatch.setattr(backend, "expected_cycles", fewer_with_channels_first)
    monkeypatch.setattr(Trial, "measure", derived_is_faster)
    searched = backend.searching(monkeypatch, 1.0)
    made, given = backend.optimized(network(channels=8, space=6, layers=2), seconds)
    (part,) = made.parts.values()
    assert has_two_statements(part.after)
    assert all(layer.candidate.moves and layer.is_adapted for layer in part.layers)
    derived = list(map(has_two_statements, backend.compiled))
    last = list(map(has_channels_last, backend.compiled))
    assert bool(searched) == any(last) == is_searched
    assert derived.index(True) < (last.index(True) if is_searched else len(last))
    assert sum(derived) == (2 if is_searched else 1)
    expected = ea.evaluate(network(channels=8, space=6, layers=2), **given)
    np.testing.assert_allclose(made(given["A"])[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_exact", [True, False])
def test_a_form_of_a_similar_layer_is_taken_back_where_the_layer_is_faster_as_it_is(
    is_exact, own_cache, monkeypatch
):
    """What was only estimated for one layer takes nothing from what was measured for another one.
    Nor does it where the search of a third one finds a form that is not accurate in the whole.
    """
    first, second, third = {}, {}, {}

    def filters(layer):
        return layer.program.result.shape[1]

    def similar(layers, *_):
        results = {}
        for layer, known in zip(sorted(layers, key=filters), (first, second)):
            known["layer"] = in_two_statements(layer)
            known["layer"].candidate.measured = known is first
            results[layer.identity] = known["layer"]
        return results

    def search(layers, *_):
        for layer in layers:
            if filters(layer) == 11:
                third["layer"] = with_wrong_values(layer)
        as_it_is = replace(
            second["layer"].candidate, program=second["layer"].program, moves=(), measured=True
        )
        back = replace(second["layer"], candidate=replace(as_it_is, cost=1.0), is_adapted=False)
        results = [first["layer"], back]
        if not is_exact:
            results.append(third["layer"])
        return {layer.identity: layer for layer in results}

    def seconds_of(program):
        derived = {name for name in program.names if name.endswith("_U")}
        return {0: 8.0, 1: 1.0, 2: 2.0}[len(derived)]

    monkeypatch.setenv("EINALG_LIBRARIES", "")
    monkeypatch.setattr(adapted_forms, "similar_forms", similar)
    monkeypatch.setattr(searched_forms, "search_layers", search)
    monkeypatch.setattr(other_forms, "changed_variants", lambda *_: [])
    monkeypatch.setattr(first_form, "channels_last_variant", lambda program: None)
    backend = Timed(1.0, seconds_of)
    made, _ = backend.optimized(several_shapes(3), 60)
    (part,) = made.parts.values()
    assert {filters(layer) for layer in part.layers if is_better(layer)} == {9}


def with_wrong_values(layer):
    """A layer as if its search had found a form that is estimated, and wrong."""
    scope = layer.program.result
    program = Program([("O", type(scope)(scope.iterators, scope.where, scope.body * 2))])
    moves = (Move("a rule of nobody", ("O",), {}),)
    candidate = Candidate(program, (), moves, 0.5, "proved")
    return SearchedLayer.of(layer, candidate=candidate, original=1.0)


def test_what_is_known_of_similar_layers_is_looked_for_once(own_cache, monkeypatch):
    """Not again for each other form that has the same layers, whether or not there was a form."""
    followed = []

    def follow(similar, layer):
        followed.append(layer.identity)
        return in_two_statements(layer) if len(followed) == 1 else None

    program = folded(shaped(several_shapes(2))[0])
    others = [replace(unchanged(program), changes=(word,)) for word in ("one", "other")]
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    monkeypatch.setattr(SimilarLayers, "follow", follow)
    monkeypatch.setattr(SimilarLayers, "common", lambda similar, layer: [])
    monkeypatch.setattr(other_forms, "changed_variants", lambda *_: others)
    monkeypatch.setattr(first_form, "channels_last_variant", lambda program: None)
    monkeypatch.setattr(searched_forms, "search_layers", lambda *_: {})
    backend = Timed(1.0)
    backend.optimized(several_shapes(2), 60)
    assert sum(map(has_two_statements, backend.compiled)) == 1 + len(others)
    assert sorted(followed) == sorted(set(followed)) and len(followed) == 2


@pytest.mark.parametrize("is_other", [True, False])
def test_what_was_measured_for_similar_layers_is_taken_where_an_estimated_form_is_wrong(
    is_other, own_cache, monkeypatch
):
    """In the first layout and in another one; nothing that is wrong is compiled twice."""

    def similar(layers, *_):
        right, wrong = sorted(layers, key=lambda layer: layer.program.result.shape[1])
        right = in_two_statements(right)
        right.candidate.measured = True
        results = [right, replace(with_wrong_values(wrong), is_adapted=True)]
        return {layer.identity: layer for layer in results}

    program = folded(shaped(several_shapes(2))[0])
    others = [replace(unchanged(program), changes=("another layout",))]
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    monkeypatch.setattr(adapted_forms, "similar_forms", similar)
    monkeypatch.setattr(searched_forms, "search_layers", lambda *_: {})
    monkeypatch.setattr(other_forms, "changed_variants", lambda *_: others * is_other)
    monkeypatch.setattr(first_form, "channels_last_variant", lambda program: None)
    backend = Timed(1.0)
    monkeypatch.setattr(Trial, "measure", derived_is_faster)
    made, _ = backend.optimized(several_shapes(2), 60)
    (part,) = made.parts.values()
    assert has_two_statements(part.after)
    assert part.changes == (("another layout",) if is_other else ())
    assert sum(map(has_two_statements, backend.compiled)) == (4 if is_other else 2)


def test_a_program_that_is_far_slower_as_it_is_is_timed_once(own_cache, monkeypatch):
    """Not again beside each form that searches lead to: its calls would take the time of others."""

    def search(layers, *_):
        return {
            layer.identity: replace(in_two_statements(layer), is_adapted=False) for layer in layers
        }

    monkeypatch.setenv("EINALG_LIBRARIES", "")
    monkeypatch.setattr(searched_forms, "search_layers", search)
    monkeypatch.setattr(first_form, "channels_last_variant", lambda program: None)
    monkeypatch.setattr(other_forms, "changed_variants", lambda *_: [])
    backend, timed = Timed(0.5), []

    def measure(runnables, arrays):
        timed.append(len(runnables))
        if len(timed) == 1:
            return [exactly(10.0), exactly(1.0)]
        return [exactly(1.0) for _ in runnables]

    monkeypatch.setattr(backend, "measure", measure)
    backend.optimized(several_shapes(2), 60)
    assert timed == [2, 2]  # beside the first form, and what was searched beside that
