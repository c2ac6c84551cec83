"""The part of a contraction that a factorisation replaces.

Indices are cut into a part inside of the small problem and a part outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, permutations
from typing import Any, NamedTuple

import sympy

from derive.bilinear.factorisation import Factorisation, exact
from derive.bilinear.strassen import matmul_tensor
from derive.bilinear.toom_cook import correlation_tensor
from derive.rewriting.body_queries import bare_subscripts, indices_of, iterator_named
from einalg.errors import RuleError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Padded

Forms = Mapping[Index, Affine]
REMEDY = "move the sum into a scope of its own: summation splitting"


class FactorPair(NamedTuple):
    """Two reads of a product, and the product of all other factors."""

    left: Access
    right: Access
    other: Any

    def is_free_of(self, *indices: Index) -> bool:
        """Tell whether the other factors have none of these indices."""
        return self.other.free_symbols.isdisjoint(indices)


@dataclass(frozen=True)
class TiledRead:
    """One read: its cut indices as `forms` in `inside` indices, and in indices that are kept.

    The constant sums over the inside indices: `{h: 2*h1 + i}` has i inside, and h1 is kept.
    """

    access: Access
    forms: Forms
    inside: tuple[LoopIndex, ...]


@dataclass(frozen=True)
class TiledContraction:
    """A contraction as small bilinear problems that `factorisation` solves.

    There is one for every point of the indices outside. `places` has the indices in the place of
    every cut one; `outputs` tell which result of its small problem an output point is, and
    `problem` to which small problem it belongs: the values of those places.
    """

    factorisation: Factorisation
    left: TiledRead
    right: TiledRead
    places: Mapping[Index, tuple[LoopIndex, ...]]
    outputs: tuple[Affine, ...]
    problem: Forms
    other: Any = sympy.S.One  # factors that have no cut index


def contraction_factors(scope: Scope) -> tuple[list[Access], Any]:
    """Return the reads that a scope sums the products of, and the product of all other factors.

    Raises `RuleError` for a scope that is no contraction.
    """
    body = scope.body
    if scope.where or not isinstance(body, Reduce) or body.op != "Sum" or body.where:
        raise RuleError(f"the scope is no unconditional sum\n  {REMEDY}")
    reads: list[Access] = []
    others: list[Any] = []
    for factor in sympy.Mul.make_args(body.body):
        if isinstance(factor, Access):
            reads.append(factor)
        else:
            others.append(factor)
    if len(reads) < 2:
        raise RuleError(f"the body {body.body} is no product of two reads\n  {REMEDY}")
    for read in reads:
        _check_combinable(read)
    return reads, sympy.Mul(*others)


def _check_combinable(read: Access) -> None:
    """Raise `RuleError` unless all elements are numbers: linear combinations take more of them."""
    base = read.base
    if isinstance(base, Scope) and base.where:
        pad = f"(...).pad({', '.join('0' * base.rank)})"
        raise RuleError(
            f"{read} has no value outside {' and '.join(map(str, base.where))}\n  pad it: {pad}"
        )
    while isinstance(base, Padded):
        if base.fill.is_infinite:
            raise RuleError(f"{read} may be infinite, so linear combinations of it have no value")
        base = base.base


def factor_pairs(scope: Scope) -> list[FactorPair]:
    """Return every two of the reads of a contraction, in both orders."""
    reads, rest = contraction_factors(scope)
    pairs = []
    for left, right in permutations(range(len(reads)), 2):
        others = [read for number, read in enumerate(reads) if number not in (left, right)]
        pairs.append(FactorPair(reads[left], reads[right], sympy.Mul(*others, rest)))
    return pairs


def summed_iterators(scope: Scope) -> tuple[LoopIndex, ...]:
    """Return the iterators of the sum that is the body of a scope."""
    body = scope.body
    return body.iterators if isinstance(body, Reduce) else ()


def iterators_by_name(scope: Scope) -> dict[str, LoopIndex]:
    """Return every index of a contraction by name."""
    return {it.index.name: it for it in (*scope.iterators, *summed_iterators(scope))}


# --- correlations


def correlation_sides(
    pairs: Sequence[FactorPair], output: Index, tap: Index
) -> Iterator[tuple[FactorPair, int]]:
    """Yield pairs of a signal and taps, with the sign of `tap` beside `output` in the signal."""
    for pair in pairs:
        if not pair.is_free_of(output, tap) or not _is_correlation(pair, output, tap):
            continue
        for sign in (1, -1):
            difference = {output: affine(output) - affine(tap) * sign}
            if not any(tap in s.substitute(difference).indices for s in pair.left.subscripts):
                yield pair, sign


def _is_correlation(pair: FactorPair, output: Index, tap: Index) -> bool:
    signal, taps = pair.left.free_symbols, pair.right.free_symbols
    return signal >= {output, tap} and tap in taps and output not in taps


def tile_correlation(
    scope: Scope, output: str, tap: str, factorisation: Factorisation
) -> TiledContraction:
    """Cut `output` into tiles, each with all taps: correlations of the size of a factorisation.

    The last tile may be partly unread.
    """
    pairs = factor_pairs(scope)
    x = _iterator(scope.iterators, output, "the traversal")
    r = _iterator(summed_iterators(scope), tap, "the sum")
    sides = next(correlation_sides(pairs, x.index, r.index), None)
    if sides is None:
        raise RuleError(
            f"no read is one of {output} + {tap} or {output} - {tap} "
            f"beside another of {tap} alone, and other factors of neither\n"
            "  strides and dilations are removed by variable substitution: "
            f"{output} by its residues, {tap} likewise"
        )
    pair, sign = sides
    tile = factorisation.W.shape[0]
    if tile < 1 or not factorisation.computes(correlation_tensor(tile, r.extent)):
        raise RuleError(
            f"{factorisation.name} does not compute {tile} outputs of a correlation "
            f"with the {r.extent} taps {r}"
        )
    number, i, j = _fresh_indices(scope, f"{output}1", "i", "j")
    if sign > 0:
        origin, tap_form = x.low + r.low, affine(j) + r.low
    else:
        origin, tap_form = x.low + 1 - r.high, r.high - 1 - affine(j)
    signal_forms = {x.index: affine(number) * tile + i + origin, r.index: affine(0)}
    place = affine(x.index) - x.low
    return TiledContraction(
        factorisation,
        TiledRead(pair.left, signal_forms, (LoopIndex(i, 0, tile + r.extent - 1),)),
        TiledRead(pair.right, {r.index: tap_form}, (LoopIndex(j, 0, r.extent),)),
        places={x.index: (LoopIndex(number, 0, -(-x.extent // tile)),), r.index: ()},
        outputs=(place % tile,),
        problem={number: place // tile},
        other=pair.other,
    )


# --- products of matrices


def matmul_sides(
    pairs: Sequence[FactorPair], row: Index, column: Index, inner: Index
) -> FactorPair | None:
    """Return the pair (of rows, of columns); None without indices as in a matrix product."""
    for pair in pairs:
        left, right = pair.left.free_symbols, pair.right.free_symbols
        if not (left >= {row, inner} and right >= {column, inner}):
            continue
        if column not in left and row not in right and pair.is_free_of(row, column, inner):
            return pair
    return None


@dataclass(frozen=True)
class _BlockedIndex:
    """An index as `size * block + place`, counted from its low end."""

    iterator: LoopIndex
    block: LoopIndex
    place: LoopIndex

    @property
    def index(self) -> Index:
        return self.iterator.index

    @property
    def size(self) -> int:
        return max(1, self.place.extent)

    @property
    def form(self) -> Affine:
        """The index by its digits."""
        low, extent = self.iterator.low, self.place.extent
        return affine(self.block.index) * extent + self.place.index + low

    @property
    def offset(self) -> Affine:
        """The distance from the low end."""
        return affine(self.index) - self.iterator.low


def tile_matmul(
    scope: Scope, row: str, column: str, inner: str, factorisation: Factorisation
) -> TiledContraction:
    """Cut matrices into large blocks, multiplied as a factorisation multiplies small matrices.

    A last block may be padded with 0.
    """
    pairs = factor_pairs(scope)
    m = _iterator(scope.iterators, row, "the traversal")
    n = _iterator(scope.iterators, column, "the traversal")
    k = _iterator(summed_iterators(scope), inner, "the sum")
    pair = matmul_sides(pairs, m.index, n.index, k.index)
    if pair is None:
        raise RuleError(
            f"{row}, {column} and {inner} do not stand as in a matrix product: "
            f"{row} and {inner} in one read, {inner} and {column} in the other"
        )
    rows, inners, columns = _blocked(scope, (m, k, n), _matmul_sizes(factorisation))
    blocks = inners.block.extent
    if not fills_blocks(pair, k, blocks):
        raise RuleError(
            f"the {k.extent} values of {inner} make no {blocks} equal blocks, "
            "and beyond them no read is known to be 0"
        )
    outputs, problem = [], {}
    for blocked in (rows, columns):
        outputs.append(blocked.offset // blocked.size)
        problem[blocked.place.index] = blocked.offset % blocked.size
    return TiledContraction(
        factorisation,
        _blocked_read(pair.left, rows, inners),
        _blocked_read(pair.right, inners, columns),
        places={blocked.index: (blocked.place,) for blocked in (rows, inners, columns)},
        outputs=tuple(outputs),
        problem=problem,
        other=pair.other,
    )


def _matmul_sizes(factorisation: Factorisation) -> tuple[int, int, int]:
    """Return the rows, inner values and columns of the matrices that a factorisation multiplies."""
    if all(matrix.rank == 3 for matrix in factorisation.matrices):
        _, rows, inner = factorisation.U.shape
        _, _, columns = factorisation.V.shape
        if factorisation.computes(matmul_tensor(rows, inner, columns)):
            return rows, inner, columns
    raise RuleError(f"{factorisation.name} computes no product of matrices")


def _blocked(
    scope: Scope, iterators: Sequence[LoopIndex], counts: Sequence[int]
) -> list[_BlockedIndex]:
    names: list[str] = []
    for it in iterators:
        names += [f"{it.index.name}1", f"{it.index.name}2"]
    indices = iter(_fresh_indices(scope, *names))
    blocked = []
    for it, count in zip(iterators, counts):
        block = LoopIndex(next(indices), 0, count)
        place = LoopIndex(next(indices), 0, -(-it.extent // count))
        blocked.append(_BlockedIndex(it, block, place))
    return blocked


def _blocked_read(access: Access, *cut: _BlockedIndex) -> TiledRead:
    forms = {blocked.index: blocked.form for blocked in cut}
    return TiledRead(access, forms, tuple(blocked.block for blocked in cut))


def fills_blocks(pair: FactorPair, inner: LoopIndex, blocks: int) -> bool:
    """Tell whether a summed index makes so many equal blocks, if need be with zero products."""
    if inner.extent % blocks == 0:
        return True
    return _is_zero_beyond(pair.left, inner) or _is_zero_beyond(pair.right, inner)


def _is_zero_beyond(access: Access, it: LoopIndex) -> bool:
    """Tell whether padding makes a read 0 at every value of an index after its range."""
    base = access.base
    if isinstance(base, Padded) and (base.fill != 0 or isinstance(base.base, Padded)):
        return False
    for subscript, (_, high) in zip(access.subscripts, base.box):
        if subscript.as_index() == it.index and high <= it.high:
            return True
    return False


# --- constant maps


def tile_constant_map(scope: Scope, tensor: str, factorisation: Factorisation) -> TiledContraction:
    """Take a bilinear map that a constant tensor gives, `Σ T[k,i,j]·x[i]·y[j]`, as a whole."""
    reads, rest = contraction_factors(scope)
    for coefficients in reads:
        if not isinstance(coefficients.base, Constant) or coefficients.base.name != tensor:
            continue
        for pair in factor_pairs(scope):
            if pair.other == coefficients * rest:
                axes = _constant_axes(scope, coefficients, pair)
                if axes is not None and _computes_constant(factorisation, coefficients, axes):
                    return _constant_map(factorisation, pair, axes, rest)
    raise RuleError(
        f"the scope is no Σ {tensor}[k,i,j]·x[i]·y[j] with a constant {tensor} "
        f"that {factorisation.name} computes"
    )


class _ConstantAxes(NamedTuple):
    """The axes of a constant by what shares their indices: the outputs, the left, the right read.

    Each is a position with its iterator.
    """

    outputs: list[tuple[int, LoopIndex]]
    left: list[tuple[int, LoopIndex]]
    right: list[tuple[int, LoopIndex]]


def _computes_constant(
    factorisation: Factorisation, coefficients: Access, axes: _ConstantAxes
) -> bool:
    order = [position for position, _ in chain(*axes)]
    base: Any = coefficients.base
    return factorisation.computes(exact(base).transpose(order))


def _constant_map(
    factorisation: Factorisation, pair: FactorPair, axes: _ConstantAxes, other: Any
) -> TiledContraction:
    return TiledContraction(
        factorisation,
        _whole_read(pair.left, axes.left),
        _whole_read(pair.right, axes.right),
        places={it.index: () for _, it in chain(*axes)},
        outputs=bare_subscripts(it for _, it in axes.outputs),
        problem={},
        other=other,
    )


def _whole_read(access: Access, axes: list[tuple[int, LoopIndex]]) -> TiledRead:
    inside = tuple(it for _, it in axes)
    forms = dict(zip(indices_of(inside), bare_subscripts(inside)))
    return TiledRead(access, forms, inside)


def _constant_axes(scope: Scope, coefficients: Access, pair: FactorPair) -> _ConstantAxes | None:
    """Return the axes of a constant by kind; None where an index is shared otherwise."""
    iterators = _whole_axes(scope, coefficients)
    if iterators is None:
        return None
    axes = _ConstantAxes([], [], [])
    sharing = (set(scope.indices), pair.left.free_symbols, pair.right.free_symbols)
    for position, it in enumerate(iterators):
        kinds = [kind for kind, indices in zip(axes, sharing) if it.index in indices]
        if len(kinds) != 1:
            return None
        kinds[0].append((position, it))
    return axes


def _whole_axes(scope: Scope, coefficients: Access) -> list[LoopIndex] | None:
    """Return the iterators that run over the axes of a constant; None where one does not.

    Each must run over its whole axis, and over no other.
    """
    iterators: list[LoopIndex] = []
    known = iterators_by_name(scope)
    for subscript, bounds in zip(coefficients.subscripts, coefficients.base.box):
        index = subscript.as_index()
        if index is None:
            return None
        it = known[index.name]
        if it in iterators or (it.low, it.high) != bounds:
            return None
        iterators.append(it)
    return iterators


def _iterator(iterators: tuple[LoopIndex, ...], name: str, place: str) -> LoopIndex:
    it = iterator_named(iterators, name)
    if it is None:
        known = ", ".join(map(str, indices_of(iterators))) or "none"
        raise RuleError(f"there is no index {name} in {place}; it has {known}")
    return it


def _fresh_indices(scope: Scope, *names: str) -> list[Index]:
    """Return indices called like these, different from each other and from those of the scope."""
    used = set(indices_of(iterators_by_name(scope).values()))
    indices = []
    for name in names:
        indices.append(fresh_index(name, used))
        used.add(indices[-1])
    return indices
