"""The rewritings of a function with expensive values, in their order."""

from __future__ import annotations

from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function
from codegen.kernels.expensive_values.loop_invariants import with_values_before_loops
from codegen.kernels.expensive_values.stored_values import with_stored_values
from codegen.kernels.expensive_values.sum_quotients import with_sum_reciprocals
from codegen.kernels.expensive_values.whole_vectors import with_whole_vectors


def with_cheaper_values(function: Function, target: CpuModel | None = None) -> Function:
    """Return a function that computes expensive values once where that pays, in whole vectors.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> f = lower("O", ea.parse("O[i,j] = A[i,j] + 1", A=(64, 31)))
    >>> with_cheaper_values(f) is f
    True
    """
    function = with_whole_vectors(with_stored_values(function, target), target)
    return with_sum_reciprocals(with_values_before_loops(function))
