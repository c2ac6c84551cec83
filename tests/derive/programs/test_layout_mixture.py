"""Layouts chosen statement by statement: the cheapest of all choices, whose values stay."""

from __future__ import annotations

import logging
from itertools import chain, combinations
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.cost.backend import Backend
from derive.programs.forms.layout_mixture import cheapest_mixture, minimum_cut, mixture
from derive.programs.forms.variants import PARTLY_LAST, mixed_variant, unchanged
from derive.programs.optimization import mixed_layouts, searched_forms
from derive.programs.optimization import optimize as optimizer
from derive.programs.passes.layout_selection import channels_last, movable_orders
from derive.programs.passes.normalise import shaped
from einalg.api.backend import LocalBackend
from einalg.api.models import network as model_network
from tests.helpers.measurements import exactly
from tests.helpers.networks import assert_same_values, network, sample

TEXT = """
T[c,h] = A[c,h] + 1
O[f,h:6] += T[c,h+r]*K[f,c,r]
U[f,h] = Max(O[f,h], 0)
P[g,h:4] += U[f,h+r]*L[g,f,r]
S[g,h:4] = P[g,h] + U[g,h]
R[g,h:4] = 2*S[g,h] + T[g,h]
"""
SHAPES = {"A": (4, 8), "K": (4, 4, 3), "L": (4, 4, 3)}
COSTS = st.integers(0, 8).map(float)


def branches():
    """A program whose statements are read by several others, near and far."""
    return ea.parse(TEXT, **SHAPES)


def subsets(names):
    return chain.from_iterable(combinations(names, count) for count in range(len(names) + 1))


@pytest.mark.parametrize("chosen", [None, *subsets(["T", "O", "U", "P", "S", "R"])])
def test_any_choice_has_the_same_values(chosen):
    program = branches()
    mixed = channels_last(program, chosen)
    assert mixed.outputs == program.outputs
    assert_same_values(program, mixed)


def test_one_copy_serves_all_readers():
    """`U` lies as it was, and is read channels last by two statements."""
    program = branches()
    mixed = channels_last(program, ["P", "S"])
    assert [name for name in mixed.names if name.endswith("_last")] == ["U_last"]
    assert mixed["P"].shape == (4, 4) and "U_last" in mixed["P"].tensors
    assert "U_last" in mixed["S"].tensors and "U" in mixed["U_last"].tensors


def total(program, last, costs, copies, movable, fused):
    """Return the cost of a choice; None for one that divides a kernel."""
    cost = 0.0
    for name in program.names:
        cost += costs[name][name in last]
    for reader, scope in program.statements:
        for name in scope.tensors:
            if name in program.names and (name in last) != (reader in last):
                if name in fused:
                    return None
                cost += copies[name] if name in movable else 0.0
    return cost


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_choice_is_the_cheapest_of_all(data):
    program = branches()
    names = list(program.names)
    costs = {name: (data.draw(COSTS), data.draw(COSTS)) for name in names}
    copies = {name: data.draw(COSTS) for name in names}
    fused = data.draw(st.sets(st.sampled_from(names[:-1])))
    for name in fused:
        costs[name] = (0.0, 0.0)
    movable = set(movable_orders(program))
    first = {name: costs[name][0] for name in names if name not in fused}
    last = {name: costs[name][1] for name in names if name not in fused}
    mixture = cheapest_mixture(program, first, last, movable, copies.__getitem__)
    choices = []
    for chosen in subsets(names):
        cost = total(program, chosen, costs, copies, movable, fused)
        if cost is not None:
            choices.append(cost)
    assert mixture.seconds == pytest.approx(min(choices))
    assert total(program, mixture.last, costs, copies, movable, fused) == pytest.approx(
        min(choices)
    )


def test_a_cut_of_a_graph_without_a_path():
    assert minimum_cut({("a", "t"): 1.0}, "s", "t") == (0.0, frozenset({"s"}))


def test_a_network_of_convolutions_is_mixed_anywhere():
    program = shaped(network())[0]
    for chosen in ({"R0"}, {"C1", "R1"}, {"C0", "O"}, set(program.names)):
        assert_same_values(program, channels_last(program, chosen & set(program.names)))
    assert channels_last(program, ()).names == program.names


@pytest.mark.parametrize("copied", [1e-3, 1.0])
def test_a_mixture_pays_for_its_copies(copied, tmp_path, monkeypatch, caplog):
    """The second convolution is faster channels last, by more or by less than two copies take."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    program = branches()
    first = {str(name): 1.0 for name in program.names}
    last = dict.fromkeys(first, 1.0 + copied)
    last["P"] = 0.5
    rates = "derive.programs.forms.layout_mixture.Roofline.time"
    monkeypatch.setattr(rates, lambda self, *_, **__: 0.2 if copied == 1.0 else 0.6)
    monkeypatch.setattr("derive.programs.forms.layout_mixture.MIN_SAVED_SHARE", 0.0)
    with caplog.at_level(logging.INFO, "einalg"):
        backend = cast("Backend", LocalBackend())
        variant = mixture(unchanged(program), first, last, backend)
    if copied == 1.0:
        assert variant is not None and variant.changes == (PARTLY_LAST,)
        assert "U_last" in variant.program.names and "are expected to take" in caplog.text
        assert_same_values(program, variant.program)
    else:
        assert variant is None


@pytest.mark.parametrize("faster", [True, False])
def test_a_mixture_is_taken_where_it_is_measured_to_be_faster(faster, tmp_path, monkeypatch):
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    mixed = []

    def mixture(variant, first, last, backend):
        names = variant.program.names
        assert first.keys() <= set(names) and last.keys() <= set(names) and "O" in first
        assert min([*first.values(), *last.values()]) > 0
        name = next(iter(movable_orders(variant.program)))
        mixed.append(mixed_variant(variant, {name}))
        return mixed[-1]

    def measure(self, runnables, arrays):
        times = [1.0 for _ in runnables]
        if mixed:  # which is measured beside the others, as the last one
            times[-1] = 0.5 if faster else 2.0
        return list(map(exactly, times))

    monkeypatch.setattr(mixed_layouts, "mixture", mixture)
    monkeypatch.setattr(searched_forms, "search_layers", lambda *_: {})
    monkeypatch.setattr(LocalBackend, "measure", measure)
    program = network(channels=8, space=6, layers=2)
    arrays = {name: array.astype(np.float32) for name, array in sample(program).items()}
    graph = model_network(program, arrays).graph
    inputs = [arrays[tensor.name] for tensor in graph.inputs]
    made = optimizer.optimized(graph, inputs, cast("Backend", LocalBackend()), 600)
    (part,) = made.parts.values()
    assert mixed and (part.changes == (PARTLY_LAST,)) == faster
    np.testing.assert_allclose(
        made(arrays["A"])[0], ea.evaluate(program, **arrays), rtol=1e-4, atol=1e-4
    )
