"""Sums that are arranged together keep every value, and nothing is moved between them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.programs.forms.variants import changed_variants
from derive.programs.passes.phase_order import in_phases
from derive.rewriting.moves import apply
from derive.rules import ALL
from derive.search.cleanup import cleaned_up
from derive.search.expansion import ideal_seconds
from derive.search.starts.arranged_together import arranged_together, with_sums_apart
from derive.search.starts.partly_equal import arrangements_together, partly_equal
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.traversal import accesses


def chain(height: int, dilations: list[int], taps: list[int], between: str) -> Program:
    """Return convolutions of one axis that follow each other, with a function between them."""
    lines, shapes, source = [], {"X0": (2, 3, height)}, "X0"
    for layer, (dilation, count) in enumerate(zip(dilations, taps), 1):
        pad = dilation * (count // 2)
        lines.append(
            f"C{layer}[n,f:3,h:{height}] = Sum[c,r:{count}]"
            f"({source}.pad(0,0,{pad})[n,c,h+{dilation}*r-{pad}]*K{layer}[f,c,r])"
        )
        lines.append(f"X{layer}[n,f,h] = " + between.format(f"C{layer}[n,f,h]"))
        shapes[f"K{layer}"] = (3, 3, count)
        source = f"X{layer}"
    return as_program(ea.parse("\n".join(lines), **shapes))


def values(program: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    inputs = sorted(program.inputs.items())
    arrays = {name: rng.integers(-9, 10, tensor.shape) for name, tensor in inputs}
    return np.asarray(ea.evaluate(program, **arrays))


def moved_reads(program: Program) -> int:
    """Count the statements that read a statement by quotients or remainders."""
    count = 0
    for _, scope in program.statements:
        for access in accesses(scope.body):
            if access.tensor.name in program.names:
                count += any(not form.is_affine() for form in access.subscripts)
    return count


@settings(max_examples=12)
@given(data=st.data())
def test_random_chains_keep_every_value_and_move_nothing_in_between(data: Any) -> None:
    layers = data.draw(st.integers(2, 3))
    dilation = data.draw(st.integers(2, 3))
    taps = data.draw(st.lists(st.sampled_from([3, 5]), min_size=layers, max_size=layers))
    height = data.draw(st.integers(2 * dilation, 13))
    between = data.draw(st.sampled_from(["{}", "Max({}, 0)", "{} + X0[n,f,h] + 1"]))
    program = chain(height, [dilation] * layers, taps, between)
    (at, *_) = arrangements_together(program)
    assert len(at) == layers
    after, moves = arranged_together(program, at, ALL)
    replayed = program
    for move in moves:
        replayed = apply(replayed, move, ALL)
    assert replayed == after
    for seed in range(2):
        assert (values(after, seed) == values(program, seed)).all()
    assert moved_reads(in_phases(program)) <= 1  # of the output


def test_images_of_one_batch_stay_side_by_side() -> None:
    program = chain(9, [1, 1], [3, 5], "Max({}, 0)")
    (at,) = arrangements_together(program)
    assert [steps[0]["pitch"] for steps in at.values()] == [11, 11]
    after, _ = arranged_together(program, at, ALL)
    assert (values(after, 0) == values(program, 0)).all()
    assert ea.prove(program, after).verdict == "proved"


def test_the_search_starts_from_two_sums_at_once() -> None:
    program, _ = cleaned_up(chain(99, [2, 2], [3, 3], "Max({}, 0)"), ALL)
    starts = list(partly_equal(program, ALL, cleaned_up, ideal_seconds))
    counts = []
    for start, moves in starts:
        counts.append(sum(move.rule == "partial substitution" for move in moves))
        assert ea.prove(program, start).verdict == "proved"
    assert 2 in counts


def test_other_orders_of_a_network_are_a_form_of_it() -> None:
    dilated, plain = (chain(24, [step, step], [3, 3], "Max({}, 0)") for step in (2, 1))
    words = "dilated windows in phases"
    assert any(words in variant.changes for variant in changed_variants(dilated))
    assert not any(words in variant.changes for variant in changed_variants(plain))
    assert in_phases(plain) is plain


def test_what_no_statement_can_hold_stays() -> None:
    """Twice a byte is exact in place, and would wrap round in a statement."""
    padded = "(L[i:1, j:1](B[i])).pad((0, 1), (0, 1), fill=1)[i, i]"
    remainder = f"T[i:2] = Sum[s:1](Mod({padded}*Sum[r:1, w:1](A[i], where=i >= 0), 2))"
    twice = "O[i:1, j:1] = (L[i:1, j:1](2*T[i]))[i, i]*floor(Sum[s:2](floor(C[i]/2))/2)"
    dtypes = {"A": "i8", "B": "i8", "C": "bool"}
    tensors = {name: ea.tensor(name, (2,), dtype) for name, dtype in dtypes.items()}
    program = as_program(ea.parse(f"{remainder}\n{twice}", **tensors))
    assert with_sums_apart(program, ALL)[0].outputs == program.outputs
    assert ea.derive(program, measure=False, states=1).best.verdict == "proved"
