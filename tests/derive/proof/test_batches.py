"""Many inputs at once give what each gives alone, and no round cuts an expression anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import einalg as ea
from derive.proof.random.batches import stacked, stacked_arrays
from derive.proof.random.blocks import OutputBlock, cut_block, values_for
from derive.proof.random.places import Place, Places
from derive.proof.random.rounding import in_double
from einalg.testing import strategies

INPUTS = 3


@given(strategies.scopes())
def test_values_at_several_inputs(scope: ea.Scope) -> None:
    block = cut_block([scope], (0,) * scope.rank, scope.shape)
    rng = np.random.default_rng(0)
    arrays = []
    for _ in range(INPUTS):
        drawn = {}
        for name, tensor in block.tensors.items():
            drawn[name] = values_for(tensor, lambda shape: rng.integers(1, 9, shape).astype(float))
        arrays.append(drawn)
    (scopes,) = stacked(block.scopes, INPUTS)
    together = in_double(scopes, stacked_arrays(arrays))
    for values, alone in zip(together, arrays):
        np.testing.assert_allclose(values, in_double(block.scopes[0], alone), rtol=1e-9)


def test_an_expression_is_cut_once_for_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_places = []
    cut = Places.cut

    def recorded(places: Places, place: Place) -> OutputBlock:
        cut_places.append(place)
        return cut(places, place)

    monkeypatch.setattr(Places, "cut", recorded)
    one = ea.parse("O[i] = gamma(A[i]*A[i] + 2)", A=(4,))
    two = ea.parse("O[i] = (A[i]*A[i] + 1)*gamma(A[i]*A[i] + 1)", A=(4,))
    assert ea.prove(one, two, rounds=5).verdict == "tested"
    assert cut_places and len(set(cut_places)) == len(cut_places)
