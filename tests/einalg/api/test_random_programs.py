"""Identity, values, texts and code of random programs, before and after random moves: what holds for
one of these is asked of the same expressions, for a mistake in one shows in another.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import einalg as ea
from tests.helpers import kernels
from tests.helpers.batches import examples
from tests.helpers.random_derivations import (
    RandomDerivation,
    check_as_one_program,
    check_generated_code,
    check_reading,
    check_signatures,
    check_values,
    derivations,
    flat_cases,
    results,
)

SLOW = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)
BATCH = 10  # derivations that are compiled together; hypothesis gives up examples of some 30


def check(derivation: RandomDerivation) -> None:
    check_values(derivation)
    for program in (derivation.program, *derivation.steps):
        check_reading(program)


def check_candidates(derivation: RandomDerivation, most: int = 4) -> None:
    """Fail where the best candidates of a program have other values, or are not shown."""
    program, arrays = derivation.program, derivation.arrays
    expected = results(program, ea.evaluate(program, **arrays))
    found = ea.derive(program, states=12, seconds=1.0)
    assert str(found) and found._repr_html_()
    for candidate in found.candidates[:most]:
        values = candidate.compile()(**derivation.arrays_for(program))
        kernels.check(program, expected, results(program, values))


def check_code(several: list[RandomDerivation]) -> None:
    cases = flat_cases(several)
    check_generated_code(cases)
    check_as_one_program(cases)


@settings(max_examples=examples(20, at_night=400), suppress_health_check=SLOW)
@given(derivations())
def test_programs_keep_their_values_and_are_read_back(derivation: Any) -> None:
    check(derivation)


@settings(max_examples=examples(12, at_night=250), suppress_health_check=SLOW)
@given(derivations(inexact=True))
def test_programs_over_real_numbers_are_read_back(derivation: Any) -> None:
    for program in (derivation.program, *derivation.steps):
        check_reading(program)


@settings(max_examples=1, suppress_health_check=SLOW)
@given(st.lists(derivations(), min_size=BATCH, max_size=BATCH))
def test_programs_compile(several: Any) -> None:
    check_code(several)


@settings(max_examples=3, suppress_health_check=SLOW)
@given(derivations(most_moves=0))
def test_programs_are_derived(derivation: Any) -> None:
    check_candidates(derivation)


@pytest.mark.nightly
@settings(max_examples=2_000, derandomize=False, suppress_health_check=SLOW)
@given(derivations(most_moves=0))
def test_many_programs_are_derived(derivation: Any) -> None:
    check_candidates(derivation)


@pytest.mark.nightly
@settings(max_examples=10_000, derandomize=False, suppress_health_check=SLOW)
@given(derivations(most_moves=5))
def test_many_programs_keep_their_values_and_are_read_back(derivation: Any) -> None:
    check(derivation)
    check_signatures(derivation.program, derivation.arrays)


@pytest.mark.nightly
@settings(max_examples=10_000, derandomize=False, suppress_health_check=SLOW)
@given(derivations(most_moves=5, inexact=True))
def test_many_programs_over_real_numbers_are_read_back(derivation: Any) -> None:
    for program in (derivation.program, *derivation.steps):
        check_reading(program)


@pytest.mark.nightly
@settings(max_examples=1_000, derandomize=False, suppress_health_check=SLOW)
@given(st.lists(derivations(), min_size=BATCH, max_size=BATCH))
def test_many_programs_compile(several: Any) -> None:
    check_code(several)
