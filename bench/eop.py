"""How fast generated eOperators run, beside NumPy and beside a copy that moves as many bytes.

python -m bench.eop [--json PATH] [--rounds N] [--only WORD]

Runs alternate between the three, and medians are shown. OMP_NUM_THREADS says how many threads the
generated code uses; NumPy's element-wise code and the copy always use one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import sympy

import bench
import einalg as ea
from codegen.lowering.lower import lower
from codegen.program.compile import compile_program
from codegen.targets.c.compiler import find_compiler
from codegen.targets.c.source_file import c_source
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from einalg.runtime.timing import MeasuringPolicy, measure

n, h, w, f, c, r, s, i, j, k = ea.indices("n h w f c r s i j k")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    name: str
    scope: Scope
    numpy: Callable[..., Array]


def offset_add(batch: int, height: int, width: int, channels: int, taps: int, layout: str) -> Case:
    """`out[n,h,w,f] = Σ[r,s] T[n,h+r-p,w+s-p,r,s,f]`, zero outside, with the axes of `layout`."""
    sizes = {"n": batch, "h": height, "w": width, "f": channels, "r": taps, "s": taps}
    half = taps // 2
    subscripts = {"n": n, "h": h + r - half, "w": w + s - half, "f": f, "r": r, "s": s}
    table = ea.tensor("T", tuple(sizes[axis] for axis in layout))
    view = table.pad(*(half if axis in "hw" else 0 for axis in layout))
    out = "".join(axis for axis in ("nhwf" if layout[-1] == "f" else "nfhw"))
    bound = {"n": n, "h": h, "w": w, "f": f}
    read = view[tuple(subscripts[axis] for axis in layout)]
    scope = ea.L[tuple(slice(bound[axis], sizes[axis]) for axis in out)](
        ea.Sum[r:taps, s:taps](read)
    )

    def run(T: Array) -> Array:
        parts = np.einsum(f"{layout}->rs{out}", T)
        total = np.zeros([sizes[axis] for axis in out], T.dtype)
        rows, columns = out.index("h"), out.index("w")
        for p in range(taps):
            for q in range(taps):
                into, source = [slice(None)] * 4, [slice(None)] * 4
                for axis, shift, size in ((rows, p - half, height), (columns, q - half, width)):
                    into[axis] = slice(max(0, -shift), size - max(0, shift))
                    source[axis] = slice(max(0, shift), size - max(0, -shift))
                total[tuple(into)] += parts[p, q][tuple(source)]
        return total

    return Case(f"OffsetAdd {taps}x{taps} {layout} {batch}x{height}x{width}x{channels}", scope, run)


def selective_add(height: int, channels: int) -> Case:
    """Return what is left of a transposed convolution after its matrix multiplication.

    It has 4x4 taps and stride 2.
    """
    table = ea.tensor("T", (height, height, 4, 4, channels))
    read = table.pad(1, 1, 0, 0, 0)[(h + 1 - r) // 2, (w + 1 - s) // 2, r, s, f]
    where = (sympy.Eq((h + 1 - r) % 2, 0), sympy.Eq((w + 1 - s) % 2, 0))
    scope = ea.L[h : 2 * height, w : 2 * height, f:channels](ea.Sum[r:4, s:4](read, where=where))

    def run(T: Array) -> Array:
        total = np.zeros((2 * height + 2, 2 * height + 2, channels), T.dtype)
        for p in range(4):
            for q in range(4):
                total[p : p + 2 * height : 2, q : q + 2 * height : 2] += T[:, :, p, q]
        return total[1:-1, 1:-1]

    return Case(f"selective add 4x4 stride 2, {height}x{height}x{channels}", scope, run)


def image_to_columns(size: int, channels: int) -> Case:
    """The operand of a convolution's matrix multiplication, 3x3."""
    a = ea.tensor("A", (size, size, channels))
    scope = ea.L[h:size, w:size, r:3, s:3, c](a.pad(1, 1, 0)[h + r - 1, w + s - 1, c])

    def run(A: Array) -> Array:
        padded = np.pad(A, ((1, 1), (1, 1), (0, 0)))
        return np.ascontiguousarray(
            np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1)).transpose(
                0, 1, 3, 4, 2
            )
        )  # pyright: ignore

    return Case(f"image to columns 3x3, {size}x{size}x{channels}", scope, run)


def joined(rows: int, columns: int) -> Case:
    a, b = ea.tensor("A", (rows, columns)), ea.tensor("B", (rows, 2 * columns))
    scope = ea.L[i:rows, j : 3 * columns](
        a.pad(0, (0, 2 * columns))[i, j] + b.pad(0, (columns, 0))[i, j - columns]
    )
    return Case(
        f"concatenation {rows}x{3 * columns}", scope, lambda A, B: np.concatenate([A, B], 1)
    )


def softmax(rows: int, columns: int) -> Case:
    a = ea.tensor("A", (rows, columns))
    peak = ea.Max[k:columns](a[i, k])
    scope = ea.L[i, j:columns](
        sympy.exp(a[i, j] - peak) / ea.Sum[s:columns](sympy.exp(a[i, s] - peak))
    )

    def run(A: Array) -> Array:
        powers = np.exp(A - A.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    return Case(f"softmax {rows}x{columns}", scope, run)


def max_pool(channels: int, size: int) -> Case:
    a = ea.tensor("A", (channels, size, size))
    scope = ea.L[c, h : size // 2, w : size // 2](
        ea.Max[r:3, s:3](a.pad(0, 1, 1, fill=-sympy.oo)[c, 2 * h + r - 1, 2 * w + s - 1])
    )

    def run(A: Array) -> Array:
        padded = np.pad(A, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        return np.maximum.reduce(
            [padded[:, p : p + size : 2, q : q + size : 2] for p in range(3) for q in range(3)]
        )

    return Case(f"max pool 3x3 stride 2, {channels}x{size}x{size}", scope, run)


def channels_last(batch: int, channels: int, size: int) -> Case:
    a = ea.tensor("A", (batch, channels, size, size))
    scope = ea.L[n:batch, h:size, w:size, c:channels](a[n, c, h, w])
    return Case(
        f"channels last {batch}x{channels}x{size}x{size}",
        scope,
        lambda A: np.ascontiguousarray(A.transpose(0, 2, 3, 1)),
    )


def convolution(size: int, channels: int) -> Case:
    """The direct form: not tuned, a baseline."""
    a, weights = (
        ea.tensor("A", (1, size, size, channels)),
        ea.tensor("K", (3, 3, channels, channels)),
    )
    scope = ea.L[n, h:size, w:size, f](
        ea.Sum[r, s, c](a.pad(0, 1, 1, 0)[n, h + r - 1, w + s - 1, c] * weights[r, s, c, f])
    )

    def run(A: Array, K: Array) -> Array:
        padded = np.pad(A, ((0, 0), (1, 1), (1, 1), (0, 0)))
        return sum(
            padded[:, p : p + size, q : q + size] @ K[p, q] for p in range(3) for q in range(3)
        )  # pyright: ignore

    return Case(f"direct Conv3x3 NHWC {size}x{size}x{channels}", scope, run)


def cases() -> Iterator[Case]:
    for layout in ("nhwrsf", "nfrshw", "rsfnhw"):
        yield offset_add(1, 56, 56, 64, 3, layout)
        yield offset_add(8, 56, 56, 64, 3, layout)
    yield offset_add(1, 7, 7, 512, 3, "nhwrsf")
    yield offset_add(1, 7, 7, 512, 3, "nfrshw")
    yield offset_add(1, 224, 224, 1, 5, "nhwrsf")
    yield offset_add(1, 28, 28, 128, 5, "nhwrsf")
    yield selective_add(32, 64)
    yield image_to_columns(56, 64)
    yield joined(2000, 300)
    yield softmax(512, 1000)
    yield max_pool(64, 112)
    yield channels_last(8, 64, 112)
    yield convolution(56, 64)


def measured_case(case: Case, rounds: int) -> bench.Row:
    program = as_program(case.scope)
    begun = perf_counter()
    source = c_source([lower("O", case.scope)])
    lowered = perf_counter() - begun
    compiler = find_compiler()
    assert compiler is not None, "this benchmark needs a C compiler"
    begun = perf_counter()
    compiler._run(source, 300.0)
    compiled = perf_counter() - begun
    run = compile_program(program)
    rng = np.random.default_rng(0)
    arrays = {name: rng.random(t.shape, np.float32) for name, t in program.tensors.items()}
    result = run(**arrays)
    assert np.allclose(result, case.numpy(**arrays), rtol=1e-4, atol=1e-4), case.name
    moved = sum(a.nbytes for a in arrays.values()) + result.nbytes
    source_bytes = rng.random(moved // 8, np.float32)
    copy = np.empty_like(source_bytes)
    calls = {
        "generated": run.repeated(**arrays),
        "copy": lambda: np.copyto(copy, source_bytes),
        "numpy": lambda: case.numpy(**arrays),
    }
    policy = MeasuringPolicy(min_turns=rounds, max_turns=rounds, sharp_spread=0.0)
    middle = {name: figures.median for name, figures in measure(calls, policy).items()}
    rates = {f"{name}, GB/s": moved / seconds / 1e9 for name, seconds in middle.items()}
    return {
        "case": case.name,
        "MB": moved / 1e6,
        "generated, ms": middle["generated"] * 1e3,
        **rates,
        "of a copy": middle["copy"] / middle["generated"],
        "of numpy": middle["numpy"] / middle["generated"],
        "lowering, ms": lowered * 1e3,
        "compiling, ms": compiled * 1e3,
    }


def main() -> None:
    parser = bench.options("How fast do generated eOperators run?")
    parser.add_argument(
        "--rounds", type=int, default=11, help="runs of which the median is shown (default: 11)"
    )
    parser.add_argument(
        "--only", default="", metavar="WORD", help="only cases with this word in their name"
    )
    chosen = parser.parse_args()
    bench.report(
        {
            "eOperators": (
                measured_case(case, chosen.rounds) for case in cases() if chosen.only in case.name
            )
        },
        chosen.json,
    )


if __name__ == "__main__":
    main()
