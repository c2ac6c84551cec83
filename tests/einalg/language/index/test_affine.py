"""Index arithmetic against Python's own integers."""

from __future__ import annotations

import copy
import operator
import pickle
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from einalg.errors import EinalgError, NotationError
from einalg.language.index.affine import Affine, FloorDiv, Index, Modulo, floordiv, modulo
from einalg.language.index.convert import affine, to_sympy
from einalg.testing import strategies

I, J, K = Index("i"), Index("j"), Index("k")
INDICES = (I, J, K)
POINTS = [
    dict(zip(INDICES, values))
    for values in product((-7, -3, -1, 0, 1, 2, 5), (-4, 0, 1, 3), (-2, 0, 6))
]
forms = strategies.affine_forms(INDICES)
points = st.sampled_from(POINTS)

# A calculation is nested tuples (operator, left, right): it can be done on integers, and on
# indices.
leaves = st.one_of(st.sampled_from(INDICES), st.integers(-6, 6))
calculations = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from((operator.add, operator.sub)), inner, inner),
        st.tuples(st.just(operator.mul), inner, st.integers(-4, 4)),
        st.tuples(st.just(operator.mul), st.integers(-4, 4), inner),
        st.tuples(st.sampled_from((operator.floordiv, operator.mod)), inner, st.integers(1, 6)),
    ),
    max_leaves=8,
)


def calculate(calculation: Any, values: Any) -> Any:
    if isinstance(calculation, tuple):
        function, left, right = calculation
        return function(calculate(left, values), calculate(right, values))
    return values[calculation] if isinstance(calculation, Index) else calculation


@given(calculations, points)
def test_normal_form_has_the_value_of_the_calculation(calculation: Any, point: Any) -> None:
    form = affine(calculate(calculation, {i: i for i in INDICES}))
    assert form.evaluate(point) == calculate(calculation, point)


@given(calculations, points)
def test_text_is_python_with_the_same_value(calculation: Any, point: Any) -> None:
    form = affine(calculate(calculation, {i: i for i in INDICES}))
    assert eval(str(form), {i.name: v for i, v in point.items()}) == form.evaluate(point)


@given(calculations)
def test_normal_form_is_a_fixpoint(calculation: Any) -> None:
    form = affine(calculate(calculation, {i: i for i in INDICES}))
    assert form.func(*form.args) == form
    assert form.substitute({i: affine(i) for i in INDICES}) == form
    assert list(form.terms) == sorted(form.terms, key=lambda term: term[0].sort_tuple)
    assert all(c for _, c in form.terms)


@given(forms, forms, st.integers(1, 5), points)
def test_arithmetic_on_forms(one: Affine, other: Affine, k: int, point: Any) -> None:
    a, b = one.evaluate(point), other.evaluate(point)
    results = {
        one + other: a + b,
        one - other: a - b,
        -one: -a,
        one * k: a * k,
        k * one: a * k,
        one // k: a // k,
        one % k: a % k,
        k - one: k - a,
    }
    for form, value in results.items():
        assert isinstance(form, Affine)
        assert form.evaluate(point) == value


@given(forms, forms, forms, points)
def test_substitution(form: Affine, for_i: Affine, for_k: Affine, point: Any) -> None:
    replaced = form.substitute({I: for_i, K: for_k})
    assert replaced.evaluate(point) == form.evaluate(
        {**point, I: for_i.evaluate(point), K: for_k.evaluate(point)}
    )


def test_substitution_returns_the_same_object_where_nothing_changes() -> None:
    form = (2 * I + J) // 3 + 1
    assert form.substitute({K: affine(J)}) is form
    assert form.substitute({}) is form


@given(forms)
def test_sympy_and_back(form: Affine) -> None:
    assert affine(to_sympy(form)) == form


@given(forms, points)
def test_sympy_has_the_same_value(form: Affine, point: Any) -> None:
    value = to_sympy(form).xreplace({i: sympy.Integer(v) for i, v in point.items()})
    assert value.doit() == form.evaluate(point)


@given(forms, st.lists(strategies.ranges(max_extent=5), min_size=3, max_size=3))
def test_interval_holds_every_value(form: Affine, ranges: Any) -> None:
    values = [
        form.evaluate(dict(zip(INDICES, point))) for point in product(*(range(*r) for r in ranges))
    ]
    low, high = form.interval(dict(zip(INDICES, ranges)))
    assert low <= min(values) and max(values) <= high
    if form.is_affine():
        assert (low, high) == (min(values), max(values))


@given(forms)
def test_evaluates_arrays_point_by_point(form: Affine) -> None:
    columns = {i: np.array([p[i] for p in POINTS]) for i in INDICES}
    assert np.broadcast_to(form.evaluate(columns), len(POINTS)).tolist() == [
        form.evaluate(p) for p in POINTS
    ]


@given(forms)
def test_copies_are_equal(form: Affine) -> None:
    for made in (pickle.loads(pickle.dumps(form)), copy.copy(form), copy.deepcopy(form)):
        assert made == form and hash(made) == hash(form) and type(made) is Affine


@pytest.mark.parametrize("node", [I, (I // 2).as_atom(), (I % 3).as_atom(), affine(4), 2 * I - 1])
def test_every_node_survives_pickling(node: Any) -> None:
    made = pickle.loads(pickle.dumps(node))
    assert made == node and hash(made) == hash(node) and type(made) is type(node)


def test_a_bare_form_is_its_index() -> None:
    bare = affine(I)
    assert bare == I and I == bare and hash(bare) == hash(I)  # noqa: SIM300
    known: dict[Any, int] = {I: 1}
    assert known[bare] == 1
    assert bare != J and affine(I + 1) != I
    assert bare.as_index() is I


def test_a_constant_form_is_its_number() -> None:
    three = I - I + 3
    assert three == 3 and three == sympy.Integer(3) and hash(three) == hash(3)
    assert three != 4 and I != 3


def test_a_form_of_one_quotient_is_the_quotient() -> None:
    form = I // 2
    assert form == form.as_atom() and hash(form) == hash(form.as_atom())
    assert form.as_index() is None


def test_the_same_name_is_the_same_index() -> None:
    assert Index("row") is Index("row")
    assert Index("row") == pickle.loads(pickle.dumps(Index("row")))
    assert Index("row") != sympy.Symbol("row")


SAME = [
    ((4 * I + 6) // 4, I + 1),
    ((4 * I + 2 * J) // 4, I + J // 2),
    ((6 * I + 3) // 9, (2 * I + 1) // 3),
    ((I // 2) // 3, I // 6),
    ((I // 2 + 1) // 3, (I + 2) // 6),
    (4 * (I // 4) + I % 4, affine(I)),
    (8 * (I // 4) + 2 * (I % 4) + J, 2 * I + J),
    ((I % 6) % 3, I % 3),
    ((2 * I) % 4, 2 * (I % 2)),
    ((4 * I + J) % 4, J % 4),
    ((I + 9) % 4, (I + 1) % 4),
    (I // 1, affine(I)),
    (I % 1, affine(0)),
    (affine(-7) // 2, affine(-4)),
    (affine(-7) % 3, affine(2)),
    (I * 0, affine(0)),
]


@pytest.mark.parametrize("one, other", SAME, ids=lambda form: str(form))
def test_normal_form_identities(one: Affine, other: Affine) -> None:
    assert one == other and hash(one) == hash(other) and str(one) == str(other)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_quotients_built_by_name(k: int) -> None:
    assert FloorDiv(I + 3, k) == floordiv(I + 3, k) == (I + 3) // k
    assert Modulo(I + 3, k) == modulo(I + 3, k) == (I + 3) % k


def test_numpy_integers_are_integers() -> None:
    assert np.int64(3) * I + np.int32(1) == 3 * I + 1
    assert I // np.int16(2) == I // 2
    assert affine(cast(Any, np.int8(5))) == 5


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: affine(I * J),
        lambda: affine(I / 2),
        lambda: affine(cast(Any, 1.5)),
        lambda: affine(cast(Any, "i")),
        lambda: affine(True),
        lambda: affine(sympy.sqrt(I)),
        lambda: affine(sympy.Symbol("x")),
        lambda: affine(sympy.floor(sympy.pi * I)),
        lambda: I // 0,
        lambda: I // -2,
        lambda: I % 0,
        lambda: I // J,
        lambda: I % 2.0,
        lambda: I // True,
        lambda: Index("not a word"),
        lambda: Index("lambda"),
        lambda: Index("E"),
        lambda: Index("inf"),
        lambda: Index(""),
    ],
)
def test_what_is_not_quasi_affine_is_refused(wrong: Any) -> None:
    with pytest.raises(NotationError):
        wrong()


def test_an_array_does_not_broadcast_over_an_index() -> None:
    with pytest.raises((TypeError, EinalgError)):
        _ = np.ones(3) * I
    with pytest.raises((TypeError, EinalgError)):
        _ = I + np.ones(3)


def test_names_are_read_as_python_reads_them() -> None:
    assert Index("ﬁ") == Index("fi")


@pytest.mark.parametrize(
    "form, text, latex",
    [
        (2 * I + J - 1, "2*i + j - 1", "2i+j-1"),
        (J - I, "j - i", "j-i"),
        (-I, "-i", "-i"),
        (-(I // 2), "-(i//2)", r"-\lfloor i / 2 \rfloor"),
        ((-I) // 2, "(-i)//2", r"\lfloor -i / 2 \rfloor"),
        (-2 * (I % 3) - 1, "-2*(i%3) - 1", r"-2\left(i \bmod 3\right)-1"),
        (I % 3, "i%3", r"i \bmod 3"),
        ((I + 1) % 3, "(i + 1)%3", r"(i+1) \bmod 3"),
        (((I + 1) // 2) % 3, "((i + 1)//2)%3", r"\lfloor (i+1) / 2 \rfloor \bmod 3"),
        (affine(0), "0", "0"),
        (affine(-3), "-3", "-3"),
    ],
    ids=str,
)
def test_how_forms_are_written(form: Affine, text: str, latex: str) -> None:
    assert str(form) == repr(form) == text
    assert sympy.latex(form) == latex
