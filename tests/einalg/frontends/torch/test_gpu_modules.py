"""Modules on a CUDA device, through PyCUDA: `make gpu-test`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import einalg as ea
from codegen.targets.cuda.device.find import find_driver
from einalg.errors import DeviceError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    try:
        find_driver()
    except DeviceError as error:
        pytest.skip(str(error))
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    return torch.device("cuda", 0)


class Pair(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 7, 3, padding=1)
        self.last = torch.nn.Linear(7, 5)
        self.register_buffer("scale", torch.full((5,), 2.0))

    def forward(self, x: Any, y: Any) -> Any:
        h = torch.relu(self.first(x)).mean((2, 3))
        return {"a": self.last(h) * self.scale, "b": (y.sum(1), h)}


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("where", ["cuda", "cpu"])
def test_a_module_of_the_device_or_the_host(where: str) -> None:
    torch.manual_seed(0)
    module = Pair().eval().to(where)
    x, y = torch.randn(2, 3, 13, 11, device=where), torch.randn(2, 9, device=where)
    o = ea.optimize(module, (x, y), target="cuda", seconds=0, prefer="einalg", progress=False)
    assert "in the framework on cuda:0" in str(o.report) and not o.is_original
    for call in range(3):
        with torch.no_grad():
            expected = module(x + call, y)
        close(o(x + call, y), expected)  # on the same device, which this checks too
        close(o(x + call, y.clone().expand(2, 9)), expected)
    o_last = o(x.to(memory_format=torch.channels_last), y)
    close(o_last, module(x, y))


def test_tensors_of_the_device_for_a_module_of_the_host() -> None:
    torch.manual_seed(0)
    module, x, y = Pair().eval(), torch.randn(2, 3, 13, 11), torch.randn(2, 9)
    o = ea.optimize(module, (x, y), target="cuda", seconds=0, prefer="einalg", progress=False)
    found = o(x.cuda(), y.cuda())
    assert found["a"].is_cuda and found["b"][1].is_cuda
    close(found["a"].cpu(), module(x, y)["a"])


def test_calls_on_another_stream() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(700, 900).eval().cuda()
    x = torch.randn(600, 700, device="cuda")
    o = ea.optimize(layer, (x,), target="cuda", seconds=0, prefer="einalg", progress=False)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        for k in range(10):
            given = x * k
            close(o(given), layer(given))


def test_half_precision_stays_on_the_device() -> None:
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        layer = torch.nn.Linear(64, 32).eval().cuda().to(dtype)
        x = torch.randn(5, 64, device="cuda", dtype=dtype)
        o = ea.optimize(layer, (x,), target="cuda", seconds=0, prefer="einalg", progress=False)
        found = o(x)
        assert found.dtype is dtype and found.is_cuda
        torch.testing.assert_close(found, layer(x), rtol=2e-2, atol=2e-2)


def test_the_framework_is_timed_on_the_device() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(*(torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))).eval()
    x = torch.randn(1, 8, 20, 20, device="cuda")
    o = ea.optimize(module.cuda(), (x,), target="cuda", seconds=5, progress=False)
    assert o.times is not None and "in the framework on cuda:0" in str(o.report)
    torch.testing.assert_close(o(x), module(x), rtol=1e-2, atol=1e-2)  # torch may take TF32


def test_a_backend_of_torch_compile() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.GELU()).eval().cuda()
    x = torch.randn(17, 30, device="cuda")
    options = {"target": "cuda", "seconds": 5}
    compiled = torch.compile(module, backend="einalg", options=options)
    with torch.no_grad():
        found = compiled(x)
        assert found.is_cuda
        close(found, module(x))
