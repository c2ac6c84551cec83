"""Every operator of `einalg.ops`, compiled, has the value that another implementation gives."""

from __future__ import annotations

import pytest

from tests.helpers.kernels import agrees, flat, run_programs, spread_compiler
from tests.helpers.operators.harness import CASES, load_cases, parameter_sets

load_cases()
SETS = 2  # parameter sets of each case


@pytest.mark.parametrize("first", sorted({name[0] for name in CASES}))
def test_operators(first: str) -> None:
    """Operators are taken by their first letter: a compiler run for each one would take minutes."""
    chosen = [
        (label, flat(expression), arrays, expected)
        for name, cases in sorted(CASES.items())
        for case in cases.values()
        if name[0] == first
        for label, (expression, arrays, expected) in parameter_sets(name, case, SETS)
    ]
    programs = [program for _, program, _, _ in chosen]
    found = run_programs(programs, [arrays for _, _, arrays, _ in chosen], cc=spread_compiler)
    for (label, program, _, expected), values in zip(chosen, found):
        for name, value in (
            expected if isinstance(expected, dict) else {program.outputs[0]: expected}
        ).items():
            assert agrees(values[name], value, program[name].dtype), (
                f"{label}: {name} of\n{program}\nis\n{values[name]}\nexpected\n{value}"
            )
