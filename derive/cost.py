"""What a candidate costs: a roofline estimate that ranks before anything is compiled (design §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import sympy

from einalg.access import unpadded
from einalg.dtypes import numpy_dtype
from einalg.kernel import EOP, Kernel
from einalg.scope import Scope
from einalg.traverse import accesses, reductions


class CostModel(Protocol):
    """Seconds that a kernel takes."""

    def seconds(self, kernel: Kernel) -> float: ...


@dataclass(frozen=True)
class Roofline:
    """Arithmetic and memory rates of a machine, in operations and bytes per second; `call` is the overhead of one kernel in seconds."""

    library: float = 1.0e11
    generated: float = 4.0e9
    bandwidth: float = 1.0e10
    call: float = 2.0e-6

    def seconds(self, kernel: Kernel) -> float:
        assert kernel.scope is not None
        rate = self.generated if kernel.op == EOP else self.library
        return self.call + max(operations(kernel.scope) / rate, traffic(kernel.scope) / self.bandwidth)


def operations(scope: Scope) -> int:
    """Scalar operations to evaluate a flat scope at every point."""
    points = prod(scope.shape)
    return points * max(1, _body_operations(scope.body))


def _body_operations(body: sympy.Basic) -> int:
    inside = {id(node): prod(it.extent for it in node.iterators) * max(1, _body_operations(node.body) + 1) for node in reductions(body) if node is body}
    if inside:
        return next(iter(inside.values()))
    return sum(_body_operations(a) for a in body.args) + (1 if body.args and not _is_leaf(body) else 0) if not _is_leaf(body) else 0


def _is_leaf(body: sympy.Basic) -> bool:
    return hasattr(body, "subscripts") or not body.args


def traffic(scope: Scope) -> int:
    """Bytes that must be moved at least: every element read once, every result written once."""
    total = prod(scope.shape) * numpy_dtype(scope.dtype).itemsize
    for tensor in {unpadded(a.base) for a in accesses(scope.body)}:
        total += prod(tensor.shape) * numpy_dtype(tensor.dtype).itemsize
    return total


def total(model: CostModel, kernels: Sequence[Kernel]) -> float:
    return sum(model.seconds(k) for k in kernels)
