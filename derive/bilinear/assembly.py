"""A contraction as a factorisation computes it: combinations of each operand, their products, combinations of those."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from derive.bilinear.tiling import TiledContraction, TiledRead, summed_iterators
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

Ranges = dict[Index, tuple[int, int]]


def assemble(scope: Scope, cut: TiledContraction) -> Scope:
    """The scope with the same values, its products made by the factorisation.

    `L[x] Σ_p W[x,p] · {L[p,…] Σ {L[p,…] Σ_i U[p,i] left} · {L[p,…] Σ_j V[p,j] right}}[p,…]`, each inner scope with the indices that
    it uses.
    """
    taken = {
        it.index
        for it in (
            *scope.iterators,
            *summed_iterators(scope),
            *(it for part in cut.kept.values() for it in part),
        )
    }
    product = LoopIndex(fresh_index("p", taken), 0, cut.factorisation.rank)
    outer, inner = (
        _replaced(iterators, cut) for iterators in (scope.iterators, summed_iterators(scope))
    )
    known = {it.index: it for it in (*outer, *inner)}
    matrices = [_constant(scope, matrix) for matrix in cut.factorisation.matrices]
    left, right = (
        _combined(side, matrix, product, known, taken)
        for side, matrix in zip((cut.left, cut.right), matrices)
    )
    body = left * right * cut.other
    used = body.free_symbols
    traversal = (product, *(it for it in outer if it.index in used))
    products = _checked(Scope(traversal, (), Reduce("Sum", inner, None, body) if inner else body))
    point = [cut.problem.get(it.index, affine(it.index)) for it in traversal]
    result = Access.of(matrices[2], (*cut.outputs, affine(product.index))) * Access.of(
        products, tuple(point)
    )
    return _checked(Scope(scope.iterators, (), Reduce("Sum", [product], None, result)))


def _replaced(iterators: Iterable[LoopIndex], cut: TiledContraction) -> tuple[LoopIndex, ...]:
    found = [new for it in iterators for new in cut.kept.get(it.index, (it,))]
    return tuple(dict.fromkeys(found))


def fits_type(scope: Scope, *matrices: Constant) -> bool:
    """Whether a scope can compute with constants in its own element type."""
    return is_float(scope.dtype) or all(v.is_Integer for matrix in matrices for v in matrix.values)


def _constant(scope: Scope, matrix: Constant) -> Constant:
    """A matrix in the element type of the scope, under a name that no other tensor of the scope has."""
    dtype = scope.dtype
    if not fits_type(scope, matrix):
        raise RuleError(
            f"{matrix.name} has fractions, and the scope computes with {dtype}\n  take tensors of a floating-point type"
        )
    made, tensors = matrix.as_dtype(dtype), scope.tensors
    while tensors.get(made.name, made) != made:
        made = Constant(f"{made.name}_", made.axes, dtype, made.values)
    return made


def _combined(
    side: TiledRead,
    matrix: Constant,
    product: LoopIndex,
    known: dict[Index, LoopIndex],
    taken: set[Index],
) -> Access:
    """The read of `L[p,…] Σ_i matrix[p,i]·read`, whose axes are those of what is read, bare, so that other sums of indices stay."""
    axes: dict[Index, tuple[LoopIndex, Affine]] = {product.index: (product, affine(product.index))}
    cut = [not s.indices.isdisjoint(side.forms) for s in side.access.subscripts]
    replaced = [s.substitute(side.forms) for s in side.access.subscripts]
    staying = {
        i
        for s, touched in zip(replaced, cut)
        for i in s.indices
        if touched or s.as_index() is not None
    }
    subscripts: list[Affine] = []
    for subscript, touched in zip(replaced, cut):
        axis = None if touched else _as_axis(subscript, staying, known, {*taken, *axes})
        if axis is None:
            indices = sorted(subscript.indices & known.keys(), key=lambda i: list(known).index(i))
            axes.update((index, (known[index], affine(index))) for index in indices)
            staying |= set(indices)
            subscripts.append(subscript)
        else:
            axes[axis.index] = (axis, subscript)
            subscripts.append(affine(axis.index))
    iterators = [it for it, _ in axes.values()]
    ranges: Ranges = {it.index: (it.low, it.high) for it in (*iterators, *side.inside)}
    read = with_padding(Access.of(side.access.base, tuple(subscripts)), ranges)
    weight = Access.of(matrix, (affine(product.index), *(affine(it.index) for it in side.inside)))
    scope = _checked(Scope(iterators, (), Reduce("Sum", side.inside, None, weight * read)))
    return Access.of(scope, tuple(form for _, form in axes.values()))


def _as_axis(
    subscript: Affine, staying: set[Index], known: dict[Index, LoopIndex], taken: Iterable[Index]
) -> LoopIndex | None:
    """An index for a subscript of several, where it takes no more values than the indices that it stands for; else None."""
    if subscript.as_index() is not None or not subscript.terms:
        return None
    low, high = subscript.interval({index: (it.low, it.high) for index, it in known.items()})
    apart = prod(known[index].extent for index in subscript.indices - staying)
    return (
        LoopIndex(fresh_index("t", taken), low, high + 1) if 0 < high + 1 - low <= apart else None
    )


def _checked(scope: Scope) -> Scope:
    simple = simplify_scope(scope)
    check_scope(simple)
    return simple
