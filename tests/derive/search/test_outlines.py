"""Derivations that are followed at other sizes than those for which they were found."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.proof import prove
from derive.results.history import replay
from derive.rules import ALL
from derive.search.best_first import Budget, search
from derive.search.outlines import Outline
from einalg.errors import EinalgError
from einalg.language import ops
from einalg.language.ir.program import as_program

RNG = np.random.default_rng(0)
STATES = 6  # after which there are transforms, and channels last


def convolution(channels=16, filters=16, rows=9, columns=10, taps=3, stride=1):
    weights = ea.tensor("K", (filters, channels, taps, taps), role="weight")
    data = ea.tensor("A", (1, channels, rows, columns))
    return as_program(ops.conv2d(data, weights, stride=stride, padding=taps // 2))


@cache
def derivations():
    start = convolution()
    candidates, *_ = search(start, Budget(states=STATES))
    return start, tuple(candidate.moves for candidate in candidates)


@cache
def outlines():
    start, derived = derivations()
    return tuple(Outline.of(start, moves, ALL) for moves in derived)


def test_an_outline_leads_to_what_the_derivation_led_to():
    start, derived = derivations()
    rules = {move.rule for moves in derived for move in moves}
    assert {"bilinear factorisation", "boundary tightening", "staging"} <= rules
    for moves, outline in zip(derived, outlines()):
        assert outline.followed_from(start, ALL)[1] == moves


@given(
    channels=st.integers(1, 20),
    filters=st.integers(1, 20),
    rows=st.integers(1, 13),
    columns=st.integers(1, 13),
    taps=st.sampled_from([3, 5]),
    data=st.data(),
)
def test_what_an_outline_leads_to_is_equal(channels, filters, rows, columns, taps, data):
    """Whatever the sizes are: the moves replay, and the program is proved and computes the same."""
    start = convolution(channels, filters, rows, columns, taps)
    outline = data.draw(st.sampled_from(outlines()))
    try:
        program, moves = outline.followed_from(start, ALL)
    except EinalgError:
        return  # it does not apply there
    if moves:
        assert replay(start, moves)[-1] == program
    assert prove(start, program).verdict == "proved"


def test_what_an_outline_leads_to_computes_the_same():
    start = convolution(3, 5, 11, 7)
    values = {"A": RNG.normal(size=(1, 3, 11, 7)), "K": RNG.normal(size=(5, 3, 3, 3))}
    expected = ea.evaluate(start, **values)
    count = 0
    for outline in outlines():
        try:
            program, _ = outline.followed_from(start, ALL)
        except EinalgError:
            continue
        np.testing.assert_allclose(ea.evaluate(program, **values), expected, rtol=1e-3, atol=1e-4)
        count += 1
    assert count > 2


def test_an_outline_does_not_apply_to_other_strides():
    with pytest.raises(EinalgError):
        for outline in outlines():
            outline.followed_from(convolution(stride=2), ALL)
