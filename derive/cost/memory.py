"""The memory that running a program takes, and how much of it there is."""

from __future__ import annotations

import os
from math import prod

from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program

DEFAULT_MEMORY_BYTES = 8 << 30  # of a machine that does not say how many it has
REFERENCE_FACTOR = 3  # times a program's bytes, for its results in double precision and the rest


def memory_bytes() -> int:
    """Return the bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return DEFAULT_MEMORY_BYTES


def program_bytes(program: Program) -> int:
    """Return the bytes of what a program reads, and of the results of all its statements.

    >>> import einalg as ea
    >>> first = ea.parse("T[i] = A[i] + 1", A=(8,))
    >>> second = ea.parse("O[i:4] = T[i]", T=ea.tensor("T", (8,), role="intermediate"))
    >>> program_bytes(ea.Program([("T", first), ("O", second)]))
    80
    """
    tensors = [*program.inputs.values(), *(scope for _, scope in program.statements)]
    return sum(prod(tensor.shape) * numpy_dtype(tensor.dtype).itemsize for tensor in tensors)


def temporary_bytes(program: Program) -> int:
    """Return the most bytes that the statements of a flat program hold at once between each other.

    A statement that is no output is held until the last one has read it. Kernels that several
    statements share need less.

    >>> import einalg as ea
    >>> lines = "T[i] = A[i] + 1", "U[i] = T[i]*2", "V[i] = U[i] - 1", "O[i:4] = V[2*i]"
    >>> temporary_bytes(ea.parse("\\n".join(lines), A=8))
    64
    """
    last_read: dict[str, int] = {}
    for position, (_, scope) in enumerate(program.statements):
        for name in scope.tensors:
            last_read[name] = position
    held: dict[str, int] = {}
    most = 0
    for position, (name, scope) in enumerate(program.statements):
        if name not in program.outputs:
            held[name] = prod(scope.shape) * numpy_dtype(scope.dtype).itemsize
        most = max(most, sum(held.values()))
        for other in list(held):
            if last_read.get(other, position) <= position:
                del held[other]
    return most


def comparison_fits_in_memory(start: Program, candidate: Program) -> bool:
    """Return whether half of the memory is enough to compare a candidate with the program that it
    comes from, which the reference computes.
    """
    needed = REFERENCE_FACTOR * program_bytes(start) + program_bytes(candidate)
    return needed <= memory_bytes() / 2
