"""The memory that running a program takes, and how much of it there is."""

from __future__ import annotations

import os
from math import prod

from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program

USUAL = 8 << 30  # bytes of a machine that does not say how many it has
REFERENCE = 3  # times its own bytes, that the results of a program take in double precision, with what computes them


def memory() -> int:
    """The bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return USUAL


def held(program: Program) -> int:
    """The bytes of what a program reads, and of the results of all its statements.

    >>> import einalg as ea
    >>> held(ea.Program([("T", ea.parse("T[i] = A[i] + 1", A=(8,))), ("O", ea.parse("O[i:4] = T[i]", T=ea.tensor("T", (8,), role="intermediate")))]))
    80
    """
    tensors = [*program.inputs.values(), *(scope for _, scope in program.statements)]
    return sum(prod(tensor.shape) * numpy_dtype(tensor.dtype).itemsize for tensor in tensors)


def fits(start: Program, candidate: Program) -> bool:
    """Whether half of the memory is enough to compare a candidate with the program that it comes from, which the reference computes."""
    return REFERENCE * held(start) + held(candidate) <= memory() / 2
