"""Channels come last by moves that keep every value, and only where there are many that are not
last already.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from derive.rules import ALL
from derive.search.best_first import Budget, search
from derive.search.starts.channels_last import channels_last, convolution_channels
from einalg.language import ops
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, as_program, statement_tensor
from einalg.language.ir.tensor import Access


def convolution(
    layout: str = "NCHW",
    weights: str = "OIHW",
    channels: int = 9,
    filters: int = 10,
    **options: Any,
) -> Program:
    sizes = {"N": 2, "C": channels, "H": 7, "W": 6}
    kernel = {"O": filters, "I": channels, "H": 3, "W": 2}
    A, K = (
        ea.tensor("A", [sizes[x] for x in layout]),
        ea.tensor("K", [kernel[x] for x in weights], role="weight"),
    )
    return as_program(ops.conv2d(A, K, layout=layout, weight_layout=weights, **options))


def checked(program: Program) -> Program:
    """The program with channels last, the values of which are those before."""
    after, moves = channels_last(program, ALL)
    assert moves
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.integers(-3, 4, t.shape).astype(np.float64) for name, t in program.inputs.items()
    }
    for name, values in execute(program, arrays).items():
        assert np.array_equal(execute(after, arrays)[name], values)
    return after


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": (2, 1), "padding": ((1, 0), (2, 3))},
        {"dilation": (1, 2), "padding": 1},
        {"layout": "CNHW"},
        {"weights": "HWIO"},
    ],
    ids=str,
)
def test_convolutions(options: dict[str, Any]) -> None:
    scope = checked(convolution(**options))["O"]
    assert isinstance(scope.body, Access)
    inner = scope.body.tensor
    assert inner.shape[-1] == 10
    (found,) = convolution_channels(inner)
    assert (
        found.produced == (3,)
        and found.summed == (found.access.tensor.rank - 1,)
        and found.access.tensor.shape[-1] == 9
    )


def test_phases_of_a_transposed_convolution() -> None:
    A, K = ea.tensor("A", (1, 8, 5, 4)), ea.tensor("K", (8, 9, 4, 4), role="weight")
    checked(as_program(ops.conv_transpose2d(A, K, stride=2, padding=1)))


def test_one_of_several_statements() -> None:
    program = convolution()
    relu = ops.relu(statement_tensor("O", program["O"]))
    checked(Program([("O", program["O"]), ("P", relu)], ("O", "P")))


RELU = ops.relu(ea.tensor("A", (9, 7)))
AFTER = ea.parse("O[f,h:5] += T[c,h+r]*K[f,c,r]", T=statement_tensor("T", RELU), K=(10, 9, 3))


@pytest.mark.parametrize(
    "program",
    [
        convolution("NHWC"),
        convolution(channels=7),
        convolution(filters=7),
        as_program(ops.matmul(ea.tensor("A", (32, 32)), ea.tensor("B", (32, 32)))),
        Program([("T", RELU), ("O", AFTER)]),
    ],
    ids=["last already", "few summed", "few made", "no window", "not given"],
)
def test_nothing_to_bring_there(program: Program) -> None:
    assert channels_last(program, ALL) == (program, [])


def test_the_search_begins_there_too() -> None:
    """If it may use the rules that bring them there."""
    found, _, _ = search(convolution(), Budget(states=2))
    assert any(
        [move.rule for move in one.moves[:2]] == ["staging", "variable substitution"]
        for one in found
    )
    found, _, _ = search(
        convolution(), Budget(states=2), rules=["bilinear factorisation", "summation splitting"]
    )
    assert not any(move.rule == "staging" for one in found for move in one.moves)
