"""Expression fusion: a statement that reads another one computes it in place."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from derive.rewriting.body_queries import reads
from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import Path
from derive.rules.intra.traversal_merging import inline
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.ir.body import IDENTITY
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope, all_scopes, inner_scopes
from einalg.language.ir.tensor import Padded
from einalg.language.ir.traversal import map_accesses, rebased, reductions

RECOMPUTE = 4  # how often an element that costs a reduction may be computed, by default


def find(program: Program) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every statement with every earlier statement that it reads, where the recomputation is bounded."""
    for name, scope in program.statements:
        for producer in scope.tensors:
            if producer in program.names and _refusal(program, name, producer, RECOMPUTE) is None:
                yield (name,), {"producer": producer}


def fuse(program: Program, path: Path, producer: str, limit: int = RECOMPUTE) -> Program:
    """Compute `producer` inside the statement at `path`; it vanishes if nothing else needs it.

    `limit` bounds how often an element of the producer that costs a reduction is computed.
    """
    name = path[0]
    if (
        name not in program.names
        or producer not in program[name].tensors
        or producer not in program.names
    ):
        raise RuleError(f"statement {name} does not read a statement {producer}")
    refusal = _refusal(program, name, producer, limit)
    if refusal is not None:
        raise RuleError(refusal)
    nested = substitute_tensors(program[name], {producer: program[producer]})
    fused = program.replaced(name, _inlined_everywhere(nested, program[producer]))
    still = producer in fused.outputs or any(producer in s.tensors for _, s in fused.statements)
    return (
        fused
        if still
        else Program([(n, s) for n, s in fused.statements if n != producer], fused.outputs)
    )


def _inlined_everywhere(scope: Scope, target: Scope) -> Scope:
    memo: dict[int, Scope] = {}
    for node in all_scopes(scope):
        if node == target:
            continue

        def change(access: Any) -> Any:
            base = access.tensor
            return (
                rebased(access, memo[id(base)])
                if isinstance(base, Scope) and memo.get(id(base), base) is not base
                else access
            )

        current = Scope(node.iterators, node.where, map_accesses(node.body, change))
        if any(inner == target for inner in inner_scopes(current)):
            current = simplify_scope(
                Scope(current.iterators, current.where, inline(current, target))
            )
        memo[id(node)] = current
    return memo[id(scope)]


def _refusal(program: Program, name: str, producer: str, limit: int) -> str | None:
    """Why the fusion is not allowed, or None."""
    target = program[producer]
    tensor = statement_tensor(producer, target)
    count = 0
    for node in all_scopes(program[name]):
        for read in reads(node):
            if read.access.tensor == tensor:
                base = read.access.base
                if isinstance(base, Padded) and (
                    isinstance(base.base, Padded) or base.fill not in IDENTITY.values()
                ):
                    return f"{producer} is read through padding with {base.fill}, which no reduction gives for an empty domain"
                count += prod(it.extent for it in read.iterators)
    points = max(1, prod(target.shape))
    if any(True for _ in reductions(target.body)) and count > limit * points:
        return f"every element of {producer} would be computed {count / points:.1f} times, more than {limit}"
    return None


RULE = Rule(
    name="expression fusion",
    before="T' = g(T), T = f",
    after="T' = g∘f",
    requires="the recomputation of f is bounded",
    find=find,
    rewrite=fuse,
    level="program",
    example=Example("T[i] = Max(A[i], 0)\nO[i] = 2*T[i]", {"A": 8}),
)
