"""Statements that a run need not compute, because what they read is known before (design §12)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from einalg.access import Constant, Tensor
from einalg.scope import Scope


def is_weight(tensor: Tensor) -> bool:
    """Whether a tensor's values are known before run time."""
    return tensor.role == "weight"


def settled(statements: Iterable[tuple[str, Scope]], known: Callable[[Tensor], bool] = is_weight, outputs: Collection[str] = ()) -> frozenset[str]:
    """Names of the statements that others read and that depend on `known` tensors and constants alone, through others too.

    The `outputs` of a program are never among them, nor is what reads these: each run gives new arrays for them.

    >>> import einalg as ea
    >>> K = ea.tensor("K", (3,), role="weight")
    >>> p = ea.parse("W[i] = 2*K[i]\\nV[i] = W[i] + 1\\nO[i] = V[i]*A[i]", A=(3,), K=K)
    >>> sorted(settled(p.statements)), sorted(settled(p.statements, outputs=["V", "O"]))
    (['V', 'W'], ['W'])
    """
    pairs = list(statements)
    read = {name for _, scope in pairs for name, tensor in scope.tensors.items() if tensor.role == "intermediate"}
    found: set[str] = set()
    for name, scope in pairs:
        if name in read and name not in outputs and all(_is_settled(t, found, known) for t in scope.tensors.values()):
            found.add(name)
    return frozenset(found)


def _is_settled(tensor: Tensor, found: set[str], known: Callable[[Tensor], bool]) -> bool:
    return tensor.name in found if tensor.role == "intermediate" else isinstance(tensor, Constant) or known(tensor)
