"""A network optimized for a device, on a fake one: searched, run, saved with its CUDA sources,
loaded again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.errors import CodegenError, DeviceError, RecordError
from tests.helpers.fake_device import FakeDevice, use_fake_device
from tests.helpers.searches import shorten_layer_searches

TEXT = "T[i,j] += A[i,k]*W[k,j]\nU[i,j] = Max(T[i,j]*g[j] + b[j], 0)\nO[i,j] += U[i,k]*V[k,j]"
SHAPES = dict(A=(32, 24), W=(24, 40), g=(40,), b=(40,), V=(40, 20))


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    shorten_layer_searches(monkeypatch)
    return use_fake_device(monkeypatch)


def program() -> Any:
    return ea.parse(
        TEXT,
        **{
            name: shape if name == "A" else ea.tensor(name, shape, role="weight")
            for name, shape in SHAPES.items()
        },
    )


def given() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def expected(a: Any, scale: float = 1.0) -> Any:
    x = {**given(), "A": a}
    return scale * (np.maximum(x["A"] @ x["W"] * x["g"] + x["b"], 0) @ x["V"])


def test_optimized_run_saved_and_loaded(device: FakeDevice, tmp_path: Path) -> None:
    o = ea.optimize(program(), given(), target="cuda", seconds=100)
    (part,) = o.parts.values()
    assert (
        part.verdict == "proved"
        and part.layers
        and all(layer.original is not None for layer in part.layers)
    )
    for a in (given()["A"], -given()["A"]):
        before = device.count("launch") + device.count("graph launch")
        np.testing.assert_allclose(o(a), expected(a), rtol=1e-4, atol=1e-3)
        assert device.count("launch") + device.count("graph launch") > before
    assert "proved" in str(o.report)
    o.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "model.json",
        "program_0.cu",
        "report.txt",
        "weights.npz",
    ]
    text = (tmp_path / "model" / "program_0.cu").read_text()
    assert text == part.source("cuda") and "__global__" in text
    o.save(tmp_path / "named", language="cuda")
    assert (tmp_path / "named" / "program_0.cu").read_text() == text
    with pytest.raises(CodegenError, match="no source in 'c'"):
        o.save(tmp_path / "other", language="c")
    assert not (tmp_path / "other").exists()
    for target in ("cuda", "cpu"):
        np.testing.assert_allclose(
            ea.Optimized.load(tmp_path / "model", target)(a), expected(a), rtol=1e-4, atol=1e-3
        )


def test_what_was_found_for_a_device_is_not_taken_for_the_processor(device: FakeDevice) -> None:
    made = [
        ea.optimize(program(), given(), target=target, seconds=0)
        for target in ("cuda", "cpu", "cuda")
    ]
    for o, language in zip(made, ("cuda", "c", "cuda")):
        (part,) = o.parts.values()
        assert part.source(language)
        np.testing.assert_allclose(o(given()["A"]), expected(given()["A"]), rtol=1e-4, atol=1e-3)


def test_a_device_without_room(device: FakeDevice) -> None:
    device.room = 100
    with pytest.raises(DeviceError, match="no memory"):
        ea.optimize(program(), given(), target="cuda", seconds=1)


def test_a_saved_network_where_there_is_no_device(
    device: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Any:
        raise DeviceError("there is no CUDA device here")

    ea.optimize(program(), given(), target="cuda", seconds=0).save(tmp_path / "model")
    monkeypatch.setattr("einalg.api.backend.find_driver", missing)
    with pytest.raises(DeviceError, match="no CUDA device"):
        ea.Optimized.load(tmp_path / "model", "cuda")
    (tmp_path / "model" / "model.json").write_text("{}")
    with pytest.raises(RecordError):
        ea.Optimized.load(tmp_path / "model")
