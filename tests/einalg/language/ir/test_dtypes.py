"""Element types: their names, their promotion, and what a body has."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from einalg.errors import ShapeError
from einalg.language.ir.dtypes import NUMPY, dtype_name, is_float, numpy_dtype, promote

i, j = ea.indices("i j")
INTEGERS = [name for name in NUMPY if name[0] in "iu"]
FLOATS = ["f16", "f32", "f64"]


@pytest.mark.parametrize(
    "given, name",
    [
        ("f32", "f32"), ("float32", "f32"), (np.float32, "f32"), (np.dtype("f4"), "f32"), (float, "f64"), (int, "i64"), (bool, "bool"),
        ("bf16", "bf16"), ("bfloat16", "bf16"), ("torch.bfloat16", "bf16"), ("torch.float16", "f16"), ("int8", "i8"), (np.uint16, "u16"),
        (np.array([1], np.int16).dtype, "i16"), ("torch.int64", "i64"), ("torch.bool", "bool"),
    ],
)  # fmt: skip
def test_names(given: Any, name: str) -> None:
    assert dtype_name(given) == name
    assert ea.tensor("A", (2,), given).dtype == name


@pytest.mark.parametrize(
    "wrong",
    ["f8", "f4", "i1", "complex64", "", None, object, "f32 ", 3, "torch.complex64", np.dtype("U3")],
)
def test_unknown_names(wrong: Any) -> None:
    with pytest.raises(ShapeError, match=r"is unknown\n  use one of: bool, i8"):
        dtype_name(wrong)


@pytest.mark.parametrize("one, other", list(product(["bool", *INTEGERS], repeat=2)))
def test_whole_numbers_promote_as_in_numpy(one: str, other: str) -> None:
    expected = (
        np.result_type(NUMPY[one], NUMPY[other]) if {one, other} - {"u64"} else np.dtype(np.uint64)
    )
    if expected.kind == "f":
        expected = np.dtype(promote(one, other).replace("f", "float"))
    assert numpy_dtype(promote(one, other)) == expected


@pytest.mark.parametrize("one, other", list(product(FLOATS, repeat=2)))
def test_floats_promote_as_in_numpy(one: str, other: str) -> None:
    assert numpy_dtype(promote(one, other)) == np.result_type(NUMPY[one], NUMPY[other])


@pytest.mark.parametrize("whole, real", list(product(["bool", *INTEGERS], [*FLOATS, "bf16"])))
def test_whole_numbers_never_widen_a_float(whole: str, real: str) -> None:
    assert promote(whole, real) == promote(real, whole) == real


def test_bfloat16_meets_other_floats() -> None:
    assert [promote("bf16", other) for other in ("bf16", "f16", "f32", "f64")] == [
        "bf16",
        "f32",
        "f32",
        "f64",
    ]
    assert promote("bf16", "f16", "i8") == "f32"


def test_promotion_has_no_order() -> None:
    for triple in product(["bool", "i8", "u16", "i64", "f16", "bf16", "f64"], repeat=3):
        assert (
            promote(*triple)
            == promote(*reversed(triple))
            == promote(promote(*triple[:1]), *triple[1:])
        )
    assert promote() == "f32" and [is_float(d) for d in ("f16", "bf16", "i8", "bool")] == [
        True,
        True,
        False,
        False,
    ]


F16, F32, BF16 = (
    ea.tensor("F", (4,), "f16")[i],
    ea.tensor("G", (4,), "f32")[i],
    ea.tensor("H", (4,), "bf16")[i],
)
I8, U8, I64, BIT = (
    ea.tensor("P", (4,), "i8")[i],
    ea.tensor("Q", (4,), "u8")[i],
    ea.tensor("R", (4,), "i64")[i],
    ea.tensor("T", (4,), "bool")[i],
)
INNER = ea.L[i](ea.tensor("P", (4,), "i8")[i])


@pytest.mark.parametrize(
    "body, dtype",
    [
        (F16, "f16"), (F16 * 2, "f16"), (F16 * 0.1, "f16"), (F16 / 3, "f16"), (F16 * sympy.pi, "f16"), (F16 + F32, "f32"), (F16 * I64, "f16"),
        (F16 * BF16, "f32"), (BF16 + 1, "bf16"), (sympy.exp(F16), "f16"), (sympy.exp(BF16) / 2, "bf16"),
        (I8, "i8"), (I8 + 1, "i8"), (I8 * I64, "i64"), (I8 * U8, "i16"), (I8**2, "i8"), (I8 / 2, "f32"), (I8 * 0.5, "f32"), (1 / I8, "f32"),
        (sympy.exp(I8), "f32"), (sympy.sqrt(I8), "f32"), (ea.Max(I8, 0), "i8"), (ea.Max(I8, F16), "f16"),
        (sympy.Abs(I8), "i8"), (sympy.sign(I8), "i8"),
        (-I8, "i8"), (I8 * i, "i64"), (i + 0, "i64"), (2 * i + 1, "i64"), (i // 2, "i64"), (F16 * i, "f16"),
        (I8 > 0, "bool"), (sympy.And(I8 > 0, i > 2), "bool"), (BIT, "bool"), (BIT + BIT, "i64"), (BIT * F16, "f16"),
        (sympy.Piecewise((I8, I8 > 0), (0, True)), "i8"), (sympy.Piecewise((F16, I8 > 0), (I8, True)), "f16"),
        (ea.Sum[j:3](I8), "i8"), (ea.Sum[j:3](BIT), "i64"), (ea.Max[j:3](BIT), "bool"), (ea.Prod[j:3](F16), "f16"), (ea.Sum[j:3](I8 > 0), "i64"),
        (sympy.Integer(3), "i64"), (sympy.Rational(1, 2), "f32"), (sympy.Float(0.5), "f32"), (sympy.pi, "f32"), (-sympy.oo, "f32"),
        (INNER[i], "i8"), (INNER.pad(1)[i - 1] * F32, "f32"),
    ],
)  # fmt: skip
def test_bodies(body: Any, dtype: str) -> None:
    assert ea.L[i:4](body).dtype == dtype


def test_a_statement_has_the_type_of_its_scope() -> None:
    program = ea.parse(
        "T[i] = A[i] > 0\nO[i] = T[i]*B[i]",
        A=ea.tensor("A", (4,), "i8"),
        B=ea.tensor("B", (4,), "f16"),
    )
    assert (program["T"].dtype, program["O"].dtype) == ("bool", "f16")
    (read,) = [t for name, t in program["O"].tensors.items() if name == "T"]
    assert (read.dtype, read.role) == ("bool", "intermediate")


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_every_type_is_evaluated(name: str) -> None:
    array = np.array([1, 0, 1, 1]).astype(numpy_dtype(name))
    scope = ea.parse("O[i] = Max[j](A[j]) - A[i]", A=ea.tensor("A", (4,), name))
    np.testing.assert_array_equal(ea.evaluate(scope, A=array), 1 - array.astype(int))
