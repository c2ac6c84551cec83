"""What runs each kernel: a library where that is faster, else generated code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codegen.ir.nodes import Function
from codegen.libraries import library_kernels
from codegen.program.building.fusion import FusionDecision, compare_libraries, if_among
from codegen.program.building.generated_code import (
    GeneratedCode,
    Implementation,
    KernelRecord,
    warn_of_damage,
)
from codegen.program.building.problem import KernelSource
from codegen.program.building.reviewed_records import store_reviewed, usable_record
from codegen.targets.c.object_store import loaded


@dataclass(frozen=True)
class KernelSelection:
    """The implementations of the kernels, by key, and whether another run would choose the same."""

    implementations: Mapping[str, Implementation]
    is_conclusive: bool


def select_kernels(decision: FusionDecision) -> KernelSelection:
    """Select what runs each kernel, and store it: libraries where these are faster.

    All that is generated is compiled together.
    """
    implementations: dict[str, Implementation] = {}
    sources: dict[str, KernelSource] = {}
    is_conclusive: dict[str, bool] = {}
    for key, position in decision.positions.items():
        record = usable_record(key)
        implementation = record and _cached_implementation(decision, record, position)
        if record and implementation:
            implementations[key], is_conclusive[key] = implementation, record.is_conclusive
    unknown = [key for key in decision.positions if key not in implementations]
    for key in unknown:
        verdict = decision.libraries.get(decision.kernels[decision.positions[key]].output)
        if verdict is not None and verdict.library is not None:
            implementations[key], is_conclusive[key] = verdict.library, verdict.is_conclusive
        else:
            sources[key] = decision.source(decision.positions[key])
    for key in list(sources):
        library, is_conclusive[key] = _faster_library(decision, key, sources[key].function)
        if library is not None:
            implementations[key] = library
            del sources[key]
    implementations.update(decision.compile(sources))
    for key in unknown:
        row = _implementation_record(implementations[key])
        store_reviewed(key, KernelRecord(row, is_conclusive[key]))
    return KernelSelection(implementations, all(is_conclusive.values()))


def _faster_library(
    decision: FusionDecision, key: str, function: Function
) -> tuple[str | None, bool]:
    """Return the library that is faster than a kernel's function, and whether that is conclusive.

    A fused kernel was compared when it was fused.
    """
    kernel = decision.kernels[decision.positions[key]]
    if kernel.epilogue is not None:
        return None, decision.verdicts[key].is_conclusive
    return compare_libraries(decision.problem, kernel, function)


def _cached_implementation(
    decision: FusionDecision, record: KernelRecord, position: int
) -> Implementation | None:
    """Return what a record names; None where that is not there, or what it needs."""
    row = record.row
    if not row:
        return None
    if "library" in row:
        name = str(row["library"])
        scope = decision.signatures[position].scope
        return if_among(name, library_kernels(decision.kernels[position], scope))
    try:
        code = GeneratedCode.from_record(row)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        warn_of_damage(error)
        return None
    problem = decision.problem
    if not loaded(problem.compiler, code.place, problem.timeout):
        return None
    return code


def _implementation_record(implementation: Implementation) -> Mapping[str, Any]:
    if isinstance(implementation, GeneratedCode):
        return implementation.record()
    return {"library": implementation}
