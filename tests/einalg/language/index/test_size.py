"""Symbolic sizes as atoms of index arithmetic: bounds, comparisons, values."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.errors import NotationError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.size import Size, as_axis_extent, as_extent, largest, least

N, M = Size("N"), Size("M", 2, 9)


def test_a_size_is_an_atom_that_is_no_index() -> None:
    form = 2 * N + Index("i") - 1
    assert str(form) == "i + 2*N - 1"
    assert form.indices == {Index("i")}
    assert form.sizes == {N}
    assert affine(N).as_index() is None
    assert str((N + 1) // 2) == "(N + 1)//2"
    assert str(N // 2) == "N//2"


def test_bounds_are_part_of_a_size() -> None:
    assert Size("N") == Size("N", 1)
    assert Size("N") != Size("N", 2)
    assert Size("N") != Index("N")
    assert Index("N") != Size("N")
    assert len({Size("N"), Size("N", 2), Index("N")}) == 3
    assert pickle.loads(pickle.dumps(M)) == M
    assert pickle.loads(pickle.dumps(3 * M - 1)) == 3 * M - 1


def test_values() -> None:
    even = ea.size("N", at_least=3, at_most=9, multiple_of=2)
    assert [value for value in range(12) if even.holds(value)] == [4, 6, 8]
    assert even.smallest == 4


@pytest.mark.parametrize(
    "options",
    [
        {"at_least": -1},
        {"at_least": 1.5},
        {"at_least": True},
        {"at_least": 4, "at_most": 3},
        {"multiple_of": 0},
        {"at_least": 3, "at_most": 3, "multiple_of": 2},
    ],
)
def test_bounds_that_are_none(options: dict[str, Any]) -> None:
    with pytest.raises(NotationError, match=r"\n  "):
        ea.size("N", **options)


@pytest.mark.parametrize("name", ["", "2N", "pi", "for", 3, None])
def test_names_that_are_none(name: Any) -> None:
    with pytest.raises(NotationError, match=r"\n  "):
        ea.size(name)


def test_extents() -> None:
    assert as_extent(sympy.Integer(3)) == 3
    assert as_extent(N - N + 3) == 3
    assert type(as_extent(N - N + 3)) is int
    assert as_extent(Index("i") + N) is None
    assert as_extent("N") is None
    assert as_axis_extent("N") == N
    assert (least(N - 3), largest(M - N)) == (-2, 8)


FORMS = st.recursive(
    st.sampled_from([affine(N), affine(M), affine(1), affine(-3)]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, st.integers(-3, 3)).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(1, 4)).map(lambda pair: affine(pair[0] // pair[1])),
        st.tuples(inner, st.integers(1, 4)).map(lambda pair: affine(pair[0] % pair[1])),
    ),
    max_leaves=5,
)


@given(FORMS, FORMS)
def test_what_a_comparison_decides_is_so_for_every_size(one: Affine, two: Affine) -> None:
    comparisons = [(one < two, "<"), (one <= two, "<="), (one > two, ">"), (one >= two, ">=")]
    for n in (1, 2, 3, 7, 50):
        for m in (2, 5, 9):
            a, b = one.evaluate({N: n, M: m}), two.evaluate({N: n, M: m})
            truths = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
            for verdict, sign in comparisons:
                if verdict in (sympy.true, sympy.false):
                    assert bool(verdict) == truths[sign]
            assert least(one) <= a <= largest(one)


def test_comparisons_of_sizes_are_decided_where_they_can_be() -> None:
    assert (N >= 1) is sympy.true
    assert (M < 2) is sympy.false
    assert (N - M + 9 > 0) is sympy.true
    assert (N - 3) // 2 * 2 + 3 - N <= 0
    assert (N >= 2) not in (sympy.true, sympy.false)
    assert max(N, N + 2) == N + 2
