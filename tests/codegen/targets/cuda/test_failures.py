"""What fails on a device is said in our words: no memory, a kernel that does not start or does not
end well, results that are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import checked_kernels
from codegen.program.cuda_executable import compile_cuda
from codegen.targets.cuda.device.pycuda import PyCuda
from codegen.targets.cuda.launch import Launch
from einalg.errors import DeviceError
from einalg.language.ir.program import as_program
from tests.helpers.stub_cuda import Error, LogicError, MemoryError, StubCuda

SIZE = 1 << 12
TEXT, SHAPES = "O[i] = A[i] + 1", dict(A=(SIZE,))
HOW = Launch("kernel_0", (1, 1, 1), 32)


class LaunchError(Error): ...


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a device of a stub; afterwards the context must be put back as it was."""
    made: list[StubCuda] = []

    def make(*room: int, **failing: Exception) -> PyCuda:
        made.append(StubCuda(*room, **failing))
        monkeypatch.setattr("codegen.targets.cuda.device.pycuda._pycuda", lambda: made[-1])
        return PyCuda()

    yield make
    assert all(cuda.current == 0 for cuda in made), (
        "a context that was pushed is popped, whatever fails"
    )


def run(device: PyCuda) -> Any:
    program = as_program(ea.parse(TEXT, **SHAPES))
    return compile_cuda(
        program,
        checked_kernels(program, None),
        driver=lambda: device,
        assemble=lambda text, sm: b"",
    )(A=np.zeros(SIZE))


def test_a_device_that_works(stub: Any) -> None:
    device = stub()
    assert device.sm == 80 and run(device).shape == (SIZE,) and device.elapsed(lambda: None) == 1e-3


def test_no_memory(stub: Any) -> None:
    with pytest.raises(
        DeviceError,
        match=rf"a stub has no memory for {4 * SIZE} bytes more: 1000 of 2000 bytes are "
        r"free\n  free arrays",
    ):
        run(stub(1000))


@pytest.mark.parametrize("what", ["load", "launch", "upload", "download"])
def test_a_call_that_fails(stub: Any, what: str) -> None:
    for error, message in (
        (
            LaunchError("cuLaunchKernel failed: too many resources requested"),
            r"a stub failed: cuLaunchKernel failed.*\n  restart the process",
        ),
        (
            LogicError("cuMemcpy failed: an illegal memory access was encountered"),
            r"a stub failed: .*illegal memory access",
        ),
        (
            MemoryError("cuModuleLoad failed: out of memory"),
            r"a stub is out of memory: .*\n  free arrays",
        ),
    ):
        with pytest.raises(DeviceError, match=message):
            run(stub(**{what: error}))


def test_an_error_that_shows_when_the_device_is_waited_for(stub: Any) -> None:
    """A kernel fails after it was started: the next call that waits says so."""
    device = stub(
        wait=LaunchError("cuEventSynchronize failed: an illegal memory access was encountered")
    )
    with pytest.raises(DeviceError, match="a stub failed: cuEventSynchronize"):
        device.elapsed(lambda: None)


def test_a_program_that_failed_runs_again(stub: Any) -> None:
    """As soon as there is memory."""
    device = stub(1000)
    program = as_program(ea.parse(TEXT, **SHAPES))
    compiled = compile_cuda(
        program,
        checked_kernels(program, None),
        driver=lambda: device,
        assemble=lambda text, sm: b"",
    )
    with pytest.raises(DeviceError, match="no memory"):
        compiled(A=np.zeros(SIZE))
    device.cuda.room = 1 << 20
    assert compiled(A=np.zeros(SIZE)).shape == (SIZE,)


def test_a_driver_without_a_device_at_the_first_call_only() -> None:
    """The text is there without one."""

    def none() -> Any:
        raise DeviceError("there is no CUDA device here")

    program = as_program(ea.parse(TEXT, **SHAPES))
    compiled = compile_cuda(program, checked_kernels(program, None), driver=none)
    assert "__global__" in compiled.source("cuda")
    with pytest.raises(DeviceError, match="no CUDA device"):
        compiled(A=np.zeros(SIZE))
