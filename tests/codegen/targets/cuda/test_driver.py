"""Programs for a device: on a fake one that runs kernels by the shim, and what is said where there
is none.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.measure.calibration import identity, kernel_timers
from codegen.program.compile import checked_kernels, compile_program
from codegen.program.cuda_executable import CudaCompiled, compile_cuda
from codegen.targets.cuda.device.array import DeviceArray
from codegen.targets.cuda.device.nvcc import Nvcc
from codegen.targets.cuda.device.pycuda import PyCuda
from codegen.targets.cuda.device.timing import MAX_REPEATS
from einalg.api.backend import LocalBackend
from einalg.errors import CodegenError, DeviceError, ShapeError
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, as_program
from einalg.runtime import timing
from einalg.runtime.measurement import DEVICE
from tests.helpers.fake_device import FakeDevice, assemble, use_fake_device

TEXT = "T[i,j] += A[i,k]*B[k,j]\nO[i,j] = T[i,j] + C[j]"
SHAPES = dict(A=(5, 7), B=(7, 3), C=(3,))


def compiled(device: FakeDevice, text: str = TEXT, **shapes: Any) -> CudaCompiled:
    program = as_program(ea.parse(text, **(shapes or SHAPES)))
    return compile_cuda(
        program, checked_kernels(program, None), driver=lambda: device, assemble=assemble
    )


def given(**shapes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        name: rng.integers(-4, 5, shape).astype(np.float32)
        for name, shape in (shapes or SHAPES).items()
    }


def test_results_stay_where_the_inputs_are() -> None:
    device, arrays = FakeDevice(), given()
    run = compiled(device)
    expected = arrays["A"] @ arrays["B"] + arrays["C"]
    assert np.array_equal(run(**arrays), expected)
    before = device.count("download")
    found = run(**{**arrays, "A": device.array(arrays["A"])})
    assert isinstance(found, DeviceArray) and device.count("download") == before
    assert np.array_equal(found.get(), expected)
    again = run(
        A=device.array(arrays["A"]), B=device.array(arrays["B"]), C=device.array(arrays["C"])
    )
    assert again.__cuda_array_interface__["typestr"] == "<f4" and np.array_equal(
        again.get(), expected
    )


def test_what_is_between_statements_stays_on_the_device() -> None:
    device = FakeDevice()
    compiled(device)(**given())
    assert device.count("launch") == 2 and device.count("load") == 1
    assert device.count("upload") == 3 and device.count("download") == 1


def test_weights_are_uploaded_once_and_what_depends_on_them_is_computed_once() -> None:
    device, arrays = FakeDevice(), given(K=(4,), A=(4,))
    run = compiled(device, "W[i] = K[i]*K[i]\nO[i] = W[i] + A[i]", K=(4,), A=(4,)).bind(
        K=arrays["K"]
    )
    for _ in range(3):
        assert np.array_equal(run(A=arrays["A"]), arrays["K"] ** 2 + arrays["A"])
    assert device.count("launch") == 1 + 3 and device.count("upload") == 1 + 3


def test_several_outputs_and_bfloat16() -> None:
    device = FakeDevice()
    a = ea.tensor("A", (5,), "bf16")
    i = ea.indices("i")
    program = Program([("P", ea.L[i](a[i] * 2)), ("Q", ea.L[i](a[i] + 1))], ("P", "Q"))
    run = compile_cuda(
        program, checked_kernels(program, None), driver=lambda: device, assemble=assemble
    )
    values = np.array([1, 2.5, -3, 0.1, np.inf])
    found = run(A=values)
    assert set(found) == {"P", "Q"}
    np.testing.assert_allclose(found["P"], 2 * values, rtol=2**-8)
    assert found["P"][3] != np.float32(0.2), "bf16 has 8 bits"


def test_no_outputs_points_no_launch() -> None:
    device = FakeDevice()
    assert compiled(device, "O[i] = A[i] + 1", A=(0,))(A=np.zeros(0)).shape == (0,)
    assert device.count("launch") == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, a: {**a, "A": d.array(np.zeros((5, 6), np.float32))}, "has shape"),
        (lambda d, a: {**a, "A": d.array(np.zeros((5, 7), np.float64), "f64")}, "dtype"),
        (lambda d, a: {n: v for n, v in a.items() if n != "B"}, "no array is given for B"),
        (lambda d, a: {**a, "Z": np.zeros(1)}, "Z is not an input"),
    ],
)
def test_wrong_arrays(change: Any, message: str) -> None:
    device = FakeDevice()
    with pytest.raises(ShapeError, match=message):
        compiled(device)(**change(device, given()))


def test_strided_and_unaligned_device_arrays_are_refused() -> None:
    device, arrays = FakeDevice(), given()

    class Other:
        def __init__(self, **changes: Any):
            self.__cuda_array_interface__ = {
                **device.array(arrays["A"]).__cuda_array_interface__,
                **changes,
            }

    run = compiled(device)
    with pytest.raises(ShapeError, match="contiguous"):
        run(**{**arrays, "A": Other(strides=(4, 20))})
    with pytest.raises(ShapeError, match="16 bytes"):
        run(**{**arrays, "A": Other(data=(4, False))})


@pytest.mark.parametrize(
    ("stream", "waits"),
    [
        ({}, 0),
        ({"stream": None}, 0),
        ({"stream": 1}, 0),
        ({"stream": 2}, 1),
        ({"stream": 0x7F00}, 1),
    ],
)
def test_arrays_that_another_stream_may_still_write(stream: dict[str, Any], waits: int) -> None:
    """Kernels run on the default stream, which waits for itself; a stream of somebody else is
    waited for before the first kernel.
    """
    device, arrays = FakeDevice(), given()
    there = device.array(arrays["A"])

    class Other:
        def __init__(self) -> None:
            facts = {
                key: value
                for key, value in there.__cuda_array_interface__.items()
                if key != "stream"
            }
            self.__cuda_array_interface__ = {**facts, **stream}

    compiled(device)(**{**arrays, "A": Other()})
    kinds = [call[0] for call in device.calls]
    assert device.count("wait") == waits and (
        not waits or kinds.index("wait") < kinds.index("launch")
    )


def test_out_of_memory() -> None:
    with pytest.raises(DeviceError, match="no memory for 140 bytes"):
        compiled(FakeDevice(room=100))(**given())


def test_times_are_of_the_device() -> None:
    assert compiled(FakeDevice()).time(2) == {"T": 1e-2, "O": 1e-2}


class Ticking(FakeDevice):
    """A device on which a kernel takes a microsecond, and a look at the clock ten."""

    def elapsed(self, run: Any) -> float:
        before = len(self.calls)
        run()
        started = 0
        for kind, *names in self.calls[before:]:
            if kind in ("launch", "graph launch"):
                started += len(names)
        return 1e-5 + started * 1e-6


def test_short_kernels_are_timed_among_repeats_of_them() -> None:
    """All repeats are one graph, so that the time to look at the clock, or to start a kernel,
    counts little.
    """
    device = Ticking()
    run = compiled(device).repeated(**given())
    before = device.count("launch")
    assert run() == pytest.approx(2e-6, rel=0.1) and run() == pytest.approx(2e-6, rel=0.1)
    assert device.count("launch") == before and len(device.calls[-1]) == 1 + 2 * MAX_REPEATS


def test_programs_are_compared_by_the_clock_of_the_device() -> None:
    """In turns, with what they read placed once."""
    device = FakeDevice()
    runs = [compiled(device), compiled(device)]
    before = len(device.calls)
    one, other = LocalBackend("cuda").measure(runs, {})
    assert one.clock == other.clock == DEVICE and not one.busy
    assert one.seconds == other.seconds == pytest.approx(1e-2)
    assert min(one.turns, other.turns) >= timing.DEFAULT_POLICY.min_turns
    uploads = [call for call in device.calls[before:] if call[0] == "upload"]
    assert len(uploads) <= 2 * len(runs[0].missing)


def test_source_without_a_device() -> None:
    run = compile_program(ea.parse(TEXT, **SHAPES), target="cuda")
    assert run.source("cuda").count("__global__") == 2
    assert all(kernel.source and "__global__" in kernel.source for kernel in run.kernels)
    assert "Compiled for cuda" in repr(run)
    with pytest.raises(CodegenError, match="source\\('cuda'\\)"):
        run.source("c")


CONV = "O[h] += A.pad(0,1)[c,h+r-1]*K[r,c]"


def test_derivations_have_cuda_sources() -> None:
    d = ea.derive(ea.parse(CONV, A=(4, 9), K=(3, 4)), target="cuda", measure=False, states=30)
    assert all("__global__" in candidate.source("cuda") for candidate in d.candidates)


def test_tensor_cores_multiply_f32_where_the_accuracy_allows_it() -> None:
    product = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(128, 128), B=(128, 128))
    for accuracy, reduced in ((None, False), (1e-4, False), (1e-2, True)):
        d = ea.derive(product, target="cuda", measure=False, states=1, accuracy=accuracy)
        assert ("precision::tf32" in d.best.source("cuda")) == reduced


def test_kernels_are_timed_as_the_accuracy_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """By themselves too tensor cores multiply f32 where they do in the program; what was measured
    without them is not taken for it.
    """
    device, texts = FakeDevice(), list[str]()
    monkeypatch.setattr(device, "elapsed", lambda run: (run(), 1.0)[1])
    monkeypatch.setattr("codegen.program.cuda_executable.find_driver", lambda: device)
    monkeypatch.setattr("codegen.measure.calibration.find_driver", lambda: device)
    monkeypatch.setattr(
        "codegen.measure.calibration.require_nvcc", lambda: Nvcc("nvcc", "release 1")
    )
    monkeypatch.setattr(
        "codegen.program.cuda_executable.nvcc_image",
        lambda text, sm: (texts.append(text), assemble(text, sm))[1],
    )
    scope = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(48, 48), B=(48, 48))
    for accuracy, reduced in ((None, False), (1e-4, False), (1e-2, True)):
        kernel_timers([Kernel("eop", {}, ("A", "B"), "O", scope=scope)], "cuda", accuracy)[0]()
        assert ("precision::tf32" in texts[-1]) == reduced
        assert (identity("cuda", accuracy) != identity("cuda")) == reduced


def test_derivations_need_a_device_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise DeviceError("there is none")

    monkeypatch.setattr("einalg.api.backend.find_driver", missing)
    with pytest.raises(DeviceError, match="there is none"):
        ea.derive(ea.parse(CONV, A=(4, 9), K=(3, 4)), target="cuda", states=30)


def test_derivations_are_measured_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device = use_fake_device(monkeypatch)
    d = ea.derive(ea.parse(CONV, A=(4, 9), K=(3, 4)), target="cuda", states=30)
    assert d.best.measured and device.count("launch") > 0
    assert d.best.compile().target == "cuda" and d.best.compile("cpu").target == "cpu"


def test_without_pycuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    with pytest.raises(DeviceError, match=r"PyCUDA.*\n.*pip install"):
        PyCuda()


def test_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stub of PyCUDA on a machine without a device, and one without a driver that starts."""

    class Stub:
        class Error(Exception):
            pass

        class MemoryError(Error):
            pass

        class Device:
            @staticmethod
            def count() -> int:
                return 0

        @staticmethod
        def init() -> None:
            pass

    monkeypatch.setattr("codegen.targets.cuda.device.pycuda._pycuda", lambda: Stub)
    with pytest.raises(DeviceError, match=r"no CUDA device here\n.*target='cpu'"):
        PyCuda()

    def fail() -> None:
        raise Stub.Error("no driver")

    monkeypatch.setattr(Stub, "init", fail)
    with pytest.raises(DeviceError, match=r"driver does not start: no driver\n"):
        PyCuda()


def test_without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice()
    program = as_program(ea.parse(TEXT, **SHAPES))
    run = compile_cuda(program, checked_kernels(program, None), driver=lambda: device)
    monkeypatch.setattr("codegen.targets.cuda.device.nvcc.find_nvcc", lambda: None)
    with pytest.raises(DeviceError, match=r"nvcc is not found.*\n.*CUDA_HOME"):
        run(**given())
