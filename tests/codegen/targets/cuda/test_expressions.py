"""Every kind of expression as CUDA, run on the CPU, has the value that the reference evaluator and
the C route give.
"""

from __future__ import annotations

from typing import Any

import pytest

from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT
from codegen.targets.cuda.text.printer import MAX_GRID
from tests.helpers.cuda_kernels import TIGHT, TIGHT_GRID, check, run_programs
from tests.helpers.expressions.values import ARRAYS, CASES, expected

SCHEDULES = {"default schedule": (CUDA_DEFAULT, MAX_GRID), "tight schedule": (TIGHT, TIGHT_GRID)}


@pytest.fixture(scope="module", params=SCHEDULES)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    schedule, max_grid = SCHEDULES[request.param]
    return dict(
        zip(
            CASES,
            run_programs(
                list(CASES.values()), [ARRAYS[name] for name in CASES], schedule, max_grid
            ),
        )
    )


@pytest.mark.parametrize("name", CASES)
def test_expression(name: str, found: dict[str, Any]) -> None:
    check(CASES[name], expected(name), found[name])
