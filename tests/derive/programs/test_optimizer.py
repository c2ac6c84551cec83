"""Whole programs: every step keeps the values, equal layers are searched once, and what is not
better is not taken.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from fractions import Fraction
from itertools import count, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.building.problem import BuildProblem
from codegen.targets.c.compiler import KERNEL_CACHE
from derive.programs import optimized_program
from derive.programs.forms.layers import (
    SearchedLayer,
    known_layer,
    layers_of,
    search_layer,
    with_layers,
)
from derive.programs.forms.variants import unchanged
from derive.programs.optimization import optimize as optimizer
from derive.programs.optimization import other_forms, searched_forms
from derive.programs.optimization.trial import Trial
from derive.programs.passes.normalise import shaped
from derive.programs.passes.weights.folding import folded
from derive.results.candidates import Candidate
from derive.results.pipeline import find_derivation
from derive.rewriting.moves import Move
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Budget
from einalg.api.backend import LocalBackend
from einalg.api.models import network as model_network
from einalg.errors import CodegenError, NotationError, ShapeError
from einalg.frontends.graph_builder import GraphBuilder
from einalg.language import ops
from einalg.language.conversion import converted
from einalg.language.ir.program import Program, as_program, in_double
from einalg.language.ir.tensor import Constant
from einalg.language.notation import program_json
from einalg.storage.disk_cache import cache_folder
from tests.helpers.kernels import in_numpy
from tests.helpers.measurements import exactly
from tests.helpers.networks import assert_same_values, network, sample, weight


def searched(program):
    layers = []
    for layer in layers_of(program):
        found = find_derivation(layer.program, Budget(states=8), None, None, measure=False)
        longest = max(found.candidates, key=lambda c: len(c.moves))
        layers.append(SearchedLayer.of(layer, candidate=longest, original=found.original.cost))
    return layers


def test_equal_layers_are_one_and_are_put_back():
    program = folded(shaped(network(channels=8, space=7, layers=3))[0])
    layers = searched(program)
    assert (
        [len(layer.names) for layer in layers] == [3]
        and layers[0].candidate is not None
        and layers[0].candidate.moves
    )
    whole = with_layers(program, layers, lambda layer: True)
    assert_same_values(program, whole)
    assert len(whole.statements) >= len(program.statements) + 3
    assert with_layers(program, layers, lambda layer: False) == program


def test_layers_that_differ_in_a_constant_or_a_role_are_two():
    text = "T[i,j] += A[i,k]*W[k,j]\nU[i,j] += T[i,k]*V[k,j]\nO[i,j] += U[i,k]*W[k,j]*2"
    tensors = dict(A=(40, 40), W=weight("W", 40, 40), V=(40, 40))
    assert len(layers_of(ea.parse(text, **tensors))) == 3


def test_layers_that_differ_in_the_values_of_a_constant_are_two():
    first, second = (
        Constant(name, [(0, 40)], "f32", [Fraction(value)] * 40)
        for name, value in (("P", 2), ("Q", 3))
    )
    program = ea.parse(
        "T[i,j] += A[i,k]*P[k]*W[k,j]\nO[i,j] += T[i,k]*Q[k]*W[k,j]",
        A=(40, 40),
        W=weight("W", 40, 40),
        P=first,
        Q=second,
    )
    layers = []
    for layer in layers_of(program):
        found = find_derivation(layer.program, Budget(states=0), None, None, measure=False)
        layers.append(SearchedLayer.of(layer, candidate=found.best))
    assert len(layers) == 2
    assert_same_values(program, with_layers(program, layers, lambda layer: True))


@pytest.mark.parametrize("names", list(permutations(("A1", "A0", "Z"))))
def test_a_layer_reads_its_own_tensors_whatever_they_are_called(names):
    first, second, third = names
    program = ea.parse(
        f"O[i,j] += ({first}[i,k] + {second}[k,i]*{third}[i])*W[k,j]",
        **{first: (30, 30), second: (30, 30), third: (30,)},
        W=weight("W", 30, 30),
    )
    assert_same_values(
        as_program(program),
        with_layers(as_program(program), searched(as_program(program)), lambda layer: True),
    )


def test_a_search_that_time_ended_is_done_again_with_more_time(own_cache, monkeypatch):
    searches = []

    def stopped(program, budget, rules, backend, accuracy, most, clock):
        searches.append(budget.seconds)
        found = find_derivation(program, Budget(states=0), None, None, measure=False)
        found.stats.is_cut = True
        best = replace(found.best, measured=True)
        return SimpleNamespace(best=best, original=best, candidates=[best], stats=found.stats)

    monkeypatch.setattr("derive.programs.forms.layers.find_derivation", stopped)
    backend: Any = SimpleNamespace(identity=lambda: "machine")
    for seconds, expected in ((8.0, 1), (8.0, 1), (4.0, 1), (16.0, 2), (16.0, 2)):
        (layer,) = layers_of(
            as_program(ea.parse("O[i,j] += A[i,k]*W[k,j]", A=(40, 40), W=weight("W", 40, 40)))
        )
        if not known_layer(layer, seconds, backend):
            search_layer(layer, Budget(seconds=seconds / 4), seconds, backend)
        assert len(searches) == expected


def given_for(program):
    return {n: a.astype(np.float32) for n, a in sample(program).items()}


def test_an_optimized_program_gives_the_values_of_the_reference(own_cache):
    program = network(channels=8, space=6, layers=1)
    given = given_for(program)
    o = ea.optimize(program, given, seconds=300)
    expected = ea.evaluate(program, **given)
    np.testing.assert_allclose(o(given["A"]), expected, rtol=1e-4, atol=1e-4)
    (part,) = o.parts.values()
    assert part.verdict == "proved" and part.error < 1e-5 and part.layers[0].states > 0
    assert (
        "C0 (" in str(o.report)
        and ", with K0" in str(o.report)
        and "proved" in str(o.report)
        and "<table>" in o.report._repr_html_()
    )
    again = ea.optimize(program, given, seconds=300)
    (found,) = again.parts.values()
    assert all(layer.stored and layer.states == 0 for layer in found.layers)
    np.testing.assert_allclose(again(given["A"]), expected, rtol=1e-4, atol=1e-4)
    if found.after == part.after:  # the other form may be as fast
        np.testing.assert_allclose(again(given["A"]), o(given["A"]), rtol=1e-5, atol=1e-5)


def product():
    """A layer that is searched in no time."""
    return ea.parse(
        "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(T[i,j], 0)", A=(40, 30), W=weight("W", 30, 20)
    )


def test_a_second_run_starts_from_the_disk(own_cache, monkeypatch):
    """With the same layers in the report, whatever the example; other weights, another wish or a
    longer search begin anew.
    """
    program = product()
    given = given_for(program)
    o = ea.optimize(program, given, seconds=300)
    runs, part = [], optimizer.optimize_program
    monkeypatch.setattr(
        optimizer, "optimize_program", lambda *given: runs.append(1) or part(*given)
    )
    again = ea.optimize(program, {**given, "A": 2 * given["A"]}, seconds=300)
    assert not runs
    np.testing.assert_array_equal(again(given["A"]), o(given["A"]))
    (first,), (second,) = o.parts.values(), again.parts.values()
    assert all(
        getattr(first, name) == getattr(second, name)
        for name in ("after", "seconds", "error", "verdict", "changes")
    )
    kept = [(layer.names, layer.text, layer.original) for layer in first.layers]
    assert [(layer.names, layer.text, layer.original) for layer in second.layers] == kept and all(
        layer.stored for layer in second.layers
    )
    ea.optimize(program, {**given, "W": 2 * given["W"]}, seconds=300)
    assert len(runs) == 1
    ea.optimize(program, given, seconds=300, accuracy=1e-3)
    assert len(runs) == 2


def test_a_second_run_looks_at_no_statement(own_cache, monkeypatch):
    """Its kernels are found as they were compiled; where they are gone, they are compiled again,
    and kept again.
    """
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    text = "T[i,j] += A[i,k]*W[k,j]\nU[i,j] = Max(T[i,j] + b[j], 0)\nV[j] = 2*b[j]\nO[j] += U[i,j]*V[j]"
    program = ea.parse(text, A=(40, 30), W=weight("W", 30, 20), b=weight("b", 20))
    given = given_for(program)
    o = ea.optimize(program, given, seconds=300)
    expected = [np.asarray(v) for v in o(given["A"])]
    made, read = [], []
    make, line = BuildProblem.__init__, program_json.line_reader
    monkeypatch.setattr(
        BuildProblem, "__init__", lambda self, *given: made.append(1) or make(self, *given)
    )
    monkeypatch.setattr(
        program_json, "line_reader", lambda: lambda *given: read.append(1) or line()(*given)
    )

    def again():
        found = ea.optimize(program, given, seconds=300)
        for value, wanted in zip(found(given["A"]), expected, strict=True):
            np.testing.assert_array_equal(value, wanted)
        return found

    assert again() and not made and not read
    assert (
        repr(next(iter(again().parts.values())).run) and made and read
    )  # who asks for the kernels gets them
    for path in (cache_folder() / KERNEL_CACHE.name).rglob("*.so"):
        path.unlink()
    made.clear()
    assert again() and made
    made.clear()
    assert again() and not made


def test_a_run_that_time_ended_goes_on_with_more(own_cache, monkeypatch):
    program = product()
    given = given_for(program)
    ea.optimize(program, given, seconds=0)
    runs, part = [], optimizer.optimize_program
    monkeypatch.setattr(
        optimizer, "optimize_program", lambda *given: runs.append(1) or part(*given)
    )
    ea.optimize(program, given, seconds=0)
    assert not runs
    o = ea.optimize(program, given, seconds=300)
    assert len(runs) == 1 and all(
        layer.original is not None for one in o.parts.values() for layer in one.layers
    )


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"program": {}, "cut": null}'])
def test_a_damaged_program_on_the_disk_is_searched_again(content, own_cache, monkeypatch, caplog):
    monkeypatch.setattr(
        type(optimized_program.PARTS),
        "read",
        lambda self, key: content if self is optimized_program.PARTS else None,
    )
    program = product()
    given = given_for(program)
    with caplog.at_level(logging.WARNING, "einalg"):
        o = ea.optimize(program, given, seconds=0)
    assert "damaged" in caplog.text
    np.testing.assert_allclose(o(given["A"]), in_numpy(program, given), rtol=1e-4, atol=1e-4)


class Preferring:
    """The backend of this machine, but that some programs are said to be fast."""

    def __init__(self, preferred):
        self.preferred, self.own = preferred, LocalBackend()

    def __getattr__(self, name):
        return getattr(self.own, name)

    def measure(self, runnables, arrays):
        return [exactly(1.0 if self.preferred(run) else 2.0) for run in runnables]


@pytest.mark.parametrize("seconds, tried", [(300.0, True), (0.0, False)])
def test_other_candidates_of_layers_are_tried_in_the_whole(own_cache, monkeypatch, seconds, tried):
    """The one that is best alone is not where the whole is faster with the next one; without time,
    nothing is tried.
    """
    program = as_program(
        ops.conv2d(ea.tensor("A", (1, 4, 9, 9)), weight("W", 5, 4, 3, 3), padding=1)
    )
    (layer,) = layers_of(program)
    found = find_derivation(layer.program, Budget(states=8), None, None)
    best, *_, other = sorted(
        (c for c in found.candidates if c.moves), key=lambda c: len(c.program.statements)
    )
    assert len(other.program.statements) > len(best.program.statements)

    def searched(layers, task, seconds, known):
        (only,) = layers
        found = SearchedLayer.of(only, candidate=best, original=1.0, alternatives=(other,))
        return {only.identity: found}

    monkeypatch.setattr(other_forms, "changed_variants", lambda *ready: [])
    monkeypatch.setattr(searched_forms, "search_layers", searched)
    given, backend = (
        given_for(program),
        Preferring(lambda run: len(run.program.statements) > len(best.program.statements)),
    )
    made = optimizer.optimized(model_network(program, given).graph, [given["A"]], backend, seconds)
    (part,) = made.parts.values()
    assert (part.layers[0].candidate is other) == tried
    np.testing.assert_allclose(made(given["A"])[0], in_numpy(program, given), rtol=1e-4, atol=1e-4)


def test_without_time_nothing_is_searched_and_the_answer_is_right(own_cache, caplog):
    program = network(channels=16, space=9)
    given = given_for(program)
    with caplog.at_level(logging.WARNING, "einalg"):
        o = ea.optimize(program, given, seconds=0)
    assert "the time is over after 0 of " in caplog.text and "it was not searched" in str(o.report)
    np.testing.assert_allclose(o(given["A"]), in_numpy(program, given), rtol=1e-4, atol=1e-4)


def test_an_interrupt_keeps_what_there_is(own_cache, caplog):
    def interrupt(layer, number, of):
        raise KeyboardInterrupt

    program = network(channels=16, space=9)
    given = given_for(program)
    with caplog.at_level(logging.WARNING, "einalg"):
        o = ea.optimize(program, given, progress=interrupt)
    assert "interrupted" in caplog.text
    np.testing.assert_allclose(o(given["A"]), in_numpy(program, given), rtol=1e-4, atol=1e-4)


def with_wrong_values(layer, measured=True):
    """A layer as if a proof and the checks had failed to see that its form is wrong."""
    scope = layer.program.result
    changed = Program([("O", type(scope)(scope.iterators, scope.where, scope.body * 2))])
    moves = (Move("a rule of nobody", ("O",), {}),)
    double = Candidate(changed, (), moves, 0.0, "proved", measured)
    return SearchedLayer.of(layer, candidate=double, original=1.0)


def test_what_is_only_estimated_is_dropped_alone_where_the_whole_is_wrong(own_cache, monkeypatch):
    def searched_layers(layers, task, seconds, known):
        first, second = layers
        (right,) = searched(second.program)
        candidate = replace(right.candidate, cost=0.0, measured=True)
        right = SearchedLayer.of(second, candidate=candidate, original=1.0)
        wrong = with_wrong_values(first, measured=False)
        return {first.identity: wrong, second.identity: right}

    monkeypatch.setattr(other_forms, "changed_variants", lambda *ready: [])
    monkeypatch.setattr(searched_forms, "search_layers", searched_layers)
    inner = ops.conv1d(ea.tensor("A", (1, 8, 90)), weight("W", 8, 8, 5))
    program = as_program(ops.conv1d(inner, weight("V", 8, 8, 3)))
    given = given_for(program)
    before = len(lifted(program).statements)
    backend = Preferring(lambda run: len(run.program.statements) > before)
    made = optimizer.optimized(model_network(program, given).graph, [given["A"]], backend, 300.0)
    (part,) = made.parts.values()
    derived = [
        layer.candidate for layer in part.layers if layer.candidate and layer.candidate.moves
    ]
    assert [candidate.measured for candidate in derived] == [True]
    expected = in_numpy(program, given)
    np.testing.assert_allclose(made(given["A"])[0], expected, rtol=1e-4, atol=1e-4)


def test_a_layer_with_wrong_values_is_not_taken(own_cache, caplog, monkeypatch):
    def wrong(layer, *_, **__):
        return with_wrong_values(layer)

    monkeypatch.setattr("derive.programs.optimization.layer_search.search_layer", wrong)
    program = network(channels=16, space=9)
    given = given_for(program)
    with caplog.at_level(logging.WARNING, "einalg"):
        o = ea.optimize(program, given)
    assert "deviates" in caplog.text
    np.testing.assert_allclose(o(given["A"]), in_numpy(program, given), rtol=1e-4, atol=1e-4)


def test_a_form_of_another_type_is_not_taken(own_cache, caplog, monkeypatch):
    """As if a search had changed the type of a result, whose memory is of the type it was."""
    program = as_program(ea.parse("O[i,j] += A[i,k]*W[k,j]", A=(4, 8), W=weight("W", 8, 3)))
    scope = program.result
    narrow = type(scope)(scope.iterators, scope.where, converted(scope.body, "f16"))
    forms = [unchanged(Program([("O", narrow)]))]
    monkeypatch.setattr(other_forms, "changed_variants", lambda *_: forms)
    ones = {"A": np.ones((4, 8), np.float32), "W": np.ones((8, 3), np.float32)}
    with caplog.at_level(logging.WARNING, "einalg"):
        o = ea.optimize(program, ones, seconds=300)
    assert "gives O as f16 of shape (4, 3) in the place of f32 of shape (4, 3)" in caplog.text
    assert o(ones["A"]).dtype == np.float32


def wrong_code(monkeypatch, is_wrong):
    """As if code generation were wrong for those programs for which `is_wrong` holds: twice the
    values come out.
    """
    right = optimized_program.compiled

    class Wrong:
        def __init__(self, run):
            self.run = run

        def __getattr__(self, name):
            return getattr(self.run, name)

        def __call__(self, **given):
            result = self.run(**given)
            return (
                {name: 2 * value for name, value in result.items()}
                if isinstance(result, dict)
                else 2 * result
            )

    def compiled(program, *rest, **options):
        run = right(program, *rest, **options)
        return Wrong(run) if is_wrong(program) else run

    monkeypatch.setattr("derive.programs.optimization.trial.compiled", compiled)


def test_the_program_as_it_is_is_checked_too(own_cache, monkeypatch):
    """Where all code is wrong there is nothing to fall back to, which is said."""
    wrong_code(monkeypatch, lambda _: True)
    program = ea.parse(
        "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(T[i,j], 0)", A=(4, 8), W=weight("W", 8, 3)
    )
    with pytest.raises(CodegenError, match="other values than the reference"):
        ea.optimize(program, {"A": np.ones((4, 8)), "W": np.ones((8, 3))}, seconds=1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({0}, "an optimized program deviates"), ({1}, "as it is deviates"), ({0, 1}, "as it is")],
)
def test_another_form_is_taken_where_one_is_wrong(wrong, words, own_cache, monkeypatch, caplog):
    """The first that is compiled is folded and fused, the second the program as it is; then follow
    other forms.
    """
    program = as_program(
        ea.parse("T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(T[i,j], 0)", A=(4, 8), W=weight("W", 8, 3))
    )
    monkeypatch.setattr(other_forms, "changed_variants", lambda one, *_: [unchanged(one)])
    counts = count()
    wrong_code(monkeypatch, lambda _: next(counts) in wrong)
    with caplog.at_level(logging.WARNING, "einalg"):
        o = ea.optimize(program, {"A": np.ones((4, 8)), "W": np.ones((8, 3))}, seconds=300)
    assert words in caplog.text
    np.testing.assert_allclose(o(np.ones((4, 8))), np.full((4, 3), 8))


def test_rounding_is_no_wrong_code(own_cache):
    """What is left of numbers that cancel has few digits in f32, whoever computes it."""
    program = ea.parse("O[i] += 3.3*A[i,j]", A=(64, 64))
    values = np.random.default_rng(0).standard_normal((64, 64))
    values[:, 1::2] = -values[:, ::2] * (1 + 1e-6)
    np.testing.assert_allclose(
        ea.optimize(program, {"A": values}, seconds=1)(values), values.sum(1) * 3.3, atol=1e-4
    )


def test_opaque_calls_stand_between_programs(own_cache):
    builder = GraphBuilder()
    builder.input("x", (4, 6), "f32")
    builder.weight("w", np.arange(18, dtype=np.float32).reshape(6, 3))
    builder.express("MatMul", ("x", "w"), ("y",), ops.matmul)
    builder.call(
        "Sort",
        ("y",),
        {"z": ((4, 3), "f32")},
        lambda y: (np.sort(y, axis=0),),
        "sorting is no expression",
    )
    builder.express("Relu", ("z",), ("o",), ops.relu)
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    o = ea.optimize(builder.graph(["o", "y"]), [x], seconds=1)
    first, second = o(x)
    product = x @ np.arange(18, dtype=np.float32).reshape(6, 3)
    np.testing.assert_allclose(second, product, rtol=1e-5)
    np.testing.assert_allclose(first, np.maximum(np.sort(product, axis=0), 0), rtol=1e-5)
    assert len(o.parts) == 2 and "Sort: sorting is no expression" in str(o.report)


def test_what_is_no_model():
    with pytest.raises(NotationError, match="is no model"):
        ea.optimize(3, [])
    with pytest.raises(ShapeError, match="no example is given for input B"):
        ea.optimize(ea.parse("O[i] = A[i]*B[i]", A=(3,), B=(3,)), {"A": np.ones(3)})
    with pytest.raises(ShapeError, match="A has shape"):
        ea.optimize(ea.parse("O[i] = A[i]", A=(3,)), [np.ones(4)])


def test_examples_are_drawn_where_the_model_states_its_shapes():
    o = ea.optimize(ea.parse("O[i] = A[i]*B[i]", A=(3,), B=(3,)), seconds=0)
    assert o(np.ones(3), np.ones(3)).tolist() == [1, 1, 1]
    with pytest.raises(ShapeError, match="no example is given for input B"):
        ea.optimize(ea.parse("O[i] = A[i]*B[i]", A=(3,), B=ea.tensor("B", (3,), role="weight")))


def test_a_constant_of_another_type_keeps_the_type_of_its_readers() -> None:
    """`0` as f32 is written as a product with a constant of that type: simplified to 0, it would be
    an integer.
    """
    program = ea.parse(
        "T[()] = 0\nC[()] = T[()]*one[()]\nO[i] = A[i]*C[()]", A=(3,), one=ea.constant("one", 1)
    )
    made = ea.optimize(program, {"A": np.ones(3, np.float32)}, seconds=0)
    assert (
        made(np.ones(3, np.float32)).dtype == np.float32 and not made(np.ones(3, np.float32)).any()
    )


def test_gathered_windows_that_do_not_fit_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework's definition of banded attention gathers every row's band in memory: 13 GB at
    full size.
    """
    text = "W[i,w:5,k] = K.pad(2,0)[i+w-2,k]\nS[i,w] += Q[i,k]*W[i,w,k]"
    program = ea.parse(text, K=(9, 4), Q=(9, 4))
    arrays = {
        name: np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32) for name in "KQ"
    }
    expected = in_numpy(program, arrays)
    for memory, statements in ((1 << 40, 2), (1, 1)):
        monkeypatch.setattr(
            "derive.programs.optimization.optimize.memory_bytes", lambda memory=memory: memory
        )
        made = ea.optimize(program, arrays, seconds=0)
        (part,) = made.parts.values()
        assert len(part.before.names) == statements
        assert np.allclose(
            made(*(arrays[name] for name in part.before.inputs)), expected, atol=1e-5
        )


@pytest.mark.parametrize("accuracy", [None, 1e-8])
def test_rounding_that_adds_up_is_no_fault_of_a_form(accuracy, tmp_path, monkeypatch, caplog):
    """As in a hundred layers; unless less is asked for, a form may deviate as NumPy does."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr("derive.programs.optimization.trial.tolerance", lambda program: 1e-8)
    text = "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(T[i,j], 0)"
    program = as_program(ea.parse(text, A=(8, 64), W=weight("W", 64, 8)))
    given = {name: array.astype(np.float32) for name, array in sample(program).items()}
    o = ea.optimize(program, given, seconds=0, accuracy=accuracy)
    (part,) = o.parts.values()
    assert part.error > 1e-8
    assert ("deviates by" in caplog.text) == (accuracy is not None)


@pytest.mark.parametrize(
    ("allowed", "error", "rounding", "is_rounding"),
    [
        (1e-4, 5e-3, 1e-2, True),
        (1e-4, 7e-3, 1e-2, False),  # 70 times what is allowed
        (2e-2, 0.09, 0.3, True),
        (2e-2, 0.11, 0.3, False),  # a tenth of the largest element, in 16 bits
        (1e-4, 5e-3, np.inf, False),  # NumPy has another NaN or infinity, which tells nothing
        (1e-4, np.nan, 1e-2, False),
    ],
)
def test_no_rounding_is_a_large_part_of_a_result(allowed, error, rounding, is_rounding):
    trial = Trial(None, SimpleNamespace(accuracy=None), allowed)
    trial.__dict__["rounding"] = rounding
    assert trial._is_rounding(error) is is_rounding


@pytest.mark.parametrize("is_right_in_double", [True, False])
def test_a_form_is_judged_in_double_precision_where_rounding_decides(
    is_right_in_double, own_cache, monkeypatch, caplog
):
    """No digit of the results is right in f32, whoever computes them. How fast a form is does not
    matter here.
    """
    prefer_forms = "derive.programs.optimization.compiled_forms.Forms._weighed"
    monkeypatch.setattr(prefer_forms, lambda forms, form: form is forms.original)
    text = "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = sin(100000000*T[i,j])"
    program = as_program(ea.parse(text, A=(16, 64), W=weight("W", 64, 8)))
    rng = np.random.default_rng(0)
    given = {"A": rng.random((16, 64), np.float32), "W": rng.random((64, 8), np.float32)}
    if not is_right_in_double:
        other = in_double(as_program(ea.parse(text.replace("sin", "cos"), A=(16, 64), W=(64, 8))))
        monkeypatch.setattr("derive.programs.optimization.trial.in_double", lambda form: other)
    o = ea.optimize(program, given, seconds=0)
    (part,) = o.parts.values()
    assert part.error > 0.1
    assert ("deviates by" in caplog.text) != is_right_in_double
    assert ("results depend on rounding: NumPy's error" in str(part.changes)) == is_right_in_double


@pytest.mark.parametrize(
    ("accuracy", "error", "own", "may_be_right"),
    [
        (None, 0.5, 0.3, True),
        (None, 0.7, 0.3, False),  # more than twice as far as NumPy's values
        (1e-3, 0.5, 0.3, False),  # less is asked for
        (None, 0.5, np.inf, False),  # NumPy has another NaN or infinity, which tells nothing
        (None, np.inf, np.inf, False),
        (None, np.nan, 0.3, False),
    ],
)
def test_a_form_is_no_farther_from_double_precision_than_numpy(accuracy, error, own, may_be_right):
    example: Any = None
    task: Any = SimpleNamespace(accuracy=accuracy)
    variant: Any = SimpleNamespace(slices=None)
    trial = Trial(example, task, 1e-4)
    trial.__dict__["own_error"] = own
    assert trial._is_as_near_as_own(variant, error) is may_be_right
