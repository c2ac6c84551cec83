"""Nodes, made by hand, refuse what they cannot hold, and say what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from einalg.errors import NotationError, ShapeError
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.ir.body import Reduce, without_conversions
from einalg.language.ir.program import as_program
from einalg.language.ir.tensor import Access, Padded

i, j = ea.indices("i j")
A = ea.tensor("A", (3,))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "reduction": (lambda: Reduce("Mean", [(i, 0, 3)], (), A[i]), NotationError, "one of: Sum, Max"),
    "padding": (
        lambda: Padded("A", [(0, 1)]),
        NotationError,
        r"pad what is read: A\.pad\(1\)\[i\]",
    ),
    "access": (lambda: Access("A", [i]), NotationError, r"index a tensor or a scope: A\[i\]"),
    "text": (lambda: as_program("L[i](A[i])"), NotationError, "read it with ea.parse"),
    "number": (lambda: as_program(3), NotationError, r"e\.g\. ea\.L\[i\]"),
    "remainder": (lambda: Mod(sympy.true, 3), NotationError, r"and True is none\n.*Mod\(A"),
    "imaginary remainder": (lambda: Mod(sympy.I, 3), NotationError, "and I is none"),
    "quotient": (lambda: Quotient(sympy.true, 3), NotationError, r"and True is none\n.*Quotient"),
    "floor": (lambda: A[sympy.floor(2.5 * i)], NotationError, r"whole number: \(i \+ 1\)//2"),
    "function": (lambda: ea.L[i](sympy.zeta(A[i])), NotationError, "zeta is not a function"),
    "pooling of nothing": (
        lambda: ea.ops.adaptive_avg_pool(ea.tensor("X", (2, 0, 4)), 3, 2),
        ShapeError,
        r"shape \(2, 0, 4\), with no elements to pool",
    ),
    "sizes of other axes": (
        lambda: ea.ops.adaptive_avg_pool(ea.tensor("X", (2, 5, 4)), (None, 2, 3), 2),
        ShapeError,
        "size",
    ),
    "two ranges": (
        lambda: ea.einsum("i,i->", A, ea.parse("L[i:1:5](B[i])", B=(6,))),
        ShapeError,
        r"two sizes: \[0,3\) .* and \[1,5\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        make()


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (Mod(sympy.Float(2.5), sympy.Rational(3, 4)), sympy.Float(0.25)),
        (Mod(sympy.oo, 3), sympy.nan),
        (Quotient(sympy.Float(-2.5), 2), sympy.Integer(-2)),
    ],
)
def test_remainders_of_numbers(made: Any, value: Any) -> None:
    assert made == value or (made is sympy.nan and value is sympy.nan)


def test_a_quotient_of_an_infinity_is_left_as_it_is() -> None:
    scope = ea.parse("L[i](A[i] + Quotient(inf, 3))", A=(3,))
    assert np.isnan(ea.evaluate(scope, A=np.ones(3))).all()


def test_sums_of_indices_and_other_numbers() -> None:
    root = sympy.sqrt(2)
    assert root + i == i + root and root - i == -(i - root)


def test_a_body_without_conversions_stays_the_same_object() -> None:
    body = ea.parse("L[i](Sum[j](A[i]*B[j]))", A=(3,), B=(3,)).body
    assert without_conversions(body) is body
    converted = ea.parse("L[i](Sum[j](f16(A[i])*B[j]))", A=(3,), B=(3,)).body
    assert without_conversions(converted) == body


def test_an_axis_keeps_its_size_where_none_is_named() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 4))
    pooled = ea.ops.adaptive_avg_pool(ea.tensor("X", x.shape), (None, 2), 2)
    np.testing.assert_allclose(ea.evaluate(pooled, X=x), x.reshape(2, 5, 2, 2).mean(3), rtol=1e-6)


def test_a_truth_value_is_a_number_of_an_operator() -> None:
    Y = ea.tensor("Y", (2, 5))
    assert ea.ops.clip(Y, True, 2) == ea.ops.clip(Y, 1, 2)
