"""Branches that depend on values: weights decide, inputs do not."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from einalg.errors import NotationError  # noqa: E402
from einalg.frontends.torch.module import import_exported  # noqa: E402
from tests.helpers.torch_graphs import same  # noqa: E402


class Scaled(torch.nn.Module):
    """Twice the input where a weight is positive in the mean, else the input times the least."""

    def __init__(self, scale: list[float]) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, x: Any) -> Any:
        if self.scale.mean() > 0:
            return 2 * x
        return x * self.scale.min().item()


class Masked(torch.nn.Module):
    """Torch asks whether a mask is the one of sequences, and knows a faster way for that."""

    def __init__(self, mask: Any) -> None:
        super().__init__()
        layer = torch.nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.decoder = torch.nn.TransformerDecoder(layer, 1)
        self.register_buffer("mask", mask)

    def forward(self, x: Any, memory: Any) -> Any:
        return self.decoder(x, memory, tgt_mask=self.mask)


class Branching(torch.nn.Module):
    """A branch on an input beside one on a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: Any) -> Any:
        if self.scale.sum() > 0 and x.sum() > 0:
            return 2 * x
        return x


@pytest.mark.parametrize("scale", [[1.0, 2.0, -1.0], [-1.0, -2.0, 1.0]])
def test_weights_decide(scale: list[float]) -> None:
    module, x = Scaled(scale).eval(), torch.tensor([1.0, -2.0, 3.0])
    model = import_exported(module, (x,), {})
    same(model.function()(-x)[0].numpy(), module(-x)[0])


@pytest.mark.parametrize("diagonal", [1, 2])
def test_masks_of_decoders(diagonal: int) -> None:
    """Each place sees those before it, and with the other mask one after it too."""
    module = Masked(torch.full((5, 5), -torch.inf).triu(diagonal)).eval()
    x, memory = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
    model = import_exported(module, (x, memory), {})
    assert not model.graph.opaque
    with torch.no_grad():
        expected = module(memory.repeat(1, 2, 1)[:, :5], memory)
        result = model.function()(memory.repeat(1, 2, 1)[:, :5], memory)
    torch.testing.assert_close(result, expected)


def test_inputs_do_not_decide() -> None:
    with pytest.raises(NotationError, match=r"torch.export has no graph of Branching"):
        import_exported(Branching().eval(), (torch.ones(3),), {})
