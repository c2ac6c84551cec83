"""A few statements of a large program as a program of their own, for rules to look at alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.proof import prove
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor


def excerpt(known: Mapping[str, Scope], names: Sequence[str]) -> Program:
    """Return the statements of some names, in order, as a program whose output is the last one.

    `known` are all statements. What else they read becomes an input, but for statements without a
    value at some points: these stay what they are.
    """
    rows: dict[str, Scope] = {}

    def add(name: str) -> None:
        for tensor in known[name].tensors:
            if tensor in known and tensor not in rows and known[tensor].where:
                add(tensor)
        rows[name] = known[name]

    for name in names:
        add(name)
    inputs: dict[str, Tensor] = {}
    for scope in rows.values():
        for label, tensor in scope.tensors.items():
            if label in known and label not in rows:
                inputs[label] = Tensor(label, tensor.axes, tensor.dtype)
    statements = []
    for name, scope in rows.items():
        read = {label: inputs[label] for label in scope.tensors if label in inputs}
        statements.append((name, substitute_tensors(scope, read)))
    return Program(statements, [names[-1]])


def is_proven(before: Program, after: Program) -> bool:
    """Tell whether a program is proven to equal another one, with outputs of the same types.

    A proof is of numbers, which know no types.
    """
    types = [[program[name].dtype for name in program.outputs] for program in (before, after)]
    return types[0] == types[1] and prove(before, after).verdict == "proved"


def returned(scope: Scope, known: Mapping[str, Scope]) -> Scope:
    """Return a statement of an excerpt, reading the statements of the whole program again."""
    read = [name for name in scope.tensors if name in known]
    return substitute_tensors(scope, {name: statement_tensor(name, known[name]) for name in read})
