"""Compile-time constants: statements that a run need not compute, because what they read is known
before (design §12).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, Tensor


def is_weight(tensor: Tensor) -> bool:
    """Return whether a tensor's values are known before run time."""
    return tensor.role == "weight"


def compile_time_statements(
    program: Program, known: Callable[[Tensor], bool] = is_weight
) -> frozenset[str]:
    """Return the names of the statements that others read and that depend on `known` tensors and
    constants alone, through others too.

    Results of the program are never among them, nor is what reads these: each run gives new arrays
    for them.

    >>> import einalg as ea
    >>> K = ea.tensor("K", (3,), role="weight")
    >>> text = "W[i] = 2*K[i]\\nV[i] = W[i] + 1\\nO[i] = V[i]*A[i]"
    >>> sorted(compile_time_statements(ea.parse(text, A=(3,), K=K)))
    ['V', 'W']
    >>> sorted(compile_time_statements(ea.parse(text + "\\nV, O", A=(3,), K=K)))
    ['W']
    """
    return compile_time_statements_among(program.statements, known, program.outputs)


def compile_time_constants(program: Program) -> frozenset[str]:
    """Return the names of what is known before a program runs: its weights, and what depends on
    these and constants alone.

    >>> import einalg as ea
    >>> K = ea.tensor("K", (3,), role="weight")
    >>> sorted(compile_time_constants(ea.parse("W[i] = 2*K[i]\\nO[i] = W[i]*A[i]", A=(3,), K=K)))
    ['K', 'W']
    """
    weights = {tensor.name for tensor in program.tensors.values() if is_weight(tensor)}
    return compile_time_statements(program) | weights


def compile_time_statements_among(
    statements: Iterable[tuple[str, Scope]],
    known: Callable[[Tensor], bool] = is_weight,
    outputs: Collection[str] = (),
) -> frozenset[str]:
    """Return the same for statements that need not be a program."""
    pairs = list(statements)
    read: set[str] = set()
    for _, scope in pairs:
        for tensor in scope.tensors.values():
            if tensor.role == "intermediate":
                read.add(tensor.name)
    constant: set[str] = set()

    def is_constant(tensor: Tensor) -> bool:
        if tensor.role == "intermediate":
            return tensor.name in constant
        return isinstance(tensor, Constant) or known(tensor)

    for name, scope in pairs:
        if name not in read or name in outputs:
            continue
        if all(map(is_constant, scope.tensors.values())):
            constant.add(name)
    return frozenset(constant)
