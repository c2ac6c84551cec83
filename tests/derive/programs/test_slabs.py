"""What a statement reads of a tensor at one place of an axis is a tensor of its own, and equal
statements elsewhere are the same layer.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.programs.forms.layers import SearchedLayer, layers_of, with_layers
from derive.programs.passes.constant_slices import on_slabs, on_tensors, slabs
from derive.results.pipeline import find_derivation
from derive.search.best_first import Budget
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.tensor import Tensor


def same_values(one, two):
    rng = np.random.default_rng(0)
    given = {name: rng.standard_normal(tensor.shape) for name, tensor in one.inputs.items()}
    np.testing.assert_allclose(
        ea.evaluate(two, **given), ea.evaluate(one, **given), rtol=1e-9, atol=1e-12
    )


def through_slabs(scope):
    """The scope on slabs, and that one on tensors again."""
    found = {
        name: (slab, slab.called(f"S{k}", "input"))
        for k, (name, slab) in enumerate(slabs(scope).items())
    }
    cut = on_slabs(scope, found)
    return cut, on_tensors(cut, {named.name: slab for slab, named in found.values()})


BODIES = {
    "O[j] = A[7,j] + B[j,0]": ({"A": (9, 4), "B": (4, 2)}, [(1, 4), (4, 1)]),
    "O[j] = A[7,j]*A[7,0]": ({"A": (9, 4)}, [(1, 4)]),
    "O[j] = A[7,j]*A[6,j]": ({"A": (9, 4)}, [(9, 4)]),
    "O[j] = A[-2,j]": ({"A": ((-3, 2), 4)}, [(1, 4)]),
    "O[j] += A[2,k]*W[k,j]": ({"A": (3, 5), "W": (5, 4)}, [(1, 5), (5, 4)]),
    "O[j:4] = A.pad((0, 1), 0)[3,j]": ({"A": (3, 4)}, [(3, 4)]),
    "O[j] = (L[i:4](A[2,i]*2))[j]": ({"A": (3, 4)}, [(1, 4)]),
    "O[j] = A[2,j] + x[()]": ({"A": (3, 4), "x": ()}, [(1, 4), ()]),
    "O[i:0] = A[2,i]*A[i,0]": ({"A": (3, 4)}, [(3, 4)]),
    "O[i:0] = A[5,i]": ({"A": (3, 4)}, [(3, 4)]),
}


@pytest.mark.parametrize("text", BODIES)
def test_a_scope_on_slabs(text):
    shapes, wanted = BODIES[text]
    scope = ea.parse(text, **shapes)
    cut, back = through_slabs(scope)
    assert [tensor.shape for tensor in cut.tensors.values()] == wanted
    assert back == scope


def test_a_slab_that_is_padded_beside_other_values_is_copied():
    scope = ea.parse("O[j] = A[7,j]", A=(9, 4))
    found = slabs(scope)
    padded = ea.parse("O[i:3,j:4] = S.pad((1, 1), 0)[i - 1,j]", S=(1, 4))
    back = on_tensors(padded, {"S": found["A"]})
    a = np.arange(36.0).reshape(9, 4)
    np.testing.assert_array_equal(ea.evaluate(back, A=a), [np.zeros(4), a[7], np.zeros(4)])


def network(steps, before=0):
    """A recurrent network whose states lie in one tensor each, at the place of their step."""
    rows = []
    for k in range(steps):
        state = f"H{k - 1}[{k - 1},j]" if k else f"B[{before},j]"
        rows += [
            f"G{k}[i:130] = x[{k},i] + Sum[j:130]({state}*U[i,j])",
            f"H{k}[t:{k}:{k + 1},j:130] = tanh(G{k}[j])",
        ]
    return ea.parse(
        "\n".join(rows), x=(steps, 130), B=(3, 130), U=Tensor("U", (130, 130), role="weight")
    )


def test_steps_of_a_network_are_one_layer():
    program = network(5, before=1)
    (layer,) = layers_of(program)
    assert layer.names == tuple(f"G{k}" for k in range(5))
    found = find_derivation(layer.program, Budget(states=0), None, None, measure=False)
    same = SearchedLayer.of(layer, candidate=found.best)
    assert with_layers(program, [same], lambda _: True) == program


def test_what_is_derived_for_one_step_is_put_into_all():
    program = network(3, before=2)
    (layer,) = layers_of(program)
    found = find_derivation(layer.program, Budget(states=12), None, None, measure=False)
    for candidate in found.candidates:
        derived = SearchedLayer.of(layer, candidate=candidate)
        same_values(program, with_layers(program, [derived], lambda _: True))
    assert any(candidate.moves for candidate in found.candidates)


@given(st.data())
def test_slabs_and_back_is_the_same_scope(data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    names = ea.indices("i j k")
    subscripts = [
        data.draw(st.one_of(st.integers(0, extent - 1), st.just(index)))
        for index, extent in zip(names, shape)
    ]
    other = [
        data.draw(st.one_of(st.just(s), st.integers(0, extent - 1)))
        for s, extent in zip(subscripts, shape)
    ]
    a = ea.tensor("A", tuple(shape))
    free = [
        slice(index, extent)
        for index, extent in zip(names, shape)
        if index in (*subscripts, *other)
    ]
    scope = ea.L[tuple(free)](a[tuple(subscripts)] * a[tuple(other)] + a[tuple(subscripts)])
    cut, back = through_slabs(scope)
    assert back == scope
    array = np.random.default_rng(1).standard_normal(shape)
    (slab,) = slabs(scope).values()
    part = array[
        tuple(slice(None) if place is None else slice(place, place + 1) for place in slab.places)
    ]
    np.testing.assert_array_equal(ea.evaluate(cut, S0=part), ea.evaluate(scope, A=array))


def test_a_network_of_one_statement_keeps_its_name():
    program = as_program(
        ea.parse(
            "A0[i:40] = Sum[j:500](A1[3,j]*W[i,j])",
            A1=(5, 500),
            W=Tensor("W", (40, 500), role="weight"),
        )
    )
    program = Program([("A0", program.result)])
    (layer,) = layers_of(program)
    found = find_derivation(layer.program, Budget(states=0), None, None, measure=False)
    same = SearchedLayer.of(layer, candidate=found.best)
    assert with_layers(program, [same], lambda _: True) == program
