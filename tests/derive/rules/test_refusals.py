"""Every rule refuses what its precondition excludes, and says why; what is just allowed it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from derive.bilinear import STRASSEN, correlation, matmul
from derive.rewriting.moves import Move, apply, moves
from derive.rules import ALL
from derive.rules.algebra.bilinear_factorisation import factorise
from derive.rules.intra.variable_substitution import from_isl
from einalg.language.ir.program import Program, as_program

SQUARES = dict.fromkeys("ABCD", (6, 6))
VECTORS = dict.fromkeys("uvw", (6,))
MATRICES = {"x": (5, 3), "M": (3, 4), "N": (3, 4)}
SHAPES: dict[str, tuple[int, ...]] = {**SQUARES, **VECTORS, **MATRICES}


def program(text: str) -> Program:
    """Return a text as a program; its tensors have the shapes above."""
    named = {name: shape for name, shape in SHAPES.items() if f"{name}[" in text}
    return as_program(ea.parse(text, **named))


def products(body: str) -> Program:
    """Return two statements of one body, the second one with N for M."""
    first, second = f"P[i,j:3] = {body}", f"Q[i,j:3] = {body}".replace("M[", "N[")
    return program(f"{first}\n{second}\nO[i,j] = P[i,j]*Q[i,j]")


def sums(*bodies: str) -> Program:
    return program("O[i,j] = " + " + ".join(f"Sum[k]({body})" for body in bodies))


INNER = program("O[i:6] = 2*(L[j:6](Max(u[j], 0)))[i]")
MERGING = "expression merging"
NOT_ADJACENT = "the two terms are not adjacent parts of one expression"
NOT_STACKED = "P and Q do not become equal by exchanging tensors that can be stacked along axis 1"
NOT_TWO_TERMS = "these are not two terms of one sum over the same points, under these names"
JOIN = {"step": "join", "reductions": [0, 1], "names": {"k": "k"}}
REFUSALS: list[tuple[Program, str, tuple[Any, ...], dict[str, Any], str]] = [
    (
        sums("A[i,k]*B[k,j]"),
        "distribution",
        ("O",),
        {"step": "up"},
        "distribution has no step 'up'",
    ),
    (
        program("O[i:6,j:6] = Sum[k](A[i,k]) + B[i,j]"),
        "distribution",
        ("O",),
        {"step": "into", "reduction": 0},
        "the sum is not a factor beside finite factors without reductions",
    ),
    (
        sums("A[i,k]*B[k,j]"),
        "distribution",
        ("O",),
        {"step": "out of", "reduction": 0},
        "no factor can leave the sum: the summed indices occur in each, or in none",
    ),
    (
        sums("A[i,k]*B[k,j]"),
        "distribution",
        ("O",),
        {"step": "apart", "reduction": 0},
        "A[i, k]*B[k, j] is not a sum of terms",
    ),
    (
        sums("A[i,k]*B[k,j]", "A[i,k]*C[k,j]"),
        "distribution",
        ("O",),
        {**JOIN, "reductions": [0, 0]},
        NOT_TWO_TERMS,
    ),
    (
        sums("A[i,k]*B[k,j]", "A[i,k]*C[k,j]"),
        "distribution",
        ("O",),
        {**JOIN, "names": {"k": "j"}},
        NOT_TWO_TERMS,
    ),
    (
        program("O[i,j] = Sum[k](A[i,k]*B[k,j])*Sum[k](A[i,k]*C[k,j])"),
        "distribution",
        ("O",),
        JOIN,
        NOT_TWO_TERMS,
    ),
    (
        sums("A[i,k]*B[k,j]", "D[i,k]*C[k,j]"),
        "distribution",
        ("O",),
        JOIN,
        "the two sums have no factor in common",
    ),
    (
        program("O[i,j] = A[i,j]*(B[i,j] + 1)"),
        "distribution",
        ("O",),
        {"step": "expand", "product": 9, "factor": 0},
        "there is no product number 9: there are 1",
    ),
    (
        program("O[i,j] = A[i,j]*(B[i,j] + 1)"),
        "distribution",
        ("O",),
        {"step": "expand", "product": 0, "factor": 2},
        "factor 2 of (B[i, j] + 1)*A[i, j] is not a sum of finite terms",
    ),
    (
        program("O[i,j] = (A[i,j] + 1)**4"),
        "distribution",
        ("O",),
        {"step": "expand", "product": 0, "factor": 0},
        "there is no product number 0: there are 0",
    ),
    (
        program("O[i,j] = A[i,j] + B[i,j]"),
        MERGING,
        ("O",),
        {"first": 0, "second": 0},
        "the body is a sum of 2 terms; 0 and 0 are not two of them",
    ),
    (
        program("O[i,j] = A[i,j] + B[i,j]"),
        MERGING,
        ("O",),
        {"first": 0, "second": 1},
        NOT_ADJACENT,
    ),
    (
        program("O[i:6] = (L[i:3](u[i])).pad((0,3))[i] + (L[i:3](v[i])).pad((0,3))[i]"),
        MERGING,
        ("O",),
        {"first": 0, "second": 1},
        NOT_ADJACENT,
    ),
    (
        products("Sum[k](x[i,k]*M[k,j])"),
        MERGING,
        ("P",),
        {"sibling": "O", "axis": None},
        "P and O are not two independent statements",
    ),
    (
        products("Sum[k:3](x[i,k]*M[k,j]*M[j,k])"),
        MERGING,
        ("P",),
        {"sibling": "Q", "axis": 1},
        NOT_STACKED,
    ),
    (
        products("Sum[k](x[i,k]*M[k,j])"),
        MERGING,
        ("P",),
        {"sibling": "Q", "axis": 1},
        NOT_STACKED,
    ),
    (
        sums("A[i,k]*B[k,j]"),
        "expression splitting",
        ("O",),
        {"index": "i", "at": 2, "phases": 2},
        "expression splitting takes either at= or phases=",
    ),
    (
        program("O[i:0] = u[i]"),
        "expression splitting",
        ("O",),
        {"index": "i", "phases": 2},
        "a scope without points has no phases",
    ),
    (INNER, "lifting", ("O",), {"name": "T"}, "O is a statement already"),
    (INNER, "lifting", ("O", 0), {"name": "u"}, "'u' is not a free name for a statement"),
    (INNER, "lifting", ("O", 0), {"name": "a b"}, "'a b' is not a free name for a statement"),
    (
        INNER,
        "boundary relaxing",
        ("O",),
        {"box": [[0, 8]], "where": []},
        "boundary relaxing takes either inner= or reduction=",
    ),
    (
        INNER,
        "boundary relaxing",
        ("O",),
        {"box": [[1, 6]], "where": [], "inner": 0},
        "the new domain does not contain the old one",
    ),
    (
        INNER,
        "boundary relaxing",
        ("O",),
        {"box": [[0, 6]], "where": [], "inner": 0},
        "the new domain is the old one",
    ),
    (
        INNER,
        "boundary tightening",
        ("O",),
        {"box": [[0, 8]], "inner": 0, "reduction": 0},
        "boundary tightening takes either inner= or reduction=",
    ),
    (
        INNER,
        "boundary tightening",
        ("O",),
        {"box": [[0, 9]], "inner": 0},
        "the new box is not inside the old domain",
    ),
    (
        sums("A[i,k]*B[k,j]"),
        "variable substitution",
        ("O",),
        {"target": 0, "forward": {"i": "k"}, "backward": {"k": "i"}},
        "index i is already bound around the reduction",
    ),
    (
        sums("A[i,k]*B[k,j]"),
        "staging",
        ("O",),
        {"access": 0, "axes": ["i", "k"], "subscripts": ["y0"]},
        "1 subscripts for A[i, k], which has 2",
    ),
    (
        sums("A[i,k]*B[k,j]"),
        "bilinear factorisation",
        ("O",),
        {"factorisation": "strassen", "output": "i"},
        "bilinear factorisation cannot use the arguments output",
    ),
]


@pytest.mark.parametrize(
    ("start", "rule", "path", "args", "message"),
    REFUSALS,
    ids=[f"{rule}: {message}" for _, rule, _, _, message in REFUSALS],
)
def test_a_move_whose_precondition_fails_is_refused(
    start: Program, rule: str, path: tuple[Any, ...], args: dict[str, Any], message: str
) -> None:
    move = Move(rule, path, args)
    assert move not in list(moves(start, [ALL[rule]]))
    with pytest.raises(ea.RuleError) as error:
        apply(start, move, ALL)
    assert str(error.value).splitlines()[0] == message


ALLOWED = [
    (
        program("O[i:6,j:6] = Sum[k](A[i,k]*B[i,j], where=k <= i)"),
        Move("distribution", ("O",), {"step": "out of", "reduction": 0}),
        "O[i:6, j:6] = B[i, j]*Sum[k:6](A[i, k], where=i >= k)",
    ),
    (
        program("O[i:3] = u[i]"),
        Move("expression splitting", ("O",), {"index": "i", "phases": 5}),
        "O[i:3] = Sum[()]((L[i:1](u[5*i + 2]))[i//5], where=Eq(i%5, 2)) + "
        "Sum[()]((L[i:1](u[5*i + 1]))[i//5], where=Eq(i%5, 1)) + "
        "Sum[()]((L[i:1](u[5*i]))[i//5], where=Eq(i%5, 0))",
    ),
    (
        program("O[i:0] = u[i]"),
        Move(
            "variable substitution",
            ("O",),
            {"target": "traversal", "forward": {"t": "i + 1"}, "backward": {"i": "t - 1"}},
        ),
        "O[i:0] = (L[t:0](u[t - 1], where=t >= 1))[i + 1]",
    ),
]


@pytest.mark.parametrize(("start", "move", "text"), ALLOWED, ids=lambda value: str(value)[:40])
def test_a_move_at_the_border_of_its_precondition(start: Program, move: Move, text: str) -> None:
    after = apply(start, move, ALL)
    assert str(after) == text
    assert same(start, after)


def same(one: Program, two: Program) -> bool:
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-3, 4, tensor.shape) for name, tensor in one.inputs.items()}
    return ea.evaluate(one, **arrays).tolist() == ea.evaluate(two, **arrays).tolist()


def test_siblings_whose_tensors_pair_in_another_order() -> None:
    shapes = dict.fromkeys(["x", "a", "b", "c", "d"], (5,))
    text = "P[i] = x[i]*(a[i] - b[i])\nQ[i] = x[i]*(d[i] - c[i])\nO[i] = P[i]*Q[i]"
    start = as_program(ea.parse(text, **shapes))
    (move,) = moves(start, [ALL[MERGING]])
    after = apply(start, move, ALL)
    assert {"a_d", "b_c"} <= set(after.names)
    assert same(start, after)


def test_siblings_of_different_types_are_not_stacked() -> None:
    text = "P[i] = x[i]*a[i]\nQ[i] = x[i]*b[i]\nO[i] = P[i]*Q[i]"
    start = as_program(ea.parse(text, x=(5,), a=(5,), b=ea.tensor("b", (5,), "i32")))
    assert not list(moves(start, [ALL[MERGING]]))


def test_no_phases_are_proposed_where_they_are_very_many() -> None:
    start = as_program(ea.parse("O[i:300] = a[i//100] + b[i//4]", a=(3,), b=(75,)))
    phases = [move.args.get("phases") for move in moves(start, [ALL["expression splitting"]])]
    assert 4 in phases and 100 not in phases


def test_no_map_is_proposed_of_a_reduction_without_points() -> None:
    start = program("O[i:3] = u[i] + Sum[k:0](v[k])")
    assert not list(moves(start, [ALL["variable substitution"]]))


def test_a_map_of_several_cases_cannot_rename_points() -> None:
    mapping = "{ [h] -> [t] : (h < 3 and t = h + 3) or (h >= 3 and t = h - 3) }"
    with pytest.raises(ea.RuleError, match="dimension 0 of the map, or of its inverse, needs 2"):
        from_isl(program("O[h] = u[h]")["O"], mapping)


def test_factorisations_that_fit_no_product() -> None:
    product = program("O[i,j] += A[i,k]*B[k,j]")["O"]
    with pytest.raises(ea.RuleError, match="F_2_3 computes no product of matrices"):
        factorise(product, correlation(2, 3), row="i", column="j", inner="k")
    with pytest.raises(ea.RuleError, match="there is no factorisation 'of mine'; known: strassen"):
        factorise(product, "of mine", row="i", column="j", inner="k")
    with pytest.raises(ea.RuleError, match="a product of a 0×2 and a 2×2 matrix has no"):
        matmul(0, 2, 2)
    halves = factorise(product, STRASSEN, row="i", column="j", inner="k")
    assert same(as_program(product), as_program(halves))


def test_a_correlation_by_a_factorisation_of_ones_own() -> None:
    start = as_program(ea.parse("O[h:4] += u[h+r]*w[r]", u=(6,), w=(3,)))
    after = factorise(start["O"], correlation(2, 3), output="h", tap="r")
    assert same(start, as_program(after))
