"""Models of sequences and features.

Banded attention (Longformer), a BERT layer, an LSTM, a mixture of experts.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn.functional import pad, scaled_dot_product_attention

from bench.models.seeded import Model, seeded


def banded(keys: torch.Tensor, width: int, dilation: int) -> torch.Tensor:
    """The rows that every position sees, as a view.

    `(B, M, D)` gives `(B, M, D, 2·width + 1)`, zeros outside.
    """
    reach = width * dilation
    around = pad(keys, (0, 0, reach, reach))
    return around.unfold(1, 2 * reach + 1, 1)[..., ::dilation]


class BandedAttention(nn.Module):
    """Sliding-window attention as its definition says.

    Position `i` sees `i + dilation·(w - width)`, where that exists.

    Torch gathers the windows in memory; `TiledAttention` is what computes the same in torch at full
    size.
    """

    hidden: torch.Tensor  # added to the scores: -inf where a position does not exist

    def __init__(self, rows: int, width: int, dilation: int):
        super().__init__()
        self.width, self.dilation = width, dilation
        position = torch.arange(rows)[:, None] + dilation * (torch.arange(2 * width + 1) - width)
        self.register_buffer(
            "hidden",
            torch.zeros(rows, 2 * width + 1).masked_fill(
                (position < 0) | (position >= rows), -math.inf
            ),
        )

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("bik,bikw->biw", q, banded(k, self.width, self.dilation)) / math.sqrt(
            q.shape[-1]
        )
        weights = torch.softmax(scores + self.hidden, -1)
        return torch.einsum("biw,bikw->bik", weights, banded(v, self.width, self.dilation))


class TiledAttention(BandedAttention):
    """The same by blocks of `width` rows against the three blocks that they can see.

    With each class of positions modulo the dilation apart.
    """

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        batch, rows, depth = q.shape
        block = self.dilation * self.width
        extra = -rows % block
        q, k, v = (self._apart(pad(x, (0, 0, 0, extra))) for x in (q, k, v))
        length = q.shape[1]
        tiles = length // self.width
        q = q.reshape(-1, tiles, self.width, depth)
        k, v = (
            pad(x, (0, 0, self.width, self.width))
            .unfold(1, 3 * self.width, self.width)
            .transpose(-1, -2)
            for x in (k, v)
        )
        seen = self._seen(rows, length, tiles)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(depth)
        attended = (
            torch.softmax(
                scores.masked_fill(~seen.repeat(batch, 1, 1, 1), -math.inf), -1
            ).nan_to_num()
            @ v
        )
        together = attended.reshape(batch, self.dilation, length, depth).transpose(1, 2)
        return together.reshape(batch, length * self.dilation, depth)[:, :rows]

    def _apart(self, x: torch.Tensor) -> torch.Tensor:
        """Positions of one class modulo the dilation as a sequence of its own."""
        batch, rows, depth = x.shape
        return (
            x.reshape(batch, rows // self.dilation, self.dilation, depth)
            .transpose(1, 2)
            .reshape(-1, rows // self.dilation, depth)
        )

    def _seen(self, rows: int, length: int, tiles: int) -> torch.Tensor:
        """Which of its three blocks' rows every row of a tile sees, for each class."""
        row = torch.arange(length).reshape(1, tiles, self.width, 1)
        column = (
            torch.arange(tiles)[:, None] * self.width + torch.arange(3 * self.width) - self.width
        ).reshape(1, tiles, 1, -1)
        real = column * self.dilation + torch.arange(self.dilation).reshape(-1, 1, 1, 1) < rows
        return ((row - column).abs() <= self.width) & (column >= 0) & real


def _attention(
    batch: int,
    rows: int,
    heads: int,
    depth: int,
    width: int,
    dilation: int,
    kind: type[BandedAttention],
) -> Model:
    return seeded(lambda: kind(rows, width, dilation), *([(batch * heads, rows, depth)] * 3))


def longformer(
    batch: int,
    dilation: int = 1,
    rows: int = 4096,
    heads: int = 12,
    depth: int = 64,
    width: int = 256,
    tiled: bool = False,
) -> Model:
    """The attention of a Longformer layer (Beltagy et al., 2020).

    Batch times heads sequences, `width` positions on either side.
    """
    return _attention(
        batch, rows, heads, depth, width, dilation, TiledAttention if tiled else BandedAttention
    )


class Bert(nn.Module):
    """A layer of BERT (Devlin et al., 2019).

    Attention and two linear layers, each with a residual and a layer norm.
    """

    def __init__(self, hidden: int = 768, heads: int = 12, inner: int = 3072):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(hidden, hidden) for _ in range(4)
        )
        self.after_attention, self.after_linear = (
            nn.LayerNorm(hidden, eps=1e-12),
            nn.LayerNorm(hidden, eps=1e-12),
        )
        self.linear = nn.Sequential(nn.Linear(hidden, inner), nn.GELU(), nn.Linear(inner, hidden))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, hidden = x.shape
        return x.view(batch, rows, self.heads, hidden // self.heads).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self._split(part(x)) for part in (self.query, self.key, self.value))
        seen = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.after_attention(x + self.output(seen))
        return self.after_linear(x + self.linear(x))


def bert(batch: int, rows: int = 128, hidden: int = 768, heads: int = 12) -> Model:
    return seeded(lambda: Bert(hidden, heads, 4 * hidden), (batch, rows, hidden))


class Recurrent(nn.Module):
    """An LSTM whose result is the last layer's states at all steps."""

    def __init__(self, layers: int, size: int):
        super().__init__()
        self.cells = nn.LSTM(size, size, layers, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cells(x)[0]


def lstm(batch: int, layers: int = 10, steps: int = 100, size: int = 256) -> Model:
    """LSTM 10x100x256: 10 layers, 100 steps, 256 units."""
    return seeded(lambda: Recurrent(layers, size), (batch, steps, size))


class MixtureOfExperts(nn.Module):
    """Experts that all tasks share, a gate and a tower for each task (Ma et al., 2018)."""

    def __init__(
        self, features: int, experts: int, units: int, tasks: int, hidden: int, classes: int
    ):
        super().__init__()
        self.experts = nn.Parameter(torch.randn(features, units, experts) / math.sqrt(features))
        self.shift = nn.Parameter(torch.randn(units, experts) / 10)
        self.gates = nn.ModuleList(nn.Linear(features, experts) for _ in range(tasks))
        self.towers = nn.ModuleList(
            nn.Sequential(nn.Linear(units, hidden), nn.ReLU(), nn.Linear(hidden, classes))
            for _ in range(tasks)
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        experts = torch.relu(torch.einsum("bf,fue->bue", x, self.experts) + self.shift)
        mixed = (
            torch.einsum("bue,be->bu", experts, torch.softmax(gate(x), -1)) for gate in self.gates
        )
        return [torch.softmax(tower(m), -1) for tower, m in zip(self.towers, mixed)]


def mmoe(batch: int, features: int = 499) -> Model:
    """The census income model.

    499 features, 8 experts of 4 units, 2 tasks with towers of 8 units and 2 classes.
    """
    return seeded(
        lambda: MixtureOfExperts(features, experts=8, units=4, tasks=2, hidden=8, classes=2),
        (batch, features),
    )
