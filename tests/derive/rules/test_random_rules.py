"""Each rule alone on random raw expressions: the moves that it proposes keep every value, exactly
(design §6). By day, those are a few at each place.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

import einalg as ea
from derive.rewriting.moves import apply, moves
from derive.rewriting.user_rules import check_rule
from derive.rules import ALL, RULES
from einalg.language.ir.program import Program, as_program, substitute_tensors
from einalg.language.ir.tensor import Tensor
from einalg.testing import strategies
from tests.helpers.batches import examples
from tests.helpers.rule_checks import check_on, drawn

EXAMPLES = examples(40, at_night=70)
PREPARED_EXAMPLES = 35


ELSEWHERE = ("bilinear factorisation", "partial substitution")  # tested on what they are about
ALONE = [r for r in ALL.values() if r.level == "scope" and r.name not in ELSEWHERE]


def truths():
    return strategies.scopes(functions=True, truths=True, max_points=60)


def programs_with_truths():
    return strategies.programs(functions=True, truths=True, max_points=60)


def test_random_scopes_are_many_different_ones():
    programs = {str(program) for program, _ in drawn(2 * EXAMPLES, strategies.scopes)}
    assert len(programs) >= EXAMPLES


@pytest.mark.parametrize("rule", ALONE, ids=lambda r: r.name)
def test_every_move_on_random_scopes_keeps_every_value(rule):
    check_on(rule, 2 * EXAMPLES, strategies.scopes, min_moves=10)


@pytest.mark.parametrize("rule", ALONE, ids=lambda r: r.name)
def test_every_move_on_random_truths_keeps_every_value(rule):
    """Inner scopes of comparisons, read as numbers or to choose by: in their place, `Ne(m[i], 0)`
    became true whatever they said.
    """
    check_on(rule, EXAMPLES, truths)


@pytest.mark.parametrize("name", ["expression fusion", "lifting", "nesting", "staging"])
def test_every_move_on_random_programs_with_truths_keeps_every_value(name):
    check_on(ALL[name], EXAMPLES, programs_with_truths)


@pytest.mark.parametrize(
    "rule", [r for r in ALL.values() if r.level == "program"], ids=lambda r: r.name
)
def test_every_move_on_random_programs_keeps_every_value(rule):
    strategy = siblings if rule is RULES["expression merging"] else statements
    check_on(rule, 2 * EXAMPLES, strategy, min_moves=10)


@st.composite
def statements(draw):
    """Programs whose statements read each other: random ones, and random scopes with some of their
    inner scopes named.
    """
    if draw(st.booleans()):
        return draw(strategies.programs())
    program = draw(prepared("variable substitution"))
    for _ in range(draw(st.integers(0, 2))):
        choices = list(moves(program, [ALL["lifting"]]))
        program = apply(program, draw(st.sampled_from(choices)), ALL) if choices else program
    return program


@st.composite
def prepared(draw, first):
    """A random scope after one move of another rule: what this rule meets within a derivation."""
    program = as_program(draw(strategies.scopes(max_points=60)))
    choices = list(moves(program, [RULES[first]]))
    return apply(program, draw(st.sampled_from(choices)), ALL) if choices else program


@st.composite
def siblings(draw):
    """Two statements that are the same but for the tensors that they read; and cut-up scopes, for
    the other kind of merging.
    """
    if draw(st.booleans()):
        return draw(prepared("expression splitting"))
    scope = draw(strategies.scopes(max_points=60))
    kept = draw(st.sets(st.sampled_from(sorted(scope.tensors)))) if scope.tensors else set()
    others = {
        n: Tensor(f"{n}_2", t.axes, t.dtype, t.role)
        for n, t in scope.tensors.items()
        if n not in kept
    }
    return Program([("P", scope), ("Q", substitute_tensors(scope, others))])


@st.composite
def twin_sums(draw):
    """A sum, and a multiple of the same sum of other tensors: what distribution joins."""
    scope = draw(strategies.scopes(max_points=60, reductions=("Sum",)))
    kept = draw(st.sets(st.sampled_from(sorted(scope.tensors)))) if scope.tensors else set()
    others = {
        n: Tensor(f"{n}_2", t.axes, t.dtype, t.role)
        for n, t in scope.tensors.items()
        if n not in kept
    }
    twin = substitute_tensors(scope, others)
    return ea.Scope(
        scope.iterators, scope.where, scope.body + draw(st.sampled_from([1, -1, 2])) * twin.body
    )


def test_distribution_on_random_pairs_of_sums():
    check_on(ALL["distribution"], EXAMPLES, twin_sums, min_moves=20)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("variable substitution", "traversal merging"),
        ("variable substitution", "boundary relaxing"),
        ("variable substitution", "boundary tightening"),
        ("variable substitution", "variable substitution"),
        ("summation splitting", "variable substitution"),
        ("summation splitting", "traversal merging"),
        ("boundary tightening", "boundary relaxing"),
        ("boundary tightening", "traversal merging"),
        ("expression splitting", "expression merging"),
        ("expression splitting", "traversal merging"),
    ],
)
def test_every_move_after_another_rule_keeps_every_value(first, then):
    check_on(ALL[then], PREPARED_EXAMPLES, prepared, first, min_moves=3)


@pytest.mark.nightly
@pytest.mark.parametrize("rule", ALL.values(), ids=lambda r: r.name)
def test_every_rule_for_long(rule):
    check_rule(rule, examples=3000, seed=0)
