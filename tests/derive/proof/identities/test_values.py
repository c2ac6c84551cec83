"""What is shown to be equal has equal values: random expressions of rounded numbers, signs, products
in conditions and maxima, and others with a part changed; reductions up to a size over ranges that
differ by a value or two.
"""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.proof.identities.compare import shown_equal
from einalg.language.ir.program import as_program, as_symbolic_program, inlined
from tests.helpers.batches import examples

POINTS = 300
REAL, WHOLE = "xy", "nm"
ELEMENT = st.sampled_from([f"{name}[i]" for name in REAL + WHOLE])
NUMBER = st.sampled_from(["0", "1", "2", "3", "-1", "1/2", "-1/3", "2/3"])
OTHERS = {"floor": "ceiling", "Max": "Min", ">=": ">", ">": ">=", "<=": "<", "<": "<="}
PART = re.compile(r"floor|Max|>=|<=|>|<|\b\d\b|[xynm](?=\[)")


def _of_one(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    template = st.sampled_from(
        ["floor({})", "ceiling({}/2)", "floor(2*({}) + 1/3)", "sign({})", "Abs({})", "({})**2"]
    )
    return st.builds(str.format, template, inner)


def _of_two(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    template = st.sampled_from(
        [
            "({} + {})",
            "({} - {})",
            "({})*({})",
            "Max({}, {})",
            "Piecewise((1, {} > {}), (0, True))",
            "Piecewise((2, {} <= {}), (-1, True))",
            "Mod({}, 3)*({})",
        ]
    )
    return st.builds(str.format, template, inner, inner)


EXPRESSION = st.recursive(
    st.one_of(ELEMENT, NUMBER),
    lambda inner: st.one_of(_of_one(inner), _of_two(inner)),
    max_leaves=6,
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a text, and the same with one part changed."""
    one = draw(EXPRESSION)
    parts = list(PART.finditer(one))
    if not parts:
        return one, draw(EXPRESSION)
    part = draw(st.sampled_from(parts))
    word = part.group()
    other = OTHERS.get(word) or draw(st.sampled_from(REAL + WHOLE))
    if word.isdigit():
        other = str(int(word) + 1)
    return one, one[: part.start()] + other + one[part.end() :]


def _arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for name in REAL:
        above, below = rng.integers(-24, 25, POINTS), rng.choice([1, 2, 3, 4, 6, 12], POINTS)
        fractions = [Fraction(int(a), int(b)) for a, b in zip(above, below)]
        arrays[name] = np.array(fractions, object)
    for name in WHOLE:
        arrays[name] = rng.integers(-7, 8, POINTS)
    return arrays


ARRAYS = _arrays()


def _scope(text: str, size: int) -> ea.Scope:
    shapes = {name: (size,) for name in REAL if f"{name}[" in text}
    shapes |= {name: ea.tensor(name, (size,), "i64") for name in WHOLE if f"{name}[" in text}
    return inlined(as_program(ea.parse(f"O[i:{size}] = {text}", **shapes)))


def _check(sides: tuple[str, str]) -> None:
    if shown_equal(*(_scope(text, 2) for text in sides)) is None:
        return
    values = []
    for text in sides:
        scope = _scope(text, POINTS)
        arrays = {name: array for name, array in ARRAYS.items() if name in scope.tensors}
        values.append(np.asarray(ea.evaluate(scope, **arrays)))
    assert (values[0] == values[1]).all(), sides


@settings(max_examples=examples(20, at_night=400))
@given(pairs())
def test_what_is_shown_to_be_equal_has_equal_values(sides: tuple[str, str]) -> None:
    _check(sides)


@pytest.mark.nightly
@settings(max_examples=3000)
@given(pairs())
def test_many_that_are_shown_to_be_equal_have_equal_values(sides: tuple[str, str]) -> None:
    _check(sides)


VALUE = st.sampled_from(
    ["{}", "{} - 2", "Max({}, 0)", "Abs({})", "{}**2", "Piecewise((1, {} > -2), (0, True))"]
)
AROUND = st.sampled_from(["{}", "sign({})", "Max({}, 1)", "Abs({})", "floor(({})/2)"])
TOGETHER = {"Prod": "{}*({})", "Sum": "({} + {})", "Max": "Max({}, {})", "Min": "Min({}, {})"}
RANGES = ("N", "1:N", "N-1", "1:N-1", "N+1", "2:N+1", "2:N")
SPLITS = [  # a range, a shorter one, and the place that it lacks
    ("N", "N-1", "N-1"),
    ("N", "1:N", "0"),
    ("N+1", "N", "N"),
    ("1:N", "1:N-1", "N-1"),
    ("2:N+1", "2:N", "N"),
]
ANY_SPLIT = st.tuples(*map(st.sampled_from, (RANGES, RANGES, ("0", "1", "N-2", "N-1", "N"))))


def _split(op: str, value: str, split: tuple[str, str, str]) -> tuple[str, str]:
    """Return a reduction over a range, and one over another with a value beside it."""
    longer, shorter, place = split
    reduced = [f"{op}[k:{reach}]({value.format('n[i,k]')})" for reach in (longer, shorter)]
    return reduced[0], TOGETHER[op].format(reduced[1], value.format(f"n[i,{place}]"))


@st.composite
def reductions(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a reduction and what it may be without one of its values, with functions around."""
    op, value = draw(st.sampled_from(list(TOGETHER))), draw(VALUE)
    sides = _split(op, value, draw(st.sampled_from(SPLITS) | ANY_SPLIT))
    around = draw(AROUND)
    return around.format(sides[0]), draw(st.just(around) | AROUND).format(sides[1])


def _check_at_sizes(sides: tuple[str, str]) -> bool:
    """Return whether both sides are shown to be equal; their values are then."""
    N = ea.size("N", at_least=3)
    scopes = []
    for text in sides:
        program = ea.parse(f"O[i] = m[i]*{text}", m=(POINTS,), n=ea.tensor("n", (POINTS, N + 1)))
        scopes.append(inlined(as_symbolic_program(program), "O"))
    if shown_equal(*scopes) is None:
        return False
    for size in (3, 4, 6):
        numbers = np.random.default_rng(size).integers(-3, 4, (POINTS, size + 1)).astype(float)
        arrays = {"m": np.ones(POINTS), "n": numbers}
        one, two = [np.asarray(ea.evaluate(scope.at(N=size), **arrays)) for scope in scopes]
        assert np.allclose(one, two), sides
    return True


@pytest.mark.parametrize("op", TOGETHER)
def test_a_reduction_is_that_of_its_parts(op: str) -> None:
    shown = [split for split in SPLITS if _check_at_sizes(_split(op, "{}", split))]
    assert len(shown) >= len(SPLITS) - (op == "Prod")  # whose first factor is not split off


@settings(max_examples=examples(20, at_night=400))
@given(reductions())
def test_reductions_that_are_shown_to_be_equal_have_equal_values(sides: tuple[str, str]) -> None:
    _check_at_sizes(sides)


@pytest.mark.nightly
@settings(max_examples=3000)
@given(reductions())
def test_many_reductions_shown_to_be_equal_have_equal_values(sides: tuple[str, str]) -> None:
    _check_at_sizes(sides)
