"""Inputs that lie in memory in another order of their axes: read where they lie, as they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from derive.programs.optimization import optimized
from einalg.api.backend import LocalBackend
from einalg.api.models import network
from einalg.frontends.torch import load

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def module() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU()).eval()


@pytest.fixture(scope="module")
def image() -> Any:
    return torch.randn(2, 3, 5, 6).to(memory_format=torch.channels_last)


def layouts(image: Any) -> dict[str, Any]:
    """Return the same image, in memory in several ways."""
    return {
        "as it was": image,
        "usual": image.contiguous(),
        "turned": image.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        "every other": torch.stack([image, image], -1).flatten(-2)[..., ::2],
    }


def test_a_graph_has_axes_in_the_order_of_memory(module: Any, image: Any) -> None:
    graph = load(module, (image,))
    assert [tensor.shape for tensor in graph.inputs] == [(2, 5, 6, 3)]
    assert list(graph.orders.values()) == [(0, 2, 3, 1)]
    assert not load(module, (image.contiguous(),)).orders


def test_it_is_read_where_it_lies(module: Any, image: Any) -> None:
    """Without a copy; others are copied."""
    model = network(module, (image,))
    made = optimized(model.graph, model.arrays, LocalBackend(), 0.0)
    assert len(next(iter(made.parts.values())).after.statements) <= 2
    copied: list[Any] = []

    def otherwise(*arrays: Any) -> Any:
        copied.append(arrays)
        return made(*arrays)

    call = model.around(otherwise, made.direct())
    with torch.no_grad():
        expected = module(image)
        for name, tensor in layouts(image).items():
            torch.testing.assert_close(call(tensor), expected)
            assert bool(copied) is (name != "as it was"), name
            copied.clear()


def test_what_was_optimized_is_called_as_the_model(module: Any, image: Any, tmp_path: Path) -> None:
    """So is what was saved, whatever the arrays lie like."""
    o = ea.optimize(module, (image,), seconds=0, prefer="einalg")
    o.save(tmp_path / "saved")
    saved = ea.Optimized.load(tmp_path / "saved")
    with torch.no_grad():
        expected = module(image)
    for tensor in layouts(image).values():
        torch.testing.assert_close(o(tensor), expected)
        np.testing.assert_allclose(saved(tensor.numpy()), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ea.errors.ShapeError):
        saved(image.permute(0, 2, 3, 1).numpy())


def test_a_model_of_onnx_is_called_so_too(module: Any, image: Any, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    o = ea.optimize(module, (image,), seconds=0, prefer="einalg")
    o.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (result,) = session.run(None, {session.get_inputs()[0].name: image.contiguous().numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(result, module(image), rtol=1e-4, atol=1e-5)


@pytest.mark.nightly
def test_compiled_models_read_them_so_too(module: Any, image: Any) -> None:
    compiled = torch.compile(module, backend="einalg", options={"seconds": 0, "prefer": "einalg"})
    with torch.no_grad():
        for tensor in layouts(image).values():
            result, expected = compiled(tensor), module(tensor)
            torch.testing.assert_close(result, expected)
