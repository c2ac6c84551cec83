"""The units of a program: how often a run computes each, and whether they find their data."""

from __future__ import annotations

import pytest

import einalg as ea
from codegen.lowering.schedule import DEFAULT
from codegen.program.building import tunable_units as module
from codegen.program.building.fusion import decide_fusion
from codegen.program.building.problem import BuildProblem
from codegen.program.building.tunable_units import tunable_units, warm_outputs
from derive.matching import kernels_of
from einalg.language.ir.program import Program, as_program
from tests.helpers.kernels import quick_compiler

STEPS, SIZE = 4, 32
WEIGHT_BYTES = 4 * SIZE * SIZE


def recurrent(weights: int) -> Program:
    """Return steps that multiply the state by one of some weights, which they take in turns."""
    text = "\n".join(
        f"T{step + 1}[i] += W{step % weights}[i,k]*T{step}[k]" for step in range(STEPS)
    )
    shapes = {f"W{number}": (SIZE, SIZE) for number in range(weights)}
    return as_program(ea.parse(text, T0=(SIZE,), **shapes))


def problem(program: Program) -> BuildProblem:
    kernels = kernels_of(program)
    return BuildProblem.of(program, kernels, quick_compiler(), DEFAULT, 60.0, compares=False)


def test_what_is_read_again_at_once_stays_warm() -> None:
    decision = decide_fusion(problem(recurrent(1)))
    assert warm_outputs(decision, 0) == {"T2", "T3", "T4"}  # the first one reads it first


def test_what_others_displace_is_cold() -> None:
    """Between two reads of one weight there is one of the other."""
    decision = decide_fusion(problem(recurrent(2)))
    assert warm_outputs(decision, WEIGHT_BYTES) == set()
    assert warm_outputs(decision, 2 * WEIGHT_BYTES) == {"T3", "T4"}


@pytest.mark.parametrize(("weights", "stays_warm"), [(1, True), (2, False)])
def test_units_are_measured_as_most_of_their_runs_find_them(
    weights: int, stays_warm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OTHER_SHARE", 0)
    (one,) = tunable_units(problem(recurrent(weights)))
    assert (one.count, one.stays_warm) == (STEPS, stays_warm)
