"""A CUDA kernel, run on the CPU."""

from __future__ import annotations

from typing import Any

from codegen.targets.cuda.lowering.threads.schedule import (
    CudaSchedule,
)
from einalg.language.ir.program import as_program
from tests.helpers.cuda_kernels import MAX_GRID, check, run_programs
from tests.helpers.expressions.values import arrays_for
from tests.helpers.kernels import evaluated


def run(
    scopes: list[Any], schedule: CudaSchedule, max_grid: tuple[int, int, int] = MAX_GRID
) -> None:
    programs = [as_program(scope) for scope in scopes]
    arrays = [arrays_for(str(program), program) for program in programs]
    for program, given, found in zip(
        programs, arrays, run_programs(programs, arrays, schedule, max_grid)
    ):
        check(program, evaluated(program, given), found)
