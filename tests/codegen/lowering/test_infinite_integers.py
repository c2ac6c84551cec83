"""Extremes of integers over no points are infinite in compiled code, where a float is made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.lowering.infinite_integers import with_infinities
from einalg.language.ir.dtypes import holds, is_float, numpy_dtype
from einalg.language.ir.program import Program, as_program
from tests.helpers.cuda_kernels import TIGHT
from tests.helpers.cuda_kernels import run_programs as run_on_shim
from tests.helpers.kernels import run_programs

ROWS, TERMS = 5, 7
BATCH, ON_DEVICE = 24, 6
DTYPES = ("bool", "i8", "u8", "i16", "i32", "u32", "i64", "u64")
EXTREMES = (
    "Max[s:7](n[i,s], where=s > i + 3)",
    "Min[s:7](n[i,s], where=(s > i + 2, s < 6))",
    "Max[s:0](n[i,s])",
    "Max[s:2](n.pad((0, 0), 3, fill=-inf)[i,2*s-3])",
    "Min[s:7](n[i,s], where=s >= i)",
    "n.pad((0, 0), (1, 3), fill=-inf)[i,2*i-1]",
    "Max[r:5](Max[s:7](n[r,s], where=s > i + r) - m[r])",
    "Min[r:2](Max[s:7](n[i,s], where=s > i + r + 3))",
)
OPERANDS = (
    "{}",
    "Max({}, m[i])",
    "Min({}, -2*m[i])",
    "(3*{} - m[i])",
    "Piecewise(({}, m[i] > 1), (m[i], True))",
    "Abs({})",
)
WHOLES = (
    "O[i:5] = {} + x[i]",
    "O[i:5] = ({} + m[i])*x[i]",
    "O[i:5] = Piecewise((1, {} < m[i]), (2, {} > 3), (x[i], True))",
    "O[i:5] = Piecewise((m[i], {} <= -m[i]), (2, isinf({})), (3, True))",
    "O[i:5] = Max({}, m[i])",
    "O[()] = Sum[i:5](Max({} + m[i], 2))",
    "O[i:5] = 1/(1 + exp(-{}))",
)


@dataclass(frozen=True)
class Example:
    """A program, what it reads, and the values that it should give."""

    program: Program
    arrays: Mapping[str, Any]
    expected: Any


def parsed(text: str, dtype: str, other: str = "i32", wide: str = "f32") -> Program:
    tensors = {
        "n": ea.tensor("n", (ROWS, TERMS), dtype),
        "m": ea.tensor("m", (ROWS,), other),
        "x": ea.tensor("x", (ROWS,), wide),
    }
    used = {name: tensor for name, tensor in tensors.items() if re.search(rf"\b{name}[.[]", text)}
    return as_program(ea.parse(text, **used))


def inputs(program: Program, random: Random) -> dict[str, Any]:
    generator = np.random.default_rng(random.randrange(2**32))
    dtypes = {tensor.dtype for tensor in program.tensors.values()}
    offset = 0
    if "u64" not in dtypes and "exp(" not in str(program):
        offset = random.choice([0, 0, 2**53 + 1])  # some integers that no float holds
    arrays = {}
    for name, tensor in program.tensors.items():
        low, high = (1, 9) if tensor.dtype.startswith("u") else (-9, 9)
        if tensor.dtype == "bool":
            low, high = 0, 2
        values = generator.integers(low, high, tensor.shape)
        if tensor.dtype == "i64":
            values = values + offset
        arrays[name] = values.astype(numpy_dtype(tensor.dtype))
    return arrays


def example(random: Random) -> Example | None:
    """Return a random program; None where it has no value somewhere."""
    part = random.choice(OPERANDS).format(random.choice(EXTREMES))
    whole = random.choice(WHOLES)
    text = whole.format(*[part] * whole.count("{}"))
    dtypes = random.choice(DTYPES), random.choice(DTYPES), random.choice(["f32", "f64", "i64"])
    program = parsed(text, *dtypes)
    arrays = inputs(program, random)
    try:
        expected = ea.evaluate(program, **arrays)
    except ea.UndefinedError:
        return None
    return Example(program, arrays, np.asarray(expected, dtype=object))


def check(example: Example, results: Any, how: str) -> None:
    dtype = example.program["O"].dtype
    for found, value in zip(np.ravel(results).tolist(), np.ravel(example.expected).tolist()):
        context = f"{how}, {found} for {value}: {example.program} of {example.arrays}"
        if is_float(dtype):
            assert found == pytest.approx(float(value), rel=1e-5, nan_ok=True), context
        elif isfinite(value) and holds(dtype, int(value)):
            # Where some value is infinite, the evaluator rounds the others to floats.
            assert found == value or float(found) == value, context


def check_batch(seed: int) -> None:
    random = Random(seed)
    possible = (example(random) for _ in range(10 * BATCH))
    examples = list(islice(filter(None, possible), BATCH))
    programs, arrays = [e.program for e in examples], [e.arrays for e in examples]
    for case, results in zip(examples, run_programs(programs, arrays)):
        check(case, results["O"], "compiled")
    on_device = run_on_shim(programs[:ON_DEVICE], arrays[:ON_DEVICE], TIGHT, orders=(0,))
    for case, results in zip(examples, on_device):
        check(case, results["O"], "on a device")


@given(st.integers(0, 2**32))
@settings(max_examples=2, phases=[Phase.generate], deadline=None)
def test_extremes_of_integers_are_infinite_over_no_points(seed: int) -> None:
    check_batch(seed)


@pytest.mark.nightly
@given(st.integers(0, 2**32))
@settings(max_examples=60, phases=[Phase.generate], deadline=None)
def test_many_extremes_of_integers_are_infinite_over_no_points(seed: int) -> None:
    check_batch(seed)


@pytest.mark.parametrize(
    "text",
    [
        "O[i:5] = Max[s:7](n[i,s], where=s <= i) + x[i]",
        "O[i:5] = Max[s:3](n.pad((0, 0), 1, fill=-inf)[i,s-1]) + x[i]",
        "O[i:5] = Max[s:7](n[i,s], where=s > i + 3)",
        "O[i:5] = Max(Max[s:7](n[i,s], where=s > i + 3), 0)",
    ],
)
def test_integers_stay_integers_where_none_is_infinite_or_its_end_is_as_good(text: str) -> None:
    scope = parsed(text, "i32")["O"]
    assert with_infinities(scope, {}) is scope


def test_single_precision_holds_short_integers() -> None:
    scope = parsed("O[i:5] = Max[s:7](n[i,s], where=s > i + 3) + x[i]", "i16")["O"]
    assert str(with_infinities(scope, {}).body) == "x[i] + Max[s:7](f32(n[i, s]), where=s >= i + 4)"


def test_what_an_extreme_over_no_points_reduces_is_not_computed():
    """Elements decide which of two operands is infinite, at no point."""
    inner = "Piecewise((2*Min(n[r], Max[s:0](n[s])), n[i] > 0), (n[i], True))"
    text = f"O[i:3] = x[i] + Max[r:0]({inner})"
    program = as_program(ea.parse(text, n=ea.tensor("n", (3,), "i32"), x=(3,)))
    arrays = {"n": np.array([3, 1, -2], np.int32), "x": np.ones(3, np.float32)}
    (found,) = run_programs([program], [arrays])
    assert found["O"].tolist() == [-np.inf] * 3
