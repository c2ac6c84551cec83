"""A module that was exported once is found again while it calls the same operators, and only then."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import einalg as ea  # noqa: E402
from einalg.errors import EinalgError, NotationError  # noqa: E402
from einalg.frontends.torch import load_model  # noqa: E402
from einalg.frontends.torch.capture.call_trace import record_calls, repeats_calls  # noqa: E402
from einalg.frontends.torch.capture.export import GRAPHS  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    torch.manual_seed(0)
    yield tmp_path


def no_export(*_: Any, **__: Any) -> Any:
    raise AssertionError("exported again")


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 3, 3, padding=1, bias=False),
            nn.BatchNorm2d(3),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2, 1, 1),
        )

    def forward(self, x: Any) -> Any:
        y = self.body(x)[:, :, :-1, :-1]
        y += x
        return {"sum": y, "parts": (y.mean((2, 3)), torch.arange(y.shape[1]).float() * 2)}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)
        self.second.weight = self.first.weight

    def forward(self, x: Any, *, scale: Any = 2.0, mask: Any = None) -> Any:
        y = self.second(torch.tanh(self.first(x))) * scale
        return y if mask is None else y.masked_fill(mask, 0.0)


class Split(nn.Module):
    def forward(self, x: Any) -> Any:
        a, b = x.chunk(2, dim=-1)
        values, order = torch.sort(a)
        return values + b, order


CASES: dict[str, tuple[Callable[[], Any], tuple[Any, ...], dict[str, Any]]] = {
    "image": (Residual, (torch.randn(2, 3, 7, 5),), {}),
    "tied": (Tied, (torch.randn(4, 5),), {"scale": 0.5, "mask": torch.rand(4, 5) > 0.5}),
    "split": (Split, (torch.randn(3, 6),), {}),
    "lstm": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), (torch.randn(5, 2, 3),), {}),
    "gru": (lambda: nn.GRU(3, 4, batch_first=True), (torch.randn(2, 5, 3),), {}),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (torch.randn(2, 6, 8),),
        {},
    ),
    "attention": (lambda: nn.MultiheadAttention(8, 2), (torch.randn(5, 2, 8),) * 3, {}),
    "double": (lambda: nn.Linear(3, 2).double(), (torch.randn(4, 3, dtype=torch.float64),), {}),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(7, 4), nn.LayerNorm(4)),
        (torch.tensor([[1, 2, 6]]),),
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_second_time_nothing_is_exported(name: str) -> None:
    make, arguments, keywords = CASES[name]
    module = make().eval()
    first = load_model(module, arguments, keywords)
    with patch.object(torch.export, "export", no_export):
        second = load_model(module, arguments, keywords)
    assert str(first.graph) == str(second.graph)
    assert {k: v.tobytes() for k, v in first.graph.weights.items()} == {
        k: v.tobytes() for k, v in second.graph.weights.items()
    }
    with torch.no_grad():
        expected = torch.utils._pytree.tree_flatten(module(*arguments, **keywords))
    for model in (first, second):
        found = torch.utils._pytree.tree_flatten(model.function()(*arguments, **keywords))
        assert found[1] == expected[1]
        for one, other in zip(found[0], expected[0]):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_weights_are_those_of_the_module() -> None:
    module = nn.Linear(3, 2).eval()
    load_model(module, (torch.zeros(1, 3),))
    with torch.no_grad():
        module.weight.fill_(2.0)
    with patch.object(torch.export, "export", no_export):
        model = load_model(module, (torch.zeros(1, 3),))
    (weight,) = (v for v in model.graph.weights.values() if v.ndim == 2)
    assert (weight == 2).all()


class Elsewhere(nn.Module):
    """Calls what no attribute shows."""

    def __init__(self, function: Any):
        super().__init__()
        self.functions = {"f": function}

    def forward(self, x: Any) -> Any:
        return self.functions["f"](x)


CHANGES = [
    (torch.tanh, torch.sigmoid),
    (lambda x: x * 2, lambda x: x * 3),
    (lambda x: x.t() - 1, lambda x: 1 - x.t()),
    (lambda x: (x, x + 1), lambda x: (x + 1, x)),
    (lambda x: (x + 1, x - 1), lambda x: [x + 1, x - 1]),
    (lambda x: x + 1, lambda x: (x + 1).relu()),
    (lambda x: (x + 1).relu(), lambda x: x + 1),
    (lambda x: x.add(1.0), lambda x: x.add_(1.0).clone()),
    (lambda x: x.to(torch.float64), lambda x: x.to(torch.float16)),
]


@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_other_calls_are_exported_anew(change: int) -> None:
    x = torch.rand(3, 3)
    for function in CHANGES[change]:
        module = Elsewhere(function).eval()
        try:
            model = load_model(module, (x.clone(),))
        except NotationError as error:  # of one that writes to its input
            assert "writes to its input" in str(error)
            continue
        found, expected = model.function()(x), function(x.clone())
        assert type(found) is type(expected)
        for one, other in zip(found, expected):
            torch.testing.assert_close(one, other)


class ByValue(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2 if float(x.sum()) > 0 else x * 3


class ByArray(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * float(x.numpy().sum())


class Constant(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * torch.tensor([1.0, 2.0, 3.0])


class Loose(nn.Module):
    """Holds a tensor that is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [torch.arange(3.0)]

    def forward(self, x: Any) -> Any:
        return x + self.held[0]


class Positions(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nonzero(x)


@pytest.mark.parametrize("kind", [ByValue, ByArray, Constant, Loose, Positions])
def test_what_values_decide_is_not_recorded(kind: Any) -> None:
    x = torch.ones(3)
    assert record_calls(kind(), (x,), {}) is None
    for _ in range(2):
        try:
            found = load_model(kind(), (x,)).function()(x)
        except EinalgError:
            continue
        torch.testing.assert_close(found, kind()(x), check_dtype=False)


class Remembering(nn.Module):
    """Keeps what it computed for the next call."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Any = None
        self.register_buffer("table", None)

    def forward(self, x: Any) -> Any:
        self.last = x + 1
        self.table = self.last
        return self.last * 2


def test_a_module_is_left_as_it_was() -> None:
    module = Remembering()
    assert record_calls(module, (torch.ones(2),), {}) is None
    assert module.last is None and module.table is None and list(module.buffers()) == []
    assert torch.equal(module(torch.ones(2)), torch.full((2,), 4.0))


class Caching(nn.Module):
    """Keeps what it computed in containers, as timm's models keep their biases."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))
        self.by_device: dict[str, Any] = {}
        self.nested: tuple[list[Any], ...] = ([1], [2, 3])
        self.seen, self.last = {"x"}, deque([0], maxlen=1)

    def forward(self, x: Any) -> Any:
        key = str(x.device)
        if key not in self.by_device:
            self.by_device[key] = self.weight * 2
        self.nested[1][0] = self.by_device[key]
        self.seen.add(self.weight)
        self.last.append(x)
        return x + self.by_device[key]


def test_the_containers_of_a_module_are_left_as_they_were() -> None:
    module, x = Caching(), torch.ones(3)
    assert record_calls(module, (x,), {}) is None
    assert (
        module.by_device == {}
        and module.nested == ([1], [2, 3])
        and module.seen == {"x"}
        and list(module.last) == [0]
    )
    assert module.last.maxlen == 1
    assert torch.equal(ea.optimize(module, (x,), seconds=0)(x), module(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LazyLinear(2),
        lambda: torch.jit.script(nn.Linear(3, 2)),
        lambda: nn.Linear(3, 2, device="meta"),
    ],
)
def test_what_torch_does_not_export_is_told_as_before(make: Any) -> None:
    with pytest.raises(NotationError, match="has no graph of"):
        load_model(make().eval(), (torch.ones(1, 3),))


def test_autocast_does_not_keep_what_a_recorded_call_made_of_weights() -> None:
    module, x = nn.Linear(3, 2).eval(), torch.ones(1, 3)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = load_model(module, (x,)).function()(x)
        torch.testing.assert_close(found, module(x))


def test_statistics_are_not_written() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3))  # in training, which no graph expresses
    with pytest.raises(NotationError):
        load_model(module, (torch.randn(4, 3),))
    assert module[0].num_batches_tracked == 0 and (module[0].running_mean == 0).all()


def test_arguments_of_another_shape_or_kind() -> None:
    module = nn.Linear(3, 2).eval()
    calls = record_calls(module, (torch.ones(4, 3),), {})
    assert calls is not None and repeats_calls(calls, module, (torch.ones(4, 3),), {})
    assert not repeats_calls(calls[:-1], module, (torch.ones(4, 3),), {})
    assert not repeats_calls([*calls, calls[-1]], module, (torch.ones(4, 3),), {})
    assert load_model(module, (torch.ones(5, 3),)).graph.outputs != [] and load_model(
        module, (torch.ones(4, 3),)
    ).graph.inputs[0].shape == (4, 3)
    with pytest.raises(EinalgError):
        load_model(module, (torch.ones(4, 5),))


@pytest.mark.parametrize(
    "content", ["", "[]", '{"calls": [], "graph": {}}', '{"calls": null}', "damaged"]
)
def test_damaged_record(content: str) -> None:
    module, x = nn.Linear(3, 2).eval(), torch.ones(1, 3)
    load_model(module, (x,))
    with patch.object(type(GRAPHS), "read", lambda self, key: content.encode()):
        model = load_model(module, (x,))
    torch.testing.assert_close(model.function()(x), module(x).detach())


def test_graph_that_does_not_fit_its_calls() -> None:
    """Of a record whose calls are right, a node names an operator of no library that a record may
    name.
    """
    module, x = nn.Linear(3, 2).eval(), torch.ones(1, 3)
    load_model(module, (x,))
    read = type(GRAPHS).read

    def other(self: Any, key: str) -> bytes | None:
        content = read(self, key)
        return content and content.replace(b'"aten.linear.default", [', b'"os.system.default", [')

    with patch.object(type(GRAPHS), "read", other):
        model = load_model(module, (x,))
    torch.testing.assert_close(model.function()(x), module(x).detach())
