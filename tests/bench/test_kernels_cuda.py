"""`python -m bench.kernels --target cuda`: on a fake device, and what it says where there is none."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench import kernel_cases, kernels, kernels_cuda
from codegen.targets.cuda.device.nvcc import Nvcc
from einalg.errors import DeviceError
from tests.helpers.fake_device import use_fake_device

CASES = (
    partial(kernel_cases.matmul, 6, 7, 5),
    partial(kernel_cases.conv, 1, 3, 6, 4, 3, derives=True, padding=1),
    partial(kernels_cuda.half, 20, 24, 28, "f16"),
    partial(kernels_cuda.half, 20, 24, 28, "bf16"),
    partial(kernels_cuda.softmax, 5, 40),
    partial(kernel_cases.chain, 4, 5),
)


def no_device() -> Any:
    raise DeviceError("PyCUDA finds no CUDA driver\n  install the driver of the GPU")


def test_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels_cuda, "find_driver", no_device)
    monkeypatch.setattr(kernels_cuda, "find_nvcc", lambda: None)
    monkeypatch.setattr(sys, "argv", ["kernels", "--target", "cuda"])
    with pytest.raises(SystemExit) as ended:
        kernels.main()
    said = capsys.readouterr().out
    assert ended.value.code == 2
    assert (
        "- PyCUDA finds no CUDA driver; install the driver of the GPU" in said
        and "- nvcc is not found; install" in said
    )
    assert "python -m bench.kernels_cuda" in said


def test_rows_of_a_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    device = use_fake_device(monkeypatch)
    monkeypatch.setattr(kernels_cuda, "find_driver", lambda: device)
    monkeypatch.setattr(kernels_cuda, "find_nvcc", lambda: Nvcc("nvcc", "release 1"))
    monkeypatch.setattr(kernels_cuda, "has_torch", lambda: False)
    path = tmp_path / "found.json"
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    kernels_cuda.on_device(json_path=path, cases=CASES, search=5.0)
    found = json.loads(path.read_text())
    assert (
        found["device"] == device.name
        and found["compute capability"] == device.sm
        and not found["compared with torch"]
    )
    assert [row["case"] for row in found["kernels"]] == [make().name for make in CASES]
    bounds = {"f16": 2e-3, "bf16": 1e-2}
    for row in found["kernels"]:
        assert row["error"] < bounds.get(row["case"].split()[-1], 1e-5), row
    derived = [row["case"] for row in found["kernels"] if "derived" in row["more"]["us"]]
    assert derived and derived == [case.name for case in (make() for make in CASES) if case.derives]
    said = capsys.readouterr()
    assert (
        "torch has no CUDA here" in said.out
        and f"speed on {device.name}" in said.out
        and "failed" not in said.err
    )


def test_the_best_of_several() -> None:
    case = kernel_cases.matmul(6, 7, 5)
    program = kernels_cuda.as_program(case.expression)
    seconds = {
        "generated": 2e-6,
        "torch": 3e-6,
        "torch.compile": 1e-6,
        "torch, channels last": 4e-6,
    }
    errors = {
        "generated": 1e-7,
        "torch": 1e-7,
        "torch.compile": 1.0,
        "torch, channels last": float("nan"),
    }
    seconds["derived"], errors["derived"] = 1.5e-6, 1e-7
    row = kernels_cuda.row(case, program, seconds, errors)
    assert row["derived ratio"] == pytest.approx(2.0)
    assert row["best"] == "torch" and row["ratio"] == pytest.approx(1.5), (
        "what has other values does not count"
    )
    assert row["GFLOP/s"] == pytest.approx(2 * 6 * 7 * 5 / 2e-6 / 1e9)
