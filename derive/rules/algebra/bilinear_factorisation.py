"""Bilinear factorisation: small problems inside a contraction take fewer products.

Winograd's and Strassen's algorithms are such factorisations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from derive.bilinear import STRASSEN, Factorisation, correlation, named, registered
from derive.bilinear.assembly import assemble, fits_type
from derive.bilinear.tiling import (
    FactorPair,
    TiledContraction,
    contraction_factors,
    correlation_sides,
    factor_pairs,
    fills_blocks,
    matmul_sides,
    summed_iterators,
    tile_constant_map,
    tile_correlation,
    tile_matmul,
)
from derive.rewriting.body_queries import iterator_named
from derive.rewriting.moves import Example, Rule
from einalg.errors import RuleError
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant

MAX_TILE_PRODUCTS = 8  # m + r - 1 of a tile that is proposed: beyond, float32 loses digits
MIN_MATRIX_SIZE = 256  # from which Strassen is proposed: below, the additions cost more

Args = dict[str, Any]


def find(scope: Scope) -> Iterator[Args]:
    """Propose tiles for every correlation, large products of matrices, and constant maps.

    The products are by Strassen's factorisation, the constant maps by registered ones.
    """
    try:
        pairs = factor_pairs(scope)
    except RuleError:
        return
    if is_float(scope.dtype):
        yield from _correlations(scope, pairs)
    yield from _products(scope, pairs)
    yield from _constant_maps(scope)


def _correlations(scope: Scope, pairs: Sequence[FactorPair]) -> Iterator[Args]:
    for x, r in product(scope.iterators, summed_iterators(scope)):
        if min(x.extent, r.extent) <= 1:
            continue
        if next(correlation_sides(pairs, x.index, r.index), None) is not None:
            for tile in tiles(x.extent, r.extent):
                yield {"output": x.index.name, "tap": r.index.name, "tile": tile}


def tiles(extent: int, taps: int) -> list[int]:
    """Return the tiles worth trying.

    They are even or without a rest, and none that a smaller one covers with as few tiles.

    >>> tiles(56, 3), tiles(7, 3), tiles(5, 4), tiles(56, 9)
    ([2, 4, 6], [2, 4], [2, 5], [])
    """
    worth = []
    for tile in range(2, min(extent, MAX_TILE_PRODUCTS + 1 - taps) + 1):
        count = -(-extent // tile)
        smallest = -(-extent // count)
        if tile == smallest and (tile % 2 == 0 or extent % tile == 0):
            worth.append(tile)
    return worth


def _products(scope: Scope, pairs: Sequence[FactorPair]) -> Iterator[Args]:
    rows, inner = _large(scope.iterators), _large(summed_iterators(scope))
    for k in inner:
        for m, n in combinations(rows, 2):
            # The other order is the same product, transposed: the first that fits is enough.
            for row, column in ((m, n), (n, m)):
                pair = matmul_sides(pairs, row.index, column.index, k.index)
                if pair is not None and fills_blocks(pair, k, 2):
                    yield {
                        "row": row.index.name,
                        "column": column.index.name,
                        "inner": k.index.name,
                        "factorisation": STRASSEN.name,
                    }
                    break


def _large(iterators: Iterable[LoopIndex]) -> list[LoopIndex]:
    return [it for it in iterators if it.extent >= MIN_MATRIX_SIZE]


def _constant_maps(scope: Scope) -> Iterator[Args]:
    for read in contraction_factors(scope)[0]:
        if not isinstance(read.base, Constant):
            continue
        for factorisation in registered():
            if _computes_constant(scope, read.base.name, factorisation):
                yield {"tensor": read.base.name, "factorisation": factorisation.name}


def _computes_constant(scope: Scope, tensor: str, factorisation: Factorisation) -> bool:
    if not fits_type(scope, *factorisation.matrices):
        return False
    try:
        tile_constant_map(scope, tensor, factorisation)
    except RuleError:
        return False
    return True


def factorise(scope: Scope, factorisation: Any = None, **args: Any) -> Scope:
    """Solve a part of a contraction by a factorisation: its name, its record, or itself.

    `output=, tap=, tile=` cut a correlation into tiles, computed by F(tile, taps) at `points=` or
    by a `factorisation` of one's own; `row=, column=, inner=` a product of matrices into blocks;
    `tensor=` names a constant that holds the whole map.
    """
    return assemble(scope, _tiled(scope, factorisation, args))


def _tiled(scope: Scope, factorisation: Any, args: Args) -> TiledContraction:
    names = set(args)
    if factorisation is None and {"output", "tap", "tile"} == names - {"points"}:
        return tile_correlation(scope, args["output"], args["tap"], _correlation(scope, args))
    if factorisation is not None:
        if names == {"row", "column", "inner"}:
            factors = _factorisation(factorisation)
            return tile_matmul(scope, args["row"], args["column"], args["inner"], factors)
        if names == {"tensor"}:
            return tile_constant_map(scope, args["tensor"], _factorisation(factorisation))
        if names == {"output", "tap"}:
            factors = _factorisation(factorisation)
            return tile_correlation(scope, args["output"], args["tap"], factors)
    raise RuleError(
        "bilinear factorisation cannot use the arguments "
        f"{', '.join(sorted(names)) or 'none'}\n"
        "  give output=, tap=, tile=; or row=, column=, inner=, factorisation=; "
        "or tensor=, factorisation="
    )


def _correlation(scope: Scope, args: Args) -> Factorisation:
    """Return F(tile, taps) at the points that are named, or at the default ones."""
    tap = iterator_named(summed_iterators(scope), args["tap"])
    taps = 1 if tap is None else tap.extent
    points = args.get("points")
    if points is not None:
        points = tuple(map(str, points))
    return correlation(int(args["tile"]), taps, points)


def _factorisation(value: Any) -> Factorisation:
    if isinstance(value, Factorisation):
        return value
    if isinstance(value, Mapping):
        return Factorisation.from_record(value)
    return named(value)


RULE = Rule(
    name="bilinear factorisation",
    before="L[x] Σ[r,c] A[x+r,c]·K[r,c]",
    after=(
        "L[x] Σ[p] W[x%m,p]·{L[p,t] Σ[c] {L[p,t,c] Σ[i] U[p,i]·A[m*t+i,c]}"
        "·{L[p,c] Σ[j] V[p,j]·K[j,c]}}[p,x//m]"
    ),
    requires=(
        "W, U, V factorise the small bilinear map: "
        "Σ[p] W[k,p]·U[p,i]·V[p,j] is 1 where i = k + j, else 0"
    ),
    find=find,
    rewrite=factorise,
    section="Winograd, Strassen; not in EinNet",
    example=Example("O[h:4] += A[h+r]*K[r]", {"A": 6, "K": 3}),
)
