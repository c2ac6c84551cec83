"""Classifiers of pictures by convolutions.

SqueezeNet (Iandola et al., 2016), Inception-v3 (Szegedy et al., 2016), NasNet-A (Zoph et al., 2018)
and ConvNeXt (Liu et al., 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from bench.models.layers import (
    Added,
    ChannelsLast,
    Size,
    Stacked,
    classifier,
    convolution,
    half,
    perceptron,
)
from bench.models.seeded import Model, seeded

FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
POOLED = (2, 4)  # fires before which a picture is made smaller


def _with_relu(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    layer = nn.Conv2d(inputs, outputs, kernel, padding=half(kernel))
    return nn.Sequential(layer, nn.ReLU(inplace=True))


def _squeezenet(fires: Sequence[tuple[int, int]]) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2)]
    channels = 64
    for number, (few, many) in enumerate(fires):
        if number in POOLED:
            layers.append(nn.MaxPool2d(3, 2))
        layers.append(_with_relu(channels, few, 1))
        layers.append(Stacked(_with_relu(few, many, 1), _with_relu(few, many, 3)))
        channels = 2 * many
    layers += [_with_relu(channels, 1000, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers)


def squeezenet(batch: int, size: int = 224, fires: Sequence[tuple[int, int]] = FIRES) -> Model:
    """Return SqueezeNet 1.1: a few channels, then 1x1 and 3x3 taps side by side."""
    return seeded(lambda: _squeezenet(fires), (batch, 3, size, size))


_convolved = partial(convolution, epsilon=1e-3)


def _path(inputs: int, *layers: tuple[int, Size]) -> nn.Sequential:
    """Return convolutions one after the other, each with its channels and its kernel."""
    made = []
    for outputs, kernel in layers:
        made.append(_convolved(inputs, outputs, kernel))
        inputs = outputs
    return nn.Sequential(*made)


def _pooled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), _convolved(inputs, outputs, 1))


def _small(inputs: int, unit: int, pooled: int) -> Stacked:
    """Return 1x1, 5x5, two 3x3 and a pooled path."""
    return Stacked(
        _path(inputs, (4 * unit, 1)),
        _path(inputs, (3 * unit, 1), (4 * unit, 5)),
        _path(inputs, (4 * unit, 1), (6 * unit, 3), (6 * unit, 3)),
        _pooled(inputs, pooled),
    )


def _thin(inputs: int, inner: int, outputs: int) -> Stacked:
    """Return paths of 1x7 and 7x1 taps."""
    tall, wide = (7, 1), (1, 7)
    return Stacked(
        _path(inputs, (outputs, 1)),
        _path(inputs, (inner, 1), (inner, wide), (outputs, tall)),
        _path(inputs, (inner, 1), (inner, tall), (inner, wide), (inner, tall), (outputs, wide)),
        _pooled(inputs, outputs),
    )


def _branched(inputs: int, unit: int) -> Stacked:
    """Return paths that end in 1x3 and 3x1 taps side by side."""

    def ends() -> Stacked:
        return Stacked(*(_path(12 * unit, (12 * unit, kernel)) for kernel in ((1, 3), (3, 1))))

    return Stacked(
        _path(inputs, (10 * unit, 1)),
        nn.Sequential(_path(inputs, (12 * unit, 1)), ends()),
        nn.Sequential(_path(inputs, (14 * unit, 1), (12 * unit, 3)), ends()),
        _pooled(inputs, 6 * unit),
    )


def _halved(inputs: int, *paths: Sequence[tuple[int, Size]]) -> Stacked:
    """Return paths whose last convolution has stride 2, beside the largest elements."""
    made: list[nn.Module] = []
    for path in paths:
        before = path[-2][0] if len(path) > 1 else inputs
        outputs, kernel = path[-1]
        last = _convolved(before, outputs, kernel, 2, padding=0)
        made.append(nn.Sequential(_path(inputs, *path[:-1]), last))
    return Stacked(*made, nn.MaxPool2d(3, 2))


def _inception(c: int, thin: Sequence[int]) -> nn.Sequential:
    """Return blocks of `c` channels a unit, and in the thin ones so many units inside."""
    tall, wide = (7, 1), (1, 7)
    return nn.Sequential(
        _convolved(3, 2 * c, 3, 2, padding=0),
        _convolved(2 * c, 2 * c, 3, padding=0),
        _convolved(2 * c, 4 * c, 3),
        nn.MaxPool2d(3, 2),
        _convolved(4 * c, 5 * c, 1),
        _convolved(5 * c, 12 * c, 3, padding=0),
        nn.MaxPool2d(3, 2),
        _small(12 * c, c, 2 * c),
        _small(16 * c, c, 4 * c),
        _small(18 * c, c, 4 * c),
        _halved(18 * c, ((24 * c, 3),), ((4 * c, 1), (6 * c, 3), (6 * c, 3))),
        *(_thin(48 * c, inner * c, 12 * c) for inner in thin),
        _halved(
            48 * c,
            ((12 * c, 1), (20 * c, 3)),
            ((12 * c, 1), (12 * c, wide), (12 * c, tall), (12 * c, 3)),
        ),
        _branched(80 * c, 2 * c),
        _branched(128 * c, 2 * c),
        classifier(128 * c, 1000),
    )


def inception(
    batch: int, size: int = 299, unit: int = 16, thin: Sequence[int] = (8, 10, 10, 12)
) -> Model:
    """Return Inception-v3: 94 convolutions, most of them in branches."""
    return seeded(lambda: _inception(unit, thin), (batch, 3, size, size))


def _separable(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Return two depthwise convolutions, each with a product behind it."""
    layers: list[nn.Module] = []
    for before, step in ((inputs, stride), (outputs, 1)):
        spread = nn.Conv2d(before, before, kernel, step, kernel // 2, groups=before, bias=False)
        mixed = nn.Conv2d(before, outputs, 1, bias=False)
        layers += [nn.ReLU(), spread, mixed, nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers)


def _mixed(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    layer = convolution(inputs, outputs, 1, stride, activation=None)
    return nn.Sequential(nn.ReLU(), *layer)


def _average(stride: int) -> nn.Module:
    return nn.AvgPool2d(3, stride, 1, count_include_pad=False)


class NasNetCell(nn.Module):
    """A cell of NasNet-A on the results of the two cells before; it halves the size with stride 2.

    `older` and `newer` are the channels of these, and `stretch` is how many times as large the
    older one is.
    """

    def __init__(self, older: int, newer: int, channels: int, stride: int, stretch: int):
        super().__init__()
        c = channels
        self.older, self.newer = _mixed(older, c, stretch), _mixed(newer, c)
        if stride == 1:
            left = [_separable(c, c, 5), _separable(c, c, 5), _average(1), _average(1)]
            right = [_separable(c, c, 3), _separable(c, c, 3), nn.Identity(), _separable(c, c, 3)]
        else:
            left = [_separable(c, c, 7, 2), _separable(c, c, 7, 2), _separable(c, c, 5, 2)]
            right = [_separable(c, c, 5, 2), nn.MaxPool2d(3, 2, 1), _average(2)]
            self.last = nn.ModuleList([_separable(c, c, 3), _average(1), nn.MaxPool2d(3, 2, 1)])
        self.left, self.right = nn.ModuleList(left), nn.ModuleList(right)
        self.stride = stride

    def forward(self, older: torch.Tensor, newer: torch.Tensor) -> torch.Tensor:
        old, new = self.older(older), self.newer(newer)
        left, right = self.left, self.right
        if self.stride == 1:
            sums = [
                left[0](old) + right[0](old),
                left[1](old) + right[1](new),
                left[2](new) + right[2](old),
                left[3](old) + right[3](new),
                right[2](new),
            ]
            return torch.cat([old, *sums], 1)
        sums = [one(old) + other(new) for one, other in zip(left, right)]
        separable, average, largest = self.last
        sums.append(separable(sums[0]) + largest(new))
        sums.append(average(sums[0]) + sums[1])
        return torch.cat(sums[1:], 1)


class NasNet(nn.Module):
    """Stages of normal cells, and between them cells that halve the size."""

    def __init__(self, channels: int, counts: Sequence[int]):
        super().__init__()
        self.stem = convolution(3, 32, 3, 2, activation=None)
        older, newer, stretch = 32, 32, 1
        cells: list[nn.Module] = []
        for number, count in enumerate(counts):
            width = channels * 2**number
            for position in range(count + 1):
                stride = 1 if position else 2
                cells.append(NasNetCell(older, newer, width, stride, stretch))
                results = 6 if position else 4
                older, newer, stretch = newer, results * width, stride
        self.cells = nn.ModuleList(cells)
        self.classify = nn.Sequential(nn.ReLU(), classifier(newer, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        older = newer = self.stem(x)
        for cell in self.cells:
            older, newer = newer, cell(older, newer)
        return self.classify(newer)


def nasnet(
    batch: int, size: int = 224, channels: int = 32, counts: Sequence[int] = (2, 2, 2)
) -> Model:
    """Return a reduced NasNet-A: three stages of two normal cells."""
    return seeded(lambda: NasNet(channels, counts), (batch, 3, size, size))


class Scaled(nn.Module):
    """A learned factor for each channel, which come last."""

    def __init__(self, channels: int):
        super().__init__()
        self.factor = nn.Parameter(0.1 * torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def _convnext_block(channels: int) -> Added:
    spread = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
    mixed = perceptron((channels, 4 * channels, channels), nn.GELU)
    norm = nn.LayerNorm(channels, eps=1e-6)
    return Added(spread, ChannelsLast(norm, mixed, Scaled(channels)))


def _convnext(channels: Sequence[int], counts: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, channels[0], 4, 4)]
    layers.append(ChannelsLast(nn.LayerNorm(channels[0], eps=1e-6)))
    before = channels[0]
    for width, count in zip(channels, counts):
        if width != before:
            layers.append(ChannelsLast(nn.LayerNorm(before, eps=1e-6)))
            layers.append(nn.Conv2d(before, width, 2, 2))
        layers += [_convnext_block(width) for _ in range(count)]
        before = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(before, eps=1e-6)]
    return nn.Sequential(*layers, nn.Linear(before, 1000))


def convnext(
    batch: int,
    size: int = 224,
    channels: Sequence[int] = (96, 192, 384, 768),
    counts: Sequence[int] = (3, 3, 9, 3),
) -> Model:
    """Return ConvNeXt-tiny: 7x7 taps of each channel, then two products with the channels last."""
    return seeded(lambda: _convnext(channels, counts), (batch, 3, size, size))
