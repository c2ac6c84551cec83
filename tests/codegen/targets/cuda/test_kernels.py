"""Which kernel a statement becomes, and each kind at the sizes where it is delicate: remainders,
few and many points, all types.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.ir.nodes import Alloc, Sync, walk
from codegen.targets.cuda.lowering.lower import lower_cuda
from codegen.targets.cuda.lowering.threads.schedule import (
    BLOCK_TILES,
    CUDA_DEFAULT,
    BlockTile,
    CudaSchedule,
)
from codegen.targets.cuda.text.barriers import with_barriers
from codegen.targets.cuda.text.geometry import launch
from codegen.targets.cuda.text.printer import cuda_source, index_type
from einalg.errors import CodegenError
from einalg.language.ir.dtypes import NUMPY
from tests.helpers.cuda_run import run

i, j, k, m, b, c, f, h, r = ea.indices("i j k m b c f h r")
TILED = CudaSchedule(min_tiled_products=1, tiles=(BlockTile(16, 8, 4, 4, 2),), max_parts=1)


def shared(scope: Any, schedule: CudaSchedule = CUDA_DEFAULT) -> set[str]:
    """The buffers that the threads of a block share: they tell which kind of kernel it is."""
    return {
        n.buf.name
        for n in walk(lower_cuda("O", scope, schedule=schedule))
        if isinstance(n, Alloc) and n.buf.space == "shared"
    }


def product(rows: int, columns: int, depth: int, dtype: str = "i32", batch: int = 1) -> Any:
    left, right = (
        ea.tensor("A", (batch, rows, depth), dtype),
        ea.tensor("B", (batch, depth, columns), dtype),
    )
    return ea.L[b, i, j](ea.Sum[k](left[b, i, k] * right[b, k, j]))


def test_contractions_with_remainders() -> None:
    sizes = [(1, 8, 4), (16, 8, 4), (17, 9, 5), (31, 7, 1), (15, 16, 13), (33, 25, 3)]
    run([product(*size) for size in sizes] + [product(5, 11, 7, batch=3)], TILED)


def test_contractions_of_more_kinds() -> None:
    a, w, v = (
        ea.tensor("A", (2, 3, 11), "i64"),
        ea.tensor("K", (5, 3, 4), "i64"),
        ea.tensor("V", (5,), "i64"),
    )
    padded = a.pad(0, 0, (1, 2))
    run(
        [
            ea.L[b, f, h:11](
                ea.Sum[c, r](padded[b, c, h + r - 1] * w[f, c, r])
            ),  # a padded convolution
            ea.L[b, h:5, f](
                ea.Sum[c, r](padded[b, c, 2 * h + r - 1] * w[f, c, r]) + v[f]
            ),  # strided, channels last, with a bias
            ea.L[f, m:5](ea.Sum[c:3, r:4](w[f, c, r] * w[m, c, r] * v[f])),  # three factors
            ea.L[f, m:5](
                ea.Max(ea.Sum[c:3, r:4](2 * (w[f, c, r] + 1) * w[m, c, r]), 0)
            ),  # factors that are sums, and a rectifier
        ],
        TILED,
    )


@pytest.mark.parametrize("tile", BLOCK_TILES, ids=str)
def test_every_tile(tile: BlockTile) -> None:
    scope = ea.L[i, j](
        ea.Sum[k](
            ea.tensor("A", (tile.rows + 3, 19), "i32")[i, k]
            * ea.tensor("B", (19, tile.columns + 1), "i32")[k, j]
        )
    )
    assert tile.is_legal("f64")
    run([scope], replace(CUDA_DEFAULT, min_tiled_products=1, tiles=(tile,)))


def test_reductions_short_and_long() -> None:
    scopes = []
    for points in (0, 1, 2, 31, 63, 64, 65, 255, 1000, 1024, 2049):
        a = ea.tensor("A", (3, points), "i64")
        scopes += [
            ea.L[i](ea.Sum[j](a[i, j])),
            ea.L[i](ea.Max[j](a[i, j]) + 1) if points else ea.L[i](ea.Sum[j](2 * a[i, j])),
        ]
    run(scopes, CUDA_DEFAULT)


def test_reductions_of_many_outputs_and_indices() -> None:
    a = ea.tensor("A", (11, 5, 13), "i32")
    nested = ea.L[i](ea.Sum[c, r]((a[i, c, r] - ea.Sum[k:5, m:13](a[i, k, m])) ** 2))
    triangle = ea.L[i, c](ea.Sum[r](a[i, c, r], where=r <= i))
    run(
        [ea.L[i](ea.Min[c, r](a[i, c, r])), ea.L[r](ea.Sum[i, c](a[i, c, r])), nested, triangle],
        replace(CUDA_DEFAULT, min_shared_terms=20),
    )
    run(
        [ea.L[i](ea.Min[c, r](a[i, c, r])), nested],
        replace(CUDA_DEFAULT, min_shared_terms=20),
        (4, 1, 1),
    )


@pytest.mark.parametrize("size", [4, 8, 12, 33, 64, 1024])
def test_elements_side_by_side(size: int) -> None:
    """Reads of 16 bytes, and what is left where sizes do not divide."""
    schedule = replace(CUDA_DEFAULT, threads=8)
    scopes = []
    for dtype in ("bool", "i8", "f16", "bf16", "f32", "i64"):
        a, other = ea.tensor("A", (size, 4), dtype), ea.tensor("B", (size, 4), dtype)
        scopes.append(ea.L[i, j](ea.Max(a[i, j], other[i, j])))
    scopes.append(
        ea.L[i, j](
            ea.tensor("A", (size, 4))[i, j] * ea.tensor("C", (), "f32")[()]
            + ea.tensor("B", (size, 4), "f64")[i, j]
        )
    )
    run(scopes, schedule)


@pytest.mark.parametrize("dtype", NUMPY)
def test_types(dtype: str) -> None:
    depth = 6 if dtype in ("i8", "u8") else 70  # sums that the type holds
    a, other = ea.tensor("A", (13, depth), dtype), ea.tensor("B", (depth, 9), dtype)
    scopes = [ea.L[i](ea.Max[j](a[i, j])), ea.L[i, j](a[i, j])]
    if dtype != "bool":
        scopes += [ea.L[i, j](ea.Sum[k](a[i, k] * other[k, j])), ea.L[j, i](a[i, j] * a[i, j] + 1)]
    run(scopes, replace(CUDA_DEFAULT, min_tiled_products=64))


def test_kinds() -> None:
    assert shared(product(64, 64, 64, "f32")) == {"left", "right"}
    assert shared(ea.L[i](ea.Sum[j](ea.tensor("A", (10, 2000))[i, j]))) == {"totals"}
    assert shared(ea.L[i](ea.Sum[j](ea.tensor("A", (10, 1000))[i, j]))) == set(), (
        "the threads of a warp hand each other their sums"
    )
    assert shared(ea.L[i](ea.Sum[j](ea.tensor("A", (10, 20))[i, j]))) == set()
    assert shared(ea.L[i](ea.Sum[j](ea.tensor("A", (1 << 18, 100))[i, j]))) == set()


def test_barriers_are_where_they_are_needed() -> None:
    kernel = lower_cuda("O", product(64, 64, 64, "f32"))
    syncs = [n.scope for n in walk(with_barriers(kernel)) if isinstance(n, Sync)]
    assert syncs == ["block", "block"], "one a step, one before the last products"
    tree = lower_cuda("O", ea.L[i](ea.Sum[j](ea.tensor("A", (1, 100000))[i, j])))
    syncs = [n.scope for n in walk(with_barriers(tree)) if isinstance(n, Sync)]
    assert syncs == ["block"], "between the sums of the warps and those who read them"


def test_index_type_is_wide_where_offsets_are() -> None:
    assert (
        index_type(lower_cuda("O", ea.L[i, j](ea.tensor("A", (30000, 30000))[i, j] + 1))) == "int"
    )
    assert (
        index_type(lower_cuda("O", ea.L[i, j](ea.tensor("A", (50000, 50000))[i, j] + 1)))
        == "int64_t"
    )
    assert index_type(lower_cuda("O", ea.L[i](ea.tensor("A", (2**20, 2**20))[i, 5]))) == "int64_t"


def test_axes_of_blocks_beyond_what_a_device_has() -> None:
    """The third axis of a grid ends at 65535: blocks go on with the batch."""
    kernel = lower_cuda(
        "O",
        product(16, 16, 16, batch=70000, dtype="f32"),
        schedule=replace(CUDA_DEFAULT, min_tiled_products=64),
    )
    assert launch(kernel).grid[2] == 65535
    assert "batch < 70000; batch += gridDim.z" in cuda_source([kernel])
    run([product(9, 10, 5, batch=7)], TILED, (1, 1, 3))


def test_what_no_device_runs_is_refused() -> None:
    wide = BlockTile(64, 64, 4, 1, 1)
    assert not wide.is_legal("f32")
    scope = ea.L[i](ea.tensor("A", (5000,))[i] + 1)
    with pytest.raises(CodegenError, match="2048 threads"):
        cuda_source([lower_cuda("O", scope, schedule=CudaSchedule(threads=2048, vector_bytes=4))])
    kernel = lower_cuda("O", product(64, 64, 64, "f64"))
    huge = replace(
        kernel,
        body=(Alloc(next(n.buf for n in walk(kernel) if isinstance(n, Alloc))), *kernel.body),
    )
    assert launch(kernel).shared < launch(huge).shared


def test_names_that_cuda_reserves() -> None:
    names = ("template", "threadIdx", "float4", "min", "new", "shim", "left", "block")
    scopes = [
        ea.L[i, j](
            ea.Sum[k:30](ea.tensor(name, (20, 30))[i, k] * ea.tensor("right", (30, 25))[k, j])
        )
        for name in names
    ]
    run(scopes, replace(CUDA_DEFAULT, min_tiled_products=1))
    double, thread = ea.indices("double thread")
    run([ea.L[double, thread](ea.tensor("O1", (3, 4))[double, thread] + np.int64(1))], CUDA_DEFAULT)
