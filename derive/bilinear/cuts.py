"""Which part of a contraction a factorisation replaces: its indices, cut into a part inside the small problem and a part outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

import sympy

from derive.bilinear.correlation import correlation_tensor
from derive.bilinear.factorisation import Factorisation, exact
from derive.bilinear.matmul import matmul_tensor
from einalg.access import Access, Constant, Padded
from einalg.affine import Affine, Index, affine
from einalg.errors import RuleError
from einalg.scope import Iterator as Range
from einalg.scope import Reduce, Scope
from einalg.traverse import fresh_index

Forms = Mapping[Index, Affine]
Pair = tuple[Access, Access]


@dataclass(frozen=True)
class Side:
    """One read: its cut indices as `forms` in `inside` indices, which the constant sums over, and indices that are kept."""

    access: Access
    forms: Forms
    inside: tuple[Range, ...]


@dataclass(frozen=True)
class Cut:
    """A contraction as small bilinear problems that `factorisation` solves, one for every point of the indices outside.

    `kept` says which indices take the place of every cut one, `outputs` which result of its small problem an output point is, and
    `problem` to which small problem it belongs: the values of the kept indices.
    """

    factorisation: Factorisation
    left: Side
    right: Side
    kept: Mapping[Index, tuple[Range, ...]]
    outputs: tuple[Affine, ...]
    problem: Forms


def factors(scope: Scope) -> tuple[Access, ...]:
    """The reads that a scope sums the products of; `RuleError` where it is anything else."""
    body = scope.body
    if scope.where or not isinstance(body, Reduce) or body.op != "Sum" or body.where:
        raise RuleError("the scope is no unconditional sum\n  move the sum into a scope of its own: summation splitting")
    reads = sympy.Mul.make_args(body.body)
    if len(reads) < 2 or not all(isinstance(read, Access) for read in reads):
        raise RuleError(f"the body {body.body} is no product of two reads\n  move the sum into a scope of its own: summation splitting")
    infinite = next((r for r in reads if isinstance(r.base, Padded) and r.base.fill.is_infinite), None)  # pyright: ignore
    if infinite is not None:
        raise RuleError(f"{infinite} may be infinite, so linear combinations of it have no value")
    gap = next((r for r in reads if isinstance(r.base, Scope) and r.base.where), None)  # pyright: ignore
    if gap is not None:
        raise RuleError(f"{gap} has no value outside {' and '.join(map(str, gap.base.where))}\n  pad it: (...).pad({', '.join('0' * gap.base.rank)})")
    return reads  # pyright: ignore[reportReturnType]


def pair(scope: Scope) -> Pair:
    """The two reads of a contraction."""
    reads = factors(scope)
    if len(reads) != 2:
        raise RuleError(f"the body is a product of {len(reads)} reads, not of two")
    return reads[0], reads[1]


def summed(scope: Scope) -> tuple[Range, ...]:
    body = scope.body
    return body.iterators if isinstance(body, Reduce) else ()


def ranges(scope: Scope) -> dict[str, Range]:
    """Every index of a contraction by name."""
    return {it.index.name: it for it in (*scope.iterators, *summed(scope))}


def correlation_sides(reads: Pair, output: Index, tap: Index) -> Iterator[tuple[Access, Access, int]]:
    """The reads in the order (signal, taps), with 1 where the signal is one of `output + tap`, -1 of `output - tap`."""
    for signal, taps in (reads, reads[::-1]):
        seen = signal.free_symbols
        if output in seen and tap in seen and tap in taps.free_symbols and output not in taps.free_symbols:
            for sign in (1, -1):
                difference = {output: affine(output) - affine(tap) * sign}
                if not any(tap in s.substitute(difference).indices for s in signal.subscripts):
                    yield signal, taps, sign


def cut_correlation(scope: Scope, output: str, tap: str, factorisation: Factorisation) -> Cut:
    """Tiles of `output`, each with all taps, as correlations of the size of a factorisation; the last tile may be partly unread."""
    reads = pair(scope)
    x, r = _index(scope.iterators, output, "the traversal"), _index(summed(scope), tap, "the sum")
    found = next(correlation_sides(reads, x.index, r.index), None)
    if found is None:
        message = f"no read is one of {output} + {tap} or {output} - {tap} beside another of {tap} alone"
        raise RuleError(f"{message}\n  strides and dilations are removed by variable substitution: {output} by its residues, {tap} likewise")
    signal, taps, sign = found
    tile = factorisation.W.shape[0]
    if tile < 1 or not factorisation.computes(correlation_tensor(tile, r.extent)):
        raise RuleError(f"{factorisation.name} does not compute {tile} outputs of a correlation with the {r.extent} taps {r}")
    taken = _names(scope)
    number, i, j = (fresh_index(name, taken) for name in (f"{output}1", "i", "j"))
    origin = x.low + (r.low if sign > 0 else 1 - r.high)
    left = Side(signal, {x.index: affine(number) * tile + i + origin, r.index: affine(0)}, (Range(i, 0, tile + r.extent - 1),))
    right = Side(taps, {r.index: affine(j) + r.low if sign > 0 else r.high - 1 - affine(j)}, (Range(j, 0, r.extent),))
    place = affine(x.index) - x.low
    kept = {x.index: (Range(number, 0, -(-x.extent // tile)),), r.index: ()}
    return Cut(factorisation, left, right, kept, (place % tile,), {number: place // tile})


def matmul_sides(reads: Pair, row: Index, column: Index, inner: Index) -> Pair | None:
    """The reads in the order (of rows, of columns); None where the indices do not stand as in a matrix product."""
    for left, right in (reads, reads[::-1]):
        one, two = left.free_symbols, right.free_symbols
        if {row, inner} <= one and {column, inner} <= two and column not in one and row not in two:
            return left, right
    return None


def cut_matmul(scope: Scope, row: str, column: str, inner: str, factorisation: Factorisation) -> Cut:
    """Matrices of large blocks, multiplied as a factorisation multiplies small matrices; a last block may be padded with 0."""
    reads = pair(scope)
    m, n = (_index(scope.iterators, name, "the traversal") for name in (row, column))
    k = _index(summed(scope), inner, "the sum")
    found = matmul_sides(reads, m.index, n.index, k.index)
    if found is None:
        raise RuleError(
            f"{row}, {column} and {inner} do not stand as in a matrix product: {row} and {inner} in one read, {inner} and {column} in the other"
        )
    shapes = [matrix.shape for matrix in factorisation.matrices]
    if [len(shape) for shape in shapes] != [3, 3, 3] or not factorisation.computes(matmul_tensor(shapes[0][1], shapes[0][2], shapes[1][2])):
        raise RuleError(f"{factorisation.name} computes no product of matrices")
    blocks = {m.index: shapes[0][1], k.index: shapes[0][2], n.index: shapes[1][2]}
    taken, high, low, forms = _names(scope), {}, {}, {}
    for it in (m, k, n):
        size = -(-it.extent // blocks[it.index])
        high[it.index], low[it.index] = (fresh_index(f"{it.index.name}{digit}", taken) for digit in (1, 2))
        taken |= {high[it.index], low[it.index]}
        forms[it.index] = affine(high[it.index]) * size + low[it.index] + it.low
    if not fills_blocks(found, k, blocks[k.index]):
        raise RuleError(f"the {k.extent} values of {inner} make no {blocks[k.index]} equal blocks, and beyond them no read is known to be 0")

    def side(access: Access, *cut: Range) -> Side:
        return Side(access, {it.index: forms[it.index] for it in cut}, tuple(Range(high[it.index], 0, blocks[it.index]) for it in cut))

    kept = {it.index: (Range(low[it.index], 0, -(-it.extent // blocks[it.index])),) for it in (m, k, n)}
    sizes = {it: max(1, kept[it.index][0].extent) for it in (m, n)}
    outputs = tuple((affine(it.index) - it.low) // size for it, size in sizes.items())
    problem = {low[it.index]: (affine(it.index) - it.low) % size for it, size in sizes.items()}
    return Cut(factorisation, side(found[0], m, k), side(found[1], k, n), kept, outputs, problem)


def fills_blocks(reads: Pair, inner: Range, blocks: int) -> bool:
    """Whether an index that is summed over makes so many equal blocks, if need be with products that are 0."""
    return inner.extent % blocks == 0 or any(_zero_beyond(read, inner) for read in reads)


def _zero_beyond(access: Access, it: Range) -> bool:
    """Whether padding makes a read 0 at every value of an index after its range."""
    base = access.base
    if isinstance(base, Padded) and (base.fill != 0 or isinstance(base.base, Padded)):
        return False
    return any(s.as_index() == it.index and high <= it.high for s, (_, high) in zip(access.subscripts, base.box))


def cut_constant(scope: Scope, tensor: str, factorisation: Factorisation) -> Cut:
    """A bilinear map that is given by a constant tensor: `Σ T[k,i,j]·x[i]·y[j]`, as a whole."""
    reads = factors(scope)
    for order in permutations(reads) if len(reads) == 3 else ():
        coefficients, left, right = order
        if isinstance(coefficients.base, Constant) and coefficients.base.name == tensor:
            found = _constant_axes(scope, coefficients, (left, right))
            if found is not None:
                order, parts = found
                wanted = exact(coefficients.base).transpose(order)
                if factorisation.computes(wanted):
                    sides = [Side(read, {it.index: affine(it.index) for it in part}, part) for read, part in zip((left, right), parts[1:])]
                    kept = {it.index: () for part in parts for it in part}
                    return Cut(factorisation, sides[0], sides[1], kept, tuple(affine(it.index) for it in parts[0]), {})
    raise RuleError(f"the scope is no Σ {tensor}[k,i,j]·x[i]·y[j] with a constant {tensor} that {factorisation.name} computes")


def _constant_axes(scope: Scope, coefficients: Access, reads: Pair) -> tuple[list[int], list[tuple[Range, ...]]] | None:
    """The axes of a constant in the order (outputs, left, right), and their indices; None where they are shared otherwise."""
    known, traversal = ranges(scope), {it.index for it in scope.iterators}
    bare = [s.as_index() for s in coefficients.subscripts]
    if len({*bare, None}) != len(bare) + 1:
        return None
    axes = [known[index.name] for index in bare if index is not None]
    if any((it.low, it.high) != bounds for it, bounds in zip(axes, coefficients.base.box)):
        return None
    left, right = (read.free_symbols for read in reads)
    sharing = [(it.index in traversal, it.index in left, it.index in right) for it in axes]
    kinds = [(True, False, False), (False, True, False), (False, False, True)]
    if any(kind not in kinds for kind in sharing):
        return None
    order = sorted(range(len(axes)), key=lambda axis: kinds.index(sharing[axis]))
    return order, [tuple(axes[axis] for axis in order if sharing[axis] == kind) for kind in kinds]


def _index(iterators: tuple[Range, ...], name: str, place: str) -> Range:
    found = next((it for it in iterators if it.index.name == name), None)
    if found is None:
        raise RuleError(f"there is no index {name} in {place}; it has {', '.join(str(it.index) for it in iterators) or 'none'}")
    return found


def _names(scope: Scope) -> set[Index]:
    return {it.index for it in (*scope.iterators, *summed(scope))}
