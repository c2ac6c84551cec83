"""The bound of what a test in a random field misses: true, and no larger than it must be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.proof import DIFFERENT, TESTED, prove
from derive.proof.random.degrees import miss_bound
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.prime_field.field import PrimeField
from einalg.language.interpreters.prime_field.primes import COUNT, LOWEST
from einalg.language.ir.program import as_program, inlined
from tests.helpers.batches import examples

SHAPES = {"A": (5,), "B": (5,), "C": (5,)}


def parsed(text: str) -> ea.Scope:
    shapes = {name: shape for name, shape in SHAPES.items() if name in text.split("=", 1)[1]}
    return inlined(as_program(ea.parse(text, **shapes)))


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        ("O[i:5] = 7", 0),
        ("O[i] = A[i]*B[i] + C[i]", 2),
        ("O[i] = A[i]/B[i]", 1 + 1 + 1),
        ("O[i] = 1/(1/A[i] + 1)", 2 + 2),
        ("O[i:5] = Sum[j:5](A[j]/B[j])", 5 + 5 + 5),
        ("O[i:5] = Prod[j:5](A[j]*B[j])", 10),
        ("O[i] = (A[i] + 1)**3", 3),
        ("O[i] = Piecewise((A[i]**2, i < 2), (B[i], True))", 2),
        ("O[i:7] = A.pad(1, fill=3)[i-1]", 1),
        ("O[i] = i**2*A[i]", 1),
        ("O[i] = exp(A[i]*B[i])", 1 + 1 * 4 * 2 + 2 * 2 * 2),
        ("O[i] = A[i]**i*B[i]", 4 + 1),
        ("O[i] = A[i] + Sum[j:0](B[j]**3)", 1),
        ("O[i] = A[i]*Prod[j:0](B[j]**3)", 1),
        ("T[i] = A[i]**2\nO[i] = T[i]*T[4-i]", 2 + 2),
        ("O[i:5] = Eq(1, 1)", 0),
    ],
)
def test_roots(text: str, roots: int) -> None:
    """Degree and poles; different arguments of functions must not meet, nor special ones."""
    scope = parsed(text)
    bound = miss_bound(scope, scope)
    assert bound is not None and (bound.roots, bound.primes) == (roots, 0)


@pytest.mark.parametrize(
    ("text", "primes"),
    [
        ("O[i] = 2147483647*A[i]", 1),
        ("O[i] = 2147483647**3*A[i]", 3),
        ("O[i] = (A[i]*2147483647 + B[i])**4", 4),
        ("O[i] = A[i]/(2147483647*B[i])", 1),
        ("O[i] = A[i]/2147483647", 1),
        ("O[i] = A[i]*0.1", 1),
        ("O[i:5] = Sum[j:5](A[j]/7)", 0),
    ],
)
def test_primes_that_divide_coefficients(text: str, primes: int) -> None:
    scope = parsed(text)
    bound = miss_bound(scope, scope)
    assert bound is not None and primes <= bound.primes <= 2 * primes + 1


@pytest.mark.parametrize(
    "text",
    [
        "O[i] = Max(A[i], B[i])",
        "O[i] = sqrt(A[i])",
        "O[i:5] = Max[j:5](A[j])",
        "O[i] = Piecewise((A[i], B[i] > 0), (0, True))",
        "O[()] = Prod[j:5,k:40000](A[j]/7)",  # 7**200000 is not computed
        "O[()] = Prod[j:5,k:6000](A[j]/7)*Prod[j:5,k:4000](B[j]/11)",
    ],
)
def test_no_bound_where_order_or_roots_decide(text: str) -> None:
    assert miss_bound(parsed(text), parsed(text)) is None


def test_no_bound_where_truth_values_are_drawn() -> None:
    scope = ea.parse("O[i] = B[i]*A[i]", A=(5,), B=ea.tensor("B", (5,), "bool"))
    assert miss_bound(scope, scope) is None


PAIRS = [
    ("A[i]*A[i] + 3*A[i]", "A[i]*A[i] + A[i] + 7"),
    ("A[i]/B[i]", "(A[i] + 30)/B[i]"),
    ("(A[i] + 1)**5", "A[i]**5 + 1"),
    ("1/(A[i]*B[i]) + 1/C[i]", "1/(A[i]*B[i]*C[i])"),
    ("29*A[i]*31*B[i]", "37*41*C[i]*A[i]"),
    ("exp(A[i])*exp(B[i])", "exp(A[i] + B[i])"),
    ("tanh(A[i]*B[i]) + tanh(C[i])", "tanh(A[i]*C[i]) + tanh(B[i])"),
    ("A[i]/77 + 1/(221*B[i])", "B[i]/1147"),
]


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_no_more_is_missed_than_the_bound_says(one: str, two: str) -> None:
    """In small fields, where chance is met: over all primes of a family, as for those that are
    drawn.
    """
    scopes = [parsed(f"O[i:5] = {text}") for text in (one, two)]
    primes = [p for p in range(29, 110) if all(p % k for k in range(2, p)) and p % 4 == 3]
    rng = np.random.default_rng(0)
    missed = points = 0
    for number in range(examples(20, at_night=60)):
        for p in primes:
            field = PrimeField(p, seed=number)
            arrays = {name: rng.integers(0, p, shape) for name, shape in SHAPES.items()}
            values = [execute(scope, arrays, arithmetic=field)["O"] for scope in scopes]
            missed += int((values[0] == values[1]).sum())
            points += 5
    bound = miss_bound(*scopes, smallest=primes[0])
    assert bound is not None
    assert missed / points <= bound.probability(primes[0], len(primes)) + 0.01


def test_a_multiple_of_one_prime_is_seen() -> None:
    one, two = (
        ea.parse(f"O[()] = Sum[i](x[i])**4{more}", x=(6,)) for more in ("", " + 2147483647*x[0]")
    )
    for seed in range(5):
        assert prove(one, two, seed=seed).verdict == DIFFERENT


@given(st.integers(1, 2**200), st.integers(0, 9))
def test_no_coefficient_hides(coefficient: int, seed: int) -> None:
    one, two = (
        ea.parse(f"O[()] = Sum[i](x[i])**4{more}", x=(4,))
        for more in ("", f" + {coefficient}*x[0]/3")
    )
    assert prove(one, two, seed=seed).verdict == DIFFERENT


def test_high_degrees_are_told_by_the_field_of_more_elements() -> None:
    """Their roots are too many for p elements: the bound is small all the same."""
    power = "((x[i] + 1)**300)**300"
    one = ea.parse(f"O[i] = {power}*y[i]/(y[i] + 1)", x=(3,), y=(3,))
    two = ea.parse(f"O[i] = {power}*(1 - 1/(y[i] + 1))", x=(3,), y=(3,))
    proof = prove(one, two)
    assert proof.verdict == TESTED and "p²" in proof.method
    assert proof.error_probability is not None and 0 < proof.error_probability < 1e-9


def test_the_bound_falls_with_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("derive.proof.shown_equal", lambda *_, **__: None)
    one, two = parsed("O[i] = A[i]/B[i] + C[i]"), parsed("O[i] = (A[i] + C[i]*B[i])/B[i]")
    single = prove(one, two, rounds=1).error_probability
    thrice = prove(one, two, rounds=3).error_probability
    assert single and thrice == pytest.approx(single**3) and single < 20 / LOWEST


def test_a_bound_is_a_probability() -> None:
    many = ea.parse("O[()] = Prod[i](A[i]*2147483647/3)", A=(500,))
    bound = miss_bound(many, many)
    assert bound is not None and bound.primes >= 500
    assert bound.probability() == pytest.approx(float(Fraction(bound.primes, COUNT)), rel=0.01)
