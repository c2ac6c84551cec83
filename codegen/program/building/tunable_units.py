"""The units of a program whose schedules a tuner may search, or somebody may choose."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.program.building.fusion import FusionDecision, decide_fusion
from codegen.program.building.problem import BuildProblem
from codegen.tuning.spaces.unit import CodeUnit, RepeatedUnit


@dataclass(frozen=True)
class SharedUnit:
    """A unit, and the outputs of the kernels that share its code."""

    unit: CodeUnit
    outputs: tuple[str, ...]


def tunable_units(problem: BuildProblem) -> list[RepeatedUnit]:
    """Return what becomes one kernel each, every code once, as the program is compiled now.

    Those that a library runs today are among them: tuned code may be faster. What is computed
    before a run is not.
    """
    decision = decide_fusion(problem)
    return [RepeatedUnit(one.unit, len(one.outputs)) for one in shared_units(decision)]


def shared_units(decision: FusionDecision) -> list[SharedUnit]:
    """Return what becomes one kernel each, every code once; not what is computed before a run."""
    problem = decision.problem
    outputs: dict[str, list[str]] = {}
    for kernel, key in zip(decision.kernels, decision.keys, strict=True):
        if kernel.output not in problem.constants:
            outputs.setdefault(key, []).append(kernel.output)
    units: list[SharedUnit] = []
    for key, names in outputs.items():
        kernel = decision.kernels[decision.positions[key]]
        pair = decision.fused_program.fused.get(kernel.output)
        if pair is None:
            unit = problem.unit(kernel)
        else:
            unit = problem.fused_unit(pair)
        units.append(SharedUnit(unit, tuple(names)))
    return units
