"""Transformers.

ViT (Dosovitskiy et al., 2021; the tiny one of Touvron et al., 2021), Swin (Liu et al., 2021), BERT
(Devlin et al., 2019), and GPT-2 (Radford et al., 2019), that reads a text or goes on with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from bench.models.layers import Added, ChannelsLast, perceptron
from bench.models.seeded import Model, seeded
from bench.models.sequences import Bert


class Attention(nn.Module):
    """Attention of several heads within a sequence; none sees what comes later if it is causal."""

    def __init__(self, hidden: int, heads: int, is_causal: bool = False):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.joined, self.output = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """Return queries, keys and values of each head."""
        batch, rows, hidden = x.shape
        parts = self.joined(x).view(batch, rows, 3, self.heads, hidden // self.heads)
        return parts.permute(2, 0, 3, 1, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(x).unbind(0)
        seen = scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.output(seen.transpose(1, 2).flatten(2))


def _block(hidden: int, attention: nn.Module, epsilon: float = 1e-6) -> nn.Sequential:
    """Return attention and two linear layers, each behind a layer norm, and added."""
    return nn.Sequential(
        Added(nn.LayerNorm(hidden, eps=epsilon), attention),
        Added(
            nn.LayerNorm(hidden, eps=epsilon),
            perceptron((hidden, 4 * hidden, hidden), nn.GELU),
        ),
    )


class ViT(nn.Module):
    """Patches of a picture as a sequence, whose first element becomes the class."""

    def __init__(self, size: int, patch: int, hidden: int, heads: int, layers: int):
        super().__init__()
        self.patches = nn.Conv2d(3, hidden, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, hidden))
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, hidden))
        blocks = [_block(hidden, Attention(hidden, heads)) for _ in range(layers)]
        self.blocks = nn.Sequential(*blocks, nn.LayerNorm(hidden, eps=1e-6))
        self.classify = nn.Linear(hidden, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.patches(x).flatten(2).transpose(1, 2)
        first = self.first.expand(rows.shape[0], -1, -1)
        rows = torch.cat([first, rows], 1) + self.position
        return self.classify(self.blocks(rows)[:, 0])


def vit(batch: int, size: int = 224, hidden: int = 192, heads: int = 3, layers: int = 12) -> Model:
    """Return ViT-tiny: 12 layers of 192 features on 197 rows."""
    return seeded(lambda: ViT(size, 16, hidden, heads, layers), (batch, 3, size, size))


class WindowAttention(Attention):
    """Attention within the windows of a picture, which are shifted in every second layer.

    A learned term depends on how far two places of a window are from each other, and a mask hides
    places that are neighbours only because the picture is rolled.
    """

    places: torch.Tensor
    mask: torch.Tensor

    def __init__(self, size: int, window: int, hidden: int, heads: int, shift: int):
        super().__init__(hidden, heads)
        self.size, self.window, self.shift = size, window, shift
        reach = 2 * window - 1
        self.table = nn.Parameter(0.1 * torch.randn(reach * reach, heads))
        place = torch.stack(torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij")).flatten(1)
        apart = (place[:, :, None] - place[:, None, :]) + window - 1
        self.register_buffer("places", apart[0] * reach + apart[1])
        self.register_buffer("mask", self._mask())

    def _mask(self) -> torch.Tensor:
        """Return 0 for two places of a window that see each other, and -100 for others."""
        row = torch.arange(self.size)
        region = (row >= self.size - self.window).int() + (row >= self.size - self.shift).int()
        if not self.shift:
            region = torch.zeros(self.size).int()
        regions = self._windows((3 * region[:, None] + region)[None, :, :, None].float())[..., 0]
        return -100.0 * (regions[:, None, :] != regions[:, :, None]).float()

    def _windows(self, x: torch.Tensor) -> torch.Tensor:
        """Return the windows of pictures as sequences."""
        batch, rows, columns, hidden = x.shape
        w = self.window
        parts = x.view(batch, rows // w, w, columns // w, w, hidden).permute(0, 1, 3, 2, 4, 5)
        return parts.reshape(-1, w * w, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, columns, hidden = x.shape
        w, shift = self.window, self.shift
        if shift:
            x = torch.roll(x, (-shift, -shift), (1, 2))
        q, k, v = self.split(self._windows(x)).unbind(0)
        bias = self.table[self.places.flatten()].view(w * w, w * w, -1).permute(2, 0, 1)
        mask = bias + self.mask.repeat(batch, 1, 1)[:, None]
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + mask
        seen = self.output((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))
        parts = seen.view(batch, rows // w, columns // w, w, w, hidden).permute(0, 1, 3, 2, 4, 5)
        x = parts.reshape(batch, rows, columns, hidden)
        if shift:
            x = torch.roll(x, (shift, shift), (1, 2))
        return x


class Halved(nn.Module):
    """Squares of four places as one, with twice as many features as a place had."""

    def __init__(self, hidden: int):
        super().__init__()
        self.mixed = nn.Sequential(
            nn.LayerNorm(4 * hidden), nn.Linear(4 * hidden, 2 * hidden, bias=False)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        return self.mixed(torch.cat(parts, -1))


def _swin(size: int, window: int, hidden: int, heads: int, counts: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = [nn.LayerNorm(hidden)]
    size //= 4
    for number, count in enumerate(counts):
        if number:
            layers.append(Halved(hidden))
            size, hidden, heads = size // 2, 2 * hidden, 2 * heads
        for position in range(count):
            shift = window // 2 if position % 2 and size > window else 0
            attention = WindowAttention(size, window, hidden, heads, shift)
            layers.append(_block(hidden, attention, 1e-5))
    layers.append(nn.LayerNorm(hidden))
    first = 2 ** (len(counts) - 1)
    return nn.Sequential(
        nn.Conv2d(3, hidden // first, 4, 4),
        ChannelsLast(*layers),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(hidden, 1000),
    )


def swin(
    batch: int,
    size: int = 224,
    window: int = 7,
    hidden: int = 96,
    heads: int = 3,
    counts: Sequence[int] = (2, 2, 6, 2),
) -> Model:
    """Return Swin-T: attention in windows of 7x7 places."""
    return seeded(lambda: _swin(size, window, hidden, heads, counts), (batch, 3, size, size))


def bert12(
    batch: int, rows: int = 128, hidden: int = 768, heads: int = 12, layers: int = 12
) -> Model:
    """Return the encoder of BERT: 12 layers on 128 rows of embeddings."""

    def made() -> nn.Module:
        return nn.Sequential(*(Bert(hidden, heads, 4 * hidden) for _ in range(layers)))

    return seeded(made, (batch, rows, hidden))


class GPT(nn.Module):
    """GPT-2 on embeddings; the result are the scores of the words that may come next."""

    def __init__(self, hidden: int, heads: int, layers: int, words: int):
        super().__init__()
        blocks = [_block(hidden, Attention(hidden, heads, True), 1e-5) for _ in range(layers)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(hidden)
        self.words = nn.Linear(hidden, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.words(self.norm(self.blocks(x)[:, -1]))


class SteppedAttention(Attention):
    """Attention of one new row to itself and to those before it, whose keys and values are known.

    They come as `(batch, 2, heads, rows, depth)`; the new ones are returned beside the result.
    """

    def forward(self, x: torch.Tensor, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = self.split(x).unbind(0)
        keys, values = torch.cat([past[:, 0], k], 2), torch.cat([past[:, 1], v], 2)
        seen = scaled_dot_product_attention(q, keys, values)
        return self.output(seen.transpose(1, 2).flatten(2)), torch.stack([k, v], 1)


class SteppedGPT(nn.Module):
    """GPT-2 on one new row of embeddings; new keys and values follow the scores of words."""

    def __init__(self, hidden: int, heads: int, layers: int, words: int):
        super().__init__()
        self.attentions = nn.ModuleList(SteppedAttention(hidden, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2 * layers + 1))
        self.linear = nn.ModuleList(
            perceptron((hidden, 4 * hidden, hidden), nn.GELU) for _ in range(layers)
        )
        self.words = nn.Linear(hidden, words, bias=False)

    def forward(self, x: torch.Tensor, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new = []
        for number, (attention, linear) in enumerate(zip(self.attentions, self.linear)):
            seen, kept = attention(self.norms[2 * number](x), past[:, number])
            x = x + seen
            x = x + linear(self.norms[2 * number + 1](x))
            new.append(kept)
        return self.words(self.norms[-1](x[:, -1])), torch.stack(new, 1)


def gpt(
    batch: int,
    rows: int = 128,
    hidden: int = 768,
    heads: int = 12,
    layers: int = 12,
    words: int = 50257,
) -> Model:
    """Return GPT-2 that reads 128 rows."""
    return seeded(lambda: GPT(hidden, heads, layers, words), (batch, rows, hidden))


def gpt_step(
    batch: int,
    past: int = 128,
    hidden: int = 768,
    heads: int = 12,
    layers: int = 12,
    words: int = 50257,
) -> Model:
    """Return GPT-2 that goes on with one word after 128 others."""
    known = (batch, layers, 2, heads, past, hidden // heads)
    return seeded(lambda: SteppedGPT(hidden, heads, layers, words), (batch, 1, hidden), known)
