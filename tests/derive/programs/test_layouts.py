"""Channels last: what convolutions sum over is walked last in all that lies between them, and
nothing else changes.
"""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from derive.programs.forms.layers import SearchedLayer
from derive.programs.optimization import layer_search
from derive.programs.passes.layout_selection import channels_last
from derive.programs.passes.normalise import shaped
from einalg.language import ops
from einalg.language.ir.program import Program, as_program, statement_tensor
from tests.helpers.networks import assert_same_values, network, weight


def built(*steps):
    """Statements `T0`, `T1`, … of which each is made of the one before; the first of the input."""
    statements, read = [], ea.tensor("A", (2, 3, 6, 5))
    for k, step in enumerate(steps):
        statements.append((f"T{k}", step(read)))
        read = statement_tensor(*statements[-1])
    return shaped(Program(statements, [statements[-1][0]]))[0]


NETWORKS = {
    "normalised": shaped(network())[0],
    "strided": built(
        lambda x: ops.conv2d(x, weight("K", 4, 3, 3, 3), stride=2, padding=(1, 2)),
        lambda x: ops.conv2d(x, weight("W", 5, 4, 2, 2)),
    ),
    "pooled": built(
        lambda x: ops.conv2d(x, weight("K", 4, 3, 3, 2), padding=1),
        lambda x: ops.max_pool2d(x, 3, stride=2, padding=1),
        lambda x: ops.conv2d(x, weight("W", 2, 4, 2, 2)),
    ),
    "transposed": built(
        lambda x: ops.conv_transpose2d(x, weight("K", 3, 4, 4, 4), stride=2, padding=1),
        ops.relu,
        lambda x: ops.conv_transpose2d(x, weight("W", 4, 2, 3, 3), stride=2),
    ),
    "joined": built(
        lambda x: ops.conv2d(x, weight("K", 4, 3, 3, 3), padding=1),
        lambda x: ops.concat([x, ops.relu(x)], 1),
        lambda x: ops.conv2d(x, weight("W", 2, 8, 3, 3), padding=1),
        ops.relu,
    ),
    "pointwise": built(
        lambda x: ops.conv2d(x, weight("K", 4, 3, 1, 1)),
        ops.relu,
        lambda x: ops.conv2d(x, weight("W", 3, 4, 3, 3), padding=1),
        ops.relu,
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_values_stay_and_channels_are_last(name):
    given = NETWORKS[name]
    after = channels_last(given)
    assert (
        after.outputs == given.outputs
        and after[after.outputs[0]].shape == given[given.outputs[0]].shape
    )
    assert_same_values(given, after)
    inside = [
        n for n in given.names if n in after.names and n not in given.outputs and given[n].rank == 4
    ]
    shapes = {given[n].shape: after[n].shape for n in inside if given[n].shape != after[n].shape}
    assert shapes and all(now == (n, h, w, c) for (n, c, h, w), now in shapes.items())


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (
            "S[h,i,j] += Q[h,i,k]*K[h,j,k]\nO[h,i,e] += S[h,i,j]*V[h,j,e]",
            {"Q": (2, 4, 6), "K": (2, 5, 6), "V": (2, 5, 7)},
        ),  # attention
        (
            "T[i,k:6] = 2*Q[0,i,k]\nO[h:2,i,j] = Sum[k:3](T[i,3*h+k]*K[h,j,k])",
            {"Q": (2, 4, 6), "K": (2, 5, 3)},
        ),  # heads are digits
    ],
)
def test_what_has_no_windows_stays(text, shapes):
    program = as_program(ea.parse(text, **shapes))
    assert channels_last(program) is program


def test_a_layer_of_both_forms_is_searched_once(monkeypatch, tmp_path):
    """A product behind the convolutions is the same layer in every layout."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    searched = []
    monkeypatch.setattr(
        layer_search,
        "search_layer",
        lambda layer, *_, **__: searched.append(layer.identity) or SearchedLayer.of(layer),
    )
    read = ea.tensor("A", (1, 8, 9, 9))
    rows = [("T0", ops.conv2d(read, weight("K", 8, 8, 3, 3), padding=1))]
    rows.append(("T1", ops.conv2d(statement_tensor(*rows[-1]), weight("W", 8, 8, 3, 3), padding=1)))
    rows.append(
        ("T2", ops.matmul(ops.reshape(statement_tensor(*rows[-1]), (9, 72)), weight("M", 72, 64)))
    )
    program = Program(rows, ["T2"])
    o = ea.optimize(
        program, {n: np.ones(t.shape, np.float32) for n, t in program.inputs.items()}, seconds=300
    )
    assert len(searched) == len(set(searched)) > 3 and o.parts
