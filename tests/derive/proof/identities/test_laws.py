"""Known laws are proved, those that the prover was not built on too, and no wrong one is.

Every run takes some of each family; `nightly` takes all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

import einalg as ea
from derive.proof.exact.compare import compare_exactly
from derive.proof.identities.compare import shown_equal
from einalg.errors import EinalgError
from einalg.language.ir.program import as_program, as_symbolic_program, inlined
from tests.helpers.laws.everyday import EVERYDAY, EVERYDAY_WRONG
from tests.helpers.laws.held_out import HELD_OUT
from tests.helpers.laws.known import FAMILIES, KNOWN, lstm, lstm_shapes
from tests.helpers.laws.law import Law, with_sizes
from tests.helpers.laws.unseen import UNSEEN, UNSEEN_WRONG
from tests.helpers.laws.wrong import WRONG

PROVED_SHARE = 0.9


def some(laws: Sequence[Law], of_family: int) -> list[Any]:
    """Return laws as parameters: so many of each family for every run, the others for `nightly`."""
    counts: Counter[str] = Counter()
    parameters = []
    for law in laws:
        counts[law.family] += 1
        marks = () if counts[law.family] <= of_family else pytest.mark.nightly
        parameters.append(pytest.param(law, id=str(law), marks=marks))
    return parameters


def test_the_tables_are_large_enough() -> None:
    assert len(KNOWN) >= 120 and len(HELD_OUT) >= 40 and len(WRONG) >= 60
    assert len(UNSEEN) >= 80 and len(UNSEEN_WRONG) >= 40
    assert len(EVERYDAY) >= 200 and len(EVERYDAY_WRONG) >= 40
    for family, rows in FAMILIES.items():
        assert len(rows) >= 4, family


@pytest.mark.parametrize("law", some(KNOWN, 4))
def test_a_known_law_is_proved(law: Law) -> None:
    proof = ea.prove(*law.sides())
    assert proof.verdict == "proved" and proof.error_probability == 0, proof


@pytest.mark.parametrize("law", some(HELD_OUT, 1))
def test_a_law_that_was_held_out_holds(law: Law) -> None:
    assert ea.prove(*law.sides()).holds


@pytest.mark.nightly
def test_laws_that_were_held_out_are_proved() -> None:
    tested = [str(law) for law in HELD_OUT if not ea.prove(*law.sides())]
    assert len(tested) <= (1 - PROVED_SHARE) * len(HELD_OUT), tested


@pytest.mark.parametrize("law", some(UNSEEN, 3))
def test_an_unseen_law_is_proved(law: Law) -> None:
    assert ea.prove(*law.sides()), law


@pytest.mark.parametrize("law", some(EVERYDAY, 4))
def test_an_everyday_law_is_proved(law: Law) -> None:
    assert ea.prove(*law.sides()), law


NO_LAWS = [*some(WRONG, 4), *some(UNSEEN_WRONG, 60), *some(EVERYDAY_WRONG, 60)]


@pytest.mark.parametrize("law", NO_LAWS)
def test_a_wrong_law_is_not_proved(law: Law) -> None:
    one, two = [inlined(as_program(side)) for side in law.sides()]
    assert shown_equal(one, two) is None
    assert not compare_exactly(one, two).equal


def _scopes_with_sizes(law: Law) -> list[Any] | None:
    """Return both sides with symbolic sizes; None where one of them has no meaning then."""
    try:
        sides = [as_symbolic_program(side) for side in with_sizes(law).sides()]
    except EinalgError:
        return None
    scopes = [inlined(side, side.outputs[0]) for side in sides]
    return scopes if scopes[0].shape == scopes[1].shape else None


def _shares_with_sizes(laws: Sequence[Law]) -> tuple[int, list[str]]:
    """Return how many laws have a meaning with symbolic sizes, and those that are proved."""
    count, proved = 0, []
    for law in laws:
        scopes = _scopes_with_sizes(law)
        if scopes is not None:
            count += 1
            if shown_equal(*scopes) is not None:
                proved.append(str(law))
    return count, proved


def test_laws_are_proved_with_symbolic_sizes() -> None:
    count, proved = _shares_with_sizes(KNOWN[::2])
    assert count >= 40 and len(proved) >= PROVED_SHARE * count, (count, proved)


def test_wrong_laws_are_not_proved_with_symbolic_sizes() -> None:
    count, proved = _shares_with_sizes([*WRONG, *UNSEEN_WRONG, *EVERYDAY_WRONG])
    assert count >= 150 and not proved


PRODUCTS_OF_CONDITIONS = [  # a range, and a place beside it
    ("k:N-1", "N-1"),
    ("k:N-2", "N-1"),
    ("k:3:N+4", "2"),
    ("k:N+1:N+4", "N"),
    ("k:N+1:N+M", "N"),
    ("k:4:9", "3"),
]


@pytest.mark.parametrize(("reduced", "place"), PRODUCTS_OF_CONDITIONS)
@pytest.mark.parametrize("value", ["Piecewise((1, A[{}] > -9), (0, True))", "Max(A[{}], 0)"])
def test_products_of_conditions_are_not_divided(value: str, reduced: str, place: str) -> None:
    N, M = ea.size("N", at_least=2), ea.size("M", at_least=2)
    shapes = {"A": (N + M + 9,), "B": (2,)}
    one = f"O[i] = Prod[{reduced}]({value.format('k')})*B[i]"
    condition = f"Piecewise((1, A[{place}] > -9), (0, True))"
    if value.startswith("Max"):
        condition = f"Piecewise((1, A[{place}] > 0), (0, True))"
    sides = [as_symbolic_program(ea.parse(text, **shapes)) for text in (one, f"{one}*{condition}")]
    assert shown_equal(*[inlined(side, "O") for side in sides]) is None


@pytest.mark.parametrize(
    "template", ["sign({})", "Piecewise((1, {} > 0), (0, True))", "sign(Abs({}))"]
)
def test_a_product_has_a_sign_where_the_next_value_is_zero(template: str) -> None:
    N = ea.size("N", at_least=2)
    sides = []
    for value in ("Prod[k:N-1](A[k])", "A[N-1]*Prod[k:N](A[k])"):
        program = ea.parse(f"O[i] = B[i]*{template.format(value)}", A=(N,), B=(2,))
        sides.append(inlined(as_symbolic_program(program), "O"))
    assert shown_equal(*sides) is None


PRODUCTS_OF_ZERO = [  # two sides, and whether they are equal
    ("sqrt(B[i]*Prod[k:9](0))", "sqrt(B[i])*sqrt(Prod[k:9](0))", False),
    ("B[i]*Prod[k:N](A[k] - A[k])", "B[i]*0", True),
    ("B[i]*Prod[k:1:N](A[k] - A[k])", "B[i]*0", False),
]


@pytest.mark.parametrize(("one", "two", "is_equal"), PRODUCTS_OF_ZERO)
def test_a_product_of_zero_is_zero_where_it_has_points(one: str, two: str, is_equal: bool) -> None:
    N = ea.size("N", at_least=1)
    sides = []
    for text in (one, two):
        shapes = {name: shape for name, shape in {"A": (N,), "B": (2,)}.items() if name in text}
        program = as_symbolic_program(ea.parse(f"O[i] = {text}", **shapes))
        sides.append(inlined(program, "O"))
    assert (shown_equal(*sides) is not None) is is_equal


@pytest.mark.nightly
@pytest.mark.parametrize("law", [*WRONG, *UNSEEN_WRONG, *EVERYDAY_WRONG], ids=str)
def test_a_wrong_law_has_another_verdict(law: Law) -> None:
    assert ea.prove(*law.sides()).verdict != "proved"


@pytest.mark.nightly
def test_a_recurrent_network_of_many_steps_is_proved() -> None:
    one, two = [ea.parse(lstm(60, by_tanh), **lstm_shapes(60)) for by_tanh in (False, True)]
    assert ea.prove(one, two)


CAPTURED = [
    (
        "O[i] = Max[j](A[i,j]*exp(Max[k](B[j,k])))",
        "O[i] = Max[j](A[i,j]*exp(B[j,j]))",
    ),
    (
        "O[i] = Sum[j](A[i,j]*exp(Sum[k](B[j,k])))",
        "O[i] = Sum[j](A[i,j]*exp(70*B[j,j]))",
    ),
]


@pytest.mark.parametrize(("one", "two"), CAPTURED)
def test_indices_of_nested_reductions_stay_apart(one: str, two: str) -> None:
    shapes = {"A": (4, 70), "B": (70, 70)}
    sides = [inlined(as_program(ea.parse(text, **shapes))) for text in (one, two)]
    assert shown_equal(*sides) is None


WITHOUT_VALUE = [
    ("T[i] = Max(x[i], 0)\nU[i] = 2*Max(x[i], 0)\nO[i] = U[i]/T[i]", "O[i:6] = 2"),
    ("T[i] = floor(x[i])\nU[i] = 3*T[i]\nO[i] = U[i]/T[i]", "O[i:6] = 3"),
    ("T[i:6] = i*x[i]\nU[i] = 2*T[i]\nO[i] = U[i]/T[i]", "O[i:6] = 2"),
    ("T[i] = acos(x[i])\nU[i] = T[i] + y[i]\nO[i] = U[i] - T[i]", "O[i] = y[i]"),
    (
        "M[i:6] = Max[j:6](Piecewise((x[j], y[j] > i), (-inf, True)))\nT[i] = exp(M[i])\n"
        "U[i] = exp(-M[i])\nO[i] = T[i]*U[i]",
        "O[i:6] = 1",
    ),
    (
        "T[i] = Piecewise((x[i], y[i] > 0), (-inf, True))\nU[i] = T[i] + 1\nO[i] = U[i] - T[i]",
        "O[i:6] = 1",
    ),
    (
        "T[i] = Piecewise((x[i], y[i] > 0), (-inf, True))\nU[()] = Sum[i](T[i])\n"
        "V[()] = Sum[i](T[i] + 1)\nO[()] = V[()] - U[()]",
        "O[()] = 6",
    ),
    (
        "T[i] = Piecewise((x[i], y[i] > 0), (-inf, True))\nU[()] = Sum[i,k:20](T[i])\n"
        "V[()] = Sum[i,k:20](T[i] + 1)\nO[()] = V[()] - U[()]",
        "O[()] = 120",
    ),
    ("O[i] = Piecewise((x[i], y[i] > 0))", "O[i] = x[i]"),
    ("T[i] = x[i] - y[i]\nU[i] = y[i] - x[i]\nO[i] = (T[i] + U[i])*sqrt(x[i])", "O[i:6] = 0"),
    ("T[i] = x[i] - y[i]\nU[i] = y[i] - x[i]\nO[i] = (T[i] + U[i])*log(x[i])", "O[i:6] = 0"),
]


@pytest.mark.parametrize(("one", "two"), WITHOUT_VALUE)
def test_what_has_no_value_for_many_inputs_is_not_cancelled(one: str, two: str) -> None:
    shapes = {"x": (6,), "y": (6,)}
    sides = [inlined(as_program(ea.parse(text, **shapes))) for text in (one, two)]
    assert shown_equal(*sides) is None
