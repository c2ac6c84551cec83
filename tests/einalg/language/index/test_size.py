"""Symbolic sizes as atoms of index arithmetic: bounds, comparisons, values."""

from __future__ import annotations

import operator
import pickle
from itertools import product
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
    assert ((N + 1) // 2 * 2 - 1 > 0) is sympy.true
    assert (Size("W", multiple_of=4) >= 4) is sympy.true
    assert (N >= 2) not in (sympy.true, sympy.false)
    assert max(N, N + 2) == N + 2


MULTIPLES = {Size("P", multiple_of=12): (12, 24, 60), Size("Q", multiple_of=4): (4, 8, 28)}
FORMS_OF_MULTIPLES = st.recursive(
    st.sampled_from([*map(affine, MULTIPLES), affine(Index("i")), affine(2), affine(-5)]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from((operator.add, operator.sub)), inner, inner),
        st.tuples(st.just(operator.mul), inner, st.integers(-6, 6)),
        st.tuples(st.sampled_from((operator.floordiv, operator.mod)), inner, st.integers(1, 12)),
    ).map(lambda step: (step, affine(step[0](_form(step[1]), _form(step[2]))))),
    max_leaves=6,
)


def _form(value: Any) -> Any:
    return value[1] if isinstance(value, tuple) else value


def _value(value: Any, point: dict[Any, int]) -> int:
    """Return the value of the calculation that led to a form."""
    if isinstance(value, tuple):
        function, one, two = value[0]
        return function(_value(one, point), _value(two, point))
    return value.evaluate(point) if isinstance(value, Affine) else value


@given(FORMS_OF_MULTIPLES)
def test_forms_of_multiples_have_the_value_of_the_calculation(calculation: Any) -> None:
    form = _form(calculation)
    for *values, i in product(*MULTIPLES.values(), (-5, 0, 1, 7)):
        point = {**dict(zip(MULTIPLES, values)), Index("i"): i}
        assert form.evaluate(point) == _value(calculation, point)
    assert form.func(*form.args) == form
    assert form.substitute({index: affine(index) for index in form.free_symbols}) == form


def test_quotients_of_multiples_are_exact() -> None:
    P, i = next(iter(MULTIPLES)), Index("i")
    assert P // 4 * 4 == P and P // 6 * 2 == P // 3 and P // 4 * 4 // 2 == P // 2
    assert P % 6 == 0 and (P + 5) // 3 == P // 3 + 1 and P // 2 % 3 == 0
    assert (P + i) // 4 * 4 + (P + i) % 4 == P + i
    assert P // 5 * 5 != P and P // 24 * 24 != P
