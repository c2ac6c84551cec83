"""Every operator of `einalg.ops` as CUDA, run on the CPU, has the value that another implementation
gives.
"""

from __future__ import annotations

import pytest

from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT
from codegen.targets.cuda.text.printer import MAX_GRID
from tests.helpers.cuda_kernels import TIGHT, TIGHT_GRID, check, run_programs
from tests.helpers.kernels import flat
from tests.helpers.operators.harness import CASES, load_cases, parameter_sets

load_cases()
GROUPS = 6  # compiler runs, each for several operators
NAMES = sorted(CASES)


@pytest.mark.parametrize("group", range(GROUPS))
def test_operators(group: int) -> None:
    """Each operator once, under one of two schedules in turn."""
    chosen = [
        (label, flat(expression), arrays, expected)
        for name in NAMES[group::GROUPS]
        for case in list(CASES[name].values())[:1]
        for label, (expression, arrays, expected) in parameter_sets(name, case, 1)
    ]
    schedule, max_grid = (TIGHT, TIGHT_GRID) if group % 2 else (CUDA_DEFAULT, MAX_GRID)
    found = run_programs(
        [program for _, program, _, _ in chosen],
        [arrays for _, _, arrays, _ in chosen],
        schedule,
        max_grid,
        orders=(0, 1),
    )
    for (label, program, _, expected), values in zip(chosen, found):
        check(
            program,
            expected if isinstance(expected, dict) else {program.outputs[0]: expected},
            values,
        )
        assert label


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_every_case(name: str) -> None:
    for case in CASES[name].values():
        for _, (expression, arrays, expected) in parameter_sets(name, case, 4):
            program = flat(expression)
            for schedule, max_grid in ((CUDA_DEFAULT, MAX_GRID), (TIGHT, TIGHT_GRID)):
                found = run_programs([program], [arrays], schedule, max_grid)[0]
                check(
                    program,
                    expected if isinstance(expected, dict) else {program.outputs[0]: expected},
                    found,
                )
