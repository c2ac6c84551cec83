"""Each fact of the index table alone, exhaustively on small integers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import einalg as ea
from einalg.language.analysis.simplify import (
    FACTS,
    needed_conditions,
    simplify,
    simplify_scope,
    with_joined_quotients,
)
from einalg.language.index.affine import FloorDiv, Index, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.traversal import reductions
from einalg.language.notation.builders import L, Sum, indices, tensor

X, Y = Index("x"), Index("y")
COEFFICIENTS = (-4, -1, 0, 1, 2, 3, 6)
RANGES = ((0, 1), (0, 3), (-2, 2), (1, 4))


def atoms():
    for a, b, const, divisor in product(COEFFICIENTS, (1, 2), (-3, 0, 1, 5), (2, 3, 4, 6)):
        form = affine(X) * a + affine(Y) * b + const
        for make in (floordiv, modulo):
            yield from (
                (atom, c) for atom, c in make(form, divisor).terms if not isinstance(atom, Index)
            )


def points(ranges):
    return product(*(range(low, high) for low, high in ranges))


@pytest.mark.parametrize("fact", FACTS[:2], ids=lambda f: f.name)
def test_range_facts_hold_at_every_point(fact):
    used = 0
    for (atom, coefficient), xs, ys in product(dict.fromkeys(atoms()), RANGES, RANGES):
        ranges = {X: xs, Y: ys}
        result = fact.use(atom, coefficient, ranges, ())
        if result is None:
            continue
        used += 1
        for x, y in points((xs, ys)):
            env = {X: x, Y: y}
            assert result.evaluate(env) == affine(atom).scaled(coefficient).evaluate(env), (
                atom,
                coefficient,
                ranges,
                result,
            )
    assert used > 100


@pytest.mark.parametrize("fact", FACTS[2:], ids=lambda f: f.name)
def test_divisibility_facts_hold_where_the_condition_does(fact):
    used = 0
    for (atom, coefficient), shift, k in product(dict.fromkeys(atoms()), (-1, 0, 2), (2, 3, 4, 6)):
        condition = Constraint(modulo(atom.argument + shift, k), "==")
        result = fact.use(
            atom,
            coefficient * (k if isinstance(atom, FloorDiv) else 1),
            {X: (-3, 4), Y: (-3, 4)},
            (condition,),
        )
        if result is None:
            continue
        used += 1
        factor = coefficient * (k if isinstance(atom, FloorDiv) else 1)
        for x, y in points(((-5, 6), (-5, 6))):
            env = {X: x, Y: y}
            if condition.holds(env):
                assert result.evaluate(env) == affine(atom).scaled(factor).evaluate(env), (
                    atom,
                    condition,
                    result,
                )
    assert used > 20


def test_quotients_in_two_parts_join_and_keep_their_values():
    used = 0
    for d, m, k, shift, scale in product((2, 3), (1, 2, 3), (1, 2, -1), (-1, 0, 2), (1, -2)):
        x = X + shift
        form = affine(scale * (k * m * (x // (d * m)) + (k * (x % (d * m)) + Y + 1) // d) + X)
        result = with_joined_quotients(form)
        used += len(result.terms) < len(form.terms)
        for a, b in points(((-7, 8), (-3, 4))):
            assert result.evaluate({X: a, Y: b}) == form.evaluate({X: a, Y: b}), (form, result)
    assert used > 50


def test_simplify_is_the_same_object_where_nothing_applies():
    form = (2 * X + Y) // 3
    assert simplify(form, {X: (0, 9), Y: (0, 9)}) is form


@pytest.mark.parametrize(
    ("form", "ranges", "expected"),
    [
        ((4 * X + Y) // 4, {X: (-5, 9), Y: (0, 4)}, X),
        ((4 * X + Y) % 4, {X: (-5, 9), Y: (0, 4)}, Y),
        ((8 * X + 4 * Y + 3) // 8, {X: (0, 9), Y: (0, 2)}, X),
        ((X - 3) % 8, {X: (3, 11)}, X - 3),
        (((4 * X + Y) // 4) % 3, {X: (0, 3), Y: (0, 4)}, X),
        ((4 * X + Y + 4) // 4, {X: (0, 9), Y: (0, 4)}, X + 1),
    ],
)
def test_simplify(form, ranges, expected):
    assert simplify(affine(form), {X: (0, 1), Y: (0, 1), **ranges}) == expected


def test_conditions_that_always_hold_are_dropped_and_divisibility_is_recognised():
    ranges = {X: (0, 4), Y: (0, 4)}
    assert needed_conditions([Constraint(X + Y, ">="), Constraint(X - Y, ">=")], ranges) == (
        Constraint(X - Y, ">="),
    )
    (found,) = needed_conditions([Constraint(2 * ((X + Y) // 2) - X - Y, "==")], ranges)
    assert found == Constraint((X + Y) % 2, "==")


def test_padding_that_is_never_read_is_dropped():
    i, j = indices("i j")
    A = tensor("A", (5,))
    scope = L[i:3](Sum[j:2](A.pad(2)[i + j + 2]))
    assert str(simplify_scope(scope)) == "L[i:3](Sum[j:2](A.pad((0, 1))[i + j + 2]))"
    assert str(simplify_scope(L[i:3](A.pad(2)[i]))) == "L[i:3](A[i])"


CONDITIONS = [
    *(
        Constraint(modulo(affine(X) * a + b, k), "==")
        for a, b, k in product((1, -1, 3), (0, 1), (2, 3))
    ),
    *(Constraint(affine(X) * a + b, ">=") for a, b in product((1, -1, 2), (-2, 0, 3))),
    *(Constraint(affine(X) - b, "==") for b in (-1, 0, 2)),
    *(Constraint(floordiv(affine(X), 2) - b, "==") for b in (-1, 0, 1)),
]


@pytest.mark.parametrize("op", ["Sum", "Max", "Prod"])
def test_a_condition_on_one_index_is_its_range(op):
    """Every value of the outer index; the condition vanishes exactly where the values that meet it
    are consecutive, or the result known.
    """
    data = ea.tensor("A", (12, 2), "i64")
    for condition, (low, high) in product(CONDITIONS, ((0, 1), (0, 2), (0, 3), (-2, 2), (-3, 4))):
        values = [v for v in range(low, high) if condition.holds({X: v})]
        node = Reduce(
            op,
            [LoopIndex(X, low, high), LoopIndex(Y, 0, 2)],
            [condition],
            data[affine(X) + 5, Y] * (X + 4),
        )
        scope = L[Index("j") : 2](node * (Index("j") + 1))
        simple = simplify_scope(scope)
        consecutive = bool(values) and values[-1] - values[0] + 1 == len(values)
        left = [c for n in reductions(simple.body) for c in n.where]
        assert (not left) == (consecutive or (not values and op != "Max")), (
            condition,
            low,
            high,
            simple,
        )
        assert (
            X not in {i for n in reductions(simple.body) for i in n.indices}
            or len(values) != 1
            or high - low == 1
        )
        array = np.arange(1, 25).reshape(12, 2)
        if values or op != "Max":
            given = {"A": array} if "A" in simple.tensors else {}
            assert (ea.evaluate(simple, **given) == ea.evaluate(scope, A=array)).all(), (
                condition,
                low,
                high,
            )


def test_a_reduction_of_one_point_is_its_body():
    r = Index("r")
    data = ea.tensor("A", (4,))
    one = simplify_scope(
        L[X:3](
            Sum[r:3](data[affine(X) + r - 1], where=[Constraint(modulo(affine(r) + 1, 3), "==")])
        )
    )
    assert str(one) == "L[x:3](A[x + 1])"
    flags = ea.tensor("F", (4,), "bool")
    counted = simplify_scope(
        L[X:3](
            Sum[r:3](flags[affine(X) + r - 1], where=[Constraint(modulo(affine(r) + 1, 3), "==")])
        )
    )
    assert str(counted) == "L[x:3](Sum[r:2:3](F[r + x - 1]))"


@pytest.mark.parametrize("comparison", ["> 0", "<= 0", "< B[i]"])
def test_a_comparison_of_a_fill_that_has_no_value_is_false(comparison: str) -> None:
    text = f"O[i:3] = Piecewise((1, Mod(B.pad((0, 1), fill=-inf)[3], 2) {comparison}), (-1, True))"
    scope = ea.parse(text, B=(3,))
    assert str(simplify_scope(scope)) == "L[i:3](-1)"
