"""Products of which one factor depends on two indices of the output through one combination."""

from __future__ import annotations

from typing import Any

import pytest

import einalg as ea
from codegen.ir.nodes import Alloc, Function, walk
from codegen.targets.cuda.lowering.lower import cuda_kernels, lower_cuda
from codegen.targets.cuda.lowering.threads.schedule import BlockTile, CudaSchedule
from tests.helpers.cuda_run import run

i, j, k, b, c, h, w, d = ea.indices("i j k b c h w d")
TILES = (BlockTile(8, 8, 4, 4, 2), BlockTile(4, 4, 4, 2, 1))
SMALL = CudaSchedule(min_tiled_products=1, tiles=TILES, max_parts=1)
SHALLOW = (BlockTile(8, 8, 2, 4, 2), BlockTile(4, 4, 2, 2, 1))
SHARED = CudaSchedule(min_tiled_products=1, tiles=SHALLOW, max_parts=3, min_part_steps=1)


def tensor(name: str, *shape: int) -> Any:
    return ea.tensor(name, shape, "i64")


def combined(one: int, other: int, rows: Any = (0, 23), taps: Any = (0, 13)) -> Any:
    """`O[i,w] += Q[i,k]*K[one*i + other*w + …,k]`, of which half is outside of K."""
    (first, end), (low, high) = rows, taps
    ends = [one * x + other * y for x in (first, end - 1) for y in (low, high - 1)]
    extent = max(ends) - min(ends) + 1
    outside = extent // 4
    keys = tensor("K", extent - 2 * outside, 5).pad(outside, 0)
    query = ea.tensor("Q", ((first, end), 5), "i64")
    return ea.L[i:first:end, w:low:high](
        ea.Sum[k](query[i, k] * keys[one * i + other * w - min(ends) - outside, k])
    )


def is_tiled(function: Function) -> bool:
    """Whether both factors pass through shared memory."""
    shared = {
        node.buf.name
        for node in walk(function)
        if isinstance(node, Alloc) and node.buf.space == "shared"
    }
    return {"left", "right"} <= shared


@pytest.mark.parametrize("schedule", [SMALL, SHARED], ids=["whole sums", "shared sums"])
def test_every_combination(schedule: CudaSchedule) -> None:
    """Rows that move forwards and backwards, by one or several columns, or not at every row."""
    pairs = [(1, 1), (1, -1), (-1, 1), (1, 3), (2, 1), (2, -3), (4, 6), (-2, 4)]
    expressions = [combined(*pair) for pair in pairs]
    expressions += [combined(1, 1, (-3, 8), (2, 19)), combined(1, 2, (5, 12), (-7, 6))]
    assert all(is_tiled(lower_cuda("O", scope, schedule=schedule)) for scope in expressions)
    shared = [len(cuda_kernels("O", scope, schedule=schedule)) == 2 for scope in expressions]
    assert any(shared) == (schedule is SHARED)
    run(expressions, schedule)


def test_what_is_read_beside_the_sum() -> None:
    """At points of the statement only: the tensors end there."""
    query, keys, scale = tensor("Q", 3, 17, 5), tensor("K", 3, 17, 5), tensor("S", 17, 15)
    band = ea.Sum[k](query[b, i, k] * keys.pad(0, 7, 0)[b, i + w - 7, k])
    left, right = tensor("L", 6, 4, 19), tensor("R", 6, 4, 19)
    expressions = [
        ea.L[b, i, w:15](ea.Max(band, 0) * scale[i, w] + keys[b, i, w % 5]),
        ea.L[w:15, b, i](band),  # neighbours in memory are rows
        ea.L[d:11, h, w](ea.Sum[c](left[c, h, w] * right.pad(0, 0, (5, 5))[c, h, w + d - 5])),
        ea.L[i, j:16](ea.Sum[k](query[1, i, k] * tensor("P", 32, 5)[j - i + 16, k])),
    ]
    assert all(is_tiled(lower_cuda("O", scope, schedule=SMALL)) for scope in expressions)
    run(expressions, SMALL)


def test_bands_that_are_too_narrow() -> None:
    """Most columns of a tile would be outside of them."""
    assert not is_tiled(lower_cuda("O", combined(1, 1, taps=(0, 3)), schedule=SMALL))
    assert not is_tiled(lower_cuda("O", combined(5, 1, taps=(0, 13)), schedule=SMALL))


def test_an_index_that_is_summed() -> None:
    """Rows keep to themselves: 0 times what others meet would be NaN for an infinity."""
    band, values = tensor("S", 23, 13), tensor("V", 35, 5)
    assert not is_tiled(
        lower_cuda("O", ea.L[i, k](ea.Sum[w](band[i, w] * values[i + w, k])), schedule=SMALL)
    )
