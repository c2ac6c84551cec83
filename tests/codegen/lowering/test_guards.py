"""Bounds and cuts of loops: exactly the points that meet the conditions are visited, and none
without need.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.ir.nodes import Bound, For, If, walk
from codegen.lowering.guards import Place, cuts, enclosure, narrowed
from codegen.lowering.lower import lower
from einalg.language.analysis.padded_reads import layers, skipping
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses
from tests.helpers.batches import batches
from tests.helpers.kernels import check, quick_compiler, run_programs

h, r, s = ea.indices("h r s")


@st.composite
def linear_conditions(draw: Any, indices: tuple[Index, ...]) -> Constraint:
    form = affine(draw(st.integers(-6, 6)))
    for index in indices:
        form = form + affine(index) * draw(st.sampled_from([0, 1, 1, -1, -1, 2, 3, -2]))
    return Constraint(form, draw(st.sampled_from([">=", ">=", ">=", "=="])))


def value(bound: Bound, env: dict[Any, int]) -> int:
    if isinstance(bound, Affine):
        return bound.evaluate(env)
    return (max if bound.op == "max" else min)(value(b, env) for b in bound.of)


@given(
    st.lists(linear_conditions((h, r)), max_size=4),
    st.integers(-3, 3),
    st.integers(1, 6),
    st.integers(-3, 3),
    st.integers(1, 6),
)
def test_narrowed_loops(
    conditions: list[Constraint], low: int, extent: int, first: int, count: int
) -> None:
    place = Place({h: (low, low + extent), r: (first, first + count)}, bound=frozenset([h]))
    start, end, left = narrowed(place, r, affine(first), affine(first + count), conditions)
    ranges = enclosure(start, place.ranges), enclosure(end, place.ranges)
    for at in range(low, low + extent):
        inside = range(value(start, {h: at}), value(end, {h: at}))
        assert (
            ranges[0][0] <= value(start, {h: at}) <= ranges[0][1]
            and ranges[1][0] <= value(end, {h: at}) <= ranges[1][1]
        )
        kept = [step for step in inside if all(c.holds({h: at, r: step}) for c in left)]
        assert kept == [
            step
            for step in range(first, first + count)
            if all(c.holds({h: at, r: step}) for c in conditions)
        ]


@given(
    st.lists(linear_conditions((h, r)), min_size=1, max_size=3),
    st.integers(1, 9),
    st.integers(1, 4),
)
def test_cuts_decide_what_can_be_decided(
    conditions: list[Constraint], extent: int, count: int
) -> None:
    """Inside a part, a condition of kind >= is true for all values of the other indices everywhere
    or nowhere, and likewise false.
    """
    place = Place({h: (0, extent), r: (0, count)})
    at = [0, *cuts(place, h, 0, extent, conditions), extent]
    for begin, end in pairwise(at):
        for condition in (c for c in conditions if c.relation == ">="):
            always = [
                all(condition.holds({h: x, r: y}) for y in range(count)) for x in range(begin, end)
            ]
            never = [
                not any(condition.holds({h: x, r: y}) for y in range(count))
                for x in range(begin, end)
            ]
            assert len(set(always)) == len(set(never)) == 1


@given(linear_conditions((h, r, s)), st.integers(-2, 2), st.integers(1, 4))
def test_decisions_are_right(condition: Constraint, low: int, extent: int) -> None:
    place = Place(dict.fromkeys((h, r, s), (low, low + extent)))
    values = {
        bool(condition.holds({h: x, r: y, s: z}))
        for x in range(low, low + extent)
        for y in range(low, low + extent)
        for z in range(low, low + extent)
    }
    truth = place.decide(condition)
    assert truth is None or values == {truth}


def test_remainders_are_cut_apart() -> None:
    place = Place({h: (0, 3), r: (0, 2)})
    assert cuts(place, h, 0, 3, [Constraint((h + r) % 3, "==")]) == [1, 2]
    assert cuts(Place({h: (0, 9), r: (0, 2)}), h, 0, 9, [Constraint((h + r) % 3, "==")]) == []


def test_known_conditions_hold() -> None:
    place = Place({h: (0, 9)})
    condition = Constraint(h - 3, ">=")
    assert place.decide(condition) is None
    assert place.assuming([condition]).decide(condition) is True
    assert place.fix(h, 2).decide(condition) is False
    assert place.undecided([condition]) == (condition,)
    assert place.fix(h, 2).undecided([condition]) is None
    assert place.fix(h, 4).undecided([condition]) == ()


def test_fixed_indices_follow_each_other() -> None:
    outer, inner = ea.indices("outer inner")
    place = (
        Place({h: (0, 8), outer: (0, 4), inner: (0, 2)})
        .fix(h, affine(outer) * 2 + inner)
        .fix(inner, 1)
    )
    assert place.form(affine(h)) == 2 * outer + 1
    assert place.form(affine(h) // 2) == outer
    assert place.fix(outer, 3).form(affine(h)) == 7


@pytest.mark.parametrize(
    ("op", "fill", "combine", "absorbed"),
    [
        ("Sum", 0, lambda a, b: a * b, True),
        ("Sum", 0, lambda a, b: a + b, False),
        ("Sum", 1, lambda a, b: a * b, False),
        ("Sum", 0, lambda a, b: a**2 * b, True),
        ("Max", -sympy.oo, lambda a, b: a, True),
        ("Max", 0, lambda a, b: a, False),
        ("Min", sympy.oo, lambda a, b: a, True),
        ("Prod", 1, lambda a, b: a, True),
        ("Prod", 0, lambda a, b: a, False),
    ],
)
def test_fills_that_a_reduction_absorbs(op: str, fill: Any, combine: Any, absorbed: bool) -> None:
    a, b = ea.tensor("A", (5,)).pad(1, fill=fill)[h + r - 1], ea.tensor("B", (3,))[r]
    reduce = Reduce(op, [(r, 0, 3)], None, combine(a, b))
    assert bool(skipping(reduce, {})) == absorbed


def test_layers_of_a_view_padded_twice() -> None:
    scope = ea.L[h:-4:9](ea.tensor("A", (4,)).pad((1, 2), fill=5).pad((3, 3), fill=-1)[h])
    (access,) = accesses(scope.body)
    tensor, inner, outer = layers(access, {})
    assert tensor == ((Constraint(h, ">="), Constraint(3 - h, ">=")), None)
    assert inner == ((Constraint(h + 1, ">="), Constraint(5 - h, ">=")), 5)
    assert outer == ((), -1)


def test_holes_are_conditions() -> None:
    lower = ea.L[h:4, r:4](ea.tensor("A", (4, 4))[h, r], where=h >= r)
    view = ea.tensor("T", (4, 4)).pad(1, 0, fill=7)
    (access,) = accesses(ea.L[h:6, s:4](view[h - 1, s]).body)
    assert Constraint(h - s - 1, ">=") in layers(access, {"T": lower})[0][0]


def test_what_is_joined_of_many_parts_has_no_guards() -> None:
    count, j = 100, ea.indices("j")
    parts = [ea.tensor(f"S{n}", (1, 8)).pad((n, count - 1 - n), 0)[h - n, j] for n in range(count)]
    function = lower("O", ea.L[h:count, j:8](sympy.Add(*parts)))
    assert not any(isinstance(node, If) for node in walk(function))


@pytest.mark.parametrize(
    "where",
    ["j <= i", "j >= i - 3, j <= i", "2*j <= i, 3*j >= i - 3", "j >= i, j <= i - 3", "j >= i//2"],
)
def test_rows_that_conditions_cut_have_no_branches(where: str) -> None:
    function = lower("O", ea.parse(f"L[i:40, j:40](exp(A[i,j]), where=({where}))", A=(40, 40)))
    for node in walk(function):
        if isinstance(node, For) and node.kind == "vec":
            assert not any(isinstance(inner, If) for inner in walk(node))


@st.composite
def _cut_scopes(draw: st.DrawFn) -> Scope:
    """A scope of two axes with up to three conditions on both."""
    rows, columns = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    number = st.integers(-3, 3)
    conditions = []
    for _ in range(draw(st.integers(1, 3))):
        left = f"{draw(number)}*i + {draw(number)}*j + {draw(st.integers(-9, 9))}"
        conditions.append(draw(st.sampled_from([f"{left} >= 0", f"Eq({left}, 0)"])))
    text = f"L[i:{rows}, j:{columns}](1 + A[i,j], where=({', '.join(conditions)},))"
    return ea.parse(text, A=(rows, columns))


@settings(max_examples=batches(1), deadline=None)
@given(st.lists(_cut_scopes(), min_size=20, max_size=20))
def test_values_where_conditions_cut_rows(scopes: list[Scope]) -> None:
    programs = [as_program(scope) for scope in scopes]
    arrays = []
    for program in programs:
        shape = program.tensors["A"].shape
        arrays.append({"A": np.arange(np.prod(shape), dtype="f").reshape(shape)})
    for program, values, results in zip(
        programs, arrays, run_programs(programs, arrays, cc=quick_compiler())
    ):
        check(program, execute(program, values), results)


def check_loops(text: str, shape: tuple[int, ...], loops: int) -> None:
    """Check that the code of a statement has so many loops, and is right."""
    program = as_program(ea.parse(text, X=shape))
    function = lower("O", program["O"])
    assert sum(isinstance(node, For) for node in walk(function)) == loops
    arrays = {"X": np.random.default_rng(0).random(shape, np.float32)}
    (results,) = run_programs([program], [arrays], cc=quick_compiler())
    check(program, execute(program, arrays), results)


@pytest.mark.parametrize(
    ("text", "shape", "loops"),
    [
        ("O[i] = Sum[r:8,s:40](X[i,r,s])", (5, 8, 40), 2),
        ("O[i] = Max[s:40,r:8](X[i,r,s])", (5, 8, 40), 2),  # in the order of memory
        ("O[i] = Sum[p:3,r:8,s:40](X[i,p,r,s])", (5, 3, 8, 40), 2),
        ("O[i] = Sum[r:8,s:40](X[i,r+1,s])", (5, 9, 40), 2),  # a part, in whole rows
        ("O[i] = Sum[r:8,s:39](X[i,r,s])", (5, 8, 40), 3),  # parts of rows
        ("O[i] = Sum[r:8,s:40](X[i,r,s]*X[i,r,0])", (5, 8, 40), 3),
        ("O[i] = Sum[r:8,s:40](X[i,r,s]) + Max[r:8](X[i,r,2])", (5, 8, 40), 3),
        ("O[i] = Sum[r:8,s:40](X[i,r,s], where=s <= r)", (5, 8, 40), 3),
        ("O[i] = Sum[r:8,s:40](r*X[i,r,s])", (5, 8, 40), 3),
    ],
)
def test_sums_of_whole_rows_are_one_loop(text: str, shape: tuple[int, ...], loops: int) -> None:
    check_loops(text, shape, loops)


@pytest.mark.parametrize(
    ("text", "shape", "loops"),
    [
        ("O[i:8,k:5,l:6] = X.pad((2,1),0,0)[i-2,k,l]", (5, 5, 6), 5),
        ("O[i:8,k:5,l:6] = X.pad((2,1),0,(0,1))[i-2,k,l]", (5, 5, 5), 8),  # rows are cut as well
        ("O[k:5,l:6,i:8] = X.pad((2,1),0,0)[i-2,k,l]", (5, 5, 6), 4),  # cut inside
        ("O[i:6] = Sum[r:8,s:40](X.pad((1,0),0,0)[i-1,r,s])", (5, 8, 40), 2),
        ("O[i:6] = Sum[r:8,s:40](X.pad((1,0),0,(1,0))[i-1,r,s-1])", (5, 8, 39), 3),
        ("O[i:9,k:5,l:6] = X[i//3,k,l]", (3, 5, 6), 3),
        ("O[i:3,k:5,l:6] = X[i,k,l//2]", (3, 5, 3), 3),
        ("O[i:20,k:3,l:6] = X[i%4,i//4,k,l]", (4, 5, 3, 6), 3),
        ("O[i:12,k:3] = X[i//4,i%4,k]", (3, 4, 3), 2),  # parts of one index are one walk
    ],
)
def test_loops_that_no_condition_cuts_are_one(
    text: str, shape: tuple[int, ...], loops: int
) -> None:
    """What is joined along one axis is copied in runs of the others."""
    check_loops(text, shape, loops)
