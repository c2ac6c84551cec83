"""The reference evaluator and the executors against a second evaluator, written for this alone, on
random expressions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import einalg as ea
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.prime_field.field import PrimeField
from einalg.language.ir.program import as_program
from einalg.testing import strategies
from tests.helpers.batches import examples
from tests.helpers.kernels import flat, run_programs
from tests.helpers.naive_evaluator import values_of
from tests.helpers.paddings import paddings

SLOW = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)
DTYPES = ("f32", "i64", "i32", "u8", "bool")
PRIME = 2**31 - 1


@st.composite
def cases(draw: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A program with arrays of integers for it."""
    given_options = {
        "functions": True,
        "truths": True,
        "dtypes": DTYPES,
        "max_points": 60,
        **options,
    }
    program = draw(strategies.programs(max_statements=3, **given_options))
    return program, draw(strategies.arrays_for(program))


def assert_equal(
    expected: Mapping[str, Mapping[tuple[int, ...], Any]], found: Any, program: Any
) -> None:
    """The values at every point, 0 where there is none."""
    results = found if isinstance(found, dict) else {program.outputs[0]: found}
    for name, values in expected.items():
        array, lows = results[name], [low for low, _ in program[name].box]
        for place in np.ndindex(array.shape):
            point = tuple(k + low for k, low in zip(place, lows))
            wanted, value = values.get(point, 0), array[place]
            same = wanted == value or (math.isnan(wanted) and math.isnan(value))
            assert same, f"{name}{list(point)} is {wanted}, not {value}, in\n{program}"


@pytest.mark.parametrize(
    "options", [{}, {"nested": False}, {"max_indices": 2}], ids=["all", "flat", "small"]
)
@settings(max_examples=examples(12, at_night=250), suppress_health_check=SLOW)
@given(data=st.data())
def test_the_reference_and_numpy_give_the_values_of_the_second_evaluator(
    options: dict[str, Any], data: Any
) -> None:
    program, arrays = data.draw(cases(**options))
    expected = values_of(program, arrays)
    assert_equal(expected, ea.evaluate(program, **arrays), program)
    assert_equal(expected, execute(program, arrays), program)


@pytest.mark.parametrize(
    "text",
    [
        "O[i:2] = Mod(Max[j:0](A[j]), 3)",
        "O[i:2] = floor(Min[j:0](A[j])) + i",
        "O[i:2] = Mod(ceiling(Max[j:0](A[j])), 2) + 1",
    ],
)
def test_whole_parts_and_remainders_of_an_infinity(text: str) -> None:
    program, array = as_program(ea.parse(text, A=(4,))), np.arange(4.0)
    assert_equal(values_of(program, {"A": array}), ea.evaluate(program, A=array), program)


@settings(max_examples=25, suppress_health_check=SLOW)
@given(cases(functions=False, truths=False, reductions=("Sum", "Prod"), dtypes=("f32",)))
def test_the_prime_field_gives_their_remainders(case: Any) -> None:
    program, arrays = case
    expected = values_of(program, arrays)
    found = execute(
        program, {n: a % PRIME for n, a in arrays.items()}, arithmetic=PrimeField(PRIME)
    )
    remainders = {
        name: {point: value % PRIME for point, value in values.items()}
        for name, values in expected.items()
    }
    assert_equal(remainders, found, program)


@settings(max_examples=2, suppress_health_check=SLOW)
@given(st.lists(cases(dtypes=("f32", "i64", "bool")), min_size=12, max_size=12))
def test_compiled_code_gives_the_values_of_the_second_evaluator(several: Any) -> None:
    """In f32, so where they are small."""
    programs = [flat(program) for program, _ in several]
    for (program, arrays), found in zip(
        several, run_programs(programs, [arrays for _, arrays in several])
    ):
        expected = values_of(program, arrays)
        sizes = [abs(v) for values in expected.values() for v in values.values()]
        if max(sizes, default=0) < 128:
            assert_equal(expected, {name: found[name] for name in program.outputs}, program)


@settings(max_examples=80, suppress_health_check=SLOW)
@given(paddings())
def test_a_read_meets_the_innermost_padding_that_reaches_it(scope: Any) -> None:
    arrays = {
        name: np.arange(10, 10 + math.prod(t.shape)).reshape(t.shape)
        for name, t in scope.tensors.items()
    }
    program = as_program(scope)
    expected = values_of(program, arrays)
    assert_equal(expected, ea.evaluate(program, **arrays), program)
    assert_equal(expected, execute(program, arrays), program)


@settings(max_examples=1, suppress_health_check=SLOW)
@given(st.lists(paddings(), min_size=20, max_size=20))
def test_so_does_compiled_code(scopes: Any) -> None:
    programs = [flat(scope) for scope in scopes]
    arrays = [
        {
            name: np.arange(10, 10 + math.prod(t.shape)).reshape(t.shape)
            for name, t in p.inputs.items()
        }
        for p in programs
    ]
    for program, given_arrays, found in zip(programs, arrays, run_programs(programs, arrays)):
        assert_equal(
            values_of(program, given_arrays),
            {name: found[name] for name in program.outputs},
            program,
        )


@pytest.mark.nightly
@settings(max_examples=2000, suppress_health_check=SLOW)
@given(cases())
def test_many(case: Any) -> None:
    program, arrays = case
    expected = values_of(program, arrays)
    assert_equal(expected, ea.evaluate(program, **arrays), program)
    assert_equal(expected, execute(program, arrays), program)
