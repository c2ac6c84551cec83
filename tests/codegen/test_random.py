"""Random flat programs, compiled, have the values that the reference evaluator gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.batches import batches
from tests.helpers.random_programs import SLOW, TIGHT, check_all, programs_with_arrays

BATCH = 16  # programs that are compiled together


@settings(max_examples=batches(2), suppress_health_check=SLOW)
@given(st.lists(programs_with_arrays(), min_size=BATCH, max_size=BATCH))
def test_programs(cases: Any) -> None:
    check_all(cases)


@settings(max_examples=batches(2), suppress_health_check=SLOW)
@given(st.lists(programs_with_arrays(), min_size=BATCH, max_size=BATCH))
def test_programs_under_a_tight_schedule(cases: Any) -> None:
    check_all(cases, schedule=TIGHT)
