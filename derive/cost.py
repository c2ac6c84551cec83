"""What a candidate costs: a roofline estimate that ranks before anything is compiled (design §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import sympy

from einalg.access import Access, unpadded
from einalg.affine import IndexArithmetic
from einalg.dtypes import numpy_dtype
from einalg.kernel import EOP, Kernel
from einalg.scope import Reduce, Scope
from einalg.traverse import accesses


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
    """Operations for one point: a reduction does its body's, and one to combine, at every point of its own."""
    if isinstance(body, (Access, IndexArithmetic)) or not body.args:
        return 0
    if isinstance(body, Reduce):
        return prod(it.extent for it in body.iterators) * (_body_operations(body.body) + 1)
    return 1 + sum(_body_operations(a) for a in body.args)


def traffic(scope: Scope) -> int:
    """Bytes that must be moved at least: every element read once, every result written once."""
    total = prod(scope.shape) * numpy_dtype(scope.dtype).itemsize
    for tensor in {unpadded(a.base) for a in accesses(scope.body)}:
        total += prod(tensor.shape) * numpy_dtype(tensor.dtype).itemsize
    return total


def total(model: CostModel, kernels: Sequence[Kernel]) -> float:
    return sum(model.seconds(k) for k in kernels)
