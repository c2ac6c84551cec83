"""A scope without inner scopes: what it reads is computed where it is read. For matching only; the
same work is done many times over.
"""

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

MAX_INNER_SCOPES = 64


def inlined(scope: Scope) -> Scope:
    """Return the scope with every inner scope inlined whose reads all lie inside its domain.

    >>> from einalg import ops, tensor
    >>> inlined(ops.transpose(ops.exp(tensor("x", (2, 3)))))
    L[i:3, j:2](exp(x[j, i]))
    """
    for _ in range(MAX_INNER_SCOPES):
        target = next((s for s in inner_scopes(scope) if _is_inlinable(scope, s)), None)
        if target is None:
            break
        scope = Scope(scope.iterators, scope.where, inline(scope, target))
    return simplify_scope(scope)


def _is_inlinable(scope: Scope, inner: Scope) -> bool:
    """Return whether an inner scope is a whole box, and never read through padding."""
    if inner.where:
        return False
    for access in accesses(scope.body):
        is_padded_scope = isinstance(access.base, Padded) and isinstance(access.tensor, Scope)
        if is_padded_scope and access.tensor == inner:
            return False
    return True


def functions(scope: Scope) -> frozenset[str]:
    """Return the reductions and functions of a scope and of all below it, besides sums, products
    and whole powers: inlining changes nothing there.

    >>> from einalg import ops, tensor
    >>> sorted(functions(ops.rms_norm(tensor("x", (2, 3)))))
    ['Pow', 'Sum']
    """
    names: set[str] = set()
    for node in all_scopes(scope):
        names.update(_functions(node.body))
    return frozenset(names)


def _functions(body: Any) -> Iterator[str]:
    if isinstance(body, (Access, IndexArithmetic)) or not body.args:
        return
    if isinstance(body, Reduce):
        yield body.op
        yield from _functions(body.body)
        return
    if not _is_polynomial_operation(body):
        yield type(body).__name__
    for argument in body.args:
        yield from _functions(argument)


def _is_polynomial_operation(body: Any) -> bool:
    """Return whether a node is a sum, a product or a whole power of its operands."""
    if isinstance(body, (sympy.Add, sympy.Mul)):
        return True
    return isinstance(body, sympy.Pow) and body.exp.is_Integer
