"""Proofs of what bilinear factorisation makes: exact at real sizes, and a changed entry is never
proved.
"""

from __future__ import annotations

from fractions import Fraction
from time import process_time

import numpy as np
import pytest
import sympy

import einalg as ea
from derive.bilinear import STRASSEN, correlation
from derive.rewriting.moves import Move, apply, moves
from derive.rules import ALL
from derive.rules.algebra.bilinear_factorisation import RULE
from einalg.language.ir.program import inlined, substitute_tensors
from einalg.language.ir.tensor import Constant
from tests.helpers.factorisations import CONV, REAL, SQUARE, mutants, program, winograd

SECONDS = 5.0  # of a processor; by evaluation, these sizes take minutes


def seconds_to_prove(one, two):
    began = process_time()
    proof = ea.prove(one, two)
    assert proof.verdict == "proved" and proof.method == "access relations", proof
    return process_time() - began


def test_real_sizes_are_proved_at_once():
    assert seconds_to_prove(REAL, winograd(REAL, tiles=(4, 4))) < SECONDS
    once = apply(
        SQUARE,
        Move(
            RULE.name,
            ("O",),
            {"row": "m", "column": "n", "inner": "k", "factorisation": "strassen"},
        ),
        ALL,
    )
    assert seconds_to_prove(SQUARE, once) < SECONDS
    twice = apply(
        once,
        Move(
            RULE.name,
            ("O", 0),
            {"row": "m2", "column": "n2", "inner": "k2", "factorisation": "strassen"},
        ),
        ALL,
    )
    assert seconds_to_prove(SQUARE, twice) < SECONDS


def test_inside_functions():
    start = program(
        "O[x] = Max(0, b + Sum[r:3](A[x+r]*K[r]))".replace("b +", "B[x] +"), A=(9,), K=(3,), B=(7,)
    )
    apart = ea.parse("T[x] += A[x+r]*K[r]\nO[x] = Max(0, B[x] + T[x])", A=(9,), K=(3,), B=(7,))
    made = apply(apart, Move(RULE.name, ("T",), {"output": "x", "tap": "r", "tile": 4}), ALL)
    assert ea.prove(start, made).verdict == "proved"


@pytest.mark.parametrize("f", [correlation(2, 3), correlation(3, 2)], ids=lambda f: f.name)
def test_a_changed_entry_is_never_proved(f):
    start = program("O[x] += A.pad(1)[x+r-1]*K[r]", A=(5,), K=f.V.shape[1:])
    right = inlined(
        apply(
            start, Move(RULE.name, ("O",), {"output": "x", "tap": "r", "tile": f.W.shape[0]}), ALL
        )
    )
    for mutant in mutants(f):
        wrong = substitute_tensors(right, {matrix.name: matrix for matrix in mutant.matrices})
        proof = ea.prove(start, wrong)
        assert proof.verdict == "different" and not proof.region.is_empty(), proof


def test_a_changed_entry_at_real_sizes():
    right = inlined(winograd(REAL, tiles=(4, 4)))
    matrix = correlation(4, 3).V
    wrong = Constant(
        matrix.name,
        matrix.axes,
        matrix.dtype,
        [*matrix.values[:-1], matrix.values[-1] + sympy.Rational(1, 24)],
    )
    assert ea.prove(REAL, substitute_tensors(right, {matrix.name: wrong})).verdict == "different"
    once = inlined(
        apply(
            SQUARE,
            Move(
                RULE.name,
                ("O",),
                {"row": "m", "column": "n", "inner": "k", "factorisation": "strassen"},
            ),
            ALL,
        )
    )
    matrix = STRASSEN.W
    wrong = Constant(matrix.name, matrix.axes, matrix.dtype, [-v for v in matrix.values])
    assert ea.prove(SQUARE, substitute_tensors(once, {matrix.name: wrong})).verdict == "different"


def test_fractions_are_exact_in_the_reference():
    made = winograd(CONV, tiles=(4, 6))
    rng = np.random.default_rng(1)
    arrays = {
        name: rng.integers(-9, 10, t.shape) * Fraction(1, 7) for name, t in CONV.inputs.items()
    }
    assert (ea.evaluate(made, **arrays) == ea.evaluate(CONV, **arrays)).all()


def split(start, index):
    """The index as its half and its remainder modulo 2."""
    found = moves(start, [ALL["variable substitution"]])
    return apply(
        start,
        next(m for m in found if {f"{index}//2", f"{index}%2"} <= set(m.args["forward"].values())),
        ALL,
    )


def test_strides_and_dilations_after_their_residues_are_apart():
    """5 taps of stride 2 are 3 taps of stride 1 for each residue, the last one padded; a dilation,
    one line for each residue.
    """
    strided = program("O[h,f] += A.pad(2,0)[2*h+r-2,c]*K[r,f,c]", A=(21, 3), K=(5, 2, 3))
    halves = split(strided, "r")
    whole = apply(
        halves,
        next(m for m in moves(halves, [ALL["boundary relaxing"]]) if "reduction" in m.args),
        ALL,
    )
    found = list(moves(whole, [RULE]))
    assert [m.args["tap"] for m in found] == ["r1"] * 3
    assert all(ea.prove(strided, apply(whole, move, ALL)).verdict == "proved" for move in found)

    dilated = program("O[h,f] += A.pad(2,0)[h+2*r-2,c]*K[r,f,c]", A=(22, 3), K=(3, 2, 3))
    assert not list(moves(dilated, [RULE]))
    halves = split(dilated, "h")
    found = list(moves(halves, [RULE], ("O", 0)))
    assert found and all(
        ea.prove(dilated, apply(halves, move, ALL)).verdict == "proved" for move in found
    )
