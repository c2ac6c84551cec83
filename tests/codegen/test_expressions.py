"""Every kind of expression, compiled, has the value that the reference evaluator gives."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np
import pytest

from codegen.lowering.schedule import DEFAULT, Schedule
from einalg.language.ir.program import Program, as_program
from tests.codegen.expressions import EXPRESSIONS
from tests.codegen.harness import check, evaluated, run_programs
from tests.codegen.test_random import TIGHT

CASES = {name: as_program(make()) for name, make in EXPRESSIONS.items()}


def arrays_for(name: str, program: Program) -> dict[str, Any]:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    arrays: dict[str, Any] = {}
    for key, tensor in program.inputs.items():
        if tensor.dtype == "bool":
            arrays[key] = rng.integers(0, 2, tensor.shape).astype(bool)
        elif tensor.dtype[0] in "iu":
            arrays[key] = rng.integers(0 if tensor.dtype[0] == "u" else -4, 5, tensor.shape).astype(
                np.int64
            )
        else:
            arrays[key] = rng.integers(-16, 17, tensor.shape) / 8.0
    return arrays


ARRAYS = {name: arrays_for(name, program) for name, program in CASES.items()}


@cache
def expected(name: str) -> dict[str, Any]:
    return evaluated(CASES[name], ARRAYS[name])


@pytest.fixture(scope="module", params=[DEFAULT, TIGHT], ids=["default schedule", "tight schedule"])
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    schedule: Schedule = request.param
    return dict(
        zip(CASES, run_programs(list(CASES.values()), [ARRAYS[name] for name in CASES], schedule))
    )


@pytest.mark.parametrize("name", CASES)
def test_expression(name: str, found: dict[str, Any]) -> None:
    check(CASES[name], expected(name), found[name])
