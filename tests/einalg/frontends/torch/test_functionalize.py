"""What torch exports is read as it is, in-place operators too where nobody else sees what they
write, and is taken apart elsewhere.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from einalg.errors import NotationError  # noqa: E402
from einalg.frontends.torch import load_model  # noqa: E402
from tests.helpers.torch_graphs import same  # noqa: E402


class Function(torch.nn.Module):
    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.fixture
def taken_apart(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The exported programs that were taken apart."""
    found: list[Any] = []
    original = torch.export.ExportedProgram.run_decompositions

    def noted(program: Any, *args: Any) -> Any:
        found.append(program)
        return original(program, *args)

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", noted)
    return found


def agrees(module: Any, x: Any) -> None:
    with torch.no_grad():
        found, wanted = load_model(module.eval(), (x,)).function()(x.clone()), module(x.clone())
    for one, other in zip(
        *(r if isinstance(r, tuple) else (r,) for r in (found, wanted)), strict=True
    ):
        assert one.dtype == other.dtype
        same(one.numpy(), other)


def used_before(x: Any) -> Any:
    y = x + 1
    z = y * 2
    y.sub_(3).relu_()
    return y, z, y * 5


def squared(x: Any) -> Any:
    y = x + 1
    y.mul_(y)
    return y.add_(y, alpha=2).clamp_(0.5, 4)


def of_wider_numbers(x: Any) -> Any:
    y = x * 2
    return y.add_(torch.ones(x.shape, dtype=torch.float64))


def after_dropout(x: Any) -> Any:
    y = x * 2
    z = F.dropout(y, 0.5, training=False)
    z.add_(1)
    return y, z


def after_layers(x: Any) -> Any:
    y = F.linear(x, torch.ones(5, x.shape[-1]))
    return F.relu(y, inplace=True), y


@pytest.mark.parametrize(
    "function", [used_before, squared, of_wider_numbers, after_layers, after_dropout]
)
def test_writes_to_memory_of_one_value_give_new_values(
    function: Any, taken_apart: list[Any]
) -> None:
    agrees(Function(function), torch.randn(3, 4))
    assert not taken_apart


def through_a_view(x: Any) -> Any:
    y = x * 2
    y.view(-1).relu_()
    return y


def of_a_row(x: Any) -> Any:
    y = x * 2
    y[0] = 7
    return y


def with_a_view_before(x: Any) -> Any:
    y = x * 2
    v = y.t()
    y.relu_()
    return v, y


def whole_numbers(x: Any) -> Any:
    y = (x * 10).round().long()
    return y.add_(2).mul_(3)


def of_what_may_be_a_view(x: Any) -> Any:
    y = x * 2
    z = torch.einsum("ij->ji", y)
    z.relu_()
    return y, z


@pytest.mark.parametrize(
    "function", [through_a_view, of_a_row, with_a_view_before, whole_numbers, of_what_may_be_a_view]
)
def test_writes_that_others_see_are_left_to_torch(function: Any, taken_apart: list[Any]) -> None:
    agrees(Function(function), torch.randn(3, 4))
    assert len(taken_apart) == 1


def test_an_operator_without_an_expression_is_taken_apart(taken_apart: list[Any]) -> None:
    agrees(Function(lambda x: torch.nn.functional.huber_loss(x, x * 2).relu_()), torch.randn(3, 4))
    assert len(taken_apart) == 1


def test_a_network_with_residuals_is_read_as_it_is(taken_apart: list[Any]) -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (
                torch.nn.Conv2d(4, 4, 3, padding=1),
                torch.nn.Conv2d(4, 4, 3, padding=1),
            )
            self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(4), torch.nn.BatchNorm2d(4)])

        def forward(self, x: Any) -> Any:
            y = F.relu(self.norms[0](self.first(x)), inplace=True)
            y = self.norms[1](self.second(y))
            y += x
            return F.relu_(y)

    agrees(torch.nn.Sequential(Block(), Block()), torch.randn(2, 4, 7, 5))
    assert not taken_apart


def test_writing_to_an_input_is_refused() -> None:
    with pytest.raises(NotationError, match="writes to its input"):
        load_model(Function(lambda x: x.relu_()), (torch.randn(3),))
