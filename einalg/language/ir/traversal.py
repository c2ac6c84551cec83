"""Traversals of bodies: what they hold, and changes of their accesses.

A traversal returns the same object where nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from einalg.language.conversion import Conversion
from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.tensor import Access, Padded


def accesses(body: Any) -> Iterator[Access]:
    """Yield every access of a body, also inside reductions, not inside inner scopes."""
    if isinstance(body, Access):
        yield body
    elif isinstance(body, Reduce):
        yield from accesses(body.body)
    elif not isinstance(body, IndexArithmetic):
        for argument in getattr(body, "args", ()):
            yield from accesses(argument)


def reductions(body: Any) -> Iterator[Reduce]:
    """Yield every reduction of a body, outer before inner."""
    if isinstance(body, Reduce):
        yield body
        yield from reductions(body.body)
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from reductions(argument)


def conversions(body: Any) -> Iterator[Conversion]:
    """Yield every conversion of a body to another element type, also inside reductions."""
    if isinstance(body, Conversion):
        yield body
    if isinstance(body, Reduce):
        yield from conversions(body.body)
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from conversions(argument)


def map_accesses(body: Any, change: Callable[[Access], Any]) -> Any:
    """Replace every access of a body, also inside reductions."""

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            return change(node)
        if not isinstance(node, Reduce):
            return node
        inner = rebuild(node.body, leaf)
        if inner is node.body:
            return node
        return Reduce(node.op, node.iterators, node.where, inner)

    return rebuild(body, leaf)


def rebased(access: Access, base: Any) -> Access:
    """Return the same access to another tensor or scope, under the same padding."""
    return Access.of(padded_like(access.base, base), access.subscripts)


def padded_like(view: Any, base: Any, amounts: Callable[[Any], Any] = tuple) -> Any:
    """Return `base` under all paddings of `view`, outer ones last.

    `amounts` gives those of a layer on the axes of `base`, where these are others than `view` has.

    >>> import einalg as ea
    >>> A, B = ea.tensor("A", (5,)), ea.tensor("B", (2, 5))
    >>> padded_like(A.pad(1, fill=2).pad(2, fill=5), B, lambda layer: [(0, 0), *layer])
    B.pad(0, 1, fill=2).pad(0, 2, fill=5)
    """
    if not isinstance(view, Padded):
        return base
    return Padded(padded_like(view.base, base, amounts), amounts(view.amounts), view.fill)
