"""Rows of outputs that one thread computes side by side."""

from __future__ import annotations

from typing import Any

import einalg as ea
from codegen.ir.nodes import Alloc, walk
from codegen.targets.cuda.lowering.lower import lower_cuda
from codegen.targets.cuda.lowering.threads.schedule import CudaSchedule
from tests.helpers.cuda_run import run

b, c, h, w, r, s = ea.indices("b c h w r s")
FEW_THREADS = CudaSchedule(
    threads=32, device_threads=4, min_shared_terms=1 << 20, min_tiled_products=1 << 30
)


def row_width(scope: Any, schedule: CudaSchedule = FEW_THREADS) -> int:
    """How many sums a thread holds."""
    widths = [
        node.buf.shape[0]
        for node in walk(lower_cuda("O", scope, schedule=schedule))
        if isinstance(node, Alloc) and node.buf.space == "local"
    ]
    return max(widths, default=1)


def depthwise(
    height: int,
    width: int,
    stride: int = 1,
    dilation: int = 1,
    first: int = 0,
    dtype: str = "i64",
    batch: int = 2,
) -> Any:
    """Channels last, 3x4 taps, with a border before the image and a wider one behind it."""
    taps = ea.tensor("K", (3, 4, 5), dtype)
    image = ea.tensor("A", (batch, height, width, 5), dtype).pad(0, (2, 7), (1, 9), 0)
    high, wide = (height - 1) // stride + 1, (width - 1) // stride + 1
    read = image[b, stride * (h - first) + dilation * r - 2, stride * w + dilation * s - 1, c]
    return ea.L[b:batch, h : first : first + high, w:wide, c](ea.Sum[r, s](read * taps[r, s, c]))


def test_windows() -> None:
    expressions = [
        depthwise(7, 12),
        depthwise(9, 16, stride=2, dilation=2),
        depthwise(5, 10, first=-4),
        depthwise(6, 9, dtype="f32"),
    ]
    assert [row_width(scope) for scope in expressions] == [6, 8, 5, 3]
    run(expressions, FEW_THREADS)


def test_other_sums_and_what_follows_them() -> None:
    image, taps = ea.tensor("A", (2, 8, 12, 5), "i64"), ea.tensor("K", (3, 3, 5), "i64")
    bias, long = ea.tensor("B", (8, 10, 5), "i64"), ea.tensor("V", (8, 97), "i64")
    expressions = [
        ea.L[b, h:6, w:10, c](ea.Max[r, s](image[b, h + r, w + s, c] + taps[r, s, c])),
        ea.L[b, h:6, w:10, c](
            ea.Max(ea.Sum[r, s](image[b, h + r, w + s, c] * taps[r, s, c]) - bias[h, w, c], 0)
        ),
        ea.L[h, w:12, c](ea.Sum[r](long[h, r] * image[0, 0, w, c])),  # more terms than are written
        ea.L[b, c, h:6, w:10](ea.Prod[r](image[b, h + r, w, c] + taps[r, 0, c])),  # w is last
    ]
    assert min(row_width(scope) for scope in expressions) > 1
    run(expressions, FEW_THREADS)


def test_where_there_are_no_rows() -> None:
    """Outputs that share nothing, that no row divides, or that are too few for a device."""
    image = ea.tensor("A", (2, 13, 12, 5), "i64")
    alone = ea.L[b, h, w:10, c](ea.Sum[s:3](image[b, h, w + s, c]))
    prime = depthwise(13, 17, batch=1)
    assert row_width(alone) == row_width(prime) == 1
    assert row_width(depthwise(7, 12), CudaSchedule()) == 1
    run([alone, prime], FEW_THREADS)
