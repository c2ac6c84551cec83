"""Reductions that a whole row of outputs shares, and sums that several blocks share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from codegen.ir.nodes import WarpReduce, walk
from codegen.targets.cuda.lowering.lower import cuda_kernels, lower_cuda
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT
from codegen.targets.cuda.text.geometry import launch
from codegen.targets.cuda.text.printer import cuda_source
from einalg.language.ir.program import as_program
from tests.helpers.cuda_kernels import check, run_programs
from tests.helpers.cuda_run import run

i, j, k, m, n = ea.indices("i j k m n")
SHARING = replace(
    CUDA_DEFAULT, device_blocks=16, min_part_steps=1, max_parts=4, min_tiled_products=1
)


def softmax(rows: int, columns: int, dtype: str = "f32") -> Any:
    a = ea.tensor("A", (rows, columns), dtype)
    largest = ea.Max[k:columns](a[i, k])
    return ea.L[i, j:columns](
        sympy.exp(a[i, j] - largest) / ea.Sum[m:columns](sympy.exp(a[i, m] - largest))
    )


@pytest.mark.parametrize("columns", [8, 33, 1024])
def test_softmax(columns: int) -> None:
    """Each row by one warp or one block, which sums once for all its outputs."""
    kernel = lower_cuda("O", softmax(3, columns))
    assert sum(isinstance(node, WarpReduce) for node in walk(kernel)) == 2, (
        "the largest element and the sum"
    )
    a = np.random.default_rng(3).normal(size=(3, columns)).astype(np.float32)
    exact = np.exp(a.astype(np.float64))
    exact /= exact.sum(1, keepdims=True)
    programs = [as_program(softmax(3, columns)), as_program(softmax(3, columns, "f16"))]
    for program, found in zip(programs, run_programs(programs, [{"A": a}] * 2)):
        check(program, {"O": exact}, found)


def test_rows_of_more_kinds() -> None:
    a, w = ea.tensor("A", (3, 4, 50), "i64"), ea.tensor("W", (50,), "i64")
    scopes = [
        ea.L[i, j, k](a[i, j, k] - ea.Max[m:50](a[i, j, m])),  # along the last index
        ea.L[i, j, k](a[i, j, k] * ea.Sum[m:3](a[m, j, k])),  # along the first one
        ea.L[i, j, k](a[i, j, k] + ea.Sum[m:50](w[m])),  # along all of them
        ea.L[i, j, k](
            a[i, j, k] - ea.Sum[m:50](a[i, j, m]) + ea.Min[n:4](a[i, n, k])
        ),  # rows that differ
        ea.L[i, j, k](
            a[i, j, k] - ea.Sum[m:50](a[i, j, m], where=m <= k), where=k >= j
        ),  # a condition on both
    ]
    run(scopes, replace(CUDA_DEFAULT, min_row_terms=2))
    run(scopes, replace(CUDA_DEFAULT, min_row_terms=2, lanes=(8, 64)), (2, 1, 1))


def test_a_long_row_is_for_several_blocks() -> None:
    scope = ea.L[i](
        ea.tensor("A", (1500,), "i32")[i] - ea.Sum[j:100](ea.tensor("A", (1500,), "i32")[j])
    )
    few = replace(CUDA_DEFAULT, lanes=(32, 32))
    assert launch(lower_cuda("O", scope, schedule=few)).grid[1] > 8
    run([scope], few)


def test_several_blocks_share_a_sum() -> None:
    a, b = ea.tensor("A", (3, 4099), "i64"), ea.tensor("B", (4099, 5), "i64")
    scopes = [
        ea.L[i](ea.Sum[j](a[i, j]) + 1),
        ea.L[i](ea.Max[j](a[i, j], where=j >= 2 * i)),
        ea.L[i:3:6](
            ea.Min[j](ea.tensor("A", ((3, 6), 4099), "i64")[i, j])
        ),  # an origin other than 0
        ea.L[i, j](2 * ea.Sum[k](a[i, k] * b[k, j])),
        ea.L[i, j](
            ea.Sum[k](ea.tensor("A", (9, 70), "i64")[i, k] * ea.tensor("B", (70, 17), "i64")[k, j])
        ),
    ]
    kernels = [cuda_kernels("O", scope, schedule=SHARING) for scope in scopes]
    assert [len(group) for group in kernels] == [2, 2, 2, 2, 2]
    run(scopes, SHARING)
    run(scopes, SHARING, (2, 2, 2))


def test_several_blocks_share_the_sums_of_a_batch() -> None:
    """A loop over the batch and the parts, with the loops over the tiles directly inside it."""
    a, b = ea.tensor("A", (3, 9, 300), "i64"), ea.tensor("B", (3, 300, 10), "i64")
    scope = ea.L[m, i, j](ea.Sum[k](a[m, i, k] * b[m, k, j]))
    kernels = cuda_kernels("O", scope, schedule=SHARING)
    assert [kernel.output.shape for kernel in kernels] == [(4, 270), (3, 9, 10)]
    run([scope], SHARING)
    run([scope], SHARING, (2, 2, 2))


def test_one_block_is_enough_for_what_is_short() -> None:
    assert len(cuda_kernels("O", ea.parse("O[i] += A[i,j]", A=(3, 200)))) == 1
    assert len(cuda_kernels("O", ea.parse("O[i] += A[i,j]", A=(5000, 20000)))) == 1, (
        "there are enough rows"
    )
    assert len(cuda_kernels("O", softmax(2, 100000))) == 1


def test_names_of_what_is_between_two_kernels() -> None:
    scope = ea.parse("O[i:1] += A[i+j]", A=(1 << 20,))
    assert cuda_kernels("O", scope, used_names={"O_parts"})[0].output.name not in (
        "O_parts",
        "O",
        "A",
    )


def test_a_persistent_grid() -> None:
    """A few blocks that go on with the next work: the loop over blocks is in the kernel."""
    kernel = lower_cuda("O", ea.parse("O[i] = A[i] + 1", A=(1 << 20,)))
    text = cuda_source([kernel], (216, 1, 1))
    assert (
        launch(kernel, 0, (216, 1, 1)).grid[0] == 216
        and "block += gridDim.x" in text
        and "__launch_bounds__(256, 2)" in text
    )
