"""CUDA kernels by three routes: the reference evaluator, the schedule as C, and the CUDA text on
the CPU in several orders of threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from codegen.ir.nodes import Function
from codegen.runtime.array_arguments import loaded
from codegen.targets.c.source_file import c_source, entry_name
from codegen.targets.cuda.device_types import from_device, to_device
from codegen.targets.cuda.lowering.lower import cuda_kernels
from codegen.targets.cuda.lowering.threads.schedule import (
    CUDA_DEFAULT,
    BlockTile,
    CudaSchedule,
    TensorTile,
)
from codegen.targets.cuda.shim import Shim
from codegen.targets.cuda.text.printer import MAX_GRID
from codegen.targets.cuda.text.serialize import serial
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.program import Program, as_program
from tests.helpers.kernels import Array, agrees, call, quick_compiler

ORDERS = (0, 1, 7)  # of threads: as numbered, backwards, shuffled
SMALL = (BlockTile(8, 8, 4, 4, 2), BlockTile(4, 4, 4, 2, 1))
NARROW = (TensorTile(32, 32, 16, 1, 2), TensorTile(16, 16, 16, 1, 1))
SHARING = dict(
    min_shared_terms=3,
    min_row_terms=2,
    lanes=(4, 8),
    warp_lanes=4,
    device_blocks=2,
    min_part_steps=1,
    max_parts=3,
)
TIGHT = CudaSchedule(
    unroll=2,
    threads=8,
    max_thread_outputs=3,
    device_threads=40,
    min_tiled_products=2,
    tiles=SMALL,
    tensor_tiles=NARROW,
    **SHARING,
)
TIGHT_GRID = (3, 2, 2)  # blocks, so that one block does the work of several


def functions(program: Any, schedule: CudaSchedule = CUDA_DEFAULT) -> list[Function]:
    known = dict(as_program(program).statements)
    taken = as_program(program).tensors
    kernels: list[Function] = []
    for name, scope in known.items():
        kernels += cuda_kernels(name, scope, known, schedule, taken)
        output = kernels[-1].output
        assert (output.shape, output.dtype) == (scope.shape, scope.dtype)
    return kernels


def run_programs(
    programs: Sequence[Program],
    arrays: Sequence[Mapping[str, Any]],
    schedule: CudaSchedule = CUDA_DEFAULT,
    max_grid: tuple[int, int, int] = MAX_GRID,
    orders: Sequence[int] = ORDERS,
    certain: Sequence[Array] = (),
) -> list[dict[str, Array]]:
    """The values of all statements of several flat programs; the routes and orders must agree.

    `certain` says for each program at which points of its outputs they must; at all, unless given.
    """
    kernels = [functions(program, schedule) for program in programs]
    flat = [kernel for group in kernels for kernel in group]
    shim, library = Shim(flat, max_grid), serial_library(flat)
    results: list[dict[str, Array]] = []
    position = 0
    if not certain:
        certain = [np.array(True)] * len(programs)
    for program, group, given, compared in zip(programs, kernels, arrays, certain):
        values: dict[str, Any] = {**loaded(as_program(program).constants, {}), **given}
        for kernel in group:
            name = kernel.output.name
            found = shim.run(position, values, orders[0])
            for seed in orders[1:]:
                again = shim.run(position, values, seed)
                assert np.array_equal(found, again, equal_nan=is_float(kernel.output.dtype)), (
                    f"{name} depends on the order of threads:\n{kernel.comment}"
                )
            stored = {
                b.name: from_device(to_device(np.asarray(values[b.name]), b.dtype), b.dtype)
                for b in kernel.inputs
            }
            as_c = call(getattr(library, entry_name(position)), kernel, stored)
            rounded = from_device(to_device(as_c, kernel.output.dtype), kernel.output.dtype)
            if name in program.outputs:
                rounded = np.where(compared, rounded, found)
            assert agrees(found, rounded, coarse(kernel.output.dtype)), (
                f"{name} as CUDA is\n{found}\nas C\n{rounded}\n{kernel.comment}"
            )
            values[name] = found
            position += 1
        results.append(values)
    return results


def serial_library(kernels: Sequence[Function]) -> ctypes.CDLL:
    """The schedules of kernels as C, which runs in these tests only: nothing is optimized.

    The C of the product is compiled with the flags of the product elsewhere.
    """
    plain = quick_compiler(level="-O0").with_flags("-fwrapv")
    return plain.load(c_source([serial(kernel) for kernel in kernels]))


def coarse(dtype: str) -> str:
    """The type whose precision a result has: C holds bf16 as f32, a device in two bytes."""
    return "f16" if dtype == "bf16" else dtype


def check(program: Program, expected: Mapping[str, Any], found: Mapping[str, Array]) -> None:
    """Fail where an output is not as expected."""
    for name, values in expected.items():
        dtype = coarse(program[name].dtype)
        assert agrees(found[name], values, dtype), (
            f"{name} ({dtype}) of\n{program}\nis\n{found[name]}\nexpected\n{values}"
        )
