"""A scope without inner scopes: what it reads is computed where it is read. For matching only; the work is done many times over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy

from derive.rules.intra.traversal_merging import inline
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope, all_scopes, inner_scopes
from einalg.language.ir.tensor import Access, Padded
from einalg.language.ir.traversal import accesses

MOST = 64  # inner scopes


def inlined(scope: Scope) -> Scope:
    """The scope with every inner scope inlined whose reads all lie inside its domain.

    >>> from einalg import ops, tensor
    >>> inlined(ops.transpose(ops.exp(tensor("x", (2, 3)))))
    L[i:3, j:2](exp(x[j, i]))
    """
    for _ in range(MOST):
        target = next((inner for inner in inner_scopes(scope) if _is_plain(scope, inner)), None)
        if target is None:
            break
        scope = Scope(scope.iterators, scope.where, inline(scope, target))
    return simplify_scope(scope)


def _is_plain(scope: Scope, inner: Scope) -> bool:
    """Whether an inner scope is a whole box, and never read through padding."""
    return not inner.where and not any(
        isinstance(a.base, Padded) and a.tensor == inner
        for a in accesses(scope.body)
        if isinstance(a.tensor, Scope)
    )


def functions(scope: Scope) -> frozenset[str]:
    """The reductions and functions of a scope and of all below it, besides sums, products and whole powers: inlining changes nothing there.

    >>> from einalg import ops, tensor
    >>> sorted(functions(ops.rms_norm(tensor("x", (2, 3)))))
    ['Pow', 'Sum']
    """
    return frozenset(name for node in all_scopes(scope) for name in _functions(node.body))


def _functions(body: Any) -> Iterator[str]:
    if isinstance(body, (Access, IndexArithmetic)) or not body.args:
        return
    if isinstance(body, Reduce):
        yield body.op
        yield from _functions(body.body)
        return
    if not isinstance(body, (sympy.Add, sympy.Mul)) and not (
        isinstance(body, sympy.Pow) and body.exp.is_Integer
    ):
        yield type(body).__name__
    for argument in body.args:
        yield from _functions(argument)
