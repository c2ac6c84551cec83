"""What runs each kernel: a library where that is faster, else generated code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codegen.libraries import library_kernels
from codegen.program.building.fusion import FusionDecision, compare_libraries, if_among
from codegen.program.building.generated_code import (
    EINALG,
    GeneratedCode,
    Implementation,
    KernelRecord,
    warn_of_damage,
)
from codegen.program.building.problem import KernelSource
from codegen.program.building.reviewed_records import store_reviewed, usable_record
from codegen.targets.c.object_store import loaded
from codegen.tuning.kernel_choice import OPEN, LibraryChoice, alternatives


@dataclass(frozen=True)
class KernelSelection:
    """The implementations of the kernels, by key, and whether another run would choose the same.

    It `has_open_choices` where some kernels were not compared with libraries.
    """

    implementations: Mapping[str, Implementation]
    is_conclusive: bool
    has_open_choices: bool = False


def select_kernels(decision: FusionDecision) -> KernelSelection:
    """Select what runs each kernel, and store it: libraries where these are faster.

    All that is generated is compiled together. Of an open choice nothing is stored.
    """
    implementations: dict[str, Implementation] = {}
    sources: dict[str, KernelSource] = {}
    choices: dict[str, LibraryChoice] = {}
    for key, position in decision.positions.items():
        record = usable_record(key)
        implementation = record and _cached_implementation(decision, record, position)
        if record and implementation:
            implementations[key] = implementation
            choices[key] = LibraryChoice(None, record.is_conclusive)
    unknown = [key for key in decision.positions if key not in implementations]
    for key in unknown:
        choice = decision.libraries.get(decision.kernels[decision.positions[key]].output)
        if choice is None:
            sources[key] = decision.source(decision.positions[key])
            choice = _library_choice(decision, key, sources[key])
        choices[key] = choice
        if choice.library is not None:
            implementations[key] = choice.library
            sources.pop(key, None)
    implementations.update(decision.compile(sources))
    for key in unknown:
        if not choices[key].is_open:
            row = _implementation_record(implementations[key])
            store_reviewed(key, KernelRecord(row, choices[key].is_conclusive))
    is_conclusive = all(choice.is_conclusive for choice in choices.values())
    has_open_choices = any(choice.is_open for choice in choices.values())
    return KernelSelection(implementations, is_conclusive, has_open_choices)


def _library_choice(decision: FusionDecision, key: str, source: KernelSource) -> LibraryChoice:
    """Return the library that is faster than a kernel's function, if one is.

    A fused kernel was compared when it was fused. Loops without the shape of an operator are
    compared in any case: a library may be many times faster.
    """
    kernel = decision.kernels[decision.positions[key]]
    if kernel.epilogue is not None:
        return decision.verdicts[key].choice
    problem = decision.problem
    is_left_open = not problem.compares and source.library == EINALG
    if is_left_open and alternatives(kernel, problem.scopes[kernel.output]):
        return OPEN
    return compare_libraries(problem, kernel, source.function)


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
