"""Statements that a run need not compute, because what they read is known before (design §12)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, Tensor


def is_weight(tensor: Tensor) -> bool:
    """Whether a tensor's values are known before run time."""
    return tensor.role == "weight"


def settled(program: Program, known: Callable[[Tensor], bool] = is_weight) -> frozenset[str]:
    """Names of the statements that others read and that depend on `known` tensors and constants
    alone, through others too.

    Results of the program are never among them, nor is what reads these: each run gives new arrays
    for them.

    >>> import einalg as ea
    >>> K = ea.tensor("K", (3,), role="weight")
    >>> text = "W[i] = 2*K[i]\\nV[i] = W[i] + 1\\nO[i] = V[i]*A[i]"
    >>> sorted(settled(ea.parse(text, A=(3,), K=K))), sorted(settled(ea.parse(text + "\\nV, O", A=(3,), K=K)))
    (['V', 'W'], ['W'])
    """
    return settled_among(program.statements, known, program.outputs)


def known_ahead(program: Program) -> frozenset[str]:
    """Names of what is known before a program runs: its weights, and what depends on these and
    constants alone.

    >>> import einalg as ea
    >>> sorted(known_ahead(ea.parse("W[i] = 2*K[i]\\nO[i] = W[i]*A[i]", A=(3,), K=ea.tensor("K", (3,), role="weight"))))
    ['K', 'W']
    """
    return settled(program) | {
        tensor.name for tensor in program.tensors.values() if is_weight(tensor)
    }


def settled_among(
    statements: Iterable[tuple[str, Scope]],
    known: Callable[[Tensor], bool] = is_weight,
    outputs: Collection[str] = (),
) -> frozenset[str]:
    """As `settled`, of statements that need not be a program."""
    pairs = list(statements)
    read = {
        name
        for _, scope in pairs
        for name, tensor in scope.tensors.items()
        if tensor.role == "intermediate"
    }
    found: set[str] = set()
    for name, scope in pairs:
        if (
            name in read
            and name not in outputs
            and all(_is_settled(t, found, known) for t in scope.tensors.values())
        ):
            found.add(name)
    return frozenset(found)


def _is_settled(tensor: Tensor, found: set[str], known: Callable[[Tensor], bool]) -> bool:
    return (
        tensor.name in found
        if tensor.role == "intermediate"
        else isinstance(tensor, Constant) or known(tensor)
    )
