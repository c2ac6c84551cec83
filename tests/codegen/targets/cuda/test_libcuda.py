"""Graphs through the library of the driver: a stand-in of it in C says what it was given, and fails
where a test wants it to.
"""

from __future__ import annotations

import ctypes
import gc
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import checked_kernels
from codegen.program.cuda_executable import CudaCompiled, compile_cuda
from codegen.targets.cuda.device import graph_api
from codegen.targets.cuda.device.graph_api import LibCuda
from codegen.targets.cuda.device.nvcc import find_nvcc
from codegen.targets.cuda.device.pycuda import PyCuda
from codegen.targets.cuda.launch import Launch
from einalg.errors import DeviceError
from einalg.language.ir.program import as_program
from tests.helpers.kernels import compiler
from tests.helpers.stub_cuda import LogicError, StubCuda

TEXT = Path(__file__).with_name("libcuda.c").read_text()
KERNELS = [
    (0x7F0000000000 + 16 * 90, Launch("a", (2, 3, 4), 64), [0x123456789ABC, 2]),
    (0x7F0000000000 + 16 * 91, Launch("b", (5, 1, 1), 32), [3, 4]),
]


class StandIn:
    def __init__(self, *flags: str):
        self.library = compiler().with_flags(*flags).load(TEXT)
        self.library.stand_in_record.restype = ctypes.c_char_p
        self.library.stand_in_reset()

    def record(self) -> list[str]:
        return self.library.stand_in_record().decode().splitlines()

    def fail(self, name: str) -> None:
        self.library.stand_in_fail(name.encode())

    @property
    def open(self) -> tuple[int, int, int]:
        """How many graphs, executable graphs and modules are alive."""
        number = self.library.stand_in_open()
        return number // 10000, number // 100 % 100, number % 100


def expected() -> list[str]:
    return [
        "graph 1, flags 0",
        "node 2 of 1 after: function 90, blocks 2 3 4, threads 64 1 1, shared 0, "
        "arguments 123456789abc 2",
        "node 3 of 1 after 2: function 91, blocks 5 1 1, threads 32 1 1, shared 0, arguments 3 4",
        "executable 4 of 1, flags 0",
        "destroy graph 1",
        "launch 4 on (nil)",
        "destroy executable 4",
    ]


@pytest.mark.parametrize("flags", [(), ("-DOLD",)], ids=["CUDA 12", "CUDA 11"])
def test_a_graph_is_built_node_by_node(flags: tuple[str, ...]) -> None:
    driver = StandIn(*flags)
    library = LibCuda(driver.library)
    graph = library.graph(KERNELS)
    library.launch(graph)
    library.destroy(graph)
    assert driver.record() == expected() and driver.open == (0, 0, 0)


def test_the_stand_in_has_the_prototypes_of_the_toolkit() -> None:
    """Those of `cuda.h`, where one is installed."""
    nvcc = find_nvcc()
    folders = (
        [
            path.parent.parent / "include"
            for path in (Path(nvcc.program), Path(nvcc.program).resolve())
        ]
        if nvcc
        else []
    )
    include = next((folder for folder in folders if (folder / "cuda.h").exists()), None)
    if include is None:
        pytest.skip("there is no cuda.h here")
    driver = StandIn("-DWITH_HEADER", f"-I{include}")
    library = LibCuda(driver.library)
    library.launch(library.graph(KERNELS))
    assert driver.record() == expected()[:-1]


def test_a_driver_without_graphs() -> None:
    with pytest.raises(
        DeviceError, match=r"no cuGraphInstantiateWithFlags, which came with CUDA 11\.4"
    ):
        LibCuda(StandIn("-DANCIENT").library)


@pytest.mark.parametrize(
    "what", ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiateWithFlags"]
)
def test_nothing_is_left_of_a_graph_that_fails(what: str) -> None:
    driver = StandIn()
    driver.fail(what)
    with pytest.raises(
        DeviceError, match=rf"{what}(_v2)? failed: CUDA_ERROR_NOT_SUPPORTED \(801\)"
    ):
        LibCuda(driver.library).graph(KERNELS)
    assert driver.open == (0, 0, 0)


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_api, "LIBRARY_FILE", "libnothing.so.0")
    graph_api.find_libcuda.cache_clear()
    with pytest.raises(DeviceError, match="cannot be loaded by itself"):
        graph_api.find_libcuda()


class Recorded(StubCuda):
    """PyCUDA, saying into the same list what is launched one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.launched, self.addresses = list[tuple[int, ...]](), 1 << 20

    def kernel(self, *arguments: Any, grid: Any, block: Any) -> None:
        assert self.current > 0
        self.launched.append(tuple(map(int, arguments)))

    def mem_alloc(self, size: int) -> int:
        self.addresses += 1 << 20
        return self.addresses


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    made = StandIn()
    monkeypatch.setattr(
        "codegen.targets.cuda.device.pycuda.find_libcuda", lambda: LibCuda(made.library)
    )
    yield made
    made.library.stand_in_reset()


@pytest.fixture
def pycuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    made = Recorded()
    monkeypatch.setattr("codegen.targets.cuda.device.pycuda._pycuda", lambda: made)
    yield made
    gc.collect()
    assert made.current == 0, "a context that was pushed is popped, whatever fails"


def compiled(device: PyCuda) -> CudaCompiled:
    program = as_program(ea.parse("T[i] = A[i] + 1\nO[i] = T[i]*T[i]", A=(64,)))
    return compile_cuda(
        program,
        checked_kernels(program, None),
        driver=lambda: device,
        assemble=lambda text, sm: b"the image",
    )


def test_the_second_call_is_one_launch(driver: StandIn, pycuda: Recorded) -> None:
    run = compiled(PyCuda())
    run(A=np.zeros(64))
    assert len(pycuda.launched) == 2 and not driver.record()
    for _ in range(2):
        run(A=np.zeros(64))
    assert len(pycuda.launched) == 2 and driver.open == (0, 1, 1)
    said = driver.record()
    assert said[:3] == [
        "module 1 of the image",
        "function 2 of 1 is kernel_0",
        "function 3 of 1 is kernel_1",
    ]
    assert (
        said[-2:] == ["launch 7 on (nil)"] * 2
        and len([line for line in said if line.startswith("launch")]) == 2
    )
    first, second = pycuda.launched
    assert ["function 2," in said[4], "function 3," in said[5]] == [True, True]
    assert [line.split("arguments ")[1].split() for line in said if "arguments" in line] == [
        [f"{a:x}" for a in some] for some in (first, second)
    ]


def test_graphs_and_modules_are_forgotten_with_their_program(
    driver: StandIn, pycuda: Recorded
) -> None:
    run = compiled(PyCuda())
    for _ in range(2):
        run(A=np.zeros(64))
    assert driver.open == (0, 1, 1)
    del run
    gc.collect()
    assert driver.open == (0, 0, 0)
    ends = [
        line
        for line in driver.record()
        if line.startswith(("destroy executable", "wait", "unload"))
    ]
    assert ends == ["destroy executable 7", "wait", "unload 1"], (
        "a module outlives the graphs of its kernels"
    )


@pytest.mark.parametrize(
    "what",
    [
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuGraphCreate",
        "cuGraphAddKernelNode",
        "cuGraphInstantiateWithFlags",
    ],
)
def test_without_graphs_kernels_are_launched_one_by_one(
    driver: StandIn, pycuda: Recorded, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "einalg")
    driver.fail(what)
    device = PyCuda()
    for run in (compiled(device), compiled(device)):
        for _ in range(4):
            run(A=np.zeros(64))
    assert (
        len(pycuda.launched) == 16
        and len([line for line in driver.record() if line.endswith("fails")]) == 1
    )
    said = [record for record in caplog.records if "one by one" in record.message]
    assert len(said) == 1 and said[0].levelno == logging.INFO and what in said[0].message


def test_a_graph_that_does_not_start(
    driver: StandIn, pycuda: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "einalg")
    run = compiled(PyCuda())
    for _ in range(2):
        run(A=np.zeros(64))
    driver.fail("cuGraphLaunch")
    for _ in range(3):
        run(A=np.zeros(64))
    assert len(pycuda.launched) == 2 + 6 and caplog.text.count("cuGraphLaunch failed") == 1


def test_a_context_that_fails(
    driver: StandIn, pycuda: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = PyCuda()

    def fail() -> None:
        raise LogicError("cuCtxPushCurrent failed")

    monkeypatch.setattr(device.context, "push", fail)
    assert device.graph([]) is None and not device.has_graphs
