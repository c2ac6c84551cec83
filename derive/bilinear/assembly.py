"""A contraction as a factorisation computes it.

That is by combinations of each operand, their products, and combinations of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from math import prod

from derive.bilinear.tiling import TiledContraction, TiledRead, summed_iterators
from derive.rewriting.body_queries import (
    bare_subscripts,
    index_ranges,
    indices_of,
    iterators_by_index,
)
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope, with_padding
from einalg.language.analysis.validate import check_scope
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant


@dataclass(frozen=True)
class _IndexNames:
    """The iterators of a factorisation's products, and the indices whose names are in use."""

    product: LoopIndex
    iterators: Mapping[Index, LoopIndex]
    used: frozenset[Index]


def assemble(scope: Scope, tiled: TiledContraction) -> Scope:
    """Return the scope with the same values, its products made by the factorisation.

    `L[x] Σ_p W[x,p] · {L[p,…] Σ {L[p,…] Σ_i U[p,i] left} · {L[p,…] Σ_j V[p,j] right}}[p,…]`, each
    inner scope with the indices that it uses.
    """
    outer = _with_kept(scope.iterators, tiled)
    inner = _with_kept(summed_iterators(scope), tiled)
    names = _names(scope, tiled, (*outer, *inner))
    U, V, W = (_constant(scope, matrix) for matrix in tiled.factorisation.matrices)
    left = _combination(tiled.left, U, names)
    right = _combination(tiled.right, V, names)
    body = left * right * tiled.other
    used = body.free_symbols
    traversal = [names.product, *(it for it in outer if it.index in used)]
    summed = Reduce("Sum", inner, None, body) if inner else body
    products = _checked(Scope(traversal, (), summed))
    point = tuple(tiled.problem.get(it.index, affine(it.index)) for it in traversal)
    weights = Access.of(W, (*tiled.outputs, affine(names.product.index)))
    result = weights * Access.of(products, point)
    return _checked(Scope(scope.iterators, (), Reduce("Sum", [names.product], None, result)))


def _names(scope: Scope, tiled: TiledContraction, known: Iterable[LoopIndex]) -> _IndexNames:
    iterators = chain(scope.iterators, summed_iterators(scope), *tiled.places.values())
    used = frozenset(indices_of(iterators))
    product = LoopIndex(fresh_index("p", used), 0, tiled.factorisation.rank)
    return _IndexNames(product, iterators_by_index(known), used)


def _with_kept(iterators: Iterable[LoopIndex], tiled: TiledContraction) -> tuple[LoopIndex, ...]:
    """Return iterators with those that are kept in the place of the ones that are cut."""
    replaced: dict[LoopIndex, None] = {}
    for it in iterators:
        replaced.update(dict.fromkeys(tiled.places.get(it.index, (it,))))
    return tuple(replaced)


def fits_type(scope: Scope, *matrices: Constant) -> bool:
    """Tell whether a scope can compute with constants in its own element type."""
    if is_float(scope.dtype):
        return True
    return all(value.is_Integer for matrix in matrices for value in matrix.values)


def _constant(scope: Scope, matrix: Constant) -> Constant:
    """Return a matrix in the element type of the scope, under a name that is free there."""
    dtype = scope.dtype
    if not fits_type(scope, matrix):
        raise RuleError(
            f"{matrix.name} has fractions, and the scope computes with {dtype}\n"
            "  take tensors of a floating-point type"
        )
    typed, tensors = matrix.as_dtype(dtype), scope.tensors
    while tensors.get(typed.name, typed) != typed:
        typed = Constant(f"{typed.name}_", typed.axes, dtype, typed.values)
    return typed


Axes = dict[Index, tuple[LoopIndex, Affine]]  # the iterators of a scope, and what its reader reads


def _combination(side: TiledRead, matrix: Constant, names: _IndexNames) -> Access:
    """Return the read of `L[p,…] Σ_i matrix[p,i]·read`.

    Its axes are those of what is read, bare, so that other sums of indices stay.
    """
    axes, subscripts = _combination_axes(side, names)
    iterators, forms = zip(*axes.values())
    ranges = index_ranges((*iterators, *side.inside))
    read = with_padding(Access.of(side.access.base, tuple(subscripts)), ranges)
    weighted = Access.of(matrix, bare_subscripts((names.product, *side.inside))) * read
    scope = _checked(Scope(iterators, (), Reduce("Sum", side.inside, None, weighted)))
    return Access.of(scope, forms)


def _combination_axes(side: TiledRead, names: _IndexNames) -> tuple[Axes, list[Affine]]:
    """Return the axes of a combination, and the subscripts of what it reads."""
    product = names.product
    axes: Axes = {product.index: (product, affine(product.index))}
    subscripts: list[Affine] = []
    staying = _staying_indices(side)
    order = list(names.iterators)
    for original in side.access.subscripts:
        subscript, axis = original.substitute(side.forms), None
        if original.indices.isdisjoint(side.forms):
            axis = _as_axis(subscript, staying, names, {*names.used, *axes})
        if axis is not None:
            axes[axis.index] = (axis, subscript)
            subscripts.append(affine(axis.index))
            continue
        for index in sorted(subscript.indices & names.iterators.keys(), key=order.index):
            axes[index] = (names.iterators[index], affine(index))
            staying.add(index)
        subscripts.append(subscript)
    return axes, subscripts


def _staying_indices(side: TiledRead) -> set[Index]:
    """Return the indices that are axes in any case: of cut subscripts, and of bare ones."""
    staying: set[Index] = set()
    for original in side.access.subscripts:
        subscript = original.substitute(side.forms)
        if subscript.as_index() is not None or not original.indices.isdisjoint(side.forms):
            staying |= subscript.indices
    return staying


def _as_axis(
    subscript: Affine, staying: set[Index], names: _IndexNames, used: set[Index]
) -> LoopIndex | None:
    """Return an index for a subscript of several, where it takes no more values than they do."""
    if subscript.as_index() is not None or not subscript.terms:
        return None
    low, high = subscript.interval(index_ranges(names.iterators.values()))
    replaced = subscript.indices - staying
    if not 0 < high + 1 - low <= prod(names.iterators[index].extent for index in replaced):
        return None
    return LoopIndex(fresh_index("t", used), low, high + 1)


def _checked(scope: Scope) -> Scope:
    simple = simplify_scope(scope)
    check_scope(simple)
    return simple
