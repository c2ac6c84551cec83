"""Bilinear factorisation: small bilinear problems inside a contraction are solved with fewer products (Winograd, Strassen)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
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
from derive.rewriting.moves import Example, Rule
from einalg.errors import RuleError
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant

MAX_TILE_PRODUCTS = 8  # m + r - 1 of a tile that is proposed: beyond, float32 loses digits
SMALLEST_MATRIX = 256  # rows, columns and inner values from which Strassen is proposed: below, the additions cost more


def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """A few tiles for every correlation, registered products of matrices where these are large, and registered constant maps."""
    try:
        found = factor_pairs(scope)
    except RuleError:
        return
    yield from _correlations(scope, found)
    yield from _products(scope, found)
    yield from _constant_maps(scope)


def _correlations(scope: Scope, found: Sequence[FactorPair]) -> Iterator[dict[str, Any]]:
    for x in scope.iterators if is_float(scope.dtype) else ():
        for r in summed_iterators(scope):
            if min(x.extent, r.extent) > 1 and next(
                correlation_sides(found, x.index, r.index), None
            ):
                for tile in tiles(x.extent, r.extent):
                    yield {"output": x.index.name, "tap": r.index.name, "tile": tile}


def tiles(extent: int, taps: int) -> list[int]:
    """Tiles worth trying: even or without a rest, and none that a smaller one covers with as few tiles.

    >>> tiles(56, 3), tiles(7, 3), tiles(5, 4), tiles(56, 9)
    ([2, 4, 6], [2, 4], [2, 5], [])
    """
    found = range(2, min(extent, MAX_TILE_PRODUCTS + 1 - taps) + 1)
    return [
        m for m in found if (m % 2 == 0 or extent % m == 0) and m == -(-extent // -(-extent // m))
    ]


def _products(scope: Scope, found: Sequence[FactorPair]) -> Iterator[dict[str, Any]]:
    rows, inner = (
        [it for it in its if it.extent >= SMALLEST_MATRIX]
        for its in (scope.iterators, summed_iterators(scope))
    )
    for k in inner:
        for m, n in combinations(rows, 2):
            for row, column in ((m, n), (n, m)):
                pair = matmul_sides(found, row.index, column.index, k.index)
                if pair is not None and fills_blocks(pair, k, 2):
                    yield {
                        "row": row.index.name,
                        "column": column.index.name,
                        "inner": k.index.name,
                        "factorisation": STRASSEN.name,
                    }
                    break  # the other order is the same product, transposed


def _constant_maps(scope: Scope) -> Iterator[dict[str, Any]]:
    for read in contraction_factors(scope)[0]:
        for factorisation in registered() if isinstance(read.base, Constant) else ():
            if fits_type(scope, *factorisation.matrices):
                try:
                    tile_constant_map(scope, read.base.name, factorisation)  # pyright: ignore[reportAttributeAccessIssue]
                except RuleError:
                    continue
                yield {"tensor": read.base.name, "factorisation": factorisation.name}  # pyright: ignore[reportAttributeAccessIssue]


def factorise(scope: Scope, factorisation: Any = None, **args: Any) -> Scope:
    """Solve a part of a contraction by a factorisation, given by name, as a record, or as a `Factorisation`.

    `output=, tap=, tile=` cut a correlation into tiles, computed by F(tile, taps) at `points=` or by a `factorisation` of one's
    own; `row=, column=, inner=` a product of matrices into blocks; `tensor=` names a constant that holds the whole map.
    """
    return assemble(scope, _cut(scope, factorisation, args))


def _cut(scope: Scope, factorisation: Any, args: dict[str, Any]) -> TiledContraction:
    names = set(args)
    if names == {"row", "column", "inner"} and factorisation is not None:
        return tile_matmul(
            scope, args["row"], args["column"], args["inner"], _factorisation(factorisation)
        )
    if names == {"tensor"} and factorisation is not None:
        return tile_constant_map(scope, args["tensor"], _factorisation(factorisation))
    if names == {"output", "tap"} and factorisation is not None:
        return tile_correlation(scope, args["output"], args["tap"], _factorisation(factorisation))
    if {"output", "tap", "tile"} <= names <= {
        "output",
        "tap",
        "tile",
        "points",
    } and factorisation is None:
        taps = next(
            (it.extent for it in summed_iterators(scope) if it.index.name == args["tap"]), 1
        )
        points = tuple(map(str, args["points"])) if args.get("points") is not None else None
        return tile_correlation(
            scope, args["output"], args["tap"], correlation(int(args["tile"]), taps, points)
        )
    raise RuleError(
        f"bilinear factorisation cannot use the arguments {', '.join(sorted(names)) or 'none'}\n"
        "  give output=, tap=, tile=; or row=, column=, inner=, factorisation=; or tensor=, factorisation="
    )


def _factorisation(value: Any) -> Factorisation:
    if isinstance(value, Factorisation):
        return value
    return Factorisation.from_record(value) if isinstance(value, Mapping) else named(value)


RULE = Rule(
    name="bilinear factorisation",
    before="L[x] Σ[r,c] A[x+r,c]·K[r,c]",
    after="L[x] Σ[p] W[x%m,p]·{L[p,t] Σ[c] {L[p,t,c] Σ[i] U[p,i]·A[m*t+i,c]}·{L[p,c] Σ[j] V[p,j]·K[j,c]}}[p,x//m]",
    requires="W, U, V factorise the small bilinear map: Σ[p] W[k,p]·U[p,i]·V[p,j] is 1 where i = k + j, else 0",
    find=find,
    rewrite=factorise,
    section="Winograd, Strassen; not in EinNet",
    example=Example("O[h:4] += A[h+r]*K[r]", {"A": 6, "K": 3}),
)
