"""Sums of a row in the loop IR as loops without a rest: each step adds two elements.

Compilers sum what is left of a row behind whole vectors slowly. So a loop over `n` elements becomes
one over pairs of elements a little more than `n/2` apart, as for extremes (`codegen.ir.extremes`);
an element that is in two pairs is added by the first of them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codegen.ir.extremes import VECTOR_BYTES, is_register, pair_distance
from codegen.ir.nodes import Apply, For, Number, Predicate, Statement, Store
from codegen.ir.substitute import substituted
from codegen.ir.types import bytes_of, computed
from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

MIN_ELEMENTS = 8  # of a row: fewer are added one by one
MAX_VECTORS = 16  # of a row, from which on the rest counts for little


def loop_over_pairs_of_terms(loop: For) -> For:
    """Return a loop that adds its elements to registers as one over pairs of these.

    It is the same loop where its steps fill whole vectors, or there are many of them.

    >>> from codegen.ir.nodes import Buf, Ref
    >>> from einalg.language.index.affine import Index
    >>> k, row = Index("k"), Buf("A", (49,), "f32")
    >>> put = Store(Ref(Buf("total", (), "f32", "reg"), ()), "+=", Ref(row, (affine(k),)))
    >>> pairs = loop_over_pairs_of_terms(For(k, affine(0), affine(49), (0, 49), (put,), "vec"))
    >>> first, rest = pairs.body[0].value.arguments
    >>> pairs.high, first.subscripts, rest.arguments[1].subscripts, rest.arguments[0].conditions
    (32, (k,), (k + 17,), (k >= 15,))
    """
    stores = _sums(loop.body)
    if not stores or loop.extent is None or not isinstance(loop.low, Affine) or loop.low.terms:
        return loop
    count, low = loop.extent, loop.range[0]
    width = VECTOR_BYTES // max(bytes_of(computed(store.ref.dtype)) for store in stores)
    if not MIN_ELEMENTS <= count < MAX_VECTORS * width or count % width == 0:
        return loop
    half = pair_distance(count, width)
    if 2 * half == count:
        return loop
    pairs = tuple(_pair(loop, store, low, count - half, half) for store in stores)
    return replace(loop, high=affine(low + half), range=(low, low + half), body=pairs)


def _sums(body: Sequence[Statement]) -> list[Store]:
    """Return the statements of a loop that does nothing but add to registers."""
    stores: list[Store] = []
    for statement in body:
        if not isinstance(statement, Store) or statement.op != "+=":
            return []
        if not is_register(statement.ref.buf):
            return []
        stores.append(statement)
    return stores


def _pair(loop: For, store: Store, low: int, apart: int, half: int) -> Store:
    """Return a sum of what a step adds, and the one so many steps behind it, if that is no step."""
    dtype, index = computed(store.ref.dtype), affine(loop.index)
    second = substituted(store.value, {loop.index: index + apart})
    is_new = Predicate((Constraint(index + (apart - low - half), ">="),))
    rest = Apply("select", (is_new, second, Number(0, dtype)), dtype)
    return replace(store, value=Apply("add", (store.value, rest), dtype))
