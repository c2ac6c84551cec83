"""Inputs that lie in memory in another order of their axes: read where they lie, as they are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from derive.programs.optimization import optimized
from einalg.api.backend import LocalBackend
from einalg.api.models import network
from einalg.frontends.torch import load
from tests.helpers.c_project import check
from tests.helpers.measurements import all_exactly

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


def test_it_is_read_where_it_lies(
    module: Any, image: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a copy; others are copied. Of all forms, that of the fewest kernels is the fastest."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(LocalBackend, "measure", all_exactly(lambda form: len(form.running)))
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
    unread = image.clone().requires_grad_()
    calls: list[tuple[Any, tuple[Any, ...], str]] = [
        (o, (image[:1],), r"shape \(2, 3, 5, 6\), not \(1, 3, 5, 6\)"),
        (saved, (image.permute(0, 2, 3, 1).numpy(),), r"\(2, 3, 5, 6\), not \(2, 5, 6, 3\)"),
        (saved, (image[0].numpy(),), r"\(2, 3, 5, 6\), not \(3, 5, 6\)"),
        (saved, ([[1, 2], [3]],), "cannot be read as an array"),
        (saved, (unread,), "cannot be read as an array"),
        (saved, (), "1 inputs are expected, not 0"),
    ]
    for run, arguments, message in calls:
        with pytest.raises(ea.ShapeError, match=message):
            run(*arguments)


def test_a_saved_order_that_is_none_of_the_axes_is_damage(
    module: Any, image: Any, tmp_path: Path
) -> None:
    ea.optimize(module, (image,), seconds=0, prefer="einalg").save(tmp_path)
    path = tmp_path / "model.json"
    content = json.loads(path.read_text())
    (name,) = content["orders"]
    orders: list[Any] = [{name: row} for row in ([0, 1, 2, 2], [0, 2, 3], [0, 2, 3, 4], ["a"], 3)]
    for damaged in (*orders, {"other": [0, 2, 3, 1]}, [[0, 2, 3, 1]]):
        path.write_text(json.dumps({**content, "orders": damaged}))
        with pytest.raises(ea.RecordError, match="damaged"):
            ea.Optimized.load(tmp_path)
    path.write_text(json.dumps(content))
    ea.Optimized.load(tmp_path)


class Several(torch.nn.Module):
    """Inputs of several types and layouts, of which one is not read."""

    def forward(self, image: Any, unread: Any, mask: Any, counts: Any) -> Any:
        return torch.where(mask, image, image * 2), counts + 1, counts


def several() -> tuple[Any, ...]:
    """Return inputs of it, three of which have their last axis outermost in memory or nearly so."""
    counts = torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1)
    return (
        torch.randn(2, 3, 5, 6).to(memory_format=torch.channels_last),
        torch.randn(3, 2).t(),
        torch.rand(2, 3, 5, 6) > 0.5,
        counts,
    )


def test_a_project_in_c_takes_axes_as_the_model_does(tmp_path: Path) -> None:
    inputs = several()
    o = ea.optimize(Several(), inputs, seconds=0, prefer="einalg")
    assert len(o.graph.orders) == 3
    folder = o.export_c(tmp_path / "net", "forward")
    lines = (folder / "forward.h").read_text().splitlines()
    shapes = {line.split()[0]: line for line in lines if " x " in line}
    for name, tensor in zip(("image", "unread", "mask", "counts"), inputs):
        assert f" {' x '.join(map(str, tensor.shape))} " in shapes[name]
    assert "a call takes" in check(folder, "-O1", "-Wno-unused-result")


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
