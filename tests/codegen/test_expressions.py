"""Every kind of expression, compiled, has the value that the reference evaluator gives."""

from __future__ import annotations

from typing import Any

import pytest

from codegen.lowering.schedule import DEFAULT
from codegen.targets.c.compiler import Compiler
from tests.helpers.expressions.values import ARRAYS, CASES, expected
from tests.helpers.kernels import check, quick_compiler, run_programs, spread_compiler
from tests.helpers.random_programs import TIGHT

SCHEDULES = {
    "default schedule": (DEFAULT, spread_compiler),
    "tight schedule": (TIGHT, lambda text: quick_compiler()),
}


@pytest.fixture(scope="module", params=SCHEDULES)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The values of every case, of those that have the same compiler compiled together."""
    schedule, choose = SCHEDULES[request.param]
    groups: dict[Compiler, list[str]] = {}
    for name, program in CASES.items():
        groups.setdefault(choose(str(program)), []).append(name)
    values: dict[str, Any] = {}
    for cc, names in groups.items():
        programs, arrays = [CASES[name] for name in names], [ARRAYS[name] for name in names]
        values.update(zip(names, run_programs(programs, arrays, schedule, cc)))
    return values


@pytest.mark.parametrize("name", CASES)
def test_expression(name: str, found: dict[str, Any]) -> None:
    check(CASES[name], expected(name), found[name])
