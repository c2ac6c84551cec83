"""Constants in C are exact: compiled, they have the values of Python's numbers."""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.targets.c.literals import literal
from einalg.language.ir.dtypes import numpy_dtype
from tests.helpers.kernels import compiler

C_TYPES = {"f32": "float", "f64": "double", "i32": "int32_t", "u64": "uint64_t", "i64": "int64_t"}
VALUES: list[tuple[Any, str]] = [
    (0.1, "f32"),
    (0.1, "f64"),
    (-1e-45, "f32"),
    (math.nan, "f32"),
    (math.inf, "f64"),
    (Fraction(1, 3), "f64"),
    (Fraction(-5, 8), "f32"),
    (Fraction(10**400), "f64"),
    (Fraction(-(10**400)), "f32"),
    (Fraction(10**400, 3), "f64"),
    (Fraction(10**400, 3 * 10**399 + 1), "f64"),
    (-(10**400), "f64"),
    (-(2**31), "i32"),
    (2**31 - 1, "i32"),
    (-math.inf, "i32"),
    (math.inf, "i64"),
    (-(2**63), "i64"),
    (2**40, "i64"),
    (2**63, "u64"),
    (2**64 - 1, "u64"),
    (math.inf, "u64"),
]


def exact(value: Any, dtype: str) -> Any:
    """Return a value in an element type, an infinity of integers as the end of their range."""
    kind = numpy_dtype(dtype)
    if kind.kind == "f":
        try:
            return kind.type(float(value))
        except OverflowError:
            return kind.type(math.inf if value > 0 else -math.inf)
    if value in (math.inf, -math.inf):
        return np.iinfo(kind).max if value > 0 else np.iinfo(kind).min
    return kind.type(value)


def test_compiled_constants() -> None:
    lines = ["#include <math.h>", "#include <stdint.h>"]
    for number, (value, dtype) in enumerate(VALUES):
        text = literal(value, dtype)
        lines.append(f"void f{number}({C_TYPES[dtype]} *out) {{ *out = {text}; }}")
    library = compiler().load("\n".join(lines))
    for number, (value, dtype) in enumerate(VALUES):
        out = np.zeros(1, numpy_dtype(dtype))
        getattr(library, f"f{number}")(out.ctypes.data_as(ctypes.c_void_p))
        np.testing.assert_array_equal(out[0], exact(value, dtype), str((value, dtype)))


@pytest.mark.parametrize(
    ("value", "dtype"), [(2**31, "i32"), (-1, "u32"), (10**400, "u64")], ids=["i32", "u32", "u64"]
)
def test_a_constant_that_does_not_fit(value: int, dtype: str) -> None:
    with pytest.raises(
        ea.CodegenError, match=f"the constant {value} does not fit the type {dtype}"
    ):
        literal(value, dtype)
