"""The units of a program whose schedules a tuner may search."""

from __future__ import annotations

from collections import Counter

from codegen.program.building.fusion import decide_fusion
from codegen.program.building.problem import BuildProblem
from codegen.tuning.spaces.unit import RepeatedUnit


def tunable_units(problem: BuildProblem) -> list[RepeatedUnit]:
    """Return what becomes one kernel each, every code once, as the program is compiled now.

    Those that a library runs today are among them: tuned code may be faster. What is computed
    before a run is not.
    """
    decision = decide_fusion(problem)
    counts = Counter[str]()
    for kernel, key in zip(decision.kernels, decision.keys, strict=True):
        if kernel.output not in problem.constants:
            counts[key] += 1
    units: list[RepeatedUnit] = []
    for key, count in counts.items():
        kernel = decision.kernels[decision.positions[key]]
        pair = decision.fused_program.fused.get(kernel.output)
        if pair is None:
            unit = problem.unit(kernel)
        else:
            unit = problem.fused_unit(pair)
        units.append(RepeatedUnit(unit, count))
    return units
