"""Domains and access relations against plain enumeration."""

from __future__ import annotations

from itertools import product
from typing import Any

import islpy as isl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.errors import RuleError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import (
    Space,
    access_relation,
    affine_of,
    bounded,
    box_set,
    domain_set,
)
from einalg.language.index.iterator import LoopIndex
from einalg.testing import strategies

INDICES = tuple(Index(name) for name in "ijk")
forms = strategies.affine_forms(INDICES)
boxes = st.lists(strategies.ranges(max_extent=4, empty=True), min_size=3, max_size=3)
conditions = st.lists(st.builds(Constraint, forms, st.sampled_from((">=", "=="))), max_size=2)


def points(found: isl.Set) -> set[tuple[int, ...]]:
    """Every point of a bounded set."""
    collected: list[tuple[int, ...]] = []
    found.foreach_point(lambda p: collected.append(_coordinates(p, found.dim(isl.dim_type.set))))
    return set(collected)


def _coordinates(point: isl.Point, rank: int) -> tuple[int, ...]:
    return tuple(point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(rank))


def pairs(found: isl.Map) -> set[tuple[int, ...]]:
    """Every pair of a bounded map, input before output."""
    return points(found.wrap().flatten())


def enumerated(box: Any, where: Any = ()) -> set[tuple[int, ...]]:
    return {
        p
        for p in product(*(range(low, high) for low, high in box))
        if all(c.holds(dict(zip(INDICES, p))) for c in where)
    }


def iterators(box: Any) -> list[LoopIndex]:
    return [LoopIndex(index, low, high) for index, (low, high) in zip(INDICES, box)]


@given(boxes, conditions)
def test_domains(box: Any, where: Any) -> None:
    assert points(domain_set(iterators(box), where)) == enumerated(box, where)


@given(boxes, st.lists(forms, min_size=1, max_size=3))
def test_maps(box: Any, subscripts: Any) -> None:
    space = Space(INDICES)
    found = space.map(subscripts).intersect_domain(space.set(iterators(box)))
    assert pairs(found) == {
        (*p, *(s.evaluate(dict(zip(INDICES, p))) for s in subscripts)) for p in enumerated(box)
    }


@given(forms, boxes)
def test_affine_expressions_and_back(form: Affine, box: Any) -> None:
    aff = Space(INDICES).aff(form)
    again = affine_of(aff, INDICES)
    for p in enumerated(box):
        env = dict(zip(INDICES, p))
        assert again.evaluate(env) == form.evaluate(env)


def test_an_affine_expression_that_is_not_whole_is_refused() -> None:
    half = Space(INDICES).aff(affine(INDICES[0])).scale_down_val(isl.Val(2))
    with pytest.raises(RuleError, match="not integral"):
        affine_of(half, INDICES)


@given(strategies.scopes(nested=False, max_points=40))
def test_relations_of_accesses_and_domains_of_scopes(scope: Any) -> None:
    from einalg.language.ir.traversal import accesses, reductions

    assert scope.domain is scope.domain
    box = [(it.low, it.high) for it in scope.iterators]
    names = [it.index for it in scope.iterators]
    inside = {
        p
        for p in product(*(range(*r) for r in box))
        if all(c.holds(dict(zip(names, p))) for c in scope.where)
    }
    assert points(scope.domain) == inside
    ranges = scope.ranges | {
        it.index: (it.low, it.high) for r in reductions(scope.body) for it in r.iterators
    }
    for access in accesses(scope.body):
        own = sorted(access.free_symbols, key=lambda i: i.name)
        domain = Space(own).set([LoopIndex(index, *ranges[index]) for index in own])
        box = [range(low, high) for low, high in map(ranges.__getitem__, own)]
        read = {
            (*p, *(s.evaluate(dict(zip(own, p))) for s in access.subscripts)) for p in product(*box)
        }
        assert pairs(access.relation.intersect_domain(domain)) == read


def test_relation_of_a_constant_access() -> None:
    access = ea.tensor("A", (3, 4))[2, 1]
    assert str(access_relation(access.free_symbols, access.subscripts)) == "{ [] -> [2, 1] }"


def test_a_domain_without_indices_is_one_point() -> None:
    assert points(domain_set([])) == {()}
    assert ea.parse("O[()] = A[0]", A=(1,)).domain.is_empty() is False


@given(st.lists(strategies.ranges(max_extent=4, empty=True), max_size=3))
def test_boxes(box: Any) -> None:
    assert points(box_set(box)) == set(product(*(range(*r) for r in box)))


def test_a_question_that_takes_too_long_is_given_up() -> None:
    space = Space(INDICES)
    with pytest.raises(isl.Error), bounded(10):
        points_of = space.set(iterators([(0, 1000)] * 3))
        for k in range(100):
            points_of = points_of.subtract(
                space.where(Constraint(INDICES[0] % 7 + INDICES[1] // 3 - k, "=="))
            )
    assert not space.set(iterators([(0, 3)] * 3)).is_empty()


def test_the_limit_is_put_back() -> None:
    context = isl.DEFAULT_CONTEXT
    before = context.get_max_operations()
    with pytest.raises(ZeroDivisionError), bounded(1000):
        raise ZeroDivisionError
    assert context.get_max_operations() == before
