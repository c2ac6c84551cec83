"""Every kind of expression, compiled, has the value that the reference evaluator gives."""

from __future__ import annotations

from typing import Any

import pytest

from codegen.lowering.schedule import DEFAULT, Schedule
from tests.helpers.expressions.values import ARRAYS, CASES, expected
from tests.helpers.kernels import check, run_programs
from tests.helpers.random_programs import TIGHT


@pytest.fixture(scope="module", params=[DEFAULT, TIGHT], ids=["default schedule", "tight schedule"])
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    schedule: Schedule = request.param
    return dict(
        zip(CASES, run_programs(list(CASES.values()), [ARRAYS[name] for name in CASES], schedule))
    )


@pytest.mark.parametrize("name", CASES)
def test_expression(name: str, found: dict[str, Any]) -> None:
    check(CASES[name], expected(name), found[name])
