"""Products that read one tensor, each with weights of its own, as one product with all the weights
(design §11).

The weights are put together once, ahead. What read the results reads parts of one tensor. Every
change is a move of a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from derive.programs.passes.normalise import fused
from derive.rewriting.moves import Move, apply
from derive.rules import OF_MODELS
from derive.rules.inter import expression_merging
from einalg.errors import EinalgError
from einalg.language.analysis.compile_time import compile_time_statements, is_weight
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions


def joined(program: Program, is_late: Callable[[], bool] = lambda: False) -> Program:
    """Return a shaped program with such products joined along an axis that only their weights have.

    No more are joined once it `is_late`.

    >>> import einalg as ea
    >>> V, W = (ea.tensor(name, (3, n), role="weight") for name, n in (("V", 4), ("W", 5)))
    >>> products = "P[i,j] += A[i,k]*V[k,j]\\nQ[i,j] += A[i,k]*W[k,j]"
    >>> print(joined(ea.parse(f"{products}\\nO[i] = P[i,0]*Q[i,4]", A=(2, 3), V=V, W=W)))
    V_W[i0:3, i1:9] = V.pad(0, (0, 5))[i0, i1] + W.pad(0, (4, 0))[i0, i1 - 4]
    P_Q[i:2, j:9] = Sum[k:3](A[i, k]*V_W[k, j])
    O[i:2] = P_Q[i, 0]*P_Q[i, 8]
    """
    changed = program
    ranks = [scope.rank for _, scope in program.statements]
    for axis in range(max(ranks)):
        for names in _groups(changed, axis):
            changed = _joined_group(changed, names, axis, is_late)
    if changed is program:
        return program
    return fused(changed, lambda _, scope: isinstance(scope.body, Access))[0]


def _groups(program: Program, axis: int) -> list[list[str]]:
    """Return the products of one tensor that can be joined along an axis, as lists of names."""
    groups: dict[tuple[str, Hashable], list[str]] = {}
    for name, data in _products(program):
        if axis >= program[name].rank:
            continue
        shared = expression_merging.stacking_key(program[name], axis)
        if shared is not None:
            groups.setdefault((data, shared), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _products(program: Program) -> Iterator[tuple[str, str]]:
    """Yield statements that sum products of one tensor that is no constant, and of constants, each
    with that tensor.
    """
    ahead = compile_time_statements(program)
    for name, scope in program.statements:
        if name in ahead or name in program.outputs or not _is_product(scope):
            continue
        data = []
        for read, tensor in scope.tensors.items():
            if not is_weight(tensor) and read not in ahead:
                data.append(read)
        if len(data) == 1:
            yield name, data[0]


def _joined_group(
    program: Program, names: list[str], axis: int, is_late: Callable[[], bool]
) -> Program:
    """Return the program with these statements joined: neighbours first, then the results of
    these, so that each weight is copied as often as the logarithm of their number says.
    """
    while len(names) > 1:
        results: list[str] = []
        for position in range(0, len(names), 2):
            pair = names[position : position + 2]
            if len(pair) == 2 and not is_late():
                program, pair = _joined(program, *pair, axis)
            results += pair
        if len(results) == len(names):
            break
        names = results
    return program


def _is_product(scope: Scope) -> bool:
    return any(node is scope.body and node.op == "Sum" for node in reductions(scope.body))


def _joined(program: Program, one: str, other: str, axis: int) -> tuple[Program, list[str]]:
    """Return the program with two statements as one, and the name of that.

    They are as they were where the rule refuses it.
    """
    move = Move(expression_merging.RULE.name, (one,), {"sibling": other, "axis": axis})
    try:
        changed = apply(program, move, OF_MODELS)
    except EinalgError:
        return program, [one, other]
    before = set(program.names)
    new_names = [name for name in changed.names if name not in before]
    return changed, new_names[-1:]  # the joined product comes after its joined weights
