"""Random programs with arrays, and how they are checked as C."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st

from codegen.lowering.schedule import Schedule
from einalg.testing import strategies
from tests.helpers.kernels import check, evaluated, run_programs

SLOW = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)


TIGHT = Schedule(
    unroll=2,
    row=4,
    long_row_bytes=64,
    long_row_parts=2,
    memory_bytes=256,
    regions=6,
    parallel=1,
    chunks=2,
    tile=2,
)  # small numbers reach every kind of loop on small sizes


@st.composite
def programs_with_arrays(draw: Any) -> Any:
    program = draw(
        strategies.programs(
            max_statements=2, nested=False, functions=True, truths=draw(st.booleans())
        )
    )
    return program, draw(strategies.arrays_for(program))


def check_all(cases: Any, **options: Any) -> None:
    programs, arrays = zip(*cases)
    for (program, given_arrays), found in zip(cases, run_programs(programs, arrays, **options)):
        check(program, evaluated(program, given_arrays), found)
