"""A body that is rebuilt is what SymPy makes of its new operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.tensor import Access, unpadded
from einalg.testing.strategies import scopes

i, j, k = ea.indices("i j k")
A, B, C, D = (ea.tensor(name, (4,)) for name in "ABCD")
LEAVES: dict[str, Callable[[Access, int], Any]] = {
    "another tensor each": lambda a, k: another(a, str(k)),
    "one of two tensors": lambda a, k: another(a, str(k % 2)),
    "one tensor": lambda a, _: another(a, ""),
    "a number now and then": lambda a, k: sympy.Integer(k % 3) if k % 2 else a,
    "a sum": lambda a, k: another(a, str(k)) + another(a, str(k + 1)),
    "a product": lambda a, k: 2 * a * another(a, str(k)),
    "the opposite": lambda a, _: -a,
}


def another(access: Access, suffix: str) -> Access:
    base = unpadded(access.base)
    shape = [high - low for low, high in base.box]
    return Access.of(ea.tensor(f"Z{suffix}", shape, "i32"), access.subscripts)


def evaluated(body: Any, leaf: Any) -> Any:
    """The body rebuilt from below, with SymPy's evaluation of everything."""
    if isinstance(body, (Access, IndexArithmetic, Reduce)):
        return leaf(body)
    return body.func(*(evaluated(a, leaf) for a in body.args)) if body.args else body


def spelled(body: Any) -> Any:
    """The operations and the order of their operands."""
    if isinstance(body, (Access, IndexArithmetic, Reduce)) or not body.args:
        return body
    return body.func, body.is_commutative, *map(spelled, body.args)


def changing(change: Callable[[Access, int], Any]) -> Any:
    known: dict[Access, int] = {}
    return lambda node: (
        change(node, known.setdefault(node, len(known))) if isinstance(node, Access) else node
    )


@given(scopes(functions=True, nested=False), st.sampled_from(sorted(LEAVES)))
def test_random_bodies(scope: Any, change: str) -> None:
    for body in (scope.body, *(node.body for node in scope.body.atoms(Reduce))):
        assert spelled(rebuild(body, changing(LEAVES[change]))) == spelled(
            evaluated(body, changing(LEAVES[change]))
        )


@pytest.mark.parametrize("change", LEAVES)
@pytest.mark.parametrize(
    "body",
    [
        1 / (1 + sympy.exp(-A[i])) * sympy.tanh(B[i]) + C[i] / (1 + sympy.exp(-D[i])),
        sympy.sqrt(A[i] + 2 * B[i]) * 3 * A[j] ** 2 - 5 * B[i] * C[i] + 7,
        sympy.exp(A[i] * B[i]) * (A[i] + B[i] + 1) ** -2 * sympy.Rational(2, 3),
        sympy.erf(A[i] / sympy.sqrt(2)) * A[i] / 2 + sympy.log(B[i]) * i + j,
        sympy.Max(A[i] * B[i], 0, C[i]) * sympy.Abs(A[i] - B[i]) ** 3 + sympy.sign(D[i]),
    ],
    ids=str,
)
def test_functions_and_powers(body: Any, change: str) -> None:
    assert spelled(rebuild(body, changing(LEAVES[change]))) == spelled(
        evaluated(body, changing(LEAVES[change]))
    )


def test_what_does_not_change_is_the_same_object() -> None:
    body = 1 / (1 + sympy.exp(-A[i])) * B[i]
    assert rebuild(body, lambda node: node) is body
    moved = rebuild(
        body, lambda a: Access.of(a.base, tuple(s.substitute({i: affine(k)}) for s in a.subscripts))
    )
    assert moved == 1 / (1 + sympy.exp(-A[k])) * B[k]


TRUTHS = {
    "asked": (sympy.Ne(A[i], 0), B[i] > 1, B[i] > 1),
    "asked for the opposite": (sympy.Eq(A[i], 0), B[i] > 1, B[i] <= 1),
    "compared with 1": (sympy.Eq(A[i], 1), B[i] > 1, B[i] > 1),
    "a choice": (
        sympy.Piecewise((C[i], sympy.Ne(A[i], 0)), (0, True)),
        B[i] > 1,
        sympy.Piecewise((C[i], B[i] > 1), (0, True)),
    ),
    "a number": (A[i] * C[i] + 2, B[i] > 1, sympy.Piecewise((1, B[i] > 1), (0, True)) * C[i] + 2),
    "the value of a choice": (
        sympy.Piecewise((A[i], C[i] > 0), (2, True)),
        B[i] > 1,
        sympy.Piecewise((sympy.Piecewise((1, B[i] > 1), (0, True)), C[i] > 0), (2, True)),
    ),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_a_condition_in_the_place_of_a_number(name: str) -> None:
    """SymPy finds that a condition is not 0, whatever it says: `Ne(m[i], 0)` became true when what
    m holds came in its place.
    """
    body, condition, expected = TRUTHS[name]
    found = rebuild(body, lambda node: condition if node == A[i] else node)
    values = {"B": [0, 1, 2, 3], "C": [-1, 2, 3, 0]}
    scopes_of = [ea.L[i:4](part) for part in (found, expected)]
    one, other = (
        ea.evaluate(scope, **{n: v for n, v in values.items() if n in scope.tensors})
        for scope in scopes_of
    )
    assert one.tolist() == other.tolist()


def test_cases_of_what_a_condition_compares_stay_where_they_are() -> None:
    """SymPy moves them out of the condition, also out of an inner scope or a sum, where their
    indices mean nothing.
    """
    inner = ea.L[k:4](sympy.Piecewise((A[k], B[k] > 1), (0, True)))
    choice = ea.L[i:4](sympy.Piecewise((B[i], inner[3 - i] > 0), (7, True)))
    values = {"A": [1, -1, 2, 0], "B": [2, 2, 0, 3]}
    assert (
        ea.evaluate(choice, **values).tolist() == [7, 7, 7, 3]
        and ea.parse(f"O = {choice}", A=A, B=B) == choice
    )
    within = sympy.Piecewise((A[3 - i], B[3 - i] > 1), (0, True))
    merged = rebuild(
        choice.body, lambda node: within if isinstance(node.tensor, ea.Scope) else node
    )
    assert ea.evaluate(ea.L[i:4](merged), **values).tolist() == [7, 7, 7, 3]
