"""Models that einalg misreads, or compiles to other values: the framework's results decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import einalg as ea
from derive.programs.optimization import trial
from derive.programs.optimized_program import SPREADING
from derive.programs.task import Task
from einalg.api import torch_compile
from einalg.api.backend import LocalBackend
from einalg.api.verification import localisation
from einalg.errors import EinalgError
from einalg.frontends.onnx.nodes.registry import DEFINITIONS
from einalg.language import ops
from einalg.runtime.clock import Clock
from einalg.runtime.measurement import Measurement
from tests.helpers.measurements import exactly

torch = pytest.importorskip("torch")
from einalg.frontends.torch.nodes.registry import ATEN  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Layers(torch.nn.Module):
    """A product, an activation, and a mean."""

    def __init__(self, activation: Callable[[Any], Any]):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.activation = torch.nn.Linear(6, 5), activation

    def forward(self, x: Any) -> Any:
        return self.activation(self.linear(x)).mean(1)


def misread(monkeypatch: pytest.MonkeyPatch, operator: str, reading: Any) -> None:
    monkeypatch.setitem(ATEN, operator, reading)


def large(x: Any) -> Any:
    """A reading of the hyperbolic tangent that is right for small numbers only."""
    return ops.clip(ops.tanh(x), -0.99, 0.99)


def compiled(module: Any, x: Any, way: str) -> tuple[Callable[..., Any], str]:
    """A module compiled in one of the ways there are, and what is said of it."""
    if way == "torch.compile":
        torch._dynamo.reset()
        options = {"seconds": 0, "prefer": "einalg"}
        return torch.compile(module, backend=torch_compile.einalg, options=options), ""
    o = ea.optimize(module, (x,), seconds=0, prefer="einalg")
    assert not o.is_original
    return o, str(o.report)


@pytest.mark.parametrize("way", ["optimize", "torch.compile"])
@pytest.mark.parametrize(
    ("operator", "activation", "reading"),
    [
        ("relu.default", torch.relu, lambda x: ops.abs(x)),
        ("tanh.default", torch.tanh, large),
        ("sigmoid.default", torch.sigmoid, lambda x: ops.clip(ops.sigmoid(x), 0.2, 1.0)),
    ],
)
def test_an_operator_that_is_misread_stays_the_frameworks(
    way: str,
    operator: str,
    activation: Any,
    reading: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    misread(monkeypatch, operator, reading)
    module, x = Layers(activation).eval(), 0.1 * torch.randn(4, 6)
    with torch.no_grad():
        call, report = compiled(module, x, way)
        for factor in (1.0, 30.0, -100.0):
            torch.testing.assert_close(call(factor * x), module(factor * x))
    assert f"{operator} stays a call: einalg deviates from torch on" in caplog.text
    if way == "optimize":
        assert f"{operator} stays torch's" in report


def optimized(function: Callable[..., Any], *examples: Any, **options: Any) -> ea.Optimized:
    """A function of torch, optimized without a search; einalg computes."""

    class Module(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return function(*inputs)

    return ea.optimize(Module().eval(), examples, seconds=0, prefer="einalg", **options)


def test_a_reading_that_is_wrong_for_one_element_only(monkeypatch: pytest.MonkeyPatch) -> None:
    misread(monkeypatch, "relu.default", lambda x: ops.clip(x, 0.0, 1e30))
    x = torch.randn(3, 5)
    o = optimized(lambda x: torch.relu(x) * 2, x)
    assert [node.operator for node in o.opaque] == ["relu.default"]
    assert "on one infinity" in o.opaque[0].why and o.opaque[0].why in " ".join(
        str(o.report).split()
    )
    x[1, 2] = torch.inf
    torch.testing.assert_close(o(x), torch.relu(x) * 2)


def test_every_operator_at_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    misread(monkeypatch, "relu.default", lambda x: ops.abs(x))
    misread(monkeypatch, "tanh.default", large)

    def function(x: Any, y: Any) -> Any:
        return torch.relu(x) + torch.tanh(torch.relu(y) * 2), torch.sigmoid(x)

    x, y = torch.randn(3, 5), torch.randn(3, 5)
    o = optimized(function, x, y)
    assert sorted(node.operator for node in o.opaque) == [
        "relu.default",
        "relu.default",
        "tanh.default",
    ]
    for computed, expected in zip(o(x, 3 * y), function(x, 3 * y), strict=True):
        torch.testing.assert_close(computed, expected)


def test_an_operator_of_onnx_that_is_misread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    monkeypatch.setitem(DEFINITIONS, "Relu", lambda node: ops.abs(node.tensor(0)))
    weight = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Relu", ["product"], ["positive"]),
            helper.make_node("Softmax", ["positive"], ["y"], axis=-1),
        ],
        "model",
        [helper.make_tensor_value_info("x", kind, (3, 4))],
        [helper.make_tensor_value_info("y", kind, (3, 5))],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    o = ea.optimize(model, [x], seconds=0, prefer="einalg")
    (expected,) = runtime.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_allclose(o(x), expected, rtol=1e-5)
    assert "Relu stays a call: einalg deviates from onnxruntime on" in caplog.text
    assert "Relu stays onnxruntime's" in str(o.report) and not o.is_original


class Wrong:
    """Compiled code whose results are wrong where an input is large."""

    def __init__(self, run: Any):
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def direct(self, names: Any) -> None:
        return None

    def bind(self, **arrays: Any) -> Wrong:
        return Wrong(self._run.bind(**arrays))

    def __call__(self, **arrays: Any) -> Any:
        is_large = max(float(np.nanmax(np.abs(array))) for array in arrays.values()) > 50
        outputs = self._run(**arrays)
        if not is_large:
            return outputs
        if isinstance(outputs, dict):
            return {name: array * 1.5 for name, array in outputs.items()}
        return outputs * 1.5


class Failing(Wrong):
    """Compiled code that has no result where an input is large."""

    def bind(self, **arrays: Any) -> Failing:
        return Failing(self._run.bind(**arrays))

    def __call__(self, **arrays: Any) -> Any:
        if max(float(np.nanmax(np.abs(array))) for array in arrays.values()) > 50:
            raise EinalgError("numbers that are too large\n  give smaller ones")
        return self._run(**arrays)


@pytest.mark.parametrize("code", [Wrong, Failing])
def test_a_form_that_deviates_is_not_taken(
    code: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program as it was is right, and takes its place."""
    real = trial.compiled
    monkeypatch.setattr(trial, "compiled", lambda *rest, **named: code(real(*rest, **named)))
    x = torch.randn(3, 5)
    o = optimized(lambda x: torch.sigmoid(x) * x, x)
    assert not o.opaque and "its faster form is not taken" in " ".join(str(o.report).split())
    torch.testing.assert_close(o(100 * x), torch.sigmoid(100 * x) * 100 * x)


@pytest.mark.parametrize("code", [Wrong, Failing])
def test_code_of_an_operator_that_deviates(
    code: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reading is right, but whatever is compiled with it is not."""
    real = trial.compiled

    def wrong(program: Any, *rest: Any, **named: Any) -> Any:
        run = real(program, *rest, **named)
        return code(run) if "tanh(" in str(program) else run

    monkeypatch.setattr(trial, "compiled", wrong)
    monkeypatch.setattr(localisation, "compiled", wrong)

    def function(x: Any) -> Any:
        return (torch.sigmoid(torch.tanh(torch.abs(x) + 1)) * 3).sum(1)

    x = torch.randn(3, 5)
    o = optimized(function, x)
    assert [node.operator for node in o.opaque] == ["tanh.default"] and not o.is_original
    torch.testing.assert_close(o(100 * x), function(100 * x))


def test_what_was_optimized_holds_its_weights() -> None:
    """Those that programs read, and those of calls of the framework."""

    class Parameters(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.next = (torch.nn.Parameter(torch.randn(5)) for _ in range(2))

        def forward(self, x: Any) -> Any:
            return torch.nextafter(x * self.scale, self.next * 1.5), torch.nextafter(x, self.next)

    module, x = Parameters().eval().requires_grad_(False), torch.randn(3, 5)
    o = ea.optimize(module, (x,), seconds=0, prefer="einalg")
    expected = module(x)
    for parameter in module.parameters():
        parameter.data += 1
    assert len(o.opaque) == 2
    torch.testing.assert_close(o(x), expected)


def test_a_model_that_is_exported_wrongly_stays_the_frameworks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No operator is at fault: its graph is not the model."""

    class Other(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if torch.compiler.is_exporting() else x * 3

    x = torch.ones(3)
    o = ea.optimize(Other().eval(), (x,), seconds=0, prefer="einalg")
    assert o.is_original and torch.equal(o(x), 3 * x)
    assert "the model deviates from its framework" in caplog.text
    assert "no operator was found" in str(o.report)


def test_what_is_random_is_not_compared() -> None:
    o = optimized(lambda x: x + torch.rand(3), torch.ones(3))
    assert not o.is_original and "drawn at random" in str(o.report)


def test_an_interrupt_keeps_the_model(caplog: pytest.LogCaptureFixture) -> None:
    class Interrupted(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            if type(x) is torch.Tensor and not torch.compiler.is_exporting() and x.isnan().any():
                raise KeyboardInterrupt
            return x * 2

    x = torch.ones(3)
    o = ea.optimize(Interrupted().eval(), (x,), seconds=0, prefer="einalg")
    assert torch.equal(o(x), 2 * x) and "that was interrupted" in str(o.report)


def test_positions_and_masks_stay_what_they_are() -> None:
    """Special inputs change floats only: positions are in their range, or torch would raise."""
    seen: list[Any] = []

    class Chosen(torch.nn.Module):
        def forward(self, table: Any, positions: Any, mask: Any) -> Any:
            if not torch.compiler.is_exporting():
                seen.append((positions, mask))
            return torch.where(mask, table[positions], 0.5)

    table, positions = torch.randn(7, 4), torch.tensor([6, 0, 3])
    mask = torch.tensor([[True], [False], [True]])
    o = ea.optimize(Chosen().eval(), (table, positions, mask), seconds=0, prefer="einalg")
    assert "scaled by 0.001" in " ".join(str(o.report).split()) and not o.is_original
    real = [pair for pair in seen if type(pair[0]) is torch.Tensor]
    assert len(real) >= 8
    for given_positions, given_mask in real:
        assert torch.equal(given_positions, positions) and torch.equal(given_mask, mask)


def test_rounding_is_no_fault() -> None:
    """What a norm makes of constant rows is rounding alone; results of large sums cancel."""
    norm = torch.nn.LayerNorm(64).eval()
    o = optimized(lambda x: norm(x + 1000) + (x * 1e6).sum(1, keepdim=True), torch.randn(8, 64))
    assert not o.opaque and not o.is_original


def test_results_that_are_rounding_alone_are_told() -> None:
    """Two sums of the same numbers, in another order."""
    x = torch.randn(8, 64)
    o = optimized(lambda x: x.sum(1) - x.flip(1).sum(1), x)
    assert not o.opaque and not o.is_original
    assert "results depend on rounding" in " ".join(str(o.report).split())
    assert abs(o(x)).max() < 1e-4


def test_forms_that_spread_nans_are_not_searched_where_these_shall_be_exact() -> None:
    assert Task(LocalBackend(), 1.0, Clock.of(1.0)).rules is None
    rules = Task(LocalBackend(), 1.0, Clock.of(1.0), nonfinite="exact").rules
    assert rules and SPREADING.isdisjoint(rule.name for rule in rules)


class Branches(torch.nn.Module):
    """Convolutions of one tensor, added, and one of repeated elements."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Conv2d(3, 4, 1)
        self.up = torch.nn.Sequential(torch.nn.Upsample(scale_factor=2), torch.nn.Conv2d(4, 2, 3))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.up(torch.relu(self.wide(x) + self.narrow(x))))


@pytest.mark.parametrize("nonfinite", ["spread", pytest.param("exact", marks=pytest.mark.nightly)])
def test_weights_that_multiply_one_element_are_added(nonfinite: str) -> None:
    """Unless an infinity is to be NaN where their signs differ."""
    module, x = Branches().eval(), torch.randn(1, 3, 6, 6)
    o = ea.optimize(module, (x,), seconds=0, prefer="einalg", nonfinite=nonfinite)
    text = " ".join(str(o.report).split())
    assert "not taken" not in text and not o.opaque
    names = [name for part in o.parts.values() for name in part.after.names]
    assert any("added" in name for name in names) == (nonfinite == "spread")
    assert ("times the sum of several weights" in text) == (nonfinite == "spread")
    with torch.no_grad():
        torch.testing.assert_close(o(x), module(x))


@pytest.mark.nightly
@pytest.mark.parametrize("nonfinite", ["spread", "exact"])
def test_how_far_a_nan_reaches(nonfinite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that transforms tiles is named, or not taken."""
    monkeypatch.setattr(LocalBackend, "measure", tiles_first)
    layer = torch.nn.Conv2d(8, 8, 3, padding=1).eval()
    x = torch.randn(1, 8, 16, 16)
    o = ea.optimize(layer, (x,), seconds=20, prefer="einalg", nonfinite=nonfinite)
    x[0, 3, 7, 9] = torch.nan
    with torch.no_grad():
        result, expected = o(x), layer(x)
    where = expected.isnan()
    torch.testing.assert_close(result[~result.isnan()], expected[~result.isnan()])
    assert result.isnan()[where].all()
    text = " ".join(str(o.report).split())
    assert ("shares a transform tile" in text) == (nonfinite == "spread")
    if nonfinite == "exact":
        assert torch.equal(result.isnan(), where)


def tiles_first(backend: Any, runs: Any, arrays: Any) -> list[Measurement]:
    """Times by which programs of several statements are the fastest."""
    times = []
    for run in runs:
        statements = len(run.program.statements) if hasattr(run, "program") else 1
        times.append(exactly(1.0 / statements))
    return times
