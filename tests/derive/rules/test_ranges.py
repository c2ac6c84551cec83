"""Distribution in ranges of an index, over overlapping blocks of it, and by blocks of a prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.rules.algebra.distribution import distribute
from einalg.language.ir.scope import Scope

OPERATIONS = ("Sum", "Max", "Min", "Prod")


def scope_of(text: str) -> Scope:
    data = ea.tensor("A", (4, 30), "i64")
    return ea.parse(f"O[i:4] = {text}", A=data)


def assert_same_values(one: Scope, other: Scope) -> None:
    data = np.random.default_rng(0).integers(-3, 4, (4, 30))
    assert np.array_equal(ea.evaluate(one, A=data), ea.evaluate(other, A=data))


@pytest.mark.parametrize(
    ("text", "at", "after"),
    [
        ("Sum[r:7](A[i,r])", 3, "Sum[r:3](A[i, r]) + Sum[r:3:7](A[i, r])"),
        ("Sum[r:7](A[i,r])", 6, "A[i, 6] + Sum[r:6](A[i, r])"),
        ("Prod[r:2](A[i,r])", 1, "A[i, 0]*A[i, 1]"),
        ("Max[r:7](A[i,r])", 6, "Max(A[i, 6], Max[r:6](A[i, r]))"),
    ],
)
def test_a_reduction_is_cut_in_two(text: str, at: int, after: str) -> None:
    scope = scope_of(text)
    cut = distribute(scope, "in ranges", reduction=0, index="r", at=at)
    assert str(cut.body) == after
    assert_same_values(scope, cut)


Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def reductions_of_windows(draw: Draw) -> tuple[Scope, int, int]:
    """Reductions over one or two indices, one of which has a condition, with the range of `r`."""
    low = draw(st.integers(0, 5))
    extent = draw(st.integers(2, 12))
    other = draw(st.sampled_from(["", ",q:3"]))
    body = "A[i,r+q]*(q+1)" if other else "A[i,r] + i"
    where = draw(st.sampled_from(["", ", where=r%3>=1", ", where=r<=i+4"]))
    op = draw(st.sampled_from(OPERATIONS))
    return scope_of(f"{op}[r:{low}:{low + extent}{other}]({body}{where})"), low, extent


@settings(max_examples=60)
@given(reductions_of_windows(), st.data())
def test_every_cut_keeps_every_value(case: tuple[Scope, int, int], data: st.DataObject) -> None:
    scope, low, extent = case
    at = data.draw(st.integers(low + 1, low + extent - 1))
    assert_same_values(scope, distribute(scope, "in ranges", reduction=0, index="r", at=at))


@settings(max_examples=60)
@given(reductions_of_windows(), st.data())
def test_blocks_are_taken_exactly_where_they_cover_the_range_of_an_extreme(
    case: tuple[Scope, int, int], data: st.DataObject
) -> None:
    scope, _, extent = case
    body: Any = scope.body
    blocks, block = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 12))
    args = {"reduction": 0, "index": "r", "names": ["u", "v"], "blocks": blocks, "block": block}
    if body.op in ("Max", "Min") and covers(extent, blocks, block):
        assert_same_values(scope, distribute(scope, "overlapping", **args))
    else:
        with pytest.raises(ea.RuleError, match=r"no extreme|do not cover"):
            distribute(scope, "overlapping", **args)


def covers(extent: int, blocks: int, block: int) -> bool:
    """Tell whether some distance between equal blocks makes them cover a range, and no more."""
    for distance in range(extent + 1):
        values = {distance * number + place for number in range(blocks) for place in range(block)}
        if values == set(range(extent)):
            return True
    return False


@pytest.mark.parametrize(
    ("step", "args", "message"),
    [
        ("in ranges", {"index": "r", "at": 0}, "0 does not cut"),
        ("in ranges", {"index": "r", "at": 9}, "9 does not cut"),
        ("in ranges", {"index": "q", "at": 3}, "3 does not cut the range of q"),
        ("by blocks", {"index": "r", "names": ["u", "v"], "block": 3}, "no condition holds r"),
        (
            "overlapping",
            {"index": "r", "names": ["i", "v"], "blocks": 3, "block": 3},
            "i or v is bound already",
        ),
    ],
)
def test_what_is_refused(step: str, args: Any, message: str) -> None:
    with pytest.raises(ea.RuleError, match=message):
        distribute(scope_of("Max[r:9](A[i,r])"), step, reduction=0, **args)


@st.composite
def prefixes(draw: Draw) -> tuple[Scope, int]:
    """Reductions over the values of `r` up to or from one that depends on other indices."""
    low, extent = draw(st.integers(0, 5)), draw(st.integers(6, 16))
    number = draw(st.sampled_from(["i", "2*i", "i + q", "3 - i", "4"]))
    condition = draw(
        st.sampled_from([f"r < {low} + {number}", f"r >= {low + extent} - ({number})"])
    )
    extra = draw(st.sampled_from(["", ", q <= i"]))
    op = draw(st.sampled_from(OPERATIONS))
    text = f"{op}[r:{low}:{low + extent},q:2](A[i,r+q]*(q+1), where=({condition}{extra},))"
    return scope_of(text), extent


@settings(max_examples=60)
@given(prefixes(), st.data())
def test_a_prefix_goes_by_blocks(case: tuple[Scope, int], data: st.DataObject) -> None:
    """The values of each block stand together, in the prefix of any row."""
    scope, extent = case
    block = data.draw(st.integers(2, extent - 1))
    args = {"reduction": 0, "index": "r", "names": ["u", "v"], "block": block}
    assert_same_values(scope, distribute(scope, "by blocks", **args))


@pytest.mark.parametrize("condition", ["r < i - 1", "r < 9*i", "r % 3 >= 1", "2*r <= i", "r == i"])
def test_what_is_no_prefix_is_refused(condition: str) -> None:
    scope = scope_of(f"Sum[r:9](A[i,r], where=({condition},))")
    args = {"reduction": 0, "index": "r", "names": ["u", "v"], "block": 3}
    with pytest.raises(ea.RuleError, match="no condition holds r"):
        distribute(scope, "by blocks", **args)
