"""torch's operators for a device: on tensors of the host, beside kernels that the shim runs."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.libraries import torch_cuda
from codegen.program.compile import checked_kernels
from codegen.program.cuda_executable import CudaCompiled, compile_cuda
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT, schedule_for_accuracy
from codegen.tuning import kernel_choice
from codegen.tuning.cuda_kernel_choice import REPEATS
from derive.matching import match
from einalg.language import ops
from einalg.language.ir.program import as_program
from tests.helpers.fake_device import FakeDevice, assemble

torch = pytest.importorskip("torch")
FIRST = "torch on the device"
LOOKS = 1 + REPEATS  # at the clock for each way: how often it is repeated, and then its times
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}


def host_tensor(array: Any, dtype: str) -> Any:
    """In place of `torch_cuda.on_device`: the memory of a fake device is that of the host."""
    size = array.shape[0] * DTYPES[dtype].itemsize
    memory = (ctypes.c_char * size).from_address(array.memory.address)
    return torch.frombuffer(memory, dtype=DTYPES[dtype])


class Timed(FakeDevice):
    """A device where each call takes the time that a test says, in the order in which they are
    tried.
    """

    name = "a timed device"

    def __init__(self, *seconds: float):
        super().__init__()
        self.seconds, self.times = seconds, 0

    def elapsed(self, run: Any) -> float:
        run()
        self.times += 1
        return self.seconds[(self.times - 1) // LOOKS]


def compiled(expression: Any, device: FakeDevice, **places: Any) -> CudaCompiled:
    program = as_program(expression)
    kernels = [match(scope, name) for name, scope in program.statements]
    assert all(kernels), "the expression is an operator"
    libraries = lambda kernel, scope, schedule: torch_cuda.ways(kernel, scope, schedule.tf32)  # noqa: E731
    parts = {"libraries": libraries, "tensor": host_tensor, **places}
    return compile_cuda(
        program,
        checked_kernels(program, kernels),
        driver=lambda: device,
        assemble=assemble,
        **parts,
    )


def test_torch_takes_its_place_among_generated_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """These run on the default stream; torch's current one may be another."""
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: f"default of {device}")
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext(stream))
    with torch_cuda.in_order(SimpleNamespace(is_cuda=True, device="cuda:0")) as stream:
        assert stream == "default of cuda:0"
    with torch_cuda.in_order(torch.zeros(1)) as stream:
        assert stream is None


def product(dtype: str = "f32", size: int = 20) -> Any:
    return ops.matmul(ea.tensor("A", (size, 24), dtype), ea.tensor("B", (24, 28), dtype))


def given(size: int = 20) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        "A": rng.integers(-3, 4, (size, 24)).astype(np.float32),
        "B": rng.integers(-3, 4, (24, 28)).astype(np.float32),
    }


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_the_faster_way_is_taken(dtype: str) -> None:
    """Where torch is faster, no kernel is launched any more; where it is not, torch is not called."""
    arrays = given()
    for seconds, launches in (((2e-2, 1e-2), 0), ((1e-2, 2e-2), 1)):
        device = Timed(*seconds)
        device.name = f"{device.name} {dtype} {seconds}"
        run = compiled(product(dtype), device)
        assert np.array_equal(run(**arrays), arrays["A"] @ arrays["B"])
        before = device.count("launch")
        run(**arrays)
        assert device.count("launch") - before == launches


def test_the_choice_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process and for the next ones, but not for a library that may compute with less
    precision.
    """
    for schedule, times in (
        (CUDA_DEFAULT, 2 * LOOKS),
        (CUDA_DEFAULT, 0),
        (schedule_for_accuracy(1e-2), 2 * LOOKS),
    ):
        device = Timed(2e-2, 1e-2)
        device.name = "a device that is asked again"
        for _ in range(2):
            compiled(product(), device, schedule=schedule)(**given())
        assert device.times == times
        monkeypatch.setattr(kernel_choice, "_choices", {})  # the next process


def test_convolutions_in_both_layouts() -> None:
    a, k = ea.tensor("A", (2, 6, 9, 9)), ea.tensor("K", (5, 6, 3, 3))
    rng = np.random.default_rng(2)
    arrays = {
        "A": rng.integers(-3, 4, a.shape).astype(np.float32),
        "K": rng.integers(-3, 4, k.shape).astype(np.float32),
    }
    expected = torch.nn.functional.conv2d(
        *map(torch.from_numpy, arrays.values()), padding=1
    ).numpy()
    for seconds in ((2e-2, 1e-2, 3e-2), (2e-2, 3e-2, 1e-2)):
        device = Timed(*seconds)
        device.name = str(seconds)
        assert np.array_equal(compiled(ops.conv2d(a, k, padding=1), device)(**arrays), expected)
        assert device.times == 3 * LOOKS, "generated code and two layouts"


def test_a_library_with_other_values_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def wrong(kernel: Any, scope: Any, schedule: Any) -> Any:
        return {FIRST: lambda memory: memory("O").fill_(1.0)}

    device, arrays = Timed(2e-2, 1e-2), given()
    device.name = "a device with a wrong library"
    assert np.array_equal(
        compiled(product(), device, libraries=wrong)(**arrays), arrays["A"] @ arrays["B"]
    )
    assert "has other values" in caplog.text


def test_a_library_that_fails_later_gives_way(caplog: pytest.LogCaptureFixture) -> None:
    """As cuBLAS does where a device has no memory for what it needs beside."""
    calls = []
    measuring = 1 + 3 + LOOKS  # for the values, to be ready, and for the clock

    def failing(kernel: Any, scope: Any, schedule: Any) -> Any:
        right = torch_cuda.ways(kernel, scope)[FIRST]

        def call(memory: Any) -> None:
            calls.append(1)
            if len(calls) > measuring:
                raise RuntimeError("CUDA out of memory")
            right(memory)

        return {FIRST: call}

    device, arrays = Timed(2e-2, 1e-2), given()
    device.name = "a device whose library fails"
    run = compiled(product(), device, libraries=failing)
    for _ in range(2):
        assert np.array_equal(run(**arrays), arrays["A"] @ arrays["B"])
    assert (
        len(calls) == measuring + 1
        and "generated code is used instead: CUDA out of memory" in caplog.text
    )


def test_no_room_to_measure(caplog: pytest.LogCaptureFixture) -> None:
    """The program itself still fits."""
    arrays = given()
    device = FakeDevice()
    run = compiled(product(), device)
    allocate = device.allocate

    def little(size: int) -> Any:
        if sum(call[1] for call in device.calls if call[0] == "allocate") == 0:
            device.calls.append(("allocate", 0))
            device.room, whole = 0, device.room
            try:
                return allocate(size)
            finally:
                device.room = whole
                device.calls.append(("allocate", 1))
        return allocate(size)

    device.allocate = little  # type: ignore[method-assign]
    assert np.array_equal(run(**arrays), arrays["A"] @ arrays["B"])
    assert "no library is tried" in caplog.text


def test_precision_is_put_back() -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_fp16_reduced_precision_reduction
    with torch_cuda.precision("ieee"):
        assert not matmul.allow_fp16_reduced_precision_reduction
    assert matmul.allow_fp16_reduced_precision_reduction == before


def test_small_kernels_ask_no_library() -> None:
    device = Timed()
    run = compiled(ops.matmul(ea.tensor("A", (2, 3)), ea.tensor("B", (3, 2))), device)
    assert (
        np.array_equal(run(A=np.ones((2, 3)), B=np.ones((3, 2))), np.full((2, 2), 3.0))
        and device.times == 0
    )
