"""States that follow a state: what is alike moves together, which comes first, and when nothing
better is expected any more.
"""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from derive.rules import ALL
from derive.search import variations
from derive.search.best_first import Budget, search, templates_by_name
from derive.search.expansion import StateExpander, isomorphic_scopes
from einalg.language import ops
from einalg.language.ir.program import as_program


def phases(channels=8, size=5, filters=4):
    """A transposed convolution of stride 2, whose four phases are sums of the same extents and
    other offsets; and the first split by phases.
    """
    weights = ea.tensor("K", (channels, filters, 4, 4), role="weight")
    program = as_program(
        ops.conv_transpose2d(
            ea.tensor("A", (1, channels, size, size)), weights, stride=2, padding=1
        )
    )
    splits = [
        following
        for following, moves, _ in expansion(program)
        if moves[0].rule == "expression splitting"
    ]
    return program, max(splits, key=lambda one: len(isomorphic_scopes(one, ("O", 0))))


def expansion(program):
    return StateExpander(dict(ALL), templates_by_name(None))(program)


def test_phases_that_differ_in_an_offset_are_gathered_together():
    """Each of the four has its own subscripts; that some are gathered and some are not is no state."""
    program, split = phases()
    assert len(isomorphic_scopes(split, ("O", 0))) == 3
    staged = [
        (following, moves)
        for following, moves, _ in expansion(split)
        if moves[0].rule == "staging" and "access" in moves[0].args
    ]
    assert staged
    for following, moves in staged:
        gathered = [move for move in moves if move.rule == "staging"]
        assert [move.path[:2] for move in gathered[:4]] == [("O", k) for k in range(4)]
        assert len({move.arguments for move in gathered[:4]}) > 1
        rng = np.random.default_rng(0)
        given = {
            name: rng.integers(-4, 5, tensor.shape).astype(float)
            for name, tensor in program.inputs.items()
        }
        np.testing.assert_array_equal(
            ea.evaluate(following, **given), ea.evaluate(program, **given)
        )


@pytest.mark.parametrize("phases, is_split", [(2, True), (3, True), (26, False)])
def test_phases_are_split_where_each_has_points_enough(phases, is_split):
    """An axis in the order of its remainders has the long remainders of one part as phases too."""
    text = f"O[h:50] = Sum[r](A[(h+r)//{phases} + 2*((h+r)%{phases})]*K[r])"
    swapped = ea.parse(text, A=99, K=3)
    moves = variations.scope_variations(("O",), swapped, ALL)
    splits = [move.args["phases"] for move in moves if move.rule == "expression splitting"]
    assert splits == [phases] * is_split


def test_both_axes_of_all_phases_are_factorised_early():
    """What does less work comes first, so that a second factorisation does not wait for copies of
    phases.
    """
    program, _ = phases(channels=256, size=8, filters=128)
    found = search(program, Budget(states=30, seconds=600))[0]
    axes = [
        {
            (move.args["output"], move.args["tap"])
            for move in f.moves
            if move.rule == "bilinear factorisation"
        }
        for f in found
    ]
    assert max(map(len, axes)) == 2


@pytest.mark.parametrize("patience", [1, 5, 20])
def test_a_search_ends_where_nothing_better_was_found_for_long(patience):
    program = as_program(
        ops.conv2d(
            ea.tensor("A", (1, 8, 9, 9)), ea.tensor("K", (8, 8, 3, 3), role="weight"), padding=1
        )
    )
    found, stats, _ = search(program, Budget(patience=patience, seconds=600))
    best = min(found, key=lambda f: (f.estimate, f.states))
    assert stats.states - best.states <= patience
    assert "no better candidate in" in stats.stopped and stats.states >= patience


COPIES = [
    "L[d:4,e:12](Sum[()](A.pad(0,1)[d,e-1], where=e<=10))",
    "L[d:4,e:12](A.pad(0,1)[d,e-1])",
]


@pytest.mark.parametrize("copy", COPIES)
def test_the_copy_that_a_window_reads_is_not_taken_for_a_sum_to_merge_with(copy):
    """A sum without indices is the padding of a copy: there is no order of products to gain."""
    conv = ea.parse(f"O[f,h:10] = Sum[c,r](({copy})[c,h+r]*K[f,c,r])", A=(4, 10), K=(5, 4, 3))
    assert not list(variations.merging_moves(("O",), conv))


def test_a_sum_of_products_may_merge_with_the_product_that_reads_it():
    chain = ea.parse(
        "O[i,j] = Sum[k]((L[x:4,y:5](Sum[l](A[x,l]*B[l,y])))[i,k]*C[k,j])",
        A=(4, 6),
        B=(6, 5),
        C=(5, 7),
    )
    assert len(list(variations.merging_moves(("O",), chain))) == 1
