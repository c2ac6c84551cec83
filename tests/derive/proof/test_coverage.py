"""What a test covers: rare conditions, single rows of large outputs, constants to the last digit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.proof import DIFFERENT, TESTED, prove
from derive.proof.exact.compare import compare_exactly
from derive.proof.random.inputs import double_values, marks_of, patterns, rational_values
from derive.proof.random.places import Places
from derive.proof.random.precise import unequal_precisely
from einalg.language.ir.program import as_program, inlined
from einalg.language.ir.tensor import Tensor


def parsed(text: str, **shapes: Any) -> Any:
    used = text.split("=", 1)[1]
    return ea.parse(text, **{name: shape for name, shape in shapes.items() if name in used})


def verdict(one: str, two: str, **shapes: Any) -> str:
    return prove(parsed(one, **shapes), parsed(two, **shapes)).verdict


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("1.000000000001*exp(x[i])", "exp(x[i])"),
        ("1.4142135623730951*x[i]", "sqrt(2)*x[i]"),
        ("3.141592653589793*x[i]", "pi*x[i]"),
        ("tanh(x[i])*1.0000000000000002", "tanh(x[i])"),
        ("exp(x[i])*2.718281828459045", "exp(x[i] + 1)"),
        ("Max(x[i], 1/3)", "Max(x[i], 0.3333333333333333)"),
        ("log(1 + exp(x[i]))", "Piecewise((x[i], x[i] > 40), (log(1 + exp(x[i])), True))"),
        ("erf(x[i]/sqrt(2)) + 1", "erf(x[i]*0.7071067811865476) + 1"),
    ],
)
def test_constants_are_compared_exactly(one: str, two: str) -> None:
    assert verdict(f"O[i:6] = {one}", f"O[i:6] = {two}", x=(6,)) == DIFFERENT


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("exp(x[i])*exp(1)", "exp(x[i] + 1)"),
        ("exp(x[i] + y[i]) - exp(x[i])*exp(y[i])", "0"),
        ("tanh(x[i])", "1 - 2/(exp(2*x[i]) + 1)"),
        ("sin(x[i])/2", "sin(x[i]/2)*cos(x[i]/2)"),
        ("floor(exp(log(x[i]*x[i] + 1)))", "floor(x[i]**2 + 1)"),
        ("Piecewise((erf(x[i]), x[i] > 0), (0, True))", "Max(erf(x[i]), 0)"),
        ("exp(x[i])/Sum[k:6](exp(x[k]))", "1/Sum[k:6](exp(x[k] - x[i]))"),
        ("erfc(x[i])", "1 - erf(x[i])"),
        ("Prod[k:6](exp(x[k]))", "exp(Sum[k:6](x[k]))"),
        ("sqrt(i + 1)*x[i]", "(i + 1)/sqrt(i + 1)*x[i]"),
    ],
)
def test_many_digits_see_no_difference_in_laws(one: str, two: str) -> None:
    scopes = [parsed(f"O[i:6] = {text}", x=(6,), y=(6,)) for text in (one, two)]
    rng = np.random.default_rng(0)
    for number in range(3):
        arrays = {name: rng.normal(size=6) * 3**number for name in ("x", "y")}
        assert not unequal_precisely(scopes, arrays).any()
    assert prove(*scopes).holds


@pytest.mark.parametrize(("height", "is_seen"), [(2, True), (3, True), (7, False)])
def test_many_digits_of_a_tower_of_exponentials(height: int, is_seen: bool) -> None:
    """Numbers with too many digits say nothing, at once: the seventh has more than memory holds."""
    tower = "exp(" * height + "{}" + ")" * height
    texts = [tower.format("x[i]"), tower.format("1.000000000001*x[i]")]
    scopes = [parsed(f"O[i:4] = {text}", x=(4,)) for text in texts]
    arrays = {"x": np.array([0.25, 0.5, 0.75, 1])}
    assert unequal_precisely(scopes, arrays).all() == is_seen
    assert unequal_precisely(scopes, arrays).any() == is_seen
    assert prove(scopes[0], scopes[0]).verdict == "proved"
    assert prove(*scopes).verdict == ("different" if is_seen else "tested")


def test_many_digits_of_every_kind_of_body() -> None:
    text = """T[i,j] = Piecewise((A.pad(0,1)[i,j], A.pad(0,1)[i,j] > 0.5), (Max(A[i,0], -2), True))
        M[i] = Max[j:4](T[i,j]) + Min[j:4](T[i,j])
        O[i] = M[i]/3 + Sum[j:4](T[i,j]*B[j]) + (i + 1)**(-i) + floor(M[i]) + M[i]%2 + sign(M[i])"""
    one = ea.parse(text, A=(3, 4), B=ea.tensor("B", (4,), "i32"))
    two = ea.parse(text.replace("M[i]/3", "M[i]*0.3333333333333333"), A=(3, 4), B=one.tensors["B"])
    scopes = [inlined(as_program(program)) for program in (one, two)]
    rng = np.random.default_rng(1)
    arrays = {"A": rng.normal(size=(3, 4)), "B": rng.integers(-3, 4, 4)}
    assert not unequal_precisely([scopes[0], scopes[0]], arrays).any()
    assert unequal_precisely(scopes, arrays).all()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Prod[i:6](Max(x[i], 0))", "0"),
        ("Prod[i:6](Min(x[i], 0))", "0"),
        ("Prod[i:7](Piecewise((1, x[i] < x[i+1]), (0, True)))", "0"),
        ("Prod[i:7](Piecewise((1, x[i] > x[i+1]), (0, True)))", "0"),
        ("Prod[i:8](Piecewise((1, Eq(x[i], 0)), (0, True)))", "0"),
        ("Prod[i:8](Piecewise((1, Eq(x[i], x[0])), (0, True)))*y[0]", "0"),
        ("Prod[i:8](Piecewise((1, (x[i] > 7) & (x[i] < 7.01)), (0, True)))", "0"),
        ("Prod[i:7](Piecewise((1, x[i] < x[i+1]), (0, True)))*exp(y[0])", "0"),
        ("Min[i:8](x[i])", "Min(Min[i:8](x[i]), 5000)"),
        ("Max(Max[i:8](x[i]), -100)", "Max[i:8](x[i])"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_rare_conditions(one: str, two: str, seed: int) -> None:
    sides = [parsed(f"O[()] = {text}", x=(8,), y=(1,)) for text in (one, two)]
    assert prove(*sides, seed=seed).verdict == DIFFERENT


def test_a_narrow_interval() -> None:
    one = "O[i] = Piecewise((1, (x[i] > 1000) & (x[i] < 1000.001)), (0, True))"
    assert verdict(one, "O[i:6] = 0", x=(6,)) == DIFFERENT


LARGE = {"A": (3000, 1000), "B": (3000,)}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Max(2*A[i,j], 0)", "2*Max(A[i,j], 0) + Piecewise((A[i,j], Eq(i, 2000)), (0, True))"),
        ("Abs(A[i,j])*3", "Abs(3*A[i,j - j//999])"),
        ("exp(A[i,j])*exp(B[i])", "exp(A[i,j] + B[i]) + Piecewise((1, Eq(j, 77)), (0, True))"),
        (
            "exp(A[i,j])*exp(B[i])",
            "exp(A[i,j] + B[i] + Piecewise((B[i], Eq(i, 1777) & Eq(j, 5)), (0, True)))",
        ),
        (
            "tanh(A[i,j])",
            "Piecewise((1 - 2/(exp(2*A[i,j]) + 1), Ne(i, j)), (tanh(A[i,j])/2, True))",
        ),
        (
            "1/(1 + exp(-A[i,j]))",
            "(1 + tanh(A[i,j]/2))/2 + Piecewise((1, i%1000 >= 999), (0, True))",
        ),
    ],
)
def test_one_wrong_row_of_many(one: str, two: str) -> None:
    sides = [parsed(f"O[i:3000,j:1000] = {text}", **LARGE) for text in (one, two)]
    proof = prove(*sides)
    assert proof.verdict == DIFFERENT, proof


def test_one_wrong_row_of_a_softmax() -> None:
    softmax = "E[i,j] = exp(A[i,j] - M[i])\nO[i,j] = E[i,j]/Sum[k:1000](E[i,k])"
    exact = ea.parse(f"M[i] = Max[j](A[i,j])\n{softmax}", A=(3000, 1000))
    masked = softmax.replace(
        "exp(A[i,j] - M[i])", "Piecewise((0, Eq(i,2000) & Eq(j,77)), (exp(A[i,j]), True))"
    )
    assert prove(exact, ea.parse(masked, A=(3000, 1000))).verdict == DIFFERENT


def test_the_proof_says_what_was_covered() -> None:
    ratio = "{0}/(Abs({0}) + 1)"
    angle, rest = f"O[...] = acos({ratio})", f"O[...] = pi/2 - asin({ratio})"
    small = prove(
        *(parsed(law.format("x[i]").replace("...", "i"), x=(6,)) for law in (angle, rest))
    )
    assert small.verdict == TESTED
    assert small.coverage == (
        "at every output point; with 4 elements at the ends of what is read far from the others in "
        "turn, at every output point"
    )
    assert small.coverage in str(small)
    large = prove(
        *(parsed(law.format("A[i,j]").replace("...", "i,j"), **LARGE) for law in (angle, rest))
    )
    assert large.verdict == TESTED and " of 3,000,000 output points" in large.coverage
    row = prove(
        parsed("O[i,j] = Abs(A[i,j])*3", **LARGE),
        parsed("O[i:3000,j:1000] = Abs(3*A[i,j - j//999])", **LARGE),
    )
    assert row.coverage.startswith("at every output point that is not proved equal")


def test_numbers_that_become_too_large_are_no_difference() -> None:
    """exp overflows on one side only."""
    shapes = {"Q": (8, 4), "K": (8, 4)}
    unsafe = "S[i,j] = Sum[d](Q[i,d]*K[j,d])*50\nO[i,j] = exp(S[i,j])/Sum[k:8](exp(S[i,k]))"
    safe = (
        "S[i,j] = Sum[d](Q[i,d]*K[j,d])*50\nE[i,j] = exp(S[i,j] - Max[k](S[i,k]))\n"
        "O[i,j] = E[i,j]/Sum[k:8](E[i,k])"
    )
    assert prove(ea.parse(unsafe, **shapes), ea.parse(safe, **shapes)).holds
    assert verdict("O[i:5] = log(x[i])", "O[i] = log(x[i]**2)/2", x=(5,)) == DIFFERENT


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("exp(Max[j:{N}](x[j], where=j<0))", "Max[j:{N}](exp(x[j]), where=j<0)"),
        ("exp(Max[j:{N}](x[j], where=j<i))", "Max[j:{N}](exp(x[j]), where=j<i)"),
        ("exp(-Min[j:{N}](x[j], where=j<i))", "Max[j:{N}](exp(-x[j]), where=j<i)"),
        (
            "Sum[i:{N}](exp(Max[j:{N}](x[j], where=j<i)))",
            "Sum[i:{N}](Max[j:{N}](exp(x[j]), where=j<i))",
        ),
        ("exp(Max[j:{N}](x[j], where=j<0))", "-inf"),
        ("Min[j:{N}](exp(x[j]), where=j<i)", "Max[j:{N}](exp(x[j]), where=j<i)"),
    ],
)
@pytest.mark.parametrize("size", [3, "N"])
def test_the_extreme_of_nothing_is_no_underflow(one: str, two: str, size: Any) -> None:
    """exp is 0 at minus infinity, where nothing became too small."""
    row = "O[()]" if "Sum" in one else "O[i:{N}]"
    proof = prove(*(f"{row} = {body}".format(N=size) for body in (one, two)), x=(size,))
    assert proof.verdict == DIFFERENT
    assert not proof.region.is_empty()
    assert proof.counterexample == ({"N": 1} if size == "N" else None)


@pytest.mark.parametrize("seed", range(3))
def test_a_pole_is_no_difference(seed: int) -> None:
    one, two = "O[i:5] = atan(x[i]) + atan(1/x[i])", "O[i:5] = sign(x[i])*pi/2"
    assert prove(parsed(one, x=(5,)), parsed(two, x=(5,)), seed=seed).holds


@given(st.integers(0, 99), st.sampled_from(["f32", "i8", "u8", "bool"]))
def test_patterns_keep_to_types(seed: int, dtype: str) -> None:
    tensor = Tensor("x", (3, 4), dtype)
    scope = ea.parse("O[i,j] = Max(x[i,j], 7, -300)", x=(3, 4))
    for pattern in patterns(marks_of([scope])):
        rng = np.random.default_rng(seed)
        doubles, fractions = (
            double_values(tensor, pattern, rng),
            rational_values(tensor, pattern, rng),
        )
        assert doubles.shape == fractions.shape == (3, 4)
        if dtype == "bool":
            assert doubles.dtype == fractions.dtype == bool
        elif dtype != "f32":
            low, high = np.iinfo(doubles.dtype).min, np.iinfo(doubles.dtype).max
            assert low <= doubles.min() and doubles.max() <= high
            assert {"i8": -128, "u8": 0}[dtype] <= fractions.min()
            assert fractions.max() <= {"i8": 127, "u8": 255}[dtype]


@given(st.integers(1, 2000), st.integers(0, 20))
def test_every_part_that_is_written_differently_is_visited(row: int, seed: int) -> None:
    one = parsed("O[i,j] = Max(2*A[i,j], 0)", **LARGE)
    two = parsed(f"O[i,j] = 2*Max(A[i,j], 0) + Piecewise((1, Eq(i, {row})), (0, True))", **LARGE)
    structure = compare_exactly(one, two)
    places = Places((one, two), structure.cells, 10_000)
    visited = places.of_round(seed, np.random.default_rng(seed))
    for cell in structure.cells:
        meets = False
        for origin, extents in visited:
            bounds = [
                f"{low} <= x{k} < {low + n}" for k, (low, n) in enumerate(zip(origin, extents))
            ]
            box = f"{{ [x0, x1] : {' and '.join(bounds)} }}"
            meets |= not cell.is_disjoint(type(cell)(box))
        assert meets
