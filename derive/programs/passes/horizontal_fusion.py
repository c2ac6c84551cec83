"""Products that read one tensor, each with weights of its own, as one product with all the weights
(design §11).

The weights are put together once, ahead. What read the results reads parts of one tensor. Every
change is a move of a rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from derive.programs.passes.normalise import fused
from derive.rewriting.moves import Move, apply
from derive.rules import ALL
from derive.rules.inter import expression_merging
from einalg.errors import EinalgError
from einalg.language.analysis.compile_time import is_weight, settled
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions

Pair = tuple[str, str]


def joined(program: Program) -> Program:
    """A shaped program in which such products are joined along an axis that their weights alone
    have.

    >>> import einalg as ea
    >>> V, W = (ea.tensor(name, (3, n), role="weight") for name, n in (("V", 4), ("W", 5)))
    >>> print(joined(ea.parse("P[i,j] += A[i,k]*V[k,j]\\nQ[i,j] += A[i,k]*W[k,j]\\nO[i] = P[i,0]*Q[i,4]", A=(2, 3), V=V, W=W)))
    V_W[i0:3, i1:9] = V.pad(0, (0, 5))[i0, i1] + W.pad(0, (4, 0))[i0, i1 - 4]
    P_Q[i:2, j:9] = Sum[k:3](A[i, k]*V_W[k, j])
    O[i:2] = P_Q[i, 0]*P_Q[i, 8]
    """
    found = program
    refused = set[Pair]()
    while (pair := next((pair for pair in _pairs(found) if pair not in refused), None)) is not None:
        refused.add(pair)
        found = _joined(found, *pair)
    return (
        found
        if found is program
        else fused(found, lambda _, scope: isinstance(scope.body, Access))[0]
    )


def _pairs(program: Program) -> Iterator[Pair]:
    """Statements that sum over the same indices of one tensor that is not known ahead, and else
    read what is.
    """
    ahead = settled(program)
    readers: dict[str, list[str]] = {}
    for name, scope in program.statements:
        given = [
            n for n, tensor in scope.tensors.items() if not is_weight(tensor) and n not in ahead
        ]
        if (
            name not in ahead
            and name not in program.outputs
            and len(given) == 1
            and _is_product(scope)
        ):
            readers.setdefault(given[0], []).append(name)
    for names in readers.values():
        yield from combinations(names, 2)


def _is_product(scope: Scope) -> bool:
    return any(node is scope.body and node.op == "Sum" for node in reductions(scope.body))


def _joined(program: Program, one: str, other: str) -> Program:
    """The program with two statements as one, along the first axis that allows it; as it was where
    none does.
    """
    for axis in range(program[one].rank):
        try:
            return apply(
                program,
                Move(expression_merging.RULE.name, (one,), {"sibling": other, "axis": axis}),
                ALL,
            )
        except EinalgError:
            continue
    return program
