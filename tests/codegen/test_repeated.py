"""Loops on which a reduction does not depend stand behind it."""

from __future__ import annotations

import pytest

import einalg as ea
from codegen.ir.nodes import For, walk
from codegen.lowering.lower import lower
from einalg.language.ir.program import as_program
from tests.helpers.expressions.repeated import TEXTS


def around(name: str, text: str, shapes: dict[str, tuple[int, ...]]) -> set[str]:
    """The loops around those of an index, by the names of theirs."""
    ((output, scope),) = as_program(ea.parse(text, **shapes)).statements
    loops = [node for node in walk(lower(output, scope)) if isinstance(node, For)]
    return {
        node.index.name
        for node in loops
        for inside in walk(node)
        if isinstance(inside, For) and inside.index.name == name
    } - {name}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("norm_along_outer_axis", {"k", "k_tile"}),
        ("norm_along_channels", {"i", "k", "l"}),
        ("sums_of_rows_across", {"k", "k_tile"}),
        ("behind_the_loops_they_depend_on", {"k"}),
        ("repeated_with_padding", {"k", "k_tile"}),
    ],
)
def test_a_reduction_stands_before_the_loops_it_does_not_depend_on(
    name: str, expected: set[str]
) -> None:
    found = around("r", *TEXTS[name])
    assert "j" not in found and found <= expected


def test_loops_keep_their_order_where_a_reduction_depends_on_all() -> None:
    scope = ea.parse("O[i:8, j:9, k:40] = Sum[r:70](x[i,r]*y[j,r,k])", x=(8, 70), y=(9, 70, 40))
    loops = [node.index.name for node in walk(lower("O", scope)) if isinstance(node, For)]
    assert loops[:2] == ["i", "j"]


def test_of_rows_of_their_own_they_stay_in_the_order_of_memory() -> None:
    scope = ea.parse("O[i:8, j:40] = x[i,j] - Sum[r:40](x[i,r]**2)", x=(8, 40))
    loops = [node.index.name for node in walk(lower("O", scope)) if isinstance(node, For)]
    assert loops == ["i", "r", "j"]
