"""Products by tensor cores: every layout, type and remainder, on fragments that the shim spreads
over the threads of a warp.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.ir.nodes import FragmentMma, walk
from codegen.targets.cuda.device.nvcc import ARCHITECTURES, compile_all, find_nvcc
from codegen.targets.cuda.launch import MAX_SHARED_BYTES
from codegen.targets.cuda.lowering.lower import cuda_kernels, lower_cuda
from codegen.targets.cuda.lowering.threads.schedule import (
    CUDA_DEFAULT,
    TENSOR_TILES,
    TensorTile,
    schedule_for_accuracy,
)
from codegen.targets.cuda.shim import Shim
from codegen.targets.cuda.text.printer import cuda_source
from einalg.language.ir.program import as_program
from tests.helpers.cuda_kernels import check, run_programs
from tests.helpers.kernels import evaluated

b, i, j, k, c, h, r, f = ea.indices("b i j k c h r f")
SMALL = replace(
    CUDA_DEFAULT, min_tiled_products=1, tensor_tiles=(TensorTile(32, 16, 16, 2, 1),), max_parts=1
)


def product(rows: int, columns: int, depth: int, dtype: str = "f16", turned: bool = False) -> Any:
    """`turned`: both factors have the summed index first."""
    left = ea.tensor("A", (depth, rows) if turned else (rows, depth), dtype)
    right = ea.tensor("B", (depth, columns) if turned else (columns, depth), dtype)
    return ea.L[i, j](ea.Sum[k]((left[k, i] * right[k, j]) if turned else left[i, k] * right[j, k]))


def multiplies(scope: Any, schedule: Any = SMALL) -> bool:
    return any(
        isinstance(node, FragmentMma) for node in walk(lower_cuda("O", scope, schedule=schedule))
    )


def run(scopes: list[Any], schedule: Any, most: int = 4, max_grid: Any = CUDA_DEFAULT.grid) -> None:
    """Small integers, whose products and sums all types here hold exactly."""
    rng = np.random.default_rng(5)
    programs = [as_program(scope) for scope in scopes]
    arrays = [
        {
            name: rng.integers(-most, most, t.shape).astype(np.float32)
            for name, t in program.inputs.items()
        }
        for program in programs
    ]
    for program, given, found in zip(
        programs, arrays, run_programs(programs, arrays, schedule, max_grid)
    ):
        check(program, evaluated(program, given), found)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_layouts_and_remainders(dtype: str) -> None:
    sizes = [(32, 16, 16), (33, 17, 31), (31, 40, 48), (64, 64, 1), (16, 16, 40)]
    scopes = [product(*size, dtype, turned) for size in sizes[:3] for turned in (False, True)] + [
        product(*sizes[4], dtype)
    ]
    assert all(multiplies(scope) for scope in scopes)
    run(scopes, SMALL, 2)


@pytest.mark.parametrize("tile", TENSOR_TILES, ids=str)
def test_every_tile(tile: TensorTile) -> None:
    assert tile.is_legal("f16") and tile.shared("f16") <= MAX_SHARED_BYTES
    schedule = replace(SMALL, tensor_tiles=(tile,))
    scope = product(tile.rows + 3, tile.columns + 1, 2 * tile.depth + 8)
    assert multiplies(scope, schedule)
    run([scope], schedule, 3)


def test_more_kinds() -> None:
    """A batch, a bias and a rectifier after the product, a padded convolution, and blocks that take
    several tiles.
    """
    a, w, v = (
        ea.tensor("A", (2, 8, 20), "f16"),
        ea.tensor("K", (24, 8, 3), "f16"),
        ea.tensor("V", (24,), "f32"),
    )
    padded = a.pad(0, 0, (1, 1))
    scopes = [
        ea.L[b, i, j](
            ea.Sum[k](
                ea.tensor("P", (3, 20, 17), "f16")[b, i, k]
                * ea.tensor("Q", (3, 17, 24), "f16")[b, k, j]
            )
        ),
        ea.L[b, f, h](ea.Max(ea.Sum[c, r](padded[b, c, h + r - 1] * w[f, c, r]) + v[f], 0)),
    ]
    assert all(multiplies(scope) for scope in scopes)
    run(scopes, SMALL, 2)
    run(scopes, SMALL, 2, (2, 1, 1))


def test_what_would_lose_precision_goes_another_way() -> None:
    a, other = ea.tensor("A", (32, 32), "f16"), ea.tensor("B", (32, 32), "f16")
    assert multiplies(ea.L[i, j](ea.Sum[k](a[i, k] * other[k, j])))
    assert not multiplies(ea.L[i, j](ea.Sum[k]((a[i, k] + 1) * other[k, j]))), (
        "a sum is no element of f16"
    )
    assert not multiplies(
        ea.L[i, j](ea.Sum[k](a[i, k] * ea.tensor("B", (32, 32), "bf16")[k, j]))
    ), "factors of two types"
    assert not multiplies(ea.L[i, j](ea.Sum[k](a[i, k] * ea.tensor("B", (32, 32), "f32")[k, j])))
    assert not multiplies(product(32, 32, 32, "f32")) and not multiplies(product(32, 32, 32, "f64"))
    tenth = a.pad(0, (1, 1), fill=0.1)
    assert not multiplies(
        ea.L[i, j](ea.Sum[k:-1:33](tenth[i, k] * ea.tensor("B", ((-1, 33), 32), "f16")[k, j]))
    ), "0.1 is none either"


def test_tf32_where_it_is_allowed() -> None:
    """Off by default; where it is on, values are those of factors with 10 bits."""
    scope = product(40, 24, 20, "f32")
    allowed = replace(SMALL, tf32=True)
    assert multiplies(scope, allowed) and "precision::tf32" in cuda_source(
        [lower_cuda("O", scope, schedule=allowed)]
    )
    assert (
        schedule_for_accuracy(1e-2).tf32
        and not schedule_for_accuracy(1e-4).tf32
        and not CUDA_DEFAULT.tf32
    )
    run([scope], allowed)
    program = as_program(scope)
    rng = np.random.default_rng(1)
    arrays = {
        name: rng.normal(size=t.shape).astype(np.float32) for name, t in program.inputs.items()
    }
    found = Shim([lower_cuda("O", scope, schedule=allowed)]).run(0, arrays)
    expected = evaluated(program, arrays)["O"]
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert 1e-6 < error < 2**-10


def test_long_sums_are_shared_by_blocks() -> None:
    schedule = replace(SMALL, max_parts=4, min_part_steps=1, device_blocks=8)
    for scope in (product(20, 18, 100), product(17, 24, 96, "bf16", True)):
        kernels = cuda_kernels("O", scope, schedule=schedule)
        assert len(kernels) == 2 and kernels[0].output.dtype == "f32"
        run([scope], schedule, 2)


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_registers(record_property: Any) -> None:
    """Large products: nothing is spilled on any architecture, and two blocks fit a multiprocessor
    but for rows of halves that are not aligned.
    """
    schedule = replace(CUDA_DEFAULT, tf32=True)
    aligned, odd = (1024, 1024, 1024), (1000, 1003, 1001)
    cases = [(dtype, sizes) for dtype in ("f16", "bf16", "f32") for sizes in (aligned, odd)]
    kernels = [lower_cuda("O", product(*sizes, dtype), schedule=schedule) for dtype, sizes in cases]
    assert all(any(isinstance(node, FragmentMma) for node in walk(kernel)) for kernel in kernels)
    for cubin in compile_all(cuda_source(kernels), ARCHITECTURES):
        for position, (dtype, sizes) in enumerate(cases):
            usage = cubin.usage[f"kernel_{position}"]
            record_property(f"{dtype} {sizes} sm_{cubin.sm}", str(usage))
            most = 255 if sizes == odd and dtype != "f32" else 128
            assert usage.spilled == 0 and usage.registers <= most, (
                f"{dtype} {sizes} on sm_{cubin.sm}: {usage}"
            )
