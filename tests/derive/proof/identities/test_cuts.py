"""Steps of long chains: what is alike in both sides is not compared, and what is equal is one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import einalg as ea
from derive.proof.identities import compare
from derive.proof.identities.cuts import shared_values
from einalg.language.analysis.canonical import key, key_among
from einalg.language.ir.program import as_program, inlined
from einalg.language.ir.scope import Scope, all_scopes, inner_scopes
from tests.helpers.laws.known import lstm, lstm_shapes

STEPS = 5
GATES_BY_SIGMOID = 3


def sides(one: str, two: str, **shapes: tuple[int, ...]) -> tuple[Scope, Scope]:
    first, second = [inlined(as_program(ea.parse(text, **shapes))) for text in (one, two)]
    return first, second


def test_only_what_differs_in_a_step_is_compared() -> None:
    compared = []

    def is_equal(one: Scope, two: Scope, cuts: Mapping[Scope, str]) -> bool:
        assert all(scope in cuts for side in (one, two) for scope in inner_scopes(side))
        compared.append(two)
        return True

    one, two = sides(lstm(STEPS, False), lstm(STEPS, True), **lstm_shapes(STEPS))
    cuts = shared_values(one, two, is_equal)
    assert len(compared) == GATES_BY_SIGMOID * STEPS
    assert all(scope in cuts for scope in all_scopes(two) if scope is not two)


@pytest.mark.parametrize("is_shown", [True, False])
def test_scopes_around_equal_ones_are_alike(is_shown: bool) -> None:
    one, two = sides(
        "T[i] = tanh(x[i])\nU[i] = 3*T[i]\nO[i] = exp(U[i])",
        "T[i] = 1 - 2/(exp(2*x[i]) + 1)\nU[i] = 3*T[i]\nO[i] = exp(U[i])",
        x=(6,),
    )
    cuts = shared_values(one, two, lambda *_: is_shown)
    names = [{cuts.get(scope) for scope in all_scopes(side)} for side in (one, two)]
    assert names[0] == names[1]
    assert len(cuts) == (4 if is_shown else 0)


def test_a_side_that_has_a_value_twice() -> None:
    one, two = sides(
        "T[i] = 2*x[i]\nU[i] = 1 - 2/(exp(2*x[i]) + 1)\nO[i] = T[i]*exp(U[i])",
        "T[i] = 2*x[i]\nU[i] = tanh(x[i])\nV[i] = 1 - 2/(exp(2*x[i]) + 1)\nO[i] = T[i]*U[i]*V[i]",
        x=(6,),
    )
    cuts = shared_values(one, two, lambda *_: True)
    assert len(cuts) == 3 and len(set(cuts.values())) == 2


def test_keys_among_classes_tell_classes_apart() -> None:
    one, two = sides("T[i] = x[i] + 1\nO[i] = 2*T[i]", "T[i] = x[i] + 3\nO[i] = 2*T[i]", x=(6,))
    first, second = inner_scopes(one)[0], inner_scopes(two)[0]
    assert key_among(one, {}) == key(one)
    assert key_among(one, {first: 1, second: 1}) == key_among(two, {first: 1, second: 1})
    assert key_among(one, {first: 1, second: 2}) != key_among(two, {first: 1, second: 2})
    assert key_among(one, {first: 1}) != key(one)


def test_a_step_that_divides_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the last step, which reads it as one value, divides by nothing."""
    monkeypatch.setattr(compare, "MAX_WHOLE", 0)
    last, shapes = "O[i] += D[i,j]*T[j]", {"C": (5,), "D": (3, 3)}
    one = ea.parse(f"T[i] = Sum[k](exp(C[k])*A[i])/A[i]\n{last}", A=(3,), **shapes)
    two = ea.parse(f"T[i:3] = Sum[k](exp(C[k]))\n{last}", **shapes)
    assert ea.prove(one, two).method == compare.DIVIDING
