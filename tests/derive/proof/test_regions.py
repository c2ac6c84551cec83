"""How far a region reaches: exact where structure or evaluation shows all points, else said to be
less.
"""

from __future__ import annotations

from typing import Any

import islpy as isl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.proof import DIFFERENT, PROVED, prove
from derive.proof.exact.compare import compare_exactly
from derive.proof.random.rounding import in_double
from einalg.language.ir.program import as_program, inlined
from einalg.language.ir.program import in_double as in_double_precision
from tests.helpers.batches import examples
from tests.helpers.regions import points

FIVE = {"A": (5,), "B": (5,)}


def parsed(text: str, **shapes: Any) -> Any:
    used = text.split("=", 1)[1]
    return ea.parse(text, **{name: shape for name, shape in shapes.items() if name in used})


@pytest.mark.parametrize(
    ("one", "two", "region"),
    [
        ("exp(A[i] + B[i])", "exp(A[i] + B[i - i//3])", {(3,), (4,)}),
        ("B[i] + 3*tanh(A[i])", "3*tanh(A[i - i//4]) + B[i]", {(4,)}),
        ("tanh(Max(A[i] + B[i], 0))", "tanh(Max(A[i] + B[i - i//3], 0))", {(3,), (4,)}),
        ("Min(A[i]*B[i] + 1, 6)", "Min(A[i]*B[i - i//4] + 1, 6)", {(4,)}),
        ("1/(A[i] + B[i])", "1/(A[i - i//4] + B[i])", {(4,)}),
    ],
)
def test_the_same_function_of_differing_arguments(one: str, two: str, region: Any) -> None:
    """The region of the arguments, exactly."""
    proof = prove(parsed(f"O[i:5] = {one}", **FIVE), parsed(f"O[i:5] = {two}", **FIVE))
    assert proof.verdict == DIFFERENT and proof.is_region_exact, proof
    assert points(proof.region) == region and proof.error_probability == 0
    assert "access relations" in proof.method and "at least" not in str(proof)


@pytest.mark.parametrize(
    ("one", "two", "region"),
    [
        ("erf(2*A[i]/sqrt(2))", "erf(2*A[i - i//4]/sqrt(2))", {(4,)}),
        ("sign(A[i]**2)", "sign(B[i]**2)", {(i,) for i in range(5)}),
        ("Max(A[i] - 900, 0)", "0", {(i,) for i in range(5)}),
        ("Abs(A[i])", "Abs(B[i - i//4])", {(i,) for i in range(5)}),
        ("sign(A[i])", "sign(3*A[i - i//3])", {(3,), (4,)}),
        ("Min(Max(A[i], 0), 6)", "Min(Max(A[i - i//4], 0), 6)", {(4,)}),
    ],
)
def test_all_points_that_may_differ_are_seen_to(one: str, two: str, region: Any) -> None:
    proof = prove(parsed(f"O[i:5] = {one}", **FIVE), parsed(f"O[i:5] = {two}", **FIVE))
    assert proof.verdict == DIFFERENT and proof.is_region_exact, proof
    assert points(proof.region) == region


def test_a_function_that_does_not_tell_arguments_apart_makes_no_claim() -> None:
    """Where A is doubled under the sign of its square, arguments differ and values do not."""
    two = "O[i] = sign(Piecewise((2*A[i]**2, i < 2), (A[i]*B[i], True)))"
    proof = prove(parsed("O[i] = sign(A[i]**2)", **FIVE), parsed(two, **FIVE))
    assert proof.verdict == DIFFERENT and points(proof.region) == {(2,), (3,), (4,)}
    assert not proof.is_region_exact and "where, at least: " in str(proof)


def test_a_maximum_hides_arguments_that_are_never_above_it() -> None:
    """-1 - A² and -2 - A² differ everywhere; their maxima with 0 nowhere."""
    one, two = ("O[i] = Max(-1 - A[i]*A[i]*B[i]**2, 0)", "O[i] = Max(-2 - A[i]*A[i]*B[i]**2, 0)")
    assert prove(parsed(one, **FIVE), parsed(two, **FIVE)).holds


def test_a_convolution_that_reads_a_neighbour_under_a_maximum() -> None:
    """Merged images: the last column of one reads the first of the other, where zero is right."""
    shapes = {"A": (4, 8, 6, 6), "K": (8, 8, 3, 3)}
    apart = """C[n:4,f:8,h:6,w:6] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]
        O[n,f,h,w] = Max(C[n,f,h,w], 0)"""
    merged = """T[m:2,c:8,h:6,w:12] = A[2*m + w//6, c, h, w%6]
        C[m:2,f:8,h:6,w:12] += T.pad(0,0,1,1)[m,c,h+r-1,w+s-1]*K[f,c,r,s]
        O[n:4,f:8,h:6,w:6] = Max(C[n//2,f,h,6*(n%2)+w], 0)"""
    proof = prove(ea.parse(apart, **shapes), ea.parse(merged, **shapes))
    expected = "{ [n,f,h,w] : 0 <= n < 4 and 0 <= f < 8 and 0 <= h < 6 and w = 5 - 5*(n mod 2) }"
    assert proof.is_region_exact and proof.region.is_equal(isl.Set(expected)), proof


FUNCTIONS = ["exp({})", "Max({}, 0)", "Abs({})", "Min(tanh({}), 1)", "Max({}, B[i])", "sign({})"]
ARGUMENTS = ["A[i]", "A[i - i//3] + B[i]", "A[i]*B[i]", "A[4 - i]*B[i] + i", "Sum[j:3](A[j]*B[i])"]
CHANGES = ["{}", "2*{}", "{} + B[i - i//4]", "Piecewise(({}, i < 3), (A[0], True))"]


@settings(max_examples=examples(30, at_night=600))
@given(
    st.sampled_from(FUNCTIONS),
    st.sampled_from(ARGUMENTS),
    st.sampled_from(ARGUMENTS),
    st.sampled_from(CHANGES),
    st.sampled_from(FUNCTIONS),
)
def test_no_point_outside_the_region_differs(
    function: str, one: str, two: str, change: str, outer: str
) -> None:
    texts = [outer.format(function.format(one)), outer.format(function.format(change.format(two)))]
    scopes = [inlined(as_program(parsed(f"O[i:5] = {text}", **FIVE))) for text in texts]
    comparison = compare_exactly(*scopes)
    known = comparison.region_of_differences()
    if known is None:
        return
    doubles = [inlined(in_double_precision(as_program(scope))) for scope in scopes]
    possible, is_certain = points(known[0]), known[1]
    differing: set[Any] = set()
    rng = np.random.default_rng(0)
    for scale in (1, 1, 3, 9, 1, 3) * 4:
        arrays = {name: rng.integers(-2 * scale, 2 * scale + 1, 5) / 2 for name in FIVE}
        values = [in_double(scope, arrays) for scope in doubles]
        apart = ~np.isclose(values[0], values[1], rtol=1e-9, atol=1e-9)
        differing |= set(map(tuple, np.argwhere(apart).tolist()))
    assert differing <= possible
    if is_certain:
        assert differing == possible


def test_equal_expressions_have_no_region() -> None:
    proof = prove(parsed("O[i] = exp(A[i])", **FIVE), parsed("O[i] = exp(A[i])", **FIVE))
    assert proof.verdict == PROVED and proof.region is None
