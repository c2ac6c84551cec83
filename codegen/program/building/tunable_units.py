"""The units of a program whose schedules a tuner may search, or somebody may choose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, prod

from codegen.hardware.cpu import machine
from codegen.ir.types import bytes_of
from codegen.program.building.fusion import FusionDecision, decide_fusion
from codegen.program.building.problem import BuildProblem
from codegen.tuning.spaces.unit import CodeUnit, RepeatedUnit
from einalg.language.ir.kernel import Kernel

OTHER_SHARE = 0.25  # of a cache, which other data may fill between two runs that stay warm


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
    warm = warm_outputs(decision, OTHER_SHARE * machine().level2)
    units: list[RepeatedUnit] = []
    for one in shared_units(decision):
        stays_warm = 2 * len(warm.intersection(one.outputs)) > len(one.outputs)
        units.append(RepeatedUnit(one.unit, len(one.outputs), stays_warm))
    return units


def shared_units(decision: FusionDecision) -> list[SharedUnit]:
    """Return what becomes one kernel each, every code once; not what is computed before a run."""
    problem = decision.problem
    outputs: dict[str, list[str]] = {}
    for kernel, key in _kernels_of_a_run(decision):
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


def warm_outputs(decision: FusionDecision, others: float) -> set[str]:
    """Return the outputs of kernels that mostly read again what their code has read just before.

    That is not longer ago than other kernels have moved so many bytes.
    """
    scopes = dict(decision.fused_program.program.statements)
    moved = 0.0  # bytes, so far
    ends: dict[str, dict[str, float]] = {}  # what was moved when code had last read a tensor
    warm: set[str] = set()
    for kernel, key in _kernels_of_a_run(decision):
        scope = scopes[kernel.output]
        own = ends.setdefault(key, {})
        sizes: Counter[str] = Counter({kernel.output: prod(scope.shape) * bytes_of(scope.dtype)})
        for name, tensor in scope.tensors.items():
            sizes[name] = prod(tensor.shape) * bytes_of(tensor.dtype)
        near = sum(size for name, size in sizes.items() if moved - own.get(name, -inf) <= others)
        if 2 * near > sizes.total():
            warm.add(kernel.output)
        moved += sizes.total()
        own.update(dict.fromkeys(sizes, moved))
    return warm


def _kernels_of_a_run(decision: FusionDecision) -> Iterator[tuple[Kernel, str]]:
    """Yield the kernels with their keys, but those that are computed before a run."""
    for kernel, key in zip(decision.kernels, decision.keys, strict=True):
        if kernel.output not in decision.problem.constants:
            yield kernel, key
