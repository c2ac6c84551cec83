"""Traversals of bodies: what they hold, and changes of their accesses.

A traversal returns the same object where nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from einalg.language.conversion import Conversion
from einalg.language.index.affine import Affine, IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.index.iterator import iterators_at_sizes, sizes_of
from einalg.language.index.remainder import as_number
from einalg.language.index.size import at_sizes, sizes_in
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.tensor import Access, Padded, paddings


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


def parts(body: Any) -> Iterator[Any]:
    """Yield all parts of a body, also inside reductions, reads as one, each as often as it stands
    there.
    """
    yield body
    if isinstance(body, Reduce):
        yield from parts(body.body)
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from parts(argument)


def conversions(body: Any) -> Iterator[Conversion]:
    """Yield every conversion of a body to another element type, also inside reductions."""
    if isinstance(body, Conversion):
        yield body
    if isinstance(body, Reduce):
        yield from conversions(body.body)
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from conversions(argument)


def map_accesses(body: Any, change: Callable[[Access], Any], *, in_order: bool = True) -> Any:
    """Replace every access of a body, also inside reductions; `in_order` as in `rebuild`."""

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            return change(node)
        if not isinstance(node, Reduce):
            return node
        inner = rebuild(node.body, leaf, in_order=in_order)
        if inner is node.body:
            return node
        return Reduce(node.op, node.iterators, node.where, inner)

    return rebuild(body, leaf, in_order=in_order)


def sizes_in_body(body: Any) -> set[Any]:
    """Return the symbolic sizes of a body and of the tensors that it reads, not of the scopes."""
    sizes: set[Any] = set()
    for access in accesses(body):
        for subscript in access.subscripts:
            sizes |= subscript.sizes
        for view in paddings(access.base):
            sizes |= sizes_in(amount for pair in view.amounts for amount in pair)
        if not access.tensor.is_scope:
            sizes.update(access.tensor.sizes.values())
    for reduction in reductions(body):
        sizes |= sizes_of(reduction.iterators)
        for condition in reduction.where:
            sizes |= condition.form.sizes
    return sizes | {symbol for symbol in body.free_symbols if getattr(symbol, "is_size", False)}


def body_at_sizes(body: Any, values: Mapping[Any, Affine], base_at: Callable[[Any], Any]) -> Any:
    """Return a body with numbers in the places of sizes; `base_at` does that to what is read."""

    def amounts_at(layer: Any) -> list[Any]:
        return [(at_sizes(low, values), at_sizes(high, values)) for low, high in layer]

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            subscripts = tuple([form.substitute(values) for form in node.subscripts])
            return Access.of(padded_like(node.base, base_at(node.tensor), amounts_at), subscripts)
        if isinstance(node, Reduce):
            where = [condition.substitute(values) for condition in node.where]
            inner = rebuild(node.body, leaf)
            return Reduce(node.op, iterators_at_sizes(node.iterators, values), where, inner)
        return as_number(affine(node).substitute(values))

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
