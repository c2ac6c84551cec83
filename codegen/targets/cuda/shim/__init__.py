"""CUDA text run on the CPU, for tests on machines without a GPU: it needs a C++ compiler only.

Each thread of a block is a fiber, so that barriers work as they do on a GPU. Arrays have guards on
both sides, which show a write beyond the end and turn what is read there into NaN.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from codegen.ir.nodes import Function
from codegen.targets.c.compiler import (
    COMPILE_TIMEOUT_SECONDS,
    PROBE_TIMEOUT_SECONDS,
    Compiler,
)
from codegen.targets.cuda.device_types import from_device, to_device
from codegen.targets.cuda.launch import MAX_GRID, Launch
from codegen.targets.cuda.text.geometry import launch
from codegen.targets.cuda.text.printer import cuda_source
from einalg.errors import CodegenError, DeviceError
from einalg.language.ir.dtypes import numpy_dtype

HEADER = Path(__file__).with_name("cuda_shim.h")
FLAGS = (
    "-x",
    "c++",
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-shared",
    "-w",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-nostdinc++",  # C's own headers serve, and C++'s take longer to read than most kernels
)
FILLED = "-ftrivial-auto-var-init=pattern"  # what a thread never sets is no zero by chance
GUARD_BYTES = 256  # on each side of an array
PROBE = "int shim_probe() { return 0; }\n"
Array = np.ndarray[Any, Any]


class Shim:
    """CUDA kernels as functions of arrays.

    >>> import einalg as ea
    >>> from codegen.targets.cuda.lowering.lower import lower_cuda
    >>> kernel = lower_cuda("O", ea.parse("O[i] += A[i,j]", A=(2, 100)))
    >>> Shim([kernel]).run(0, {"A": np.ones((2, 100))})
    array([100., 100.], dtype=float32)
    """

    def __init__(
        self,
        functions: Sequence[Function],
        max_grid: tuple[int, int, int] = MAX_GRID,
        text: str = "",
    ):
        self.functions = list(functions)
        self.launches = [
            launch(function, position, max_grid) for position, function in enumerate(self.functions)
        ]
        self.library = ShimLibrary(
            text or cuda_source(self.functions, max_grid),
            [(k, len(f.inputs) + 1) for k, f in enumerate(self.functions)],
        )

    def run(self, position: int, arrays: Mapping[str, Any], seed: int = 0) -> Array:
        """Return the output of one kernel; `seed` decides the order of the threads of each block.

        Elements that the kernel does not write show as NaN, 77, -77 or True.
        """
        function = self.functions[position]
        buffers = (*function.inputs, function.output)
        guarded = []
        for buf in function.inputs:
            array = to_device(np.asarray(arrays[buf.name]), buf.dtype)
            guarded.append(_Guarded(array.reshape(buf.shape)))
        shape, dtype = function.output.shape, function.output.dtype
        out = _Guarded(to_device(_unset(shape, dtype), dtype))
        guarded.append(out)
        if function.body:
            self.library.launch(self.launches[position], [g.address for g in guarded], seed)
        for array, buf in zip(guarded, buffers):
            if not array.is_whole():
                raise DeviceError(
                    f"the kernel of {function.output.name} writes outside of {buf.name}"
                )
        return from_device(out.array.copy(), dtype)


class ShimLibrary:
    """CUDA text compiled for the CPU.

    `kernels` are the positions of its kernels, each with the number of its arguments.
    """

    def __init__(self, text: str, kernels: Sequence[tuple[int, int]]):
        self.library = cpp_compiler().load(_source(text, kernels))

    def launch(self, how: Launch, addresses: Sequence[int], seed: int = 0) -> None:
        """Run a kernel on arrays by address; `DeviceError` where threads wait for ever."""
        entry = getattr(self.library, f"shim_{how.name}")
        entry.restype = ctypes.c_char_p
        sizes = (ctypes.c_uint * 6)(*how.grid, *how.block)
        problem = entry(
            (ctypes.c_void_p * len(addresses))(*addresses), sizes, ctypes.c_uint64(seed)
        )
        if problem:
            raise DeviceError(f"{how.name}: {problem.decode()}")


def _source(text: str, kernels: Sequence[tuple[int, int]]) -> str:
    """Return a C++ file: the shim, the kernels, and a function for each that starts it."""
    head, *parts = text.split('extern "C" __global__ ')
    helpers = [line for line in head.splitlines() if not line.startswith("#include")]
    lines = [HEADER.read_text(), "\n".join(helpers)]
    for (position, count), part in zip(kernels, parts, strict=True):
        section = f"shim_shared_{position}"
        lines += [
            f"#undef SHIM_SECTION\n#define SHIM_SECTION {section}",
            part.replace("void ", "static void ", 1),
            *_entry(position, count, section),
        ]
    return "\n".join(lines) + "\n"


def _entry(position: int, count: int, section: str) -> list[str]:
    """Return the lines of the function `shim_kernel_<position>`, which starts a kernel.

    The linker places the shared memory of the kernel's blocks in a section.
    """
    start, stop = f"__start_{section}", f"__stop_{section}"
    passed = ", ".join(f"shim_pointer{{b[{k}]}}" for k in range(count))
    arguments = "void* const* b, const unsigned* sizes, uint64_t seed"
    call = f"shim::launch(shim_call_{position}, b, sizes, seed, {start}, {stop})"
    return [
        f"extern char {start}[] __attribute__((weak)), {stop}[] __attribute__((weak));",
        f"static void shim_call_{position}(void* const* b) {{ kernel_{position}({passed}); }}",
        f'extern "C" const char* shim_kernel_{position}({arguments}) {{\n  return {call};\n}}',
    ]


class _Guarded:
    """A copy of an array with guards around it, aligned as the memory of a device is."""

    def __init__(self, array: Array):
        array = np.asarray(array, order="C")
        memory = np.full(array.nbytes + 3 * GUARD_BYTES, 0xFF, np.uint8)
        start = GUARD_BYTES + -memory.ctypes.data % GUARD_BYTES
        self.before, self.after = memory[:start], memory[start + array.nbytes :]
        self.array = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self.address = memory.ctypes.data + start

    def is_whole(self) -> bool:
        return bool((self.before == 0xFF).all() and (self.after == 0xFF).all())


def _unset(shape: tuple[int, ...], dtype: str) -> Array:
    """Return an array of what no kernel computes: NaN, 77, -77 or True."""
    fill: Any = np.nan
    if dtype == "bool":
        fill = True
    elif dtype[0] == "i":
        fill = -77
    elif dtype[0] == "u":
        fill = 77
    return np.full(shape, fill, numpy_dtype(dtype))


def cpp_compiler() -> Compiler:
    """Return the first C++ compiler that works: `$CXX`, else c++, g++ or clang++ of the PATH.

    Raises `CodegenError` where there is none.
    """
    compiler = _find(os.environ.get("CXX", ""), os.environ.get("PATH", ""))
    if compiler is None:
        raise CodegenError("no C++ compiler works here\n  install g++ or clang++, or set CXX")
    return compiler


@lru_cache(maxsize=4)
def _find(chosen: str, path: str) -> Compiler | None:
    commands: list[tuple[str, ...]] = [("c++",), ("g++",), ("clang++",)]
    if chosen:
        commands.insert(0, tuple(shlex.split(chosen)))
    for command in commands:
        program = shutil.which(command[0], path=path or None)
        if not program:
            continue
        try:
            compiler = _tried((program, *command[1:]))
        except (OSError, subprocess.TimeoutExpired):
            continue
        if compiler is not None:
            return compiler
    return None


def _tried(command: tuple[str, ...]) -> Compiler | None:
    """Return a compiler with the flags with which it compiles a small source, or None."""
    version = subprocess.run(
        (command[0], "--version"),
        capture_output=True,
        text=True,
        timeout=PROBE_TIMEOUT_SECONDS,
        check=False,
    ).stdout
    for flags in ((*FLAGS, FILLED), FLAGS):
        compiler = Compiler(command, version, flags)
        with suppress(CodegenError):
            compiler.compile(PROBE, COMPILE_TIMEOUT_SECONDS)
            return compiler
    return None
