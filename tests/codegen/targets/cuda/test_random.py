"""Random flat programs as CUDA, run on the CPU, have the values that the reference evaluator gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT
from codegen.targets.cuda.text.printer import MAX_GRID
from tests.helpers.batches import batches
from tests.helpers.cuda_kernels import TIGHT, TIGHT_GRID, check, run_programs
from tests.helpers.kernels import evaluated
from tests.helpers.random_programs import SLOW, programs_with_arrays
from tests.helpers.random_programs import check_all as check_in_c

BATCH = 17  # programs that are compiled together
BATCHES = 2  # of each part
PARTS = [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, 8))]
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a batch shrinks for many minutes


def check_all(cases: Any, *how: Any) -> None:
    programs, arrays = zip(*cases)
    for (program, given_arrays), found in zip(cases, run_programs(programs, arrays, *how)):
        check(program, evaluated(program, given_arrays), found)


@settings(max_examples=batches(2), suppress_health_check=SLOW, phases=PHASES)
@given(st.lists(programs_with_arrays(), min_size=BATCH, max_size=BATCH))
def test_programs(cases: Any) -> None:
    check_all(cases, CUDA_DEFAULT, MAX_GRID)


@settings(max_examples=batches(2), suppress_health_check=SLOW, phases=PHASES)
@given(st.lists(programs_with_arrays(), min_size=BATCH, max_size=BATCH))
def test_programs_under_a_tight_schedule(cases: Any) -> None:
    check_all(cases, TIGHT, TIGHT_GRID)


@pytest.mark.parametrize("part", PARTS)
def test_many_programs_on_all_routes(part: int) -> None:
    """34 programs, and other 238 every night: the reference evaluator, C, and the text for CUDA."""

    @seed(part)
    @settings(max_examples=BATCHES, suppress_health_check=SLOW, phases=PHASES)
    @given(st.lists(programs_with_arrays(), min_size=BATCH, max_size=BATCH))
    def check_batch(cases: Any) -> None:
        check_in_c(cases)
        check_all(cases, CUDA_DEFAULT, MAX_GRID)

    check_batch()
