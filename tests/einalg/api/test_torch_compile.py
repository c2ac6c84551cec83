"""`torch.compile` with einalg: graph breaks, changed shapes, changed weights, writes to inputs, and
what is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from bench.models import SMALL  # noqa: E402
from codegen.runtime.memory_digest import MemoryDigest  # noqa: E402
from einalg.api import torch_compile  # noqa: E402
from einalg.api.verification.verification import Verified  # noqa: E402
from einalg.errors import NotationError  # noqa: E402
from einalg.frontends.graph import Graph  # noqa: E402
from einalg.frontends.torch import load_fx  # noqa: E402
from einalg.frontends.torch.capture.weight_stamp import WeightStamp  # noqa: E402
from einalg.frontends.torch.nodes.registry import TrainingMode  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)  # of torch about itself


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs that are compiled, each run by the reference executor."""
    torch._dynamo.reset()
    found: list[Graph] = []

    def compile_graph(graph: Graph, arrays: Any, **_: Any) -> Graph:
        found.append(graph)
        return graph

    monkeypatch.setattr(torch_compile, "compile_graph", compile_graph)
    return found


def compiled(function: Any, prefer: str = "einalg") -> Callable[..., Any]:
    """A function compiled; einalg computes, for torch is faster than the reference executor."""
    return torch.compile(function, backend=torch_compile.einalg, options={"prefer": prefer})


def model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3),
        torch.nn.BatchNorm2d(3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(27, 4),
    ).eval()


def test_a_module_with_changing_batches_and_weights(graphs: list[Graph]) -> None:
    module = model()
    fast = compiled(module)
    with torch.no_grad():
        for batch, count in ((2, 1), (2, 1), (3, 2), (5, 3), (3, 3)):
            x = torch.randn(batch, 2, 5, 5)
            torch.testing.assert_close(fast(x), module(x))
            assert len(graphs) == count
        module[0].weight.mul_(2)
        torch.testing.assert_close(fast(x), module(x))
    assert len(graphs) == 4
    assert all(not g.opaque and len(g.inputs) == 1 and len(g.weights) == 8 for g in graphs)
    assert (
        graphs[0].weights[next(iter(graphs[0].weights))].base is not None
    )  # memory that is torch's


def test_what_makes_a_call_another_one(graphs: list[Graph]) -> None:
    """Other memory of a weight, another weight, other elements; versions that are known already
    come back.
    """
    linear = torch.nn.Linear(3, 4).eval()
    fast, x = compiled(linear), torch.randn(2, 3)

    def counted(x: Any) -> int:
        torch.testing.assert_close(fast(x), linear(x))
        return len(graphs)

    with torch.no_grad():
        assert [counted(x), counted(x), counted(x + 1)] == [1, 1, 1]
        linear.weight.data = torch.randn(4, 3)
        assert [counted(x), counted(x)] == [2, 2]
        linear.bias = torch.nn.Parameter(torch.randn(4))
        assert [counted(x), counted(x)] == [3, 3]
        linear.double()
        assert [counted(x.double()), counted(x.double())] == [4, 4]
        with torch.inference_mode():
            torch.testing.assert_close(fast(x.double()), linear(x.double()))


@pytest.mark.parametrize("batch", [1, 3])
def test_writes_that_torch_does_not_count(batch: int, graphs: list[Graph]) -> None:
    """Through `.data`, and through an array that shares the memory, to all or to one element."""
    linear = torch.nn.Linear(33, 5).eval().requires_grad_(False)
    linear.weight.data = torch.randn(33, 5).t()
    fast, x = compiled(linear), torch.randn(batch, 33)
    writes: list[Callable[[], Any]] = [
        lambda: linear.weight.data.add_(1),
        lambda: linear.weight.data[4, 32].neg_(),
        lambda: linear.bias.numpy().__setitem__(0, 7),
        lambda: linear.weight.data.copy_(linear.weight.data.flip(0).clone()),
    ]
    with torch.no_grad():
        for count, write in enumerate(writes, 1):
            torch.testing.assert_close(fast(x), linear(x))
            torch.testing.assert_close(fast(x + 1), linear(x + 1))
            assert len(graphs) == count
            write()
        torch.testing.assert_close(fast(x), linear(x))


class Scaled(torch.nn.Module):
    """Weights that kernels read where they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(24))

    def forward(self, x: Any) -> Any:
        return torch.tanh(x) * self.scale


class Mixed(Scaled):
    """A weight that is packed, one of which something is computed ahead, and others."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(24, 40, bias=False), torch.nn.BatchNorm1d(40)
        self.gain = torch.nn.Parameter(torch.randn(40))

    def forward(self, x: Any) -> Any:
        return self.norm(self.linear(super().forward(x))) * torch.exp(self.gain)


def by_gradient(parameter: Any) -> None:
    parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD([parameter], lr=0.5).step()
    parameter.grad = None


def replaced(parameter: Any) -> None:
    parameter.data = torch.randn(parameter.shape)


UPDATES: dict[str, Callable[[Any], Any]] = {
    "to all through .data": lambda parameter: parameter.data.add_(1),
    "to one in the middle": lambda p: p.data.view(-1)[p.numel() // 2].add_(3),
    "in reverse order": lambda p: p.data.copy_(p.data.flip(0).clone()),
    "by copy_": lambda parameter: parameter.copy_(torch.randn(parameter.shape)),
    "by set_": lambda parameter: parameter.set_(torch.randn(parameter.shape)),
    "other .data": replaced,
    "by an optimizer": by_gradient,
}


@pytest.mark.parametrize(
    ("kind", "name", "compilations"),
    [
        (Scaled, "scale", {3}),  # after two moves: kernels see other elements
        (Mixed, "linear.weight", {9}),  # after each update
        (Mixed, "gain", {9}),
        (Mixed, "norm.running_var", range(4, 10)),  # which may be folded
    ],
)
def test_updates_of_a_weight_are_seen(
    kind: Any, name: str, compilations: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever einalg makes of the weight, and whoever writes to it."""
    torch._dynamo.reset()
    monkeypatch.setattr(torch_compile, "verified", lambda n, c, _: Verified(n, c(n)))
    graphs: list[Graph] = []
    real = torch_compile.compile_graph

    def counted(graph: Graph, arrays: Any, **_: Any) -> Any:
        graphs.append(graph)
        return real(graph, arrays, seconds=0)

    monkeypatch.setattr(torch_compile, "compile_graph", counted)
    module, x = kind().eval(), torch.randn(16, 24)
    fast = compiled(module)
    tensor = {**dict(module.named_parameters()), **dict(module.named_buffers())}[name]
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-4)
        for update in UPDATES.values():
            update(tensor)
            tensor.data.abs_()
            torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-4)
        state = {key: value * 1.1 for key, value in module.state_dict().items()}
        module.load_state_dict(state)
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-4)
    assert len(graphs) in compilations


def test_positions_among_the_inputs(caplog: pytest.LogCaptureFixture) -> None:
    """A call of torch that is tried while compiling has the positions of a real call."""
    torch._dynamo.reset()
    options = {"seconds": 0, "prefer": "einalg"}

    def function(x: Any, positions: Any, y: Any) -> Any:
        return torch.relu(x).scatter_add(0, positions, y) * 2

    x, y, positions = torch.randn(1), torch.randn(4), torch.zeros(4, dtype=torch.int64)
    fast = torch.compile(function, backend=torch_compile.einalg, options=options)
    torch.testing.assert_close(fast(x, positions, y), function(x, positions, y))
    assert "goes on running" not in caplog.text


def test_a_version_suits_calls_of_its_own_kind_alone() -> None:
    """Of tensors of the same dtype and shape, and of equal numbers."""
    weight, x = torch.randn(2), torch.randn(3, 1)
    version = torch_compile._Version(
        [(0, WeightStamp.of(weight))],
        [(1, x.dtype, (3, 1)), (2, None, 5)],
        lambda: None,
        MemoryDigest.of([(weight.data_ptr(), 8)]),
    )
    assert version.suits((weight, x, 5)) and version.suits((weight, x + 1, 5))
    others = [
        (weight.clone(), x, 5),
        (weight, x[:, 0], 5),
        (weight, x.double(), 5),
        (weight, x, 6),
        (weight, x, torch.tensor(5)),
        (weight, 5, 5),
    ]
    assert not any(map(version.suits, others))
    weight += 1
    assert not version.suits((weight, x, 5))


def test_a_graph_break_makes_two_graphs(graphs: list[Graph]) -> None:
    def function(x: Any) -> Any:
        y = torch.relu(x) * 2
        return y + 1 if y.sum() > 0 else y - 1

    fast = compiled(function)
    for x in (torch.ones(4), -torch.ones(4)):
        torch.testing.assert_close(fast(x), function(x))
    assert [[n.operator for n in g.nodes][-1] for g in graphs] == [
        "gt.Scalar",
        "add.Tensor",
        "sub.Tensor",
    ]


def test_writes_and_views_of_inputs(graphs: list[Graph]) -> None:
    def function(x: Any) -> Any:
        x.add_(1)
        return x[0] * 2, x.t()

    x = torch.zeros(2, 3)
    row, turned = compiled(function)(x)
    assert x.eq(1).all() and row.eq(2).all() and turned.data_ptr() == x.data_ptr()
    assert len(graphs) == 1


class Counting(torch.nn.Module):
    """Keeps something for the next call in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.layer = torch.nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.layer(x) * self.calls


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_buffer_that_the_graph_writes_to_is_no_weight(graphs: list[Graph], mode: Any) -> None:
    with mode():
        module = Counting().eval()
        fast, x = compiled(module), torch.randn(2, 3)
        for calls in (1, 2, 3):
            torch.testing.assert_close(fast(x), module.layer(x) * calls)
    assert module.calls == 3 and len(graphs) == 1


def test_what_cannot_be_traced_is_left_to_torch(
    graphs: list[Graph], caplog: pytest.LogCaptureFixture
) -> None:
    """A number with another value than the first time: Dynamo reads it from a tensor then."""

    def function(x: Any, scale: float) -> Any:
        return x * scale

    fast, x = compiled(function), torch.randn(3)
    for scale in (1.5, 2.5, -3.5):
        torch.testing.assert_close(fast(x, scale), x * scale)
    assert len(graphs) == 1 and "cannot trace a graph" in caplog.text


def test_an_option_that_there_is_not() -> None:
    torch._dynamo.reset()
    fast = torch.compile(model(), backend=torch_compile.einalg, options={"second": 5})
    with (
        torch.no_grad(),
        pytest.raises(
            NotationError, match=r"no option 'second'\n  the options: target, seconds, accuracy"
        ),
    ):
        fast(torch.randn(2, 2, 5, 5))


def test_gradients_are_refused(graphs: list[Graph]) -> None:
    with pytest.raises(TrainingMode, match=r"gradients(.|\n)*torch\.no_grad"):
        compiled(model())(torch.randn(2, 2, 5, 5))
    module = model().requires_grad_(False)
    torch.testing.assert_close(
        compiled(module)(torch.ones(1, 2, 5, 5)), module(torch.ones(1, 2, 5, 5))
    )


@pytest.mark.parametrize("module", [torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3)])
def test_training_mode_is_refused(module: Any, graphs: list[Graph]) -> None:
    with torch.no_grad(), pytest.raises(TrainingMode, match=r"model\.eval\(\)"):
        compiled(module.train())(torch.ones(2, 3))
    assert not graphs


def test_programs_are_compiled_with_their_weights() -> None:
    torch._dynamo.reset()
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    x = torch.randn(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(x), module(x))


def test_a_graph_of_functions_is_traced() -> None:
    module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Conv1d(2, 3, 3), torch.nn.GELU()))
    x = torch.randn(1, 2, 7)
    graph = load_fx(module, (x,))
    assert [n.operator for n in graph.nodes] == ["convolution.default", "gelu.default"] and len(
        graph.weights
    ) == 2
    torch.testing.assert_close(torch.from_numpy(graph(x)[0]), module(x).detach())


@pytest.mark.parametrize("prefer", ["fastest", "einalg"])
def test_torch_goes_on_running_what_is_not_faster(
    prefer: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless einalg shall compute. Also where a graph writes to its inputs: the runs that are
    compared write to copies.
    """
    torch._dynamo.reset()

    def slow(graph: Graph, arrays: Any, **_: Any) -> Any:
        return lambda *arrays: [time.sleep(0.01), graph(*arrays)][1]

    def function(x: Any) -> Any:
        x.add_(1)
        return x * 2

    monkeypatch.setattr(torch_compile, "compile_graph", slow)
    x = torch.zeros(3)
    with torch.no_grad():
        fast = compiled(function, prefer)
        assert fast(x).tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]
    assert ("which goes on running it" in caplog.text) == (prefer == "fastest")


@pytest.mark.parametrize("options", [{"prefer": "torch"}, {"perfer": "einalg"}])
def test_options_that_there_are_not(options: dict[str, str]) -> None:
    torch._dynamo.reset()
    fast = torch.compile(lambda x: x * 2, backend=torch_compile.einalg, options=options)
    with pytest.raises(NotationError, match=r"use one of|the options"):
        fast(torch.ones(3))


@pytest.mark.nightly
def test_a_small_resnet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimized for two seconds, by its name, as an option of `torch.compile`."""
    torch._dynamo.reset()
    made: list[Any] = []
    real = torch_compile.compile_graph
    monkeypatch.setattr(
        torch_compile,
        "compile_graph",
        lambda *graph, **given: made.append((real(*graph, **given), given)) or made[-1][0],
    )
    module, inputs = SMALL["resnet18"](1)
    fast = torch.compile(module, backend="einalg", options={"seconds": 2, "prefer": "einalg"})
    with torch.no_grad():
        for given in (inputs, tuple(-x for x in inputs)):
            torch.testing.assert_close(fast(*given), module(*given), rtol=1e-4, atol=1e-4)
    ((one, options),) = made
    assert options == {"seconds": 2} and one.parts and not one.opaque


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_networks_are_captured(kind: str, graphs: list[Graph]) -> None:
    """With what is before and behind them, and not step by step."""

    class Steps(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = getattr(torch.nn, kind)(3, 4, batch_first=True)
            self.last = torch.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.last(self.steps(torch.relu(x))[0])

    module, x = Steps().eval(), torch.randn(2, 5, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(x), module(x))
    (graph,) = graphs
    assert not graph.opaque and len(graph.nodes) < 9


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_values_stay_torchs(
    dtype: Any, graphs: list[Graph], caplog: pytest.LogCaptureFixture
) -> None:
    def function(x: Any) -> Any:
        return (x * 2).abs() + 1

    x = torch.randn(3, dtype=dtype)
    torch.testing.assert_close(compiled(function)(x), function(x))
    assert "a graph stays torch's" in caplog.text and not graphs


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "channels last": lambda x: torch.relu(x.contiguous(memory_format=torch.channels_last)),
    "an axis moved": lambda x: (x * 2).transpose(1, 3),
    "a flat view": lambda x: [y := x * 2, y.view(-1)],
    "parts of a whole": lambda x: [y := x * 2, y[1], y[:, 1:, ::2], y.detach()],
    "a view first": lambda x: [(y := x * 2)[0], y],
    "the same twice": lambda x: [y := x + 1, y],
    "spread out": lambda x: (x.sum(0) * 2).expand(3, 3, 4, 5),
    "every second": lambda x: (x * 2)[..., ::2],
    "a part of channels last": lambda x: torch.relu(
        x.contiguous(memory_format=torch.channels_last)
    )[..., 1:],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_results_lie_in_memory_as_in_torch(name: str, graphs: list[Graph]) -> None:
    function, x = LAYOUTS[name], torch.randn(2, 3, 4, 5)

    def described(results: Any) -> tuple[Any, Any]:
        tensors = results if isinstance(results, list) else [results]
        memory = [tensor.untyped_storage().data_ptr() for tensor in tensors]
        strides = [tensor.stride() for tensor in tensors]
        return strides, [[one == other for one in memory] for other in memory]

    results, expected = compiled(function)(x), function(x)
    torch.testing.assert_close(results, expected)
    assert described(results) == described(expected)
    assert len(graphs) == 1
