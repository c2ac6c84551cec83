"""Products of many tensors within a bound on memory: orders that fit, and sums that are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.contraction.slicing import MAX_CUTS, contracted_within
from derive.cost.memory import temporary_bytes
from derive.rewriting.moves import apply
from derive.rules import ALL
from derive.rules.algebra import distribution
from derive.rules.inter import expression_splitting
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Budget, search
from derive.search.cleanup import fissioned
from einalg.language.ir.program import as_program
from tests.helpers.batches import examples
from tests.helpers.einsums import agrees, einsums, ring, uniform

SIZE = 24
MATRIX = 4 * SIZE * SIZE  # bytes of an intermediate result of a ring


def bounded(program, memory, rules=ALL):
    return list(contracted_within(program, rules, memory, fissioned))


def cuts(moves):
    return sum(move.rule == distribution.RULE.name for move in moves)


@given(einsums(), st.sampled_from([4, 12, 40, 200]))
@settings(max_examples=examples(12, at_night=300))
def test_results_keep_within_the_bound_and_values_stay(einsum, memory):
    start = as_program(einsum.expression())
    for program, moves in bounded(start, memory):
        replayed = start
        for move in moves:
            replayed = apply(replayed, move, ALL)
        assert replayed == program
        assert agrees(start, program)


@given(einsums(), st.sampled_from([0, 8, 64, 512]))
@settings(max_examples=examples(8, at_night=150))
def test_every_candidate_keeps_within_the_bound(einsum, memory):
    start = as_program(einsum.expression())
    for candidate in search(start, Budget(states=3, memory=memory))[0]:
        assert agrees(start, candidate.program)
        assert not candidate.moves or temporary_bytes(candidate.program) <= memory


@pytest.mark.parametrize("share", [2, 1, 1 / 2])
def test_a_sum_is_cut_until_the_parts_fit(share):
    start = as_program(ring(5, SIZE).expression())
    candidates, _, _ = search(start, Budget(states=0, seconds=60.0, memory=int(share * MATRIX)))
    best = candidates[0]
    assert best.moves and temporary_bytes(best.program) <= share * MATRIX
    assert bool(cuts(best.moves)) == (share < 2)
    assert cuts(best.moves) <= MAX_CUTS
    assert ea.prove(start, best.program).verdict == "proved"


def test_results_are_cut_along_an_index_that_every_operand_keeps():
    batch = uniform(("bcz", "cdz", "dez", "ebz"), "z", 8)
    start, memory = as_program(batch.expression()), 4 * (8 * 8 * 8 // 2 + 8)
    candidates, _, _ = search(start, Budget(states=0, seconds=60.0, memory=memory))
    best = next(candidate for candidate in candidates if candidate.moves)
    cut = {m.args["index"] for m in best.moves if m.rule == expression_splitting.RULE.name}
    assert cut == {"z"} and not cuts(best.moves)
    assert temporary_bytes(best.program) <= memory
    assert agrees(start, best.program)
    assert ea.prove(start, best.program).verdict == "proved"


def test_a_sum_is_cut_no_more_than_so_often():
    assert not bounded(as_program(ring(5, SIZE).expression()), 8)


def test_without_the_rule_nothing_is_cut():
    rules = {name: rule for name, rule in ALL.items() if name != distribution.RULE.name}
    ring_of_five = as_program(ring(5, SIZE).expression())
    assert bounded(ring_of_five, 4 * MATRIX, rules) and not bounded(ring_of_five, MATRIX - 1, rules)


def test_parts_are_added_one_by_one_where_all_at_once_take_too_much():
    """A quarter of what is between takes twice as much as the result, of which no parts are made."""
    rules = [rule for name, rule in ALL.items() if name != expression_splitting.RULE.name]
    text = "O[i:8,l:8] = Sum[j:64,k:64](A[i,j]*B[j,k]*C[k,l])"
    start = as_program(ea.parse(text, A=(8, 64), B=(64, 64), C=(64, 8)))
    result = 4 * 8 * 8
    budget = Budget(states=0, seconds=60.0, memory=3 * result)
    candidates, _, _ = search(start, budget, rules)
    best = candidates[0]
    assert cuts(best.moves) >= 3 and temporary_bytes(best.program) <= 3 * result
    spellings = bounded(start, 3 * result, {rule.name: rule for rule in rules})
    peaks = [temporary_bytes(lifted(program)) for program, _ in spellings]
    assert max(peaks) > 3 * result >= min(peaks)


def test_the_public_option(tmp_path, monkeypatch):
    """The compiled program takes no more memory between its kernels, but for lines of the cache."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    einsum = ring(5, 16)
    bound = 4 * 16 * 16
    derivation = ea.derive(einsum.expression(), memory=bound, states=0, measure=False)
    best = derivation.best
    assert cuts(best.moves) and best.verdict == "proved"
    run = best.compile()
    generator = np.random.default_rng(0)
    arrays = {name: generator.random(t.shape) for name, t in derivation.expression.inputs.items()}
    expected = np.einsum(einsum.equation, *arrays.values(), optimize=True)
    np.testing.assert_allclose(run(**arrays), expected, rtol=1e-4)
    assert run.memory_plan.bytes <= bound + 64 * len(best.program.names)
