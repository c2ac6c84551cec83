"""Expression fusion: a statement that reads another one computes it in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from derive.rewriting.body_queries import ReadContext, has_reduction, reads
from derive.rewriting.element_types import of_type
from derive.rewriting.moves import Example, Rule, scopes_of
from derive.rewriting.paths import Path
from derive.rules.inter.lifting_nesting import check_reads, without_unread
from derive.rules.intra.traversal_merging import inline
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.ir.body import IDENTITY
from einalg.language.ir.program import Program, as_stored, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope, all_scopes, inner_scopes
from einalg.language.ir.tensor import Padded, Tensor
from einalg.language.ir.traversal import map_accesses, rebased

MAX_RECOMPUTATIONS = 4  # of an element that costs a reduction, by default


def find(program: Program) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Propose every statement that another one reads, where the recomputation is bounded."""
    for name, scope in program.statements:
        for producer in scope.tensors:
            if producer not in program.names:
                continue
            if _refusal(program, name, producer, MAX_RECOMPUTATIONS) is None:
                yield (name,), {"producer": producer}


def fuse(program: Program, path: Path, producer: str, limit: int = MAX_RECOMPUTATIONS) -> Program:
    """Compute `producer` inside the statement at `path`; it vanishes if nothing else needs it.

    `limit` bounds how often an element of the producer that costs a reduction is computed.
    """
    name = path[0]
    check_reads(program, name, producer)
    refusal = _refusal(program, name, producer, limit)
    if refusal is not None:
        raise RuleError(refusal)
    stored = as_stored(program[producer])
    nested = substitute_tensors(program[name], {producer: stored})
    fused = program.replaced(name, _inlined_everywhere(nested, stored, scopes_of(program)))
    return without_unread(fused, producer)


def _inlined_everywhere(scope: Scope, target: Scope, readable: Sequence[Scope]) -> Scope:
    """Return a scope with an inner one inlined, wherever it is read, each part in its type.

    The type of a part decides what may be the fill of its padding.
    """
    memo: dict[int, Scope] = {}

    def change(access: Any) -> Any:
        base = access.tensor
        if isinstance(base, Scope) and memo.get(id(base), base) is not base:
            return rebased(access, memo[id(base)])
        return access

    for node in all_scopes(scope):
        if node == target:
            continue
        current = Scope(node.iterators, node.where, map_accesses(node.body, change))
        if any(inner == target for inner in inner_scopes(current)):
            body = inline(current, target)
            current = simplify_scope(Scope(current.iterators, current.where, body))
            current = of_type(current, node.dtype, readable)
        memo[id(node)] = current
    return memo[id(scope)]


def _refusal(program: Program, name: str, producer: str, limit: int) -> str | None:
    """Return why the fusion is not allowed, or None."""
    target = program[producer]
    reads_of_producer = _reads_of_statement(program, name, statement_tensor(producer, target))
    count = 0
    for read in reads_of_producer:
        fill = _unsupported_fill(read.access.base)
        if fill is not None:
            return (
                f"{producer} is read through padding with {fill}, "
                "which no reduction gives for an empty domain"
            )
        count += prod(it.extent for it in read.iterators)
    points = max(1, prod(target.shape))
    if has_reduction(target.body) and count > limit * points:
        return (
            f"every element of {producer} would be computed {count / points:.1f} times, "
            f"more than {limit}"
        )
    return None


def _reads_of_statement(program: Program, name: str, tensor: Tensor) -> Iterator[ReadContext]:
    for node in all_scopes(program[name]):
        for read in reads(node):
            if read.access.tensor == tensor:
                yield read


def _unsupported_fill(view: Any) -> Any:
    """Return the fill of a padded read that cannot be inlined; None for all other reads."""
    if not isinstance(view, Padded):
        return None
    if isinstance(view.base, Padded) or view.fill not in IDENTITY.values():
        return view.fill
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
