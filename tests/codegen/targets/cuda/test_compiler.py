"""nvcc: every kernel compiles for old and new devices, within their registers; and what is said
where it fails.
"""

from __future__ import annotations

import os
import stat
from math import prod
from pathlib import Path
from typing import Any

import pytest

import einalg as ea
from codegen.ir.nodes import Alloc, Function, walk
from codegen.targets.cuda.device import nvcc as cuda_compiler
from codegen.targets.cuda.device.nvcc import ARCHITECTURES, Nvcc, compile_all, find_nvcc
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import VECTOR_BYTES
from codegen.targets.cuda.lowering.lower import lower_cuda
from codegen.targets.cuda.text.geometry import launch
from codegen.targets.cuda.text.printer import cuda_source
from einalg.errors import CodegenError, DeviceError
from einalg.language.ir.dtypes import NUMPY
from tests.helpers.batches import is_nightly
from tests.helpers.cuda_kernels import TIGHT, TIGHT_GRID, functions
from tests.helpers.cuda_limits import LARGE
from tests.helpers.expressions.values import CASES
from tests.helpers.kernels import flat
from tests.helpers.operators.harness import CASES as OPERATORS
from tests.helpers.operators.harness import load_cases, parameter_sets

needs_nvcc = pytest.mark.skipif(
    find_nvcc() is None, reason="nvcc is not installed; CUDA text runs on the shim only"
)
RESERVED = 1024  # bytes of shared memory in each block, on newer devices
MOST_REGISTERS = 128  # of the kernels above: at least 512 threads on a multiprocessor


@needs_nvcc
def test_kernels_compile_for_devices() -> None:
    """All expressions of the other tests, under both schedules: nothing is spilled, and shared
    memory is what was computed. By day, for the newest devices.
    """
    for schedule, max_grid, architectures in (
        (None, None, ARCHITECTURES if is_nightly() else ARCHITECTURES[-1:]),
        (TIGHT, TIGHT_GRID, ARCHITECTURES[-1:]),
    ):
        kernels = [
            k
            for p in CASES.values()
            for k in (functions(p, schedule) if schedule else functions(p))
        ]
        text = cuda_source(kernels, max_grid) if max_grid else cuda_source(kernels)
        for cubin in compile_all(text, architectures):
            assert len(cubin.usage) == len(kernels)
            for position, kernel in enumerate(kernels):
                usage = cubin.usage[f"kernel_{position}"]
                assert usage.spilled == 0, f"{usage} of {kernel.comment}"
                assert usage.shared in shared_bytes(kernel), f"{usage} of {kernel.comment}"


def shared_bytes(kernel: Function) -> list[int]:
    """The bytes of shared memory that nvcc may state: the last array, of its choice, is not padded,
    and a device may take some for itself.
    """
    shared = launch(kernel).shared
    sizes = [
        prod(n.buf.shape) * element_size(n.buf.dtype)
        for n in walk(kernel)
        if isinstance(n, Alloc) and n.buf.space == "shared"
    ]
    return [
        shared - -size % VECTOR_BYTES + reserved
        for size in sizes or [0]
        for reserved in (0, RESERVED)
    ]


@needs_nvcc
def test_every_type_compiles() -> None:
    i, j, k = ea.indices("i j k")
    kernels = []
    for dtype in NUMPY:
        a, b = ea.tensor("A", (64, 64), dtype), ea.tensor("B", (64, 64), dtype)
        scopes = [
            ea.L[i, j](ea.Max(a[i, j], b[i, j])),
            ea.L[i](ea.Max[k:4096](ea.tensor("C", (8, 4096), dtype)[i, k])),
        ]
        scopes += [ea.L[i, j](ea.Sum[k](a[i, k] * b[k, j]))] if dtype != "bool" else []
        kernels += [lower_cuda("O", scope) for scope in scopes]
    assert len(compile_all(cuda_source(kernels), ARCHITECTURES[:1])[0].usage) == len(kernels)


@pytest.mark.nightly
@needs_nvcc
def test_every_operator_compiles() -> None:
    load_cases()
    kernels = []
    for name, cases in OPERATORS.items():
        for case in cases.values():
            kernels += [
                k
                for _, (expression, _, _) in parameter_sets(name, case, 1)
                for k in functions(flat(expression))
            ]
    for cubin in compile_all(cuda_source(kernels)):
        assert len(cubin.usage) == len(kernels) and not any(
            usage.spilled for usage in cubin.usage.values()
        )


@needs_nvcc
def test_large_kernels_fit_into_registers(record_property: Any) -> None:
    kernels = [lower_cuda("O", make()) for make in LARGE.values()]
    for cubin in compile_all(cuda_source(kernels)):
        for position, name in enumerate(LARGE):
            usage = cubin.usage[f"kernel_{position}"]
            record_property(f"{name} sm_{cubin.sm}", str(usage))
            assert usage.spilled == 0 and usage.registers <= MOST_REGISTERS, (
                f"{name} on sm_{cubin.sm}: {usage}"
            )


@needs_nvcc
def test_machine_code_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    text = cuda_source([lower_cuda("O", ea.parse("O[i] = A[i] + 12345", A=(77,)))])
    first = compile_all(text, ARCHITECTURES[:1])[0]
    monkeypatch.setattr(
        cuda_compiler, "run_compiler", lambda *_: pytest.fail("it is compiled again")
    )
    assert compile_all(text, ARCHITECTURES[:1])[0] == first


@needs_nvcc
def test_refused_sources() -> None:
    with pytest.raises(
        CodegenError, match=r"nvcc refused the generated code for sm_80:\n.*undefined_name"
    ):
        compile_all("__global__ void kernel_0(float *O) { O[0] = undefined_name; }\n", [80])


def script(folder: Path, text: str) -> Nvcc:
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Nvcc(str(path), str(folder))


def test_time_out(tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match=r"nvcc did not finish within 0.2 seconds\n"):
        script(tmp_path, "sleep 30").compile("text", 80, timeout=0.2)


def test_nvcc_that_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"nvcc cannot be run.*\n.*CUDA_HOME"):
        Nvcc(str(tmp_path / "nothing"), "1").compile("text", 80)


def test_nvcc_of_cuda_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin", "echo release 99")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    found = find_nvcc()
    assert found is not None and found.version == "release 99"


def test_no_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_compiler, "TOOLKIT_FOLDERS", ())
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep)
    with pytest.raises(DeviceError, match="nvcc is not found"):
        compile_all("text")
