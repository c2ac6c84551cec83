"""Graphs that take long to read are kept as they were read: the same values from then on, and read
anew where anything is another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import einalg as ea  # noqa: E402
from einalg.frontends import import_cache  # noqa: E402
from einalg.frontends.torch import load_model  # noqa: E402
from einalg.frontends.torch.importer import GraphImporter  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def all_are_kept(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(import_cache, "MIN_CACHED_STATEMENTS", 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The operators that are read."""
    found: list[str] = []
    call = GraphImporter.call
    monkeypatch.setattr(
        GraphImporter, "call", lambda self, node: found.append(node.name) or call(self, node)
    )
    yield found


class Recurrent(nn.Module):
    """States that begin with zeros, a weight that is there twice, integers that choose, and results
    in a dict.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, 2, bidirectional=True)
        self.first, self.last = nn.Linear(16, 5), nn.Linear(16, 5)
        self.last.weight = self.first.weight
        self.register_buffer("order", torch.tensor([2, 0, 1]))
        self.register_buffer("scale", torch.arange(5.0))

    def forward(self, x: Any) -> dict[str, Any]:
        y, (h, _) = self.lstm(x)
        places = torch.arange(y.shape[0], dtype=y.dtype)[:, None, None]
        return {
            "y": self.first(y) * self.scale + places,
            "h": self.last(torch.cat([h[0], h[1]], -1))[self.order],
            "size": x.shape[0],
            "x": x,
        }


def both(module: Any, x: Any) -> tuple[Any, Any]:
    with torch.no_grad():
        return load_model(module, (x,), {}).function()(x), module(x)


def assert_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-5)
        else:
            assert found[name] == value


def test_a_graph_is_read_once(reads: list[str]) -> None:
    torch.manual_seed(0)
    module, x = Recurrent().eval(), torch.randn(4, 3, 6)
    assert_alike(*both(module, x))
    assert reads
    reads.clear()
    assert_alike(*both(module, x + 1))
    assert not reads


def test_the_graph_of_the_first_import_is_that_of_the_second() -> None:
    module, arguments = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), (torch.ones(2, 3),)
    first, second = [load_model(module, arguments).graph for _ in range(2)]
    assert str(first) == str(second)


def test_the_time_of_an_import_does_not_decide_what_is_stored(
    reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_cache, "MIN_CACHED_STATEMENTS", 2)
    for layers, is_stored in ((1, False), (2, True)):
        module = nn.Sequential(*[nn.Linear(3, 3) for _ in range(layers)])
        load_model(module, (torch.ones(2, 3),))
        reads.clear()
        load_model(module, (torch.ones(2, 3),))
        assert (not reads) == is_stored


def change_weight(module: Any) -> None:
    module.lstm.weight_hh_l1.mul_(2)


def change_order(module: Any) -> None:
    module.order.copy_(torch.tensor([0, 0, 2]))


def untie(module: Any) -> None:
    module.last.weight = nn.Parameter(module.first.weight * 3)


@pytest.mark.parametrize("change", [change_weight, change_order, untie])
def test_other_weights_are_read_anew(change: Callable[[Any], None], reads: list[str]) -> None:
    torch.manual_seed(0)
    module, x = Recurrent().eval(), torch.randn(4, 3, 6)
    both(module, x)
    with torch.no_grad():
        change(module)
    reads.clear()
    assert_alike(*both(module, x))
    assert reads


def test_other_shapes_are_read_anew(reads: list[str]) -> None:
    module = Recurrent().eval()
    for steps in (4, 7):
        reads.clear()
        assert_alike(*both(module, torch.randn(steps, 3, 6)))
        assert reads


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"values": 1}', b"{}"])
def test_a_damaged_reading_is_read_again(
    content: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module, x = Recurrent().eval(), torch.randn(4, 3, 6)
    read = type(import_cache.IMPORTS).read
    monkeypatch.setattr(
        type(import_cache.IMPORTS),
        "read",
        lambda self, key: content if self is import_cache.IMPORTS else read(self, key),
    )
    with caplog.at_level(logging.WARNING, "einalg"):
        assert_alike(*both(module, x))
    assert "read again" in caplog.text or content == b'{"values": 1}'


class Sorted(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sort(x * 2)[0] + 1


def test_a_graph_with_calls_is_not_kept(reads: list[str]) -> None:
    module, x = Sorted().eval(), torch.randn(3, 5)
    for _ in range(2):
        reads.clear()
        found, expected = both(module, x)
        torch.testing.assert_close(found, expected)
        assert reads


def test_large_weights_of_no_module_are_not_kept(
    reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_cache, "MAX_FOREIGN_WEIGHT_BYTES", 8)
    module, x = Recurrent().eval(), torch.randn(4, 3, 6)
    for _ in range(2):
        reads.clear()
        assert_alike(*both(module, x))
        assert reads


def test_an_optimized_network_starts_from_all_that_is_kept(
    reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    module, x = nn.LSTM(6, 8, 2).eval(), torch.randn(4, 3, 6)
    first = ea.optimize(module, (x,), seconds=5)
    reads.clear()
    monkeypatch.setattr(
        "einalg.language.notation.program_json.line_reader",
        lambda: lambda *_: pytest.fail("a statement is read"),
    )
    again = ea.optimize(module, (x,), seconds=5)
    assert not reads
    for value, wanted in zip((again(x)[0], *again(x)[1]), (first(x)[0], *first(x)[1]), strict=True):
        np.testing.assert_array_equal(value, wanted)
