"""Verdicts by evaluation: a prime field, rational numbers, double precision; blocks of large
outputs; error bounds.
"""

from __future__ import annotations

from math import prod
from typing import Any

import islpy as isl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.proof import DIFFERENT, PROVED, TESTED, prove
from derive.proof.outcome.regions import from_mask
from derive.proof.random.blocks import block_extents, cut_block, evaluation_steps
from derive.proof.random.operations import Operations, operations_of
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.program import as_program, inlined
from einalg.language.ir.tensor import Tensor
from einalg.testing import strategies
from tests.helpers.regions import points

THREE = {"A": (5,), "B": (5,), "C": (5,)}


@pytest.fixture(autouse=True)
def _without_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluation decides here what laws of functions would prove."""
    monkeypatch.setattr("derive.proof.shown_equal", lambda *_, **__: None)


@pytest.mark.parametrize(
    ("one", "two", "method", "bounded"),
    [
        ("O[i] = A[i]/B[i] + C[i]", "O[i] = (A[i] + C[i]*B[i])/B[i]", "modulo", True),
        ("O[i] = 1/(1/A[i] + 1/B[i]) + 0*C[i]", "O[i] = A[i]*B[i]/(A[i] + B[i])", "modulo", True),
        (
            "O[i:5] = Prod[j:5](A[j]) + C[i]",
            "O[i:5] = A[0]*Prod[j:1:5](A[j]) + C[i]",
            "modulo",
            True,
        ),
        ("O[i] = exp(A[i]*(B[i] + 1))", "O[i] = exp(A[i]*B[i] + A[i])", "access relations", True),
        ("O[i] = tanh(A[i]/B[i] + 1)", "O[i] = tanh((A[i] + B[i])/B[i])", "modulo", True),
        ("O[i] = Max(A[i], B[i]) + Min(A[i], B[i])", "O[i] = A[i] + B[i]", "modulo", False),
        (
            "O[i] = Max(A[i] + C[i], B[i] + C[i])",
            "O[i] = Max(A[i], B[i]) + C[i]",
            "exact evaluation",
            False,
        ),
        ("O[i] = Abs(A[i])*Abs(B[i])", "O[i] = Abs(A[i]*B[i])", "exact evaluation", False),
        ("O[i] = exp(A[i] + B[i])", "O[i] = exp(A[i])*exp(B[i])", "double precision", False),
        (
            "O[i] = log(A[i]*A[i]*B[i]*B[i])",
            "O[i] = 2*log(Abs(A[i]*B[i]))",
            "double precision",
            False,
        ),
    ],
)
def test_laws_that_relations_do_not_know(one: str, two: str, method: str, bounded: bool) -> None:
    proof = prove(ea.parse(one, **THREE), ea.parse(two, **THREE))
    assert proof.verdict == (PROVED if method == "access relations" else TESTED), proof
    assert method in proof.method
    assert (proof.error_probability is not None) == bounded
    assert proof.region is None and proof.holds and bool(proof) == (proof.verdict == PROVED)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ("O[i] = A[i]/B[i] + C[i]", "O[i] = (A[i] + C[i]*B[i])/B[i - i//3]", {(3,), (4,)}),
        ("O[i] = exp(A[i] + B[i])", "O[i] = exp(A[i])*exp(B[i - i//4])", {(4,)}),
        ("O[i] = Max(A[i] + C[i], B[i] + C[i])", "O[i] = Max(A[i], B[i]) + C[i - i//4]", {(4,)}),
        ("O[i] = sqrt(A[i]*A[i])", "O[i] = A[i]", {(0,), (1,), (2,), (3,), (4,)}),
        (
            "O[i] = log(A[i]*A[i] + 1)",
            "O[i] = log(A[i]*A[i] + Piecewise((2, i < 2), (1, True)))",
            {(0,), (1,)},
        ),
        ("O[i] = 1/A[i]", "O[i] = 1/(A[i] - A[i - i//4])", {(0,), (1,), (2,), (3,), (4,)}),
    ],
)
def test_differences_with_their_points(one: str, two: str, expected: set[Any]) -> None:
    proof = prove(ea.parse(one, **THREE), ea.parse(two, **THREE), rounds=12)
    assert proof.verdict == DIFFERENT and not proof.holds, proof
    assert points(proof.region) == expected


FILLS = ["-3.4e38", "-1e12", "-1e9"]


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize(
    "wrong", ["7*sin(A[i]) + 100", "1.01 - 2/(exp(2*A[i]) + 1)", "tanh(A[i]) + exp(A[i])/10**6"]
)
def test_a_large_element_hides_no_difference_of_another(fill: str, wrong: str) -> None:
    one, two = (
        ea.parse(f"O[i] = Piecewise(({value}, i < 3), ({fill}, True))", A=(7,))
        for value in ("tanh(A[i])", wrong)
    )
    proof = prove(one, two)
    assert proof.verdict == DIFFERENT, proof
    assert points(proof.region) == {(0,), (1,), (2,)}


@pytest.mark.parametrize("fill", FILLS)
def test_an_input_that_is_added_to_a_large_number(fill: str) -> None:
    """Masks are added too: what is left of the other number may differ by its rounding."""
    one, two, wrong = (
        ea.parse(f"O[i] = {value} + Piecewise((0, i < 3), ({fill}, True))", A=(7,))
        for value in ("tanh(A[i])", "1 - 2/(exp(2*A[i]) + 1)", "1.01 - 2/(exp(2*A[i]) + 1)")
    )
    assert prove(one, two).verdict == TESTED
    assert prove(one, wrong).verdict == DIFFERENT


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("O[i:5] = 0", "O[i] = exp(A[i] + B[i]) - exp(A[i])*exp(B[i])"),
        ("O[i] = C[i]", "O[i] = 10**6*exp(A[i] + B[i]) + C[i] - 10**6*exp(A[i])*exp(B[i])"),
        ("O[i:5] += tanh(A[j])", "O[i:5] += 1 - 2/(exp(2*A[4 - j]) + 1)"),
        (
            "O[i:5] = 0",
            "T[i:5] += exp(A[j])*B[j]\nU[i:5] += exp(A[4-j] + C[i])*B[4-j]\nO[i] = T[i] "
            "- U[i]*exp(-C[i])",
        ),
        ("O[i:5] += sin(A[j])**2 + cos(A[j])**2 - 1", "O[i:5] = 0"),
    ],
)
def test_rounding_is_no_difference(one: str, two: str) -> None:
    """Nothing but rounding is left of elements that are 0, in sums of another order too."""
    for seed in range(3):
        proof = prove(ea.parse(one, **THREE), ea.parse(two, **THREE), seed=seed)
        assert proof.verdict == TESTED, proof


def test_maximum_that_differs_for_some_values_only() -> None:
    """-1 in the place of 0 is seen where all elements are negative."""
    proof = prove(
        ea.parse("O[i] = Max(A[i], B[i], 0)", **THREE),
        ea.parse("O[i] = Max(A[i], B[i], -1)", **THREE),
    )
    assert proof.verdict == DIFFERENT, proof


def test_same_seed_same_proof() -> None:
    one, two = (
        ea.parse("O[i] = Max(A[i], B[i])", **THREE),
        ea.parse("O[i] = Max(A[i], B[i - i//4])", **THREE),
    )
    assert str(prove(one, two, seed=5)) == str(prove(one, two, seed=5))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("O[i] = A[i]/B[i] + i**2 + Abs(i - 2)*C[i]", Operations.RATIONAL),
        ("O[i] = Piecewise((A[i], i < 2), (B[i], True))", Operations.RATIONAL),
        ("O[i] = Piecewise((A[i], B[i] < 2), (B[i], True))", Operations.ORDERED),
        ("O[i] = Abs(A[i])", Operations.ORDERED),
        ("O[i:5] = Min[j:5](A[j])", Operations.ORDERED),
        ("O[i:7] = A.pad(1, fill=-inf)[i-1]", Operations.ORDERED),
        ("O[i] = sqrt(2)*A[i]", Operations.REAL),
        ("T[i] = exp(A[i])\nO[i] = T[i] + 1", Operations.REAL),
    ],
)
def test_operations(text: str, expected: Operations) -> None:
    assert operations_of(inlined(as_program(ea.parse(text, **THREE)))) == expected


def test_large_outputs_are_evaluated_on_blocks() -> None:
    """An identity of exp at the size of an image, and a difference in its last column only."""
    shapes = {"A": (8, 224, 224, 64), "B": (64,)}
    one = ea.parse("O[n,h,w,c] = exp(A[n,h,w,c] + B[c])", **shapes)
    equal = prove(one, ea.parse("O[n,h,w,c] = exp(A[n,h,w,c])*exp(B[c])", **shapes))
    assert (equal.verdict, equal.error_probability) == (TESTED, None)
    assert equal.coverage.endswith(" of 25,690,112 output points")
    wrong = prove(one, ea.parse("O[n,h,w,c] = exp(A[n,h,w,c])*exp(B[c - c//63])", **shapes))
    assert wrong.verdict == DIFFERENT and not wrong.is_region_exact
    assert wrong.region.is_subset(
        isl.Set("{ [n,h,w,c] : 0 <= n < 8 and 0 <= h < 224 and 0 <= w < 224 and c = 63 }")
    )


def test_whole_outputs_without_points() -> None:
    proof = prove(
        ea.parse("O[i:0] = exp(A[0]+B[0])", **THREE),
        ea.parse("O[i:0] = exp(A[0])*exp(B[0])", **THREE),
    )
    assert proof.verdict == PROVED


def array_of(tensor: Tensor, rng: np.random.Generator) -> Any:
    return (
        rng.integers(0, 2, tensor.shape).astype(bool)
        if tensor.dtype == "bool"
        else rng.integers(-5, 6, tensor.shape)
    )


def part_of(array: Any, whole: Tensor, part: Tensor) -> Any:
    return array[
        tuple(
            slice(low - first, high - first) for (first, _), (low, high) in zip(whole.box, part.box)
        )
    ]


@given(st.data())
def test_a_block_has_the_values_of_the_whole(data: Any) -> None:
    scope = inlined(as_program(data.draw(strategies.scopes(functions=True, truths=True))))
    origin = tuple(data.draw(st.integers(0, n - 1)) for n in scope.shape)
    extents = tuple(data.draw(st.integers(1, n - o)) for n, o in zip(scope.shape, origin))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    arrays = {name: array_of(tensor, rng) for name, tensor in scope.tensors.items()}
    block = cut_block([scope], origin, extents)
    assert block.scopes[0].shape == extents and evaluation_steps(block.scopes) <= evaluation_steps(
        [scope]
    )
    smaller = {
        name: part_of(arrays[name], scope.tensors[name], part)
        for name, part in block.scopes[0].tensors.items()
    }
    expected = evaluate(scope, **arrays)[tuple(slice(o, o + e) for o, e in zip(origin, extents))]
    assert np.array_equal(evaluate(block.scopes[0], **smaller), expected)


@given(strategies.scopes(functions=True, truths=True), st.integers(1, 2000))
def test_blocks_keep_to_the_limit(scope: Any, limit: int) -> None:
    extents = block_extents([scope], limit)
    assert all(1 <= e <= n for e, n in zip(extents, scope.shape))
    assert (
        prod(extents) == 1
        or evaluation_steps(cut_block([scope], (0,) * scope.rank, extents).scopes) <= limit
    )


@given(st.integers(0, 2**12 - 1))
def test_region_of_a_mask(bits: int) -> None:
    mask = np.array([bits >> k & 1 for k in range(12)], bool).reshape(2, 3, 2)
    region = from_mask(mask, ["a", "b", "c"], (0, 5, 1))
    assert points(region) == {
        (a, b + 5, c + 1) for a, b, c in map(tuple, np.argwhere(mask).tolist())
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("floor(A[i])", "A[i]"),
        ("ceiling(A[i])", "floor(A[i])"),
        ("A[i]%1", "0"),
        ("sign(A[i])", "Max(Min(A[i], 1), -1)"),
        ("Max(A[i], 1000)", "1000"),
        ("Min(A[i], 10000000)", "A[i]"),
        ("Piecewise((1, A[i] > 0.2), (0, True))", "Piecewise((1, A[i] > 0.7), (0, True))"),
        ("Piecewise((exp(A[i]), A[i] > 5), (0, True))", "0"),
        ("log(A[i]*B[i])", "log(A[i]) + log(B[i])"),
        ("Max(exp(A[i]), 1)", "exp(A[i])"),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_a_difference_at_some_real_numbers_is_found(one: str, other: str, seed: int) -> None:
    """Those between the integers, large ones, and those on the other side of what an input is
    compared with.
    """
    first, second = (
        ea.parse(f"O[i:4] = {text}", **{name: (4,) for name in "AB" if f"{name}[" in text})
        for text in (one, other)
    )
    assert prove(first, second, seed=seed).verdict == "different"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("floor(A[i])", "A[i]"),
        ("A[i]%1", "0"),
        ("Max(A[i], 3)", "Piecewise((3, A[i] < 4), (A[i], True))"),
    ],
)
def test_integers_are_not_tried_at_fractions(one: str, other: str) -> None:
    a = ea.tensor("A", (4,), "i32")
    first, second = (
        ea.parse(f"O[i:4] = {text}", **({"A": a} if "A[" in text else {})) for text in (one, other)
    )
    assert prove(first, second).verdict in ("tested", "proved")
