"""Products that read one tensor, each with weights of its own, as one product with all the weights
(design §11).

The weights are put together once, ahead. What read the results reads parts of one tensor. Every
change is a move of a rule.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import combinations

from derive.programs.passes.normalise import fused
from derive.rewriting.moves import Move, apply
from derive.rules import ALL
from derive.rules.inter import expression_merging
from einalg.errors import EinalgError
from einalg.language.analysis.compile_time import compile_time_statements, is_weight
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions

Pair = tuple[str, str]


def joined(program: Program) -> Program:
    """Return a shaped program with such products joined along an axis that only their weights have.

    >>> import einalg as ea
    >>> V, W = (ea.tensor(name, (3, n), role="weight") for name, n in (("V", 4), ("W", 5)))
    >>> products = "P[i,j] += A[i,k]*V[k,j]\\nQ[i,j] += A[i,k]*W[k,j]"
    >>> print(joined(ea.parse(f"{products}\\nO[i] = P[i,0]*Q[i,4]", A=(2, 3), V=V, W=W)))
    V_W[i0:3, i1:9] = V.pad(0, (0, 5))[i0, i1] + W.pad(0, (4, 0))[i0, i1 - 4]
    P_Q[i:2, j:9] = Sum[k:3](A[i, k]*V_W[k, j])
    O[i:2] = P_Q[i, 0]*P_Q[i, 8]
    """
    changed = program
    tried: set[Pair] = set()
    while (pair := _next_pair(changed, tried)) is not None:
        tried.add(pair)
        changed = _joined(changed, *pair)
    if changed is program:
        return program
    return fused(changed, lambda _, scope: isinstance(scope.body, Access))[0]


def _next_pair(program: Program, tried: Container[Pair]) -> Pair | None:
    """Return the first pair of products that was not tried; None where there is none."""
    for pair in _pairs(program):
        if pair not in tried:
            return pair
    return None


def _pairs(program: Program) -> Iterator[Pair]:
    """Yield statements that sum products of one tensor that is no constant, and of constants."""
    ahead = compile_time_statements(program)
    readers: dict[str, list[str]] = {}
    for name, scope in program.statements:
        if name in ahead or name in program.outputs or not _is_product(scope):
            continue
        data = []
        for read, tensor in scope.tensors.items():
            if not is_weight(tensor) and read not in ahead:
                data.append(read)
        if len(data) == 1:
            readers.setdefault(data[0], []).append(name)
    for names in readers.values():
        yield from combinations(names, 2)


def _is_product(scope: Scope) -> bool:
    return any(node is scope.body and node.op == "Sum" for node in reductions(scope.body))


def _joined(program: Program, one: str, other: str) -> Program:
    """Return the program with two statements as one, along the first axis that allows it.

    It is as it was where none does.
    """
    for axis in range(program[one].rank):
        args = {"sibling": other, "axis": axis}
        try:
            return apply(program, Move(expression_merging.RULE.name, (one,), args), ALL)
        except EinalgError:
            continue
    return program
