"""Walking and rebuilding bodies. A traversal returns the same object where nothing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.tensor import Access, Padded


def accesses(body: Any) -> Iterator[Access]:
    """Every access of a body, also inside reductions, not inside inner scopes."""
    if isinstance(body, Access):
        yield body
    elif isinstance(body, Reduce):
        yield from accesses(body.body)
    elif not isinstance(body, IndexArithmetic):
        for argument in getattr(body, "args", ()):
            yield from accesses(argument)


def reductions(body: Any) -> Iterator[Reduce]:
    """Every reduction of a body, outer before inner."""
    if isinstance(body, Reduce):
        yield body
        yield from reductions(body.body)
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from reductions(argument)


def map_accesses(body: Any, change: Callable[[Access], Any]) -> Any:
    """Replace every access of a body, also inside reductions."""

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            return change(node)
        if isinstance(node, Reduce):
            inner = rebuild(node.body, leaf)
            return (
                node if inner is node.body else Reduce(node.op, node.iterators, node.where, inner)
            )
        return node

    return rebuild(body, leaf)


def rebased(access: Access, base: Any) -> Access:
    """The same access to another tensor or scope, under the same padding."""
    return Access.of(_repad(access.base, base), access.subscripts)


def _repad(view: Any, base: Any) -> Any:
    return (
        Padded(_repad(view.base, base), view.amounts, view.fill)
        if isinstance(view, Padded)
        else base
    )
