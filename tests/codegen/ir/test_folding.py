"""Functions of constants are folded; what depends on values stays."""

from __future__ import annotations

from typing import Any

import pytest

from codegen.ir.nodes import Apply, Buf, Number, Predicate, Ref, Value
from codegen.ir.scalars.folding import FOLDS
from einalg.language.index.affine import Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

X, Y = Ref(Buf("X", (), "f32"), ()), Ref(Buf("Y", (), "f32"), ())
B = Apply("lt", (X, Y), "bool")
INSIDE = Predicate((Constraint(affine(Index("i")) - 2, ">="),))


N = Ref(Buf("N", (), "i64"), ())


def f32(value: float) -> Number:
    return Number(value, "f32")


def times(number: int) -> Value:
    return Apply("mul", (Number(number, "weak"), N), "i64")


TRUE, FALSE = Number(True, "bool"), Number(False, "bool")
FOLDED: list[tuple[str, list[Value], str, Value]] = [
    ("add", [f32(0), X], "f32", X),
    ("add", [X, Apply("add", (Y, X), "f32")], "f32", Apply("add", (X, Y, X), "f32")),
    ("mul", [f32(1), X, f32(0)], "f32", f32(0)),
    ("mul", [f32(-1), X, Y], "f32", Apply("neg", (Apply("mul", (X, Y), "f32"),), "f32")),
    ("div", [f32(0), X], "f32", f32(0)),
    ("mul", [Number(2**30, "weak"), Number(8, "i64")], "i64", Number(2**33, "i64")),
    ("mul", [Number(2**30, "weak"), N, Number(8, "i64")], "i64", times(2**33)),
    ("add", [Number(7, "weak"), Number(-7, "weak"), N], "i64", N),
    ("div", [f32(0), f32(0)], "f32", Apply("div", (f32(0), f32(0)), "f32")),
    ("div", [X, f32(1)], "f64", Apply("cast", (X,), "f64")),
    ("ipow", [X, Number(0, "i32")], "f32", f32(1)),
    ("ipow", [X, Number(2, "i32")], "f32", Apply("ipow", (X, Number(2, "i32")), "f32")),
    ("max", [X, f32(3), f32(float("-inf")), X], "f32", Apply("max", (f32(3), X), "f32")),
    ("min", [], "f32", f32(float("inf"))),
    ("select", [TRUE, X, Y], "f32", X),
    ("select", [FALSE, X, Y], "f32", Y),
    ("select", [B, X, X], "f32", X),
    ("and", [B, TRUE, INSIDE], "bool", Apply("and", (INSIDE, B), "bool")),
    ("and", [B, FALSE], "bool", FALSE),
    ("and", [TRUE], "bool", TRUE),
    ("or", [B, FALSE], "bool", B),
    ("or", [B, TRUE], "bool", TRUE),
    ("or", [FALSE, FALSE], "bool", FALSE),
    ("not", [FALSE], "bool", TRUE),
]


@pytest.mark.parametrize(
    ("op", "arguments", "dtype", "result"), FOLDED, ids=[f"{op} {row}" for op, row, *_ in FOLDED]
)
def test_a_function_of_constants(op: str, arguments: Any, dtype: str, result: Value) -> None:
    assert FOLDS[op](arguments, dtype) == result
