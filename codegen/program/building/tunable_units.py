"""The units of a program whose schedules a tuner may search."""

from __future__ import annotations

from codegen.program.building.fusion import decide_fusion
from codegen.program.building.problem import BuildProblem
from codegen.tuning.spaces.unit import CodeUnit


def tunable_units(problem: BuildProblem) -> list[CodeUnit]:
    """Return what becomes one kernel each, every code once, as the program is compiled now.

    Those that a library runs today are among them: tuned code may be faster.
    """
    decision = decide_fusion(problem)
    units: list[CodeUnit] = []
    for position in decision.positions.values():
        kernel = decision.kernels[position]
        pair = decision.fused_program.fused.get(kernel.output)
        if pair is None:
            units.append(problem.unit(kernel))
        else:
            units.append(problem.fused_unit(pair))
    return units
