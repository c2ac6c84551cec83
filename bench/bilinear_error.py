"""The error that a bilinear factorisation adds in float32.

Winograd of every small size on one and two axes, Strassen.

python -m bench.bilinear_error [--json PATH]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import bench
import einalg as ea
from derive.bilinear import correlation
from derive.bilinear.tiling import iterators_by_name
from derive.rewriting.moves import Move, apply
from derive.rewriting.paths import Path, scope_at
from derive.rules import ALL
from derive.rules.algebra.bilinear_factorisation import MAX_TILE_PRODUCTS, RULE
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, as_program, in_double

CHANNELS, FILTERS, WIDTH, SIZE = 32, 8, 24, 512
SEEDS = 3
PAIRED = ("0", "1", "-1", "2", "-2", "1/2", "-1/2")  # points whose transforms share more sums
Arrays = Mapping[str, np.ndarray[Any, Any]]


def errors(program: Program, exact: Program) -> tuple[float, float]:
    """Return the root mean square and the largest deviation from double precision.

    Both are relative to the root mean square of the result.
    """
    squares, largest = 0.0, 0.0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        arrays = {
            name: rng.standard_normal(tensor.shape).astype(np.float32)
            for name, tensor in exact.inputs.items()
        }
        reference = execute(in_double(exact), arrays)[exact.outputs[0]]
        deviation = (execute(program, arrays)[program.outputs[0]] - reference) / np.sqrt(
            np.mean(reference**2)
        )
        squares += float(np.mean(deviation**2)) / SEEDS
        largest = max(largest, float(np.abs(deviation).max()))
    return squares**0.5, largest


def convolution(taps: int) -> Program:
    shapes = {
        "A": (WIDTH + taps - 1, WIDTH + taps - 1, CHANNELS),
        "K": (taps, taps, FILTERS, CHANNELS),
    }
    return as_program(ea.parse("O[h,w,f] += A[h+r,w+s,c]*K[r,s,f,c]", **shapes))


def winograd(program: Program, tile: int, axes: int, points: tuple[str, ...] | None) -> Program:
    for path, output, tap in [(("O",), "h", "r"), (("O", 0), "w", "s")][:axes]:
        program = apply(
            program,
            Move(RULE.name, path, {"output": output, "tap": tap, "tile": tile, "points": points}),
            ALL,
        )
    return program


def winograd_rows() -> Iterator[bench.Row]:
    for products in range(3, MAX_TILE_PRODUCTS + 1):
        for taps in range(2, products):
            tile, plain = products + 1 - taps, convolution(taps)
            direct = errors(plain, plain)[0]
            for order, points in [
                ("default", None),
                *([("paired", PAIRED[: products - 1])] if products > 5 else []),
            ]:
                for axes in (1, 2):
                    rms, largest = errors(winograd(plain, tile, axes, points), plain)
                    saved = (tile * taps / correlation(tile, taps).rank) ** axes
                    yield {
                        "taps": taps,
                        "tile": tile,
                        "axes": axes,
                        "points": order,
                        "fewer products": saved,
                    } | _row(rms, largest, direct)


def strassen_rows() -> Iterator[bench.Row]:
    plain = program = as_program(
        ea.parse("O[m,n] += A[m,k]*B[k,n]", A=(SIZE, SIZE), B=(SIZE, SIZE))
    )
    direct = errors(plain, plain)[0]
    for level in range(1, 4):
        path = ("O", *[0] * (level - 1))
        row, column, inner = (index_at(program, path, stem) for stem in "mnk")
        program = apply(
            program,
            Move(
                RULE.name,
                path,
                {"row": row, "column": column, "inner": inner, "factorisation": "strassen"},
            ),
            ALL,
        )
        yield {"size": SIZE, "levels": level, "fewer products": (8 / 7) ** level} | _row(
            *errors(program, plain), direct
        )


def index_at(program: Program, path: Path, stem: str) -> str:
    """The index at a place that is called so, however often it was cut: `m`, `m2`, `m22`."""
    return next(
        name
        for name in iterators_by_name(scope_at(program, path))
        if name.rstrip("0123456789") == stem
    )


def _row(rms: float, largest: float, direct: float) -> dict[str, float]:
    return {
        "rms error": rms,
        "largest error": largest,
        "rms of the direct sum": direct,
        "times": rms / direct,
    }


def main() -> None:
    asked = bench.options(__doc__ or "").parse_args()
    bench.report(
        {"Winograd, float32": winograd_rows(), "Strassen, float32": strassen_rows()}, asked.json
    )


if __name__ == "__main__":
    main()
