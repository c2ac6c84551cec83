"""Kinds of nodes, for printers, which are below the nodes: they ask flags and import no node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from einalg.language.index.affine import IndexArithmetic


def is_scope(node: Any) -> bool:
    """Return whether `node` is a scope: `L[i](…)`."""
    return getattr(node, "is_scope", False)


def is_reduction(node: Any) -> bool:
    """Return whether `node` is a reduction: `Sum[k](…)`."""
    return getattr(node, "is_reduction", False)


def is_access(node: Any) -> bool:
    """Return whether `node` is a read of a tensor or a scope: `A[i, j]`."""
    return getattr(node, "is_access", False)


def is_view(node: Any) -> bool:
    """Return whether `node` is a padded view: `A.pad(1)`."""
    return getattr(node, "is_view", False)


def accesses_in(body: Any) -> Iterator[Any]:
    """Yield every read of a body, also inside reductions, not inside inner scopes."""
    if is_access(body):
        yield body
    elif is_reduction(body):
        yield from accesses_in(body.body)
    elif not isinstance(body, IndexArithmetic):
        for argument in getattr(body, "args", ()):
            yield from accesses_in(argument)
