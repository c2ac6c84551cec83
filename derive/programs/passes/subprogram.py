"""A few statements of a large program as a program of their own, so that a rule need not look at
all the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor


def excerpt(known: Mapping[str, Scope], names: Sequence[str]) -> Program:
    """The statements of some names, in order, as a program whose output is the last one; `known`
    are all statements.

    What else they read is given, but for statements without a value at some points: these stay what
    they are.
    """
    rows: dict[str, Scope] = {}

    def add(name: str) -> None:
        for tensor in known[name].tensors:
            if tensor in known and tensor not in rows and known[tensor].where:
                add(tensor)
        rows[name] = known[name]

    for name in names:
        add(name)
    read = {
        t: tensor
        for scope in rows.values()
        for t, tensor in scope.tensors.items()
        if t in known and t not in rows
    }
    given = {t: Tensor(t, tensor.axes, tensor.dtype) for t, tensor in read.items()}
    return Program(
        [(name, substitute_tensors(scope, _among(given, scope))) for name, scope in rows.items()],
        [names[-1]],
    )


def returned(scope: Scope, known: Mapping[str, Scope]) -> Scope:
    """A statement of an excerpt, reading the statements of the whole program again."""
    return substitute_tensors(
        scope,
        {name: statement_tensor(name, known[name]) for name in scope.tensors if name in known},
    )


def _among(tensors: Mapping[str, Tensor], scope: Scope) -> dict[str, Tensor]:
    return {name: tensors[name] for name in scope.tensors if name in tensors}
