"""The cycles of loop nests: what they depend on, without any timing."""

from __future__ import annotations

import pytest

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.kernels.loop_cost.cycles import function_cycles
from codegen.kernels.transpose import transpose_kernel
from codegen.lowering.lower import lower
from codegen.lowering.partial_sums import with_partial_sums
from einalg.language import ops
from einalg.language.ir.scope import Scope

MACHINE = CpuModel(32, 16, 32 << 10, 1 << 20)


def cycles(text: str, **tensors: tuple[int, ...]) -> float:
    return function_cycles(lower("O", ea.parse(text, **tensors)), MACHINE)


def test_elements_in_order_cost_less_than_those_apart() -> None:
    in_order = cycles("O[i,j] = A[i,j] + 1", A=(512, 512))
    apart = cycles("O[i,j] = A[j,i] + 1", A=(512, 512))
    assert apart > 1.5 * in_order


def test_cost_grows_with_the_elements() -> None:
    costs = [cycles("O[i] = A[i]*2", A=(size,)) for size in (64, 640, 6400, 64000)]
    assert costs == sorted(costs)
    assert 5 < costs[2] / costs[1] < 15


@pytest.mark.parametrize("vector", [16, 32, 64])
def test_what_fills_no_vector_costs_as_its_elements(vector: int) -> None:
    """Elements that lie apart are put into vectors one by one, in short rows too."""
    machine = CpuModel(vector, 32)
    short, long = (
        function_cycles(lower("O", ea.parse("O[j,i] = A[i,j]", A=(size, 4096))), machine) / size
        for size in (7, 16)
    )
    assert 0.6 < short / long < 1.6


def test_stores_that_fill_what_they_step_over_are_interleaved() -> None:
    """Channels of a picture that become the last axis are written in vectors."""
    together = cycles("O[i,j] = A[j,i]", A=(3, 4096))
    apart = cycles("O[i,j] = A[j,i]", A=(7, 4096))
    assert together / 3 < 0.7 * apart / 7


def test_functions_cost_more_than_products() -> None:
    product = cycles("O[i] = A[i]*2", A=(4096,))
    assert cycles("O[i] = exp(A[i])", A=(4096,)) > 3 * product
    assert cycles("O[i] = A[i]/B[i]", A=(4096,), B=(4096,)) > product


def test_wider_vectors_cost_less() -> None:
    function = lower("O", ea.parse("O[i] = A[i]*A[i]", A=(4096,)))
    narrow = function_cycles(function, CpuModel(16, 16))
    assert function_cycles(function, CpuModel(64, 32)) < narrow / 2


def test_lines_that_no_cache_keeps_are_fetched_again() -> None:
    """Columns of a matrix are read from the first cache where it holds the lines of all."""
    kept = cycles("O[j,i] = A[i,j]+A[i,j]*A[i,j]", A=(64, 64)) / 64**2
    lost = cycles("O[j,i] = A[i,j]+A[i,j]*A[i,j]", A=(2048, 2048)) / 2048**2
    assert lost > 1.2 * kept


def test_borders_cost_no_more_than_their_part() -> None:
    """The cuts of a loop are counted as often as they run, not as often as the whole loop."""
    inside = ops.max_pool2d(ea.tensor("A", (1, 4, 102, 100)), (3, 1), stride=1)
    padded = ops.max_pool2d(ea.tensor("A", (1, 4, 100, 100)), (3, 1), stride=1, padding=(1, 0))
    costs = [function_cycles(lower("O", scope), MACHINE) for scope in (inside, padded)]
    assert 0.7 < costs[1] / costs[0] < 1.5


def test_windows_that_step_over_elements_read_all_of_them() -> None:
    """The lines of the elements between two positions are counted as well."""
    near = ops.max_pool2d(ea.tensor("A", (1, 200, 200, 32)), 2, stride=1, layout="NHWC")
    far = ops.max_pool2d(ea.tensor("A", (1, 398, 398, 32)), 2, stride=2, layout="NHWC")
    assert near.shape == far.shape
    costs = [function_cycles(lower("O", scope), MACHINE) for scope in (near, far)]
    assert costs[1] > 1.3 * costs[0]


@pytest.mark.parametrize("size", [256, 500, 1024])
def test_squares_are_cheaper_than_columns(size: int) -> None:
    scope: Scope = ea.parse("O[i,j] = A[j,i]", A=(size, size))
    squares = transpose_kernel("O", scope, MACHINE)
    assert squares is not None
    assert function_cycles(squares, MACHINE) < function_cycles(lower("O", scope), MACHINE)


def test_a_row_of_registers_costs_what_the_elements_do() -> None:
    """Sums in a row of registers wait for no addition, and are no reads and writes of memory."""
    function = lower("O", ea.parse("O[i] += Abs(A[i,k] - B[i,k])", A=(50, 640), B=(50, 640)))
    assert function_cycles(with_partial_sums(function), MACHINE) < function_cycles(
        function, MACHINE
    )
