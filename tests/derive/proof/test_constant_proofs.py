"""Constants in proofs are their numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.proof.exact.point_sets import conjunctions_of
from einalg.language.index.affine import Index


def test_constants_are_numbers_in_proofs():
    two = ea.constant("C", [2, 2, 3])
    assert (
        ea.prove(
            ea.parse("O[i] = C[i]*X[i]", C=two, X=(3,)),
            ea.parse("O[i] = 2*X[i] + (L[j:3](X[j], where=j>=2)).pad(0)[i]", X=(3,)),
        ).verdict
        == "proved"
    )
    assert (
        ea.prove(
            ea.parse("O[i:1] = C[i]*X[i]", C=two, X=(3,)), ea.parse("O[i:1] = 2*X[i]", X=(3,))
        ).verdict
        == "proved"
    )
    difference = ea.prove(
        ea.parse("O[i] = C[i]*X[i]", C=two, X=(3,)), ea.parse("O[i] = 2*X[i]", X=(3,))
    )
    assert difference.verdict == "different" and str(difference.region) == "{ [i = 2] }"


def test_maxima_of_constants_are_told_apart():
    """A maximum meets values, not terms with coefficients."""
    one, two = ({"C": ea.constant("C", values)} for values in ([1, 2, 5], [1, 2, 6]))
    for text in (
        "O[x:2] = Max[i:3](C[i])",
        "O[x:2] = Max[i:3](C[i]*X[x])",
        "O[x:2] = Prod[i:3](C[i])",
        "O[x:2] = exp(Sum[i:3](C[i])*X[x])",
    ):
        tensors = {"X": (2,)} if "X" in text else {}
        first, second = ea.parse(text, **one, **tensors), ea.parse(text, **two, **tensors)
        assert (
            ea.prove(first, first).verdict == "proved"
            and ea.prove(first, second).verdict == "different"
        ), text


def test_a_large_irregular_constant_stays_symbolic():
    values = np.random.default_rng(0).integers(-(10**6), 10**6, (40, 40))
    one = ea.parse(
        "T[i,n] += C[i,j]*X[j,n]\nO[i,n] = T[i,n] + X[i,n]", C=ea.constant("C", values), X=(40, 6)
    )
    two = ea.parse(
        "O[i,n] = X[i,n] + Sum[k:40](X[k,n]*D[i,k])", D=ea.constant("D", values), X=(40, 6)
    )
    assert ea.prove(one, two).verdict == "proved"
    values[3, 4] += 1
    changed = ea.parse(
        "O[i,n] = X[i,n] + Sum[k:40](X[k,n]*D[i,k])", D=ea.constant("D", values), X=(40, 6)
    )
    assert ea.prove(one, changed).verdict == "different"


@given(
    st.integers(1, 3).flatmap(
        lambda rank: st.lists(
            st.tuples(*[st.integers(-2, 2)] * rank), min_size=1, max_size=12, unique=True
        )
    )
)
def test_conditions_of_point_sets(points):
    forms = [Index(name) for name in "abc"[: len(points[0])]]
    found = list(conjunctions_of(np.array(points), [f.as_affine() for f in forms]))
    for point in np.ndindex(*[7] * len(forms)):
        shifted = tuple(k - 3 for k in point)
        holding = [part for part in found if all(c.holds(dict(zip(forms, shifted))) for c in part)]
        assert len(holding) == (shifted in points)
