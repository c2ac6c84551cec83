"""Axis elimination alone: on domains of any shape, and where it must not be applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.rewriting.user_rules import check_rule
from derive.rules import ALL
from derive.rules.intra.axis_elimination import distinct_points, eliminate, find
from derive.rules.intra.integer_forms import independent_forms
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from tests.helpers.batches import examples

RULE = ALL["axis elimination"]


def inner_scope(text: str, **tensors: Any) -> Scope:
    """Return the scope that a text like `L[i:4](...)` is."""
    scope = ea.parse("O = " + text, **tensors)
    assert isinstance(scope, Scope)
    return scope


def once(scope: Scope) -> str:
    """Return the scope with the axes that are left, as text."""
    (args,) = find(scope)
    read: Any = eliminate(scope, **args).body
    return str(read.base)


@pytest.mark.parametrize(
    ("text", "shape", "after"),
    [
        ("L[r:3,t:10](Sum[k](A[t,k]))", (10, 5), "L[t:10](Sum[k:5](A[t, k]))"),
        ("L[r:3,i:8](Sum[k](A[i+r,k]))", (10, 5), "L[t:10](Sum[k:5](A[t, k]))"),
        ("L[r:3,i:4](Sum[k](A[2*i+r,k]))", (9, 5), "L[t:9](Sum[k:5](A[t, k]))"),
        ("L[r:3,i:9](Sum[k](A[2*i+4*r,k]))", (25, 5), "L[t:13](Sum[k:5](A[2*t, k]))"),
        ("L[r:3,i:8](Sum[k](A[9-i-r,k]))", (10, 5), "L[t:10](Sum[k:5](A[-t + 9, k]))"),
        ("L[i:8,j:3](Sum[k](A[i//2,k]))", (4, 5), "L[i:8](Sum[k:5](A[i//2, k]))"),
        ("L[i:2,r:2,j:2](Sum[k](A[i+r,j+r,k]))", (3, 3, 5), None),
        ("L[i:4,j:3](A[0,0] + i)", (2, 2), "L[i:4](A[0, 0] + i)"),
        ("L[i:4,j:3](A[0,0])", (2, 2), "L[()](A[0, 0])"),
    ],
)
def test_the_axes_that_are_left(text: str, shape: tuple[int, ...], after: str | None) -> None:
    scope = inner_scope(text, A=shape)
    if after is None:
        assert not list(find(scope))
    else:
        assert once(scope) == after


@pytest.mark.parametrize(
    ("condition", "after"),
    [
        ("(t>=r, r+7>=t)", "L[t:10](Sum[k:5](A[t, k]))"),
        ("(t>=r, r>=t)", "L[t:3](Sum[k:5](A[t, k]))"),
        ("(t>=2*r, t<2*r+2)", "L[t:6](Sum[k:5](A[t, k]))"),
        ("Eq(t, 3*r)", "L[t:7](Sum[k:5](A[t, k]), where=Eq(t%3, 0))"),
    ],
)
def test_the_domain_is_projected(condition: str, after: str) -> None:
    scope = inner_scope(f"L[r:3,t:10](Sum[k](A[t,k]), where={condition})", A=(10, 5))
    assert once(scope) == after


@pytest.mark.parametrize(
    ("reduction", "after"),
    [
        ("Sum[j,k:5](A[i,j])", "5*Sum[j:3](A[i, j])"),
        ("Max[j,k:5](A[i,j])", "Max[j:3](A[i, j])"),
        ("Min[j,k:5](A[i,j])", "Min[j:3](A[i, j])"),
        ("Prod[j,k:5](A[i,j])", "Prod[j:3](A[i, j])**5"),
        ("Sum[k:5](A[i,0])", "5*A[i, 0]"),
    ],
)
def test_a_reduction_counts_equal_values(reduction: str, after: str) -> None:
    scope = inner_scope(f"L[i:4]({reduction})", A=(4, 3))
    (args,) = find(scope)
    assert str(eliminate(scope, **args).body) == after


@pytest.mark.parametrize(
    "reduction",
    [
        "Sum[j,k:5](A[i,j], where=k<=j)",
        "Max[j,k:5](A[i,j], where=k<=j)",
        "Sum[j,k:5](k*A[i,j])",
        "Sum[j,k:0](A[i,j])",
    ],
)
def test_a_reduction_in_which_values_are_not_met_equally_often_is_left(reduction: str) -> None:
    scope = inner_scope(f"L[i:4]({reduction})", A=(4, 3))
    assert not list(find(scope))
    with pytest.raises(ea.RuleError, match="not the same"):
        eliminate(scope, reduction=0, indices=["k"])


BOTH: dict[str, dict[str, str]] = {
    "forward": {"t": "i + r"},
    "backward": {"i": "t", "r": "0"},
}


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("L[i:3,r:2](A[i+r]*A[r])", BOTH, "the body depends on r"),
        ("L[i:3,r:2](A[i+r] + i)", BOTH, "the body depends on i"),
        ("L[i:0,r:2](A[i+r])", BOTH, "has no points"),
        ("L[i:3,r:2](Sum[t:2](A[i+r]*A[t]))", BOTH, "index t is bound"),
        ("L[i:3,r:2](A[i+r])", {"forward": {"t": "i + r"}}, "takes forward= and backward="),
        ("L[i:3,r:2](A[i+r])", {**BOTH, "backward": {"i": "t"}}, "must be in the indices i, r"),
        ("L[i:3,r:2](A[i+r])", {**BOTH, "forward": {"t": "i + q"}}, "must be in the indices"),
        ("L[i:3,r:2](A[i+r])", {**BOTH, "backward": {"i": "u", "r": "0"}}, "none of the new axes"),
        ("L[i:3](Sum[k:2](A[i]))", {"reduction": 0, "indices": ["q"]}, "not all of q"),
        ("L[i:3](Sum[k:2](A[i]))", {"reduction": 0, "indices": []}, "not all of none"),
    ],
)
def test_what_it_refuses(text: str, args: Any, message: str) -> None:
    with pytest.raises(ea.RuleError, match=message):
        eliminate(inner_scope(text, A=(5,)), **args)


Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def scopes_on_any_domain(draw: Draw) -> Program:
    """Scopes over boxes cut by half-planes and lattices, whose reads share forms of few indices."""
    names = ["x", "y", "z"][: draw(st.integers(1, 3))]
    ranges = []
    for name in names:
        low = draw(st.integers(-2, 2))
        ranges.append(f"{name}:{low}:{low + draw(st.integers(0, 4))}")
    conditions = draw(st.lists(conditions_on(names), max_size=2))
    forms = draw(st.lists(combinations_of(names), min_size=1, max_size=max(1, len(names) - 1)))
    reads = []
    for _ in range(draw(st.integers(1, 2))):
        reads.append(f"A[{draw(subscripts(forms))}, {draw(subscripts(forms))}]")
    body = draw(st.sampled_from(["Sum[k:2]({}*B[k])", "Max[k:2]({}+B[k])", "{}", "{} + 1"]))
    operation = draw(st.sampled_from([" * ", " - "]))
    body = body.format(f"({operation.join(reads)})")
    where = f", where=({', '.join(conditions)},)" if conditions else ""
    text = f"O = L[{', '.join(ranges)}]({body}{where})"
    return as_program(ea.parse(text, A=ea.tensor("A", (80, 80), "i64"), B=(2,)))


def combinations_of(names: list[str]) -> st.SearchStrategy[str]:
    """Texts like `2*x - y`, with coefficients that are small or zero."""
    coefficients = st.lists(st.integers(-2, 3), min_size=len(names), max_size=len(names))
    return coefficients.map(
        lambda numbers: " + ".join(f"{number}*{name}" for number, name in zip(numbers, names))
    )


def subscripts(forms: list[str]) -> st.SearchStrategy[str]:
    """Subscripts that stay inside 80 elements: forms, their halves and their remainders."""
    shapes = st.sampled_from(["{} + 40", "({})//2 + 40", "({})%3"])
    return st.builds(str.format, shapes, st.sampled_from(forms))


def conditions_on(names: list[str]) -> st.SearchStrategy[str]:
    shapes = st.sampled_from(["{} >= 0", "{} <= 1", "Eq(({})%2, 0)", "Eq({}, 1)"])
    return st.builds(str.format, shapes, combinations_of(names))


def test_every_move_on_domains_of_any_shape_keeps_every_value() -> None:
    count = examples(100, at_night=250)
    report = check_rule(RULE, examples=count, strategy=scopes_on_any_domain())
    assert report.moves >= count // 8, report


ROWS = st.integers(1, 4).flatmap(
    lambda count: st.tuples(
        st.lists(st.tuples(*[st.integers(-4, 4)] * count), max_size=4),
        st.lists(st.integers(1, 5), min_size=count, max_size=count),
    )
)


@given(ROWS)
def test_every_row_is_a_combination_of_the_independent_forms(
    rows: tuple[list[tuple[int, ...]], list[int]],
) -> None:
    combinations, extents = rows
    basis = independent_forms(combinations, extents)
    for row in combinations:
        coefficients = [
            sum(a * line[form] for a, line in zip(row, basis.inverse))
            for form in range(len(basis.forms))
        ]
        again = [0] * len(extents)
        for coefficient, form in zip(coefficients, basis.forms):
            again = [total + coefficient * entry for total, entry in zip(again, form)]
        assert tuple(again) == row


def test_the_points_of_a_body_are_those_of_its_forms() -> None:
    scope = ea.parse("O[i:6,r:3,j:4] = Sum[k](A[i+r,k])", A=(8, 5))
    assert distinct_points(scope.body, scope.iterators) == 8
