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
from tests.helpers.fake_device import FakeDevice, use_fake_device

torch = pytest.importorskip("torch")
TEXT = "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(T[i,j] + B[j,i], 0)"


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    return use_fake_device(monkeypatch)


class At:
    """Memory that torch allocated, as the fake device knows its own."""

    def __init__(self, address: int):
        self.address = address


class Run:
    """A program on addresses of tensors, which the fake device takes for memory of its own."""

    alignment = 16

    def __init__(self, device: FakeDevice, run: Callable[[list[int]], None]):
        self._device, self._run = device, run

    def __call__(self, addresses: list[int]) -> None:
        alive = [At(address) for address in addresses]  # during the call, as torch keeps it
        for memory in alive:
            self._device.alive[memory.address] = memory  # type: ignore[assignment]
        self._run(addresses)


def on_addresses(device: FakeDevice, order: Any = None) -> tuple[list[Any], Callable[..., Any]]:
    """What makes the other calls, and a program of `A` and `B` on memory of tensors.

    The axes of `A` lie in memory in an order.
    """
    program = ea.parse(TEXT, A=(6, 5), B=(4, 6), W=ea.tensor("W", (5, 4), role="weight"))
    weights = np.random.default_rng(0).normal(size=(5, 4)).astype("f4")
    zeros = {"A": np.zeros((6, 5), "f4"), "B": np.zeros((4, 6), "f4"), "W": weights}
    direct = ea.optimize(program, zeros, target="cuda", seconds=0).direct()
    assert direct is not None and (direct.device, direct.alignment) == ("cuda", 16)
    assert [tensor.name for tensor in direct.inputs] == ["A", "B"]
    signature = TensorSignature([torch.float32] * 2, [torch.float32], next, [order, None])
    other_calls: list[Any] = []

    def otherwise(*arguments: Any, **named: Any) -> str:
        other_calls.append((arguments, named))
        return "otherwise"

    on_host = replace(direct, run=Run(device, direct.run))
    assert on_host.device == HOST
    call = device_function(on_host, signature, otherwise)

    def checked(a: Any, b: Any) -> Any:
        result = call(a, b)
        if isinstance(result, torch.Tensor):
            in_memory = a.permute(order) if order else a
            expected = torch.relu(in_memory @ torch.from_numpy(weights) + b.T)
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
    other_calls, call = on_addresses(device, (1, 0))
    for a in (torch.randn(6, 5).T, torch.randn(5, 6)):  # as they lie, and copied
        assert isinstance(call(a, torch.randn(4, 6)), torch.Tensor)
    assert call(torch.randn(6, 5), torch.randn(4, 6)) == "otherwise"
    assert len(other_calls) == 1


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
    torch.testing.assert_close(run.on_example(run.call)(), module(x))
    elsewhere = PlacedModule(module_on(module, "meta"), moved(((x,), {}), "meta"))
    host_parts = PlacedModule(module, moved(((x,), {}), "meta"))
    for placed in (elsewhere, host_parts):
        assert placed.device == torch.device("meta")
    # what runs where the arguments lie, as they are
    monkeypatch.setattr(torch, "meta", type("Meta", (), {"synchronize": lambda _: None}), False)
    run = elsewhere.run_for(HOST)
    assert run.call is elsewhere and run.where == "in the framework on meta"
    assert run.on_example(run.call)().device.type == "meta"
    assert (
        host_parts.run_for(HOST).on_example(host_parts.run_for(HOST).call)().device.type == "meta"
    )


def test_results_lie_where_the_arguments_do(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = Tied().eval(), torch.randn(2, 3)
    source = network(module, (x,))
    assert source.framework_run(HOST).where == "in the framework"
    call = source.around(source.graph)
    torch.testing.assert_close(call(x), module(x))
    monkeypatch.setattr("einalg.frontends.torch.module.device_of", lambda _: torch.device("meta"))
    assert call(x).device.type == "meta"
