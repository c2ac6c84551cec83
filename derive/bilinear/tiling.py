"""Which part of a contraction a factorisation replaces: its indices, cut into a part inside the small problem and a part outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import sympy

from derive.bilinear.factorisation import Factorisation, exact
from derive.bilinear.strassen import matmul_tensor
from derive.bilinear.toom_cook import correlation_tensor
from einalg.errors import RuleError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Padded

Forms = Mapping[Index, Affine]
WRONG_BODY = "move the sum into a scope of its own: summation splitting"


class FactorPair(NamedTuple):
    """Two reads of a product, and the product of all other factors."""

    left: Access
    right: Access
    other: Any

    def apart_from(self, *indices: Index) -> bool:
        """Whether the other factors have none of these indices."""
        return self.other.free_symbols.isdisjoint(indices)


@dataclass(frozen=True)
class TiledRead:
    """One read: its cut indices as `forms` in `inside` indices, which the constant sums over, and indices that are kept."""

    access: Access
    forms: Forms
    inside: tuple[LoopIndex, ...]


@dataclass(frozen=True)
class TiledContraction:
    """A contraction as small bilinear problems that `factorisation` solves, one for every point of the indices outside.

    `kept` says which indices take the place of every cut one, `outputs` which result of its small problem an output point is, and
    `problem` to which small problem it belongs: the values of the kept indices.
    """

    factorisation: Factorisation
    left: TiledRead
    right: TiledRead
    kept: Mapping[Index, tuple[LoopIndex, ...]]
    outputs: tuple[Affine, ...]
    problem: Forms
    other: Any = sympy.S.One  # factors that have no cut index


def contraction_factors(scope: Scope) -> tuple[list[Access], Any]:
    """The reads that a scope sums the products of, and the product of what else is multiplied; `RuleError` for any other scope."""
    body = scope.body
    if scope.where or not isinstance(body, Reduce) or body.op != "Sum" or body.where:
        raise RuleError(f"the scope is no unconditional sum\n  {WRONG_BODY}")
    parts = sympy.Mul.make_args(body.body)
    reads = [part for part in parts if isinstance(part, Access)]
    if len(reads) < 2:
        raise RuleError(f"the body {body.body} is no product of two reads\n  {WRONG_BODY}")
    for read in reads:
        _check_combinable(read)
    return reads, sympy.Mul(*(part for part in parts if not isinstance(part, Access)))


def _check_combinable(read: Access) -> None:
    """Linear combinations take elements beside those that were read, so all of them have to be numbers."""
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
    """Every two of the reads of a contraction, in both orders."""
    reads, rest = contraction_factors(scope)
    chosen = permutations(range(len(reads)), 2)
    return [
        FactorPair(
            reads[a],
            reads[b],
            sympy.Mul(*(r for k, r in enumerate(reads) if k not in (a, b)), rest),
        )
        for a, b in chosen
    ]


def summed_iterators(scope: Scope) -> tuple[LoopIndex, ...]:
    body = scope.body
    return body.iterators if isinstance(body, Reduce) else ()


def iterators_by_name(scope: Scope) -> dict[str, LoopIndex]:
    """Every index of a contraction by name."""
    return {it.index.name: it for it in (*scope.iterators, *summed_iterators(scope))}


def correlation_sides(
    found: Sequence[FactorPair], output: Index, tap: Index
) -> Iterator[tuple[FactorPair, int]]:
    """The pairs (signal, taps), with 1 where the signal is one of `output + tap`, -1 of `output - tap`."""
    for pair in found:
        signal, taps = pair.left.free_symbols, pair.right.free_symbols
        if (
            output in signal
            and tap in signal
            and tap in taps
            and output not in taps
            and pair.apart_from(output, tap)
        ):
            for sign in (1, -1):
                difference = {output: affine(output) - affine(tap) * sign}
                if not any(tap in s.substitute(difference).indices for s in pair.left.subscripts):
                    yield pair, sign


def tile_correlation(
    scope: Scope, output: str, tap: str, factorisation: Factorisation
) -> TiledContraction:
    """Tiles of `output`, each with all taps, as correlations of the size of a factorisation; the last tile may be partly unread."""
    reads = factor_pairs(scope)
    x, r = (
        _index(scope.iterators, output, "the traversal"),
        _index(summed_iterators(scope), tap, "the sum"),
    )
    found = next(correlation_sides(reads, x.index, r.index), None)
    if found is None:
        message = f"no read is one of {output} + {tap} or {output} - {tap} beside another of {tap} alone, and other factors of neither"
        raise RuleError(
            f"{message}\n  strides and dilations are removed by variable substitution: {output} by its residues, {tap} likewise"
        )
    pair, sign = found
    tile = factorisation.W.shape[0]
    if tile < 1 or not factorisation.computes(correlation_tensor(tile, r.extent)):
        raise RuleError(
            f"{factorisation.name} does not compute {tile} outputs of a correlation with the {r.extent} taps {r}"
        )
    number, i, j = _fresh(scope, f"{output}1", "i", "j")
    origin = x.low + (r.low if sign > 0 else 1 - r.high)
    left = TiledRead(
        pair.left,
        {x.index: affine(number) * tile + i + origin, r.index: affine(0)},
        (LoopIndex(i, 0, tile + r.extent - 1),),
    )
    right = TiledRead(
        pair.right,
        {r.index: affine(j) + r.low if sign > 0 else r.high - 1 - affine(j)},
        (LoopIndex(j, 0, r.extent),),
    )
    place = affine(x.index) - x.low
    kept = {x.index: (LoopIndex(number, 0, -(-x.extent // tile)),), r.index: ()}
    return TiledContraction(
        factorisation, left, right, kept, (place % tile,), {number: place // tile}, pair.other
    )


def matmul_sides(
    found: Sequence[FactorPair], row: Index, column: Index, inner: Index
) -> FactorPair | None:
    """The pair (of rows, of columns); None where the indices do not stand as in a matrix product."""
    for pair in found:
        left, right = pair.left.free_symbols, pair.right.free_symbols
        if (
            {row, inner} <= left
            and {column, inner} <= right
            and column not in left
            and row not in right
            and pair.apart_from(row, column, inner)
        ):
            return pair
    return None


def tile_matmul(
    scope: Scope, row: str, column: str, inner: str, factorisation: Factorisation
) -> TiledContraction:
    """Matrices of large blocks, multiplied as a factorisation multiplies small matrices; a last block may be padded with 0."""
    reads = factor_pairs(scope)
    m, n = (_index(scope.iterators, name, "the traversal") for name in (row, column))
    k = _index(summed_iterators(scope), inner, "the sum")
    found = matmul_sides(reads, m.index, n.index, k.index)
    if found is None:
        raise RuleError(
            f"{row}, {column} and {inner} do not stand as in a matrix product: {row} and {inner} in one read, {inner} and {column} in the other"
        )
    shapes = [matrix.shape for matrix in factorisation.matrices]
    if [len(shape) for shape in shapes] != [3, 3, 3] or not factorisation.computes(
        matmul_tensor(shapes[0][1], shapes[0][2], shapes[1][2])
    ):
        raise RuleError(f"{factorisation.name} computes no product of matrices")
    blocks = {m.index: shapes[0][1], k.index: shapes[0][2], n.index: shapes[1][2]}
    high, low, forms = {}, {}, {}
    names = iter(
        _fresh(scope, *(f"{it.index.name}{digit}" for it in (m, k, n) for digit in (1, 2)))
    )
    for it in (m, k, n):
        high[it.index], low[it.index] = next(names), next(names)
        forms[it.index] = (
            affine(high[it.index]) * -(-it.extent // blocks[it.index]) + low[it.index] + it.low
        )
    if not fills_blocks(found, k, blocks[k.index]):
        raise RuleError(
            f"the {k.extent} values of {inner} make no {blocks[k.index]} equal blocks, and beyond them no read is known to be 0"
        )

    def side(access: Access, *cut: LoopIndex) -> TiledRead:
        return TiledRead(
            access,
            {it.index: forms[it.index] for it in cut},
            tuple(LoopIndex(high[it.index], 0, blocks[it.index]) for it in cut),
        )

    kept = {
        it.index: (LoopIndex(low[it.index], 0, -(-it.extent // blocks[it.index])),)
        for it in (m, k, n)
    }
    sizes = {it: max(1, kept[it.index][0].extent) for it in (m, n)}
    outputs = tuple((affine(it.index) - it.low) // size for it, size in sizes.items())
    problem = {low[it.index]: (affine(it.index) - it.low) % size for it, size in sizes.items()}
    return TiledContraction(
        factorisation,
        side(found.left, m, k),
        side(found.right, k, n),
        kept,
        outputs,
        problem,
        found.other,
    )


def fills_blocks(pair: FactorPair, inner: LoopIndex, blocks: int) -> bool:
    """Whether an index that is summed over makes so many equal blocks, if need be with products that are 0."""
    return (
        inner.extent % blocks == 0
        or _zero_beyond(pair.left, inner)
        or _zero_beyond(pair.right, inner)
    )


def _zero_beyond(access: Access, it: LoopIndex) -> bool:
    """Whether padding makes a read 0 at every value of an index after its range."""
    base = access.base
    if isinstance(base, Padded) and (base.fill != 0 or isinstance(base.base, Padded)):
        return False
    return any(
        s.as_index() == it.index and high <= it.high
        for s, (_, high) in zip(access.subscripts, base.box)
    )


def tile_constant_map(scope: Scope, tensor: str, factorisation: Factorisation) -> TiledContraction:
    """A bilinear map that is given by a constant tensor: `Σ T[k,i,j]·x[i]·y[j]`, as a whole."""
    reads, rest = contraction_factors(scope)
    for coefficients in (
        read for read in reads if isinstance(read.base, Constant) and read.base.name == tensor
    ):
        for pair in factor_pairs(scope):
            found = (
                _constant_axes(scope, coefficients, pair)
                if pair.other == coefficients * rest
                else None
            )
            if found is not None and factorisation.computes(
                exact(coefficients.base).transpose(found[0])
            ):  # pyright: ignore
                parts = found[1]
                left, right = (
                    TiledRead(read, {it.index: affine(it.index) for it in part}, part)
                    for read, part in zip(pair[:2], parts[1:])
                )
                kept = {it.index: () for part in parts for it in part}
                return TiledContraction(
                    factorisation,
                    left,
                    right,
                    kept,
                    tuple(affine(it.index) for it in parts[0]),
                    {},
                    rest,
                )
    raise RuleError(
        f"the scope is no Σ {tensor}[k,i,j]·x[i]·y[j] with a constant {tensor} that {factorisation.name} computes"
    )


def _constant_axes(
    scope: Scope, coefficients: Access, pair: FactorPair
) -> tuple[list[int], list[tuple[LoopIndex, ...]]] | None:
    """The axes of a constant in the order (outputs, left, right), and their indices; None where they are shared otherwise."""
    known, traversal = iterators_by_name(scope), {it.index for it in scope.iterators}
    bare = [s.as_index() for s in coefficients.subscripts]
    if len({*bare, None}) != len(bare) + 1:
        return None
    axes = [known[index.name] for index in bare if index is not None]
    if any((it.low, it.high) != bounds for it, bounds in zip(axes, coefficients.base.box)):
        return None
    left, right = pair.left.free_symbols, pair.right.free_symbols
    sharing = [(it.index in traversal, it.index in left, it.index in right) for it in axes]
    kinds = [(True, False, False), (False, True, False), (False, False, True)]
    if any(kind not in kinds for kind in sharing):
        return None
    order = sorted(range(len(axes)), key=lambda axis: kinds.index(sharing[axis]))
    return order, [tuple(axes[axis] for axis in order if sharing[axis] == kind) for kind in kinds]


def _index(iterators: tuple[LoopIndex, ...], name: str, place: str) -> LoopIndex:
    found = next((it for it in iterators if it.index.name == name), None)
    if found is None:
        raise RuleError(
            f"there is no index {name} in {place}; it has {', '.join(str(it.index) for it in iterators) or 'none'}"
        )
    return found


def _fresh(scope: Scope, *names: str) -> list[Index]:
    """Indices called like these, different from each other and from those of the scope."""
    taken, made = {it.index for it in iterators_by_name(scope).values()}, []
    for name in names:
        made.append(fresh_index(name, taken))
        taken.add(made[-1])
    return made
