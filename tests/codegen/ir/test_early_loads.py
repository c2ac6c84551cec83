"""Loads ahead of selects: where loops read early, where a place guards a read, and the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.ir.early_loads import with_early_loads
from codegen.ir.nodes import (
    Apply,
    Buf,
    For,
    IndexNumber,
    Number,
    Predicate,
    Ref,
    Store,
    Value,
    walk,
)
from codegen.lowering.lower import lower
from codegen.targets.c.source_file import c_source
from einalg.language.index.affine import Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import is_float, numpy_dtype
from einalg.language.ir.program import as_program
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK
from tests.helpers.kernels import check, evaluated, run_programs, spread_compiler

SHAPES = {"X": (3, 7, 5), "A": (7,), "B": (1,), "Y": (3, 7, 5), "C": (5,)}


def chosen(test: Value, value: Value) -> Value:
    return Apply("select", (test, value, Number(0, "f32")), "f32")


CHOSEN = {  # what is read early
    "one slope": ("Piecewise((X[n,c,h], X[n,c,h] > 0), (X[n,c,h]*B[0], True))", {"X", "B"}),
    "channels first": ("Piecewise((X[n,c,h], X[n,c,h] > 0), (X[n,c,h]*A[c], True))", {"X", "A"}),
    "channels last": ("Piecewise((X[n,c,h], X[n,c,h] > 0), (X[n,c,h]*C[h], True))", {"X", "C"}),
    "two": ("Piecewise((A[c]*X[n,c,h], X[n,c,h] > B[0]), (C[h], True)) + Y[n,c,h]", set("XAC")),
    "and": ("Piecewise((1, And(X[n,c,h] > 0, Y[n,c,h] > 0)), (X[n,c,h], True))", {"X", "Y"}),
    "in a sum": ("Sum[k:7](Piecewise((Y[n,k,h], X[n,c,h] > 0), (A[k], True)))", {"Y", "A"}),
}
i = Index("i")
X, Y = (Ref(Buf(name, (8,), "f32"), (affine(i) - 1,)) for name in "XY")
ONE = Number(1, "f32")
IS_POSITIVE = Apply("gt", (Y, ONE), "bool")
IS_INSIDE = Predicate((Constraint(affine(i) - 1, ">="),))
GUARDED = {
    "a place": chosen(IS_INSIDE, X),
    "a place and a number": chosen(Apply("and", (IS_INSIDE, IS_POSITIVE), "bool"), X),
    "a number at a place": chosen(IS_INSIDE, chosen(IS_POSITIVE, X)),
    "a place in a case": chosen(Apply("gt", (ONE, ONE), "bool"), chosen(IS_INSIDE, X)),
    "a place as a number": chosen(Apply("gt", (ONE, IndexNumber(affine(i))), "bool"), X),
    "nothing": Apply("add", (X, chosen(IS_POSITIVE, ONE)), "f32"),
}


def program_of(body: str, dtype: str = "f32") -> Any:
    tensors = {name: ea.tensor(name, shape, dtype) for name, shape in SHAPES.items()}
    return as_program(ea.parse(f"O[n:3, c:7, h:5] = {body}", **tensors))


def read_early(body: str) -> set[str]:
    """The tensors that are read into variables ahead of the statements of loops for vectors."""
    loops = [n for n in walk(lower("O", program_of(body)["O"])) if isinstance(n, For)]
    added = [
        statement
        for loop in loops
        if loop.kind == "vec"
        for statement in with_early_loads(loop, set()).body
        if isinstance(statement, Store) and statement.ref.buf.name.endswith("_here")
    ]
    assert all(isinstance(store.value, Ref) for store in added)
    return {store.value.buf.name for store in added if isinstance(store.value, Ref)}


@pytest.mark.parametrize(("body", "names"), CHOSEN.values(), ids=CHOSEN)
def test_what_numbers_choose_is_read_early(body: str, names: set[str]) -> None:
    assert read_early(body) == names
    source = c_source([lower("O", program_of(body)["O"])])
    assert not any("[" in line.partition(" ? ")[2] for line in source.splitlines())


@pytest.mark.parametrize("value", GUARDED.values(), ids=GUARDED)
def test_what_a_place_guards_is_not(value: Value) -> None:
    body = (Store(Ref(Buf("O", (8,), "f32"), (affine(i),)), "=", value),)
    loop = For(i, affine(0), affine(8), (0, 8), body, "vec")
    assert with_early_loads(loop, set()) is loop


@st.composite
def bodies(draw: Any) -> str:
    """Selects of reads, in any nesting, under conditions on numbers and places."""
    reads = ("X[n,c,h]", "A[c]", "B[0]", "C[h]", "Y[n,c,h]", "X.pad(0,1,2,fill=2)[n,c-1,h+2]", "3")
    value = st.sampled_from(reads)
    test = st.one_of(
        st.tuples(value, st.sampled_from("<>"), value).map(" ".join),
        st.sampled_from(("h >= 2", "c < 5", "h > X[n,c,h]")),
    )
    tests = st.one_of(test, st.tuples(test, test).map(lambda pair: f"And({pair[0]}, {pair[1]})"))

    def piecewise(cases: Any) -> Any:
        return st.tuples(cases, tests, cases).map(
            lambda part: f"Piecewise(({part[0]}, {part[1]}), ({part[2]}, True))"
        )

    def sums(cases: Any) -> Any:
        return st.tuples(cases, cases).map(lambda pair: f"({pair[0]}) + ({pair[1]})")

    body = draw(st.recursive(value, lambda cases: piecewise(cases) | sums(cases)))
    reduction = draw(st.sampled_from(("", "Sum", "Max")))
    if not reduction:
        return body
    return f"{reduction}[m:3]({body.replace('[n,', '[m,')})"


def numbers(dtype: str, seed: int) -> dict[str, Any]:
    """Small numbers, NaN and infinities among the floats."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, shape in SHAPES.items():
        values = rng.integers(0, 4, shape).astype(np.float64)
        if is_float(dtype):
            values -= 2
            special = rng.choice([np.nan, np.inf, -np.inf], shape)
            values = np.where(rng.random(shape) < 0.1, special, values)
        arrays[name] = values.astype(numpy_dtype(dtype))
    return arrays


@settings(max_examples=batches(2), phases=UNSHRUNK, deadline=None)
@given(
    st.lists(st.tuples(bodies(), st.sampled_from(("f32", "f64", "f16", "i32", "u8"))), min_size=6),
    st.integers(0, 99),
)
def test_values_stay_as_they_are(cases: list[tuple[str, str]], seed: int) -> None:
    programs = [program_of(body, dtype) for body, dtype in cases]
    arrays = []
    for program, (_, dtype) in zip(programs, cases):
        values = numbers(dtype, seed)
        arrays.append({name: values[name] for name in program.inputs})
    found = run_programs(programs, arrays, cc=spread_compiler)
    for program, given_arrays, values in zip(programs, arrays, found, strict=True):
        check(program, evaluated(program, given_arrays), values)
