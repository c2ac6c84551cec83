"""Proofs of random expressions against the reference evaluator, which knows nothing of relations."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from typing import Any

import islpy as isl
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.proof import DIFFERENT, PROVED, prove
from derive.proof.exact.guards import (
    conjunctions,
    failing,
    follows,
    inside,
    needed,
    negated,
    outside,
)
from derive.proof.exact.products import sorted_product
from derive.rewriting.moves import Move, apply, moves
from derive.rules import ALL
from einalg.language import ops
from einalg.language.index.affine import Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.program import Program, as_program, inlined, substitute_tensors
from einalg.language.ir.tensor import Constant
from einalg.testing import strategies
from tests.helpers.batches import examples
from tests.helpers.mutations import candidates, is_well_formed
from tests.helpers.regions import points

I, J = Index("i"), Index("j")
GRID = [{I: i, J: j} for i in range(-6, 7) for j in range(-6, 7)]
BOX = {I: (-6, 7), J: (-6, 7)}


def values(expression: Any, seed: int) -> list[Any]:
    program = as_program(expression)
    arrays = {
        name: np.random.default_rng([seed, *name.encode()]).integers(-(10**4), 10**4, t.shape)
        for name, t in program.inputs.items()
    }
    found = evaluate(program, **arrays)
    return list(found.values()) if isinstance(found, dict) else [found]


def agrees(one: Any, two: Any) -> None:
    """A verdict that the values contradict fails; a region found by relations holds every point
    that differs.
    """
    proof = prove(one, two)
    if proof.reason:
        assert proof.verdict == DIFFERENT
        return
    pairs = [list(zip(values(one, seed), values(two, seed))) for seed in range(2)]
    differing = [
        np.logical_or.reduce([np.asarray(a != b) for a, b in outputs]) for outputs in zip(*pairs)
    ]
    if any(mask.any() for mask in differing):
        assert proof.verdict != PROVED, f"{proof}\n{one}\n{two}"
    if len(differing) == 1 and proof.method == "access relations":
        found = points(proof.region) if proof.region is not None else set()
        assert found >= set(map(tuple, np.argwhere(differing[0]).tolist())), (
            f"{proof}\n{one}\n{two}"
        )
        assert found <= set(np.ndindex(differing[0].shape))


def random_move(data: Any, program: Program) -> Move | None:
    """A move of the first rule, in a random order, that has any."""
    for name in data.draw(st.permutations(sorted(ALL))):
        choices = list(moves(program, [ALL[name]]))
        if choices:
            return data.draw(st.sampled_from(choices))
    return None


@settings(max_examples=examples(15, at_night=2000))
@given(st.data(), st.booleans())
def test_mutants_of_random_scopes(data: Any, functions: bool) -> None:
    scope = inlined(as_program(data.draw(strategies.scopes(functions=functions, truths=functions))))
    assert prove(scope, scope).verdict != DIFFERENT
    others = (mutant for mutant in candidates(scope) if mutant.shape == scope.shape)
    mutant = next(filter(is_well_formed, islice(others, data.draw(st.integers(0, 30)), None)), None)
    if mutant is not None:
        agrees(scope, mutant)


def with_constants(data: Any, scope: Any) -> Any:
    """The scope with some of its tensors as constants of few different values, and those constants."""
    chosen = data.draw(st.sets(st.sampled_from(sorted(scope.tensors)))) if scope.tensors else set()
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    constants = {}
    for name in sorted(chosen):
        tensor = scope.tensors[name]
        constants[name] = Constant(
            name,
            tensor.axes,
            "f32",
            (random.integers(-1, 3, tensor.shape) * Fraction(1, 2)).ravel().tolist(),
        )
    return substitute_tensors(scope, constants), constants


@settings(max_examples=examples(12, at_night=2000))
@given(st.data(), st.booleans())
def test_random_scopes_with_constants(data: Any, functions: bool) -> None:
    """Constants are numbers: what a changed value or another form changes is found, and nothing
    else.
    """
    scope, constants = with_constants(
        data,
        inlined(as_program(data.draw(strategies.scopes(functions=functions, truths=functions)))),
    )
    assert prove(scope, scope).verdict != DIFFERENT
    if constants:
        tensor = data.draw(st.sampled_from([constants[name] for name in sorted(constants)]))
        if tensor.values:
            place = data.draw(st.integers(0, len(tensor.values) - 1))
            changed = [v + 1 if k == place else v for k, v in enumerate(tensor.values)]
            agrees(
                scope,
                substitute_tensors(
                    scope, {tensor.name: Constant(tensor.name, tensor.axes, "f32", changed)}
                ),
            )
    move = random_move(data, as_program(scope))
    if move is not None:
        agrees(scope, apply(as_program(scope), move, ALL))


@given(st.data())
def test_names_of_constants_mean_nothing(data: Any) -> None:
    """The name of a constant means nothing, only its values do."""
    scope, constants = with_constants(
        data, inlined(as_program(data.draw(strategies.scopes(reductions=("Sum",), where=False))))
    )
    renamed = {
        name: Constant(f"{name}_", t.axes, t.dtype, t.values) for name, t in constants.items()
    }
    assert prove(scope, substitute_tensors(scope, renamed)).verdict == PROVED


@given(strategies.scopes(reductions=("Sum",), quotients=False))
def test_random_sums_of_products_equal_themselves(scope: Any) -> None:
    assert prove(scope, scope).verdict == PROVED


@given(st.data())
def test_moves_of_rules_are_never_different(data: Any) -> None:
    program = as_program(data.draw(strategies.programs(max_statements=2)))
    move = random_move(data, program)
    if move is not None:
        agrees(program, apply(program, move, ALL))


def conditions(quotients: bool = True) -> Any:
    forms = strategies.affine_forms((I, J), quotients=quotients)
    return st.builds(Constraint, forms, st.sampled_from([">=", "=="]))


def holding(conjunction: Any, env: Any) -> bool:
    return all(c.holds(env) for c in conjunction)


@given(conditions(), conditions())
def test_what_follows_holds(fact: Constraint, condition: Constraint) -> None:
    verdict = follows(fact, condition)
    for env in GRID:
        if fact.holds(env) and verdict is not None:
            assert condition.holds(env) == verdict


@given(conditions())
def test_opposites_are_disjoint_and_cover(condition: Constraint) -> None:
    for env in GRID:
        assert sum(bool(c.holds(env)) for c in negated(condition)) == (not condition.holds(env))


@given(st.lists(conditions(), max_size=3))
def test_points_outside_are_covered_once(found: list[Constraint]) -> None:
    kept = needed(found, BOX)
    parts = list(outside(found, BOX))
    for env in GRID:
        assert (kept is not None and holding(kept, env)) == holding(found, env)
        assert sum(holding(part, env) for part in parts) == (not holding(found, env))


@given(st.lists(st.lists(conditions(), max_size=2), max_size=3))
def test_points_at_which_all_fail(parts: Any) -> None:
    pieces = failing(parts)
    for env in GRID[::3]:
        assert sum(holding(piece, env) for piece in pieces) == (
            not any(holding(part, env) for part in parts)
        )


@given(strategies.affine_forms((I, J)), strategies.affine_forms((I, J)), st.integers(0, 3))
def test_conditions_as_conjunctions(left: Any, right: Any, kind: int) -> None:
    one, two = left >= 2, right < 1
    condition = [one & two, one | two, ~one, (one | two) & ~(one & two)][kind]
    parts = conjunctions(condition, lambda form: form)
    for env in GRID[::2]:
        a, b = left.evaluate(env) >= 2, right.evaluate(env) < 1
        expected = [a and b, a or b, not a, a != b][kind]
        assert sum(holding(part, env) for part in parts) == expected


def test_boxes() -> None:
    assert [str(c) for c in inside([affine(I), I + J], [(0, 4), (-1, 3)])] == [
        "i >= 0",
        "i <= 3",
        "i + j + 1 >= 0",
        "i + j <= 2",
    ]


@given(st.lists(strategies.affine_forms((I, J), quotients=False), min_size=1, max_size=3))
def test_products_do_not_depend_on_the_order_of_factors(forms: list[Any]) -> None:
    """Every order of the factors gives the same sorted coordinates, those of the point."""
    space = Space((I, J))
    maps = [space.map([form, affine(I)]) for form in forms]
    result = sorted_product(maps)
    assert result.is_single_valued() and result.is_equal(sorted_product(maps[::-1]))
    env = {I: 2, J: -3}
    point = space.where(Constraint(I - 2, "==")).intersect(space.where(Constraint(J + 3, "==")))
    sample = result.intersect_domain(point).range().sample_point()
    found = [
        int(sample.get_coordinate_val(isl.dim_type.set, k).to_python())
        for k in range(2 * len(forms))
    ]
    assert found == [
        number for pair in sorted((form.evaluate(env), 2) for form in forms) for number in pair
    ]


PARTS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=3)


@given(PARTS, PARTS)
def test_maxima_are_equal_where_they_meet_the_same_elements(one: Any, two: Any) -> None:
    """However often they do: of a vector of 9, each side joins the parts that start somewhere."""
    vector = ea.tensor("v", (9,))

    def maximum(parts: Any) -> Any:
        slices = []
        for start, length in parts:
            slices.append(ops.slice(vector, [start], [start + length], axes=[0]))
        return ops.max(ops.concat(slices, axis=0), axes=0)

    ours, theirs = [
        {place for start, length in parts for place in range(start, start + length)}
        for parts in (one, two)
    ]
    assert prove(maximum(one), maximum(two)).verdict == (PROVED if ours == theirs else DIFFERENT)
