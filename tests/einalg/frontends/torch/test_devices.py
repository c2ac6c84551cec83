"""Modules and tensors on a device, which is a fake one: its memory is that of the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import compile_program
from einalg.api.models import network
from einalg.errors import NotationError
from einalg.frontends.torch.devices import (
    PlacedModule,
    device_function,
    device_of,
    module_on,
    moved,
)
from einalg.frontends.torch.direct_call import TensorSignature
from einalg.runtime.direct_call import HOST
from tests.helpers.fake_device import FakeDevice, assemble

torch = pytest.importorskip("torch")
TEXT = "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(T[i,j] + B[j,i], 0)"


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    found = FakeDevice()
    rates = {"library": 1e12, "generated": 1e11, "bandwidth": 1e12, "call": 1e-6}
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("einalg.api.backend.find_driver", lambda: found)
    monkeypatch.setattr("codegen.program.cuda_executable.find_driver", lambda: found)
    monkeypatch.setattr("codegen.program.cuda_executable.nvcc_image", assemble)
    monkeypatch.setattr("codegen.measure.calibration.rates", lambda target, accuracy: rates)
    monkeypatch.setattr(
        "codegen.measure.calibration.identity", lambda target, accuracy: f"{target}, a fake device"
    )
    return found


class At:
    """Memory that torch allocated, as the fake device knows its own."""

    def __init__(self, address: int):
        self.address = address


def on_addresses(device: FakeDevice, orders: Any = (None, None)) -> tuple[Any, Callable[..., Any]]:
    """A program of `A` and `B` on memory of tensors, and what makes the other calls."""
    program = ea.parse(TEXT, A=(6, 5), B=(4, 6), W=ea.tensor("W", (5, 4), role="weight"))
    weights = np.random.default_rng(0).normal(size=(5, 4)).astype("f4")
    zeros = {"A": np.zeros((6, 5), "f4"), "B": np.zeros((4, 6), "f4"), "W": weights}
    made = ea.optimize(program, zeros, target="cuda", seconds=0)
    direct = made.direct()
    assert direct is not None and direct.device == "cuda"
    alive: list[At] = []

    def run(addresses: list[int]) -> None:
        for address in addresses:  # which torch keeps alive during a call
            alive.append(At(address))
            device.alive[address] = alive[-1]  # type: ignore[assignment]
        direct.run(addresses)

    names = [tensor.name for tensor in direct.inputs]
    assert names == ["A", "B"]
    signature = TensorSignature([torch.float32] * 2, [torch.float32], next, list(orders))
    other_calls: list[Any] = []

    def otherwise(*arguments: Any, **named: Any) -> str:
        other_calls.append((arguments, named))
        return "otherwise"

    call = device_function(replace(direct, run=run, device=HOST), signature, otherwise)

    def checked(a: Any, b: Any) -> Any:
        result = call(a, b)
        if isinstance(result, torch.Tensor):
            expected = torch.relu(a @ torch.from_numpy(weights) + b.T)
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
        return result

    return other_calls, checked


def test_a_program_reads_and_writes_tensors_where_they_lie(device: FakeDevice) -> None:
    other_calls, call = on_addresses(device)
    a, b = torch.randn(6, 5), torch.randn(4, 6)
    call(a, b)
    moves = device.count("upload"), device.count("download")
    first, second = call(a, b), call(-a, b)
    assert (device.count("upload"), device.count("download")) == moves
    assert first.data_ptr() != second.data_ptr() and not other_calls
    launches = device.count("launch") + device.count("graph launch")
    call(torch.nn.Parameter(a), b)
    assert device.count("launch") + device.count("graph launch") > launches


def test_tensors_that_lie_otherwise_are_copied_on_the_device(device: FakeDevice) -> None:
    other_calls, call = on_addresses(device)
    a, b = torch.randn(6, 5), torch.randn(4, 6)
    call(torch.randn(5, 6).T, b)
    call(torch.randn(12, 5)[::2], torch.randn(1, 6).expand(4, 6))
    call(torch.randn(31)[1:].view(6, 5), b)  # at an address that vectors cannot be read at
    call(torch.randn(6, 5, dtype=torch.complex64).conj().imag, b)
    call(a.requires_grad_(), b)
    assert not other_calls


def test_what_is_no_tensor_of_that_kind_goes_elsewhere(device: FakeDevice) -> None:
    other_calls, call = on_addresses(device)
    a, b = torch.randn(6, 5), torch.randn(4, 6)
    for one, other in (
        (a.double(), b),
        (torch.randn(7, 5), b),
        (a.to_sparse(), b),
        (a.to("meta"), b),
        (a.numpy(), b),
        (a, None),
    ):
        assert call(one, other) == "otherwise"
    assert len(other_calls) == 6


def test_inputs_whose_axes_lie_in_another_order(device: FakeDevice) -> None:
    other_calls, call = on_addresses(device, [(0, 1), (0, 1)])
    call(torch.randn(6, 5), torch.randn(4, 6))
    assert not other_calls


def test_other_types_of_elements_go_elsewhere(device: FakeDevice) -> None:
    made = ea.optimize(
        ea.parse("O[i] = 2*A[i]", A=(4,)), [np.ones(4, "f4")], target="cuda", seconds=0
    )
    direct = made.direct()
    assert direct is not None
    signature = TensorSignature([torch.float64], [torch.float32], next, [None])
    otherwise = object()
    assert device_function(direct, signature, otherwise) is otherwise  # type: ignore[arg-type]


def test_arrays_of_a_device_program_are_copied(device: FakeDevice) -> None:
    program = ea.parse("O[i] = 2*A[i]", A=(4,))
    o = ea.optimize(program, [np.ones(4, "f4")], target="cuda", seconds=0)
    uploads = device.count("upload")
    np.testing.assert_array_equal(o(np.arange(4, dtype="f4")), [0, 2, 4, 6])
    assert device.count("upload") == uploads + 1


def test_names_that_a_program_has(device: FakeDevice) -> None:
    compiled = compile_program(ea.parse(TEXT, A=(6, 5), B=(4, 6), W=(5, 4)), target="cuda")
    assert compiled.direct(["A", "B", "O"]) is None
    assert compiled.direct(["B", "W", "A", "O"]) is not None
    bound = compiled.bind(W=np.ones((5, 4)))
    assert bound.direct(["A", "B", "W", "O"]) is None
    assert bound.direct(["A", "B", "O"]) is not None


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.other.weight = self.one.weight
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, x: Any) -> Any:
        return self.other(self.one(x)) * self.scale


def test_copies_of_modules() -> None:
    module = Tied().eval()
    copied = module_on(module, "meta")
    assert device_of(list(copied.parameters())) == torch.device("meta")
    assert copied.scale.device.type == "meta"
    assert copied.other.weight is copied.one.weight and not copied.training
    assert module.one.weight.device.type == HOST and copied is not module
    again = module_on(module, HOST)
    x = torch.randn(2, 3)
    torch.testing.assert_close(again(x), module(x))
    module.held = open  # type: ignore[assignment]
    module.lock = __import__("threading").Lock()
    with pytest.raises(NotationError, match="cannot be copied to meta"):
        module_on(module, "meta")


def test_how_torch_runs_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = Tied().eval(), torch.randn(2, 3)
    given = PlacedModule(module, ((x,), {}))
    assert given.on_host() is given
    run = given.run_for("cuda")
    if not torch.cuda.is_available():
        assert run.call is given and run.where == "in the framework"
    torch.testing.assert_close(run.of(run.call)(), module(x))
    elsewhere = PlacedModule(module_on(module, "meta"), moved(((x,), {}), "meta"))
    host_parts = PlacedModule(module, moved(((x,), {}), "meta"))
    for placed in (elsewhere, host_parts):
        assert placed.device == torch.device("meta")
    # what runs where the arguments lie, as they are
    monkeypatch.setattr(torch, "meta", type("Meta", (), {"synchronize": lambda _: None}), False)
    run = elsewhere.run_for(HOST)
    assert run.call is elsewhere and run.where == "in the framework on meta"
    assert run.of(run.call)().device.type == "meta"
    assert host_parts.run_for(HOST).of(host_parts.run_for(HOST).call)().device.type == "meta"


def test_results_lie_where_the_arguments_do() -> None:
    module, x = Tied().eval(), torch.randn(2, 3)
    source = network(module, (x,))
    assert source.framework_run(HOST).where == "in the framework"
    call = source.around(source.graph)
    assert call(x).device.type == HOST
    assert moved([x], "meta")[0].device.type == "meta"
