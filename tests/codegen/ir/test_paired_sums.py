"""Sums of rows as loops over pairs: each element is added once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from codegen.ir.nodes import Apply, Buf, For, Number, Predicate, Ref, Store, Value
from codegen.ir.paired_sums import loop_over_pairs_of_terms
from codegen.program.compile import compile_program
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.program import as_program

K = Index("k")


def row_sum(low: int, high: int, dtype: str = "f32", op: str = "+=", count: int = 1) -> For:
    """Return a loop that adds some of a row's elements to registers."""
    body = tuple(
        Store(
            Ref(Buf(f"total{n}", (), dtype, "reg"), ()),
            op,
            Ref(Buf("A", (999,), dtype), (affine(K) + n,)),
        )
        for n in range(count)
    )
    return For(K, affine(low), affine(high), (low, high), body, "vec")


def read(value: Value, step: int) -> list[int]:
    """Return which elements of the row a value adds in a step."""
    if isinstance(value, Ref):
        return [value.subscripts[0].evaluate({K: step})]
    if isinstance(value, Number):
        return []
    assert isinstance(value, Apply)
    if value.op == "select":
        test, second, other = value.arguments
        assert isinstance(test, Predicate)
        return read(second if test.conditions[0].holds({K: step}) else other, step)
    return [place for argument in value.arguments for place in read(argument, step)]


@given(st.integers(-3, 9), st.integers(1, 300), st.sampled_from(["f32", "f64", "i64"]))
def test_each_element_is_added_once(low: int, count: int, dtype: str) -> None:
    loop = loop_over_pairs_of_terms(row_sum(low, low + count, dtype, count=2))
    assert isinstance(loop.low, Affine) and isinstance(loop.high, Affine)
    for number, store in enumerate(loop.body):
        assert isinstance(store, Store)
        places: list[int] = []
        for step in range(loop.low.const, loop.high.const):
            places += read(store.value, step)
        assert sorted(places) == [number + low + k for k in range(count)]


@pytest.mark.parametrize(("count", "steps"), [(49, 32), (50, 32), (197, 112), (14, 8), (9, 8)])
def test_steps_fill_vectors(count: int, steps: int) -> None:
    assert loop_over_pairs_of_terms(row_sum(0, count)).extent == steps


@pytest.mark.parametrize(
    "loop", [row_sum(0, 64), row_sum(0, 7), row_sum(0, 999), row_sum(0, 49, op="*=")]
)
def test_others_stay_as_they_were(loop: For) -> None:
    assert loop_over_pairs_of_terms(loop) is loop


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("O[i] = Sum[k](A[i,k])", (5, 49)),
        ("O[i] = Sum[h,w](A[i,h,w])/49", (5, 7, 7)),
        ("O[i] = Sum[k](exp(A[i,k]) + i*k)", (3, 50)),
        ("O[i,k] = exp(A[i,k])/Sum[j](exp(A[i,j]))", (4, 21)),
        ("O[i] = Sum[k](A[i,k]*A[i,k])", (3, 197)),
    ],
)
def test_rows_of_any_length(text: str, shape: tuple[int, ...]) -> None:
    program = as_program(ea.parse(text, A=shape))
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    result = compile_program(program)(A=array)
    np.testing.assert_allclose(result, ea.evaluate(program, A=array), rtol=1e-5, atol=1e-5)


def test_an_infinity_is_added_once() -> None:
    """What a step leaves out is not multiplied by zero."""
    array = np.ones((1, 49), np.float32)
    array[0, 20] = np.inf
    result = compile_program(as_program(ea.parse("O[i] = Sum[k](A[i,k])", A=(1, 49))))(A=array)
    assert np.isposinf(result).all()
