"""Many inputs at once give what each gives alone, and no round cuts an expression anew."""

from __future__ import annotations

import numpy as np
from hypothesis import given

import einalg as ea
from derive.proof.random.batches import stacked, stacked_arrays
from derive.proof.random.blocks import cut_block, values_for
from derive.proof.random.evaluation import _Tests
from derive.proof.random.rounding import in_double
from einalg.language.ir.program import as_program, inlined
from einalg.testing import strategies
from tests.helpers.laws.known import lstm, lstm_shapes

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


def test_an_expression_is_cut_once_for_all_rounds() -> None:
    one, two = [
        inlined(as_program(ea.parse(lstm(1, by), **lstm_shapes(1)))) for by in (False, True)
    ]
    tests = _Tests(one, two, 3, 0)
    blocks = [block for number in range(3) for block, _ in tests.blocks(number, 10**6)]
    assert len(blocks) == 3 and all(block is blocks[0] for block in blocks)
