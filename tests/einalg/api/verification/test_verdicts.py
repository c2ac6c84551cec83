"""Comparisons that are kept: what was compared once is not compared again, and anything else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import einalg as ea
from derive.programs import optimized_program
from einalg.api import models
from einalg.api.backend import LocalBackend
from einalg.api.verification.verdicts import VERDICTS, StoredVerdict
from einalg.language import ops

torch = pytest.importorskip("torch")
from einalg.frontends.torch.nodes.registry import ATEN  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
EXAMPLES = 8  # the given inputs and special ones
calls: list[Any] = []  # of the framework's model


class Counted(torch.nn.Module):
    """A product and what torch alone computes; each call by the framework is counted."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(6, 5)
        self.limit = 1 << 10  # of calls, after which it is interrupted

    def forward(self, x: Any) -> Any:
        if type(x) is torch.Tensor and not torch.compiler.is_exporting():
            calls.append(x)
            if len(calls) > self.limit:
                raise KeyboardInterrupt
        return torch.nextafter(torch.relu(self.linear(x)), x[:, :5])


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that are timed do not count."""
    monkeypatch.setattr(LocalBackend, "measure_both", lambda *_: None)
    torch.manual_seed(1)


def counted(module: Any, x: Any, **options: Any) -> tuple[int, ea.Optimized]:
    """Return how often a module runs in its framework while it is optimized, and the result."""
    calls.clear()
    o = ea.optimize(module, (x,), seconds=0, prefer="einalg", **options)
    count = len(calls)
    with torch.no_grad():
        torch.testing.assert_close(o(x), module(x))
    return count, o


def prepared(*misread: str) -> tuple[Any, Any, int]:
    """Return a module that was optimized twice, its input, and how often it ran then: only to see
    that it is what was exported.
    """
    module, x = Counted().eval(), torch.randn(4, 6)
    first, o = counted(module, x)
    again, same = counted(module, x)
    assert first - again >= EXAMPLES
    assert same.notes == o.notes and "scaled by 0.001" in " ".join(o.notes)
    assert [node.operator for node in same.opaque] == [*misread, "nextafter.default"]
    return module, x, again


def test_what_was_compared_is_not_compared_again() -> None:
    module, _, known = prepared()
    other, o = counted(module, torch.randn(4, 6))
    assert other == known + 1  # on the given inputs
    assert [note.partition(":")[0] for note in o.notes] == [
        "compared with torch on the given inputs",
        "compared with torch on the given inputs, one NaN, one infinity, another seed, zeros, "
        "a constant, scaled by 1000, scaled by 0.001",
    ]


def test_an_interrupt_while_other_inputs_are_compared(caplog: pytest.LogCaptureFixture) -> None:
    module, _, known = prepared()
    module.limit = known
    calls.clear()
    o = ea.optimize(module, (torch.randn(4, 6),), seconds=0, prefer="einalg")
    assert "interrupted; the model is not compared" in caplog.text
    assert "not compared with its framework: that was interrupted" in o.notes[0]


CHANGES: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "one element of a weight": lambda module, _: module.linear.weight.data[2, 3].add_(1) and {},
    "another version": lambda _, patch: patch.setattr(models, "version_of", lambda _: "2") or {},
    "another accuracy": lambda *_: {"accuracy": 1e-4},
    "NaNs where they are": lambda *_: {"nonfinite": "exact"},
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_another_comparison(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x, known = prepared()
    options = CHANGES[name](module, monkeypatch)
    first, _ = counted(module, x, **options)
    assert first >= known + EXAMPLES
    again, _ = counted(module, x, **options)
    assert again == known


def test_other_kernels_are_compared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x, known = prepared()
    monkeypatch.setattr(optimized_program, "_identity", lambda *_: "other kernels")
    assert counted(module, x)[0] >= known + EXAMPLES


def test_operators_that_stay_the_frameworks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are not looked for again, and are named again."""
    monkeypatch.setitem(ATEN, "relu.default", lambda x: ops.abs(x))
    module, x, _ = prepared("relu.default")
    caplog.clear()
    _, o = counted(module, x)
    assert "relu.default stays a call: einalg deviates from torch on" in caplog.text
    assert any("relu.default stays torch's" in note for note in o.notes)


def test_a_model_that_is_wrong_is_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
    class Other(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if torch.compiler.is_exporting() else x * 3

    for _ in range(2):
        caplog.clear()
        o = ea.optimize(Other().eval(), (torch.ones(3),), seconds=0, prefer="einalg")
        assert o.is_original and "the model deviates" in caplog.text


@pytest.mark.parametrize("damage", [b"{}", b"[1]", b'{"notes": 3', b"\xff"])
def test_a_damaged_entry(damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    module, x, known = prepared()
    (entry,) = (tmp_path / "verdicts").rglob("*.json")
    VERDICTS.replace(entry.name.partition("-")[0], damage)
    assert counted(module, x)[0] >= known + EXAMPLES
    assert "a comparison in the cache is damaged" in caplog.text


def test_a_shorter_comparison_suits_no_longer_one() -> None:
    whole = StoredVerdict("run", "inputs", (), {})
    cut = StoredVerdict("run", "inputs", (), {}, 10.0)
    assert whole.suits(1e9) and cut.suits(10.0) and cut.suits(5.0) and not cut.suits(11.0)
