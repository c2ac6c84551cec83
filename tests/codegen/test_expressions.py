"""Every kind of expression, compiled, has the value that the reference evaluator gives."""

from __future__ import annotations

from typing import Any

import pytest

from codegen.lowering.schedule import DEFAULT
from tests.helpers.expressions.values import ARRAYS, CASES, expected
from tests.helpers.kernels import check, compiler, quick_compiler, run_programs
from tests.helpers.random_programs import TIGHT

SCHEDULES = {"default schedule": (DEFAULT, compiler), "tight schedule": (TIGHT, quick_compiler)}


@pytest.fixture(scope="module", params=SCHEDULES)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    schedule, make = SCHEDULES[request.param]
    arrays = [ARRAYS[name] for name in CASES]
    return dict(zip(CASES, run_programs(list(CASES.values()), arrays, schedule, make())))


@pytest.mark.parametrize("name", CASES)
def test_expression(name: str, found: dict[str, Any]) -> None:
    check(CASES[name], expected(name), found[name])
