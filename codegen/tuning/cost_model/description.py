"""What a cost model knows of a candidate: the analytic cycles, and numbers of point and unit."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from codegen.tuning.spaces.points import Features, logarithm
from codegen.tuning.spaces.space import CodeCandidate
from codegen.tuning.spaces.unit import CodeUnit
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Tensor


@dataclass(frozen=True)
class Description:
    """The analytic cycles of a candidate of a space, and its features."""

    space: str
    cycles: float
    features: Features


def described(candidate: CodeCandidate, of_unit: Features) -> Description:
    """Return the description of a candidate, whose unit has some features itself."""
    cycles = candidate.cycles
    features = {**of_unit, **candidate.space.features(candidate.point)}
    features["cycles"] = logarithm(cycles)
    features["rate"] = features.get("unit points", 0.0) - features["cycles"]
    return Description(candidate.space.name, cycles, features)


def unit_features(unit: CodeUnit, cache_bytes: int) -> Features:
    """Return the numbers of a unit that times depend on, as logarithms.

    Its bytes are in parts of the `cache_bytes` that lie near by, where it runs.
    """
    program, scope = unit.program, unit.scope
    reads = {name: _bytes(tensor) for name, tensor in program.tensors.items()}
    ahead = sum(reads[name] for name in reads if name in unit.constants)
    stored = prod(scope.shape) * numpy_dtype(scope.dtype).itemsize
    moved = sum(reads.values()) + stored
    points = unit.points
    return {
        "unit points": logarithm(points),
        "unit results": logarithm(prod(scope.shape)),
        "unit terms": logarithm(points / max(1, prod(scope.shape))),
        "unit innermost": logarithm(scope.shape[-1] if scope.shape else 1),
        "unit bytes": logarithm(moved / cache_bytes),
        "unit largest": logarithm(max(reads.values(), default=1) / cache_bytes),
        "unit ahead": ahead / max(1, moved),
        "unit intensity": logarithm(points / max(1, moved)),
        "unit reads": float(len(reads)),
        "unit statements": float(len(program.statements)),
        "unit element": logarithm(numpy_dtype(unit.dtype).itemsize),
    }


def _bytes(tensor: Tensor) -> int:
    return prod(map(int, tensor.shape)) * numpy_dtype(tensor.dtype).itemsize
