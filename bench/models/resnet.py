"""Residual networks: ResNet (He et al., 2016), ResNeXt (Xie et al., 2017), and one of films."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bench.models.layers import classifier, convolution
from bench.models.seeded import Model, seeded


class Residual(nn.Module):
    """`relu(path(x) + shortcut(x))`."""

    def __init__(self, path: nn.Module, shortcut: nn.Module):
        super().__init__()
        self.path, self.shortcut = path, shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Return a 1x1 convolution if shapes differ."""
    if (inputs, stride) == (outputs, 1):
        return nn.Identity()
    return convolution(inputs, outputs, 1, stride, activation=None)


def _basic(inputs: int, width: int, stride: int) -> Residual:
    first = convolution(inputs, width, 3, stride)
    last = convolution(width, width, 3, activation=None)
    return Residual(nn.Sequential(*first, *last), _shortcut(inputs, width, stride))


def _bottleneck(inputs: int, width: int, stride: int, groups: int) -> Residual:
    """Return a residual of few channels inside; of twice as many where these have groups."""
    inner, outputs = width if groups == 1 else 2 * width, 4 * width
    first = convolution(inputs, inner, 1)
    middle = convolution(inner, inner, 3, stride, groups)
    last = convolution(inner, outputs, 1, activation=None)
    return Residual(nn.Sequential(*first, *middle, *last), _shortcut(inputs, outputs, stride))


def stem() -> nn.Sequential:
    """Return the layers before the blocks, which leave a quarter of the height and width."""
    return nn.Sequential(*convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))


def stages(blocks: tuple[int, ...], bottleneck: bool, groups: int = 1) -> list[nn.Sequential]:
    """Return the stages of a ResNet, each but the first of half the size of the one before."""
    made, inputs = [], 64
    for number, count in enumerate(blocks):
        width = 64 * 2**number
        parts = []
        for position in range(count):
            stride = 2 if number and not position else 1
            if bottleneck:
                parts.append(_bottleneck(inputs, width, stride, groups))
                inputs = 4 * width
            else:
                parts.append(_basic(inputs, width, stride))
                inputs = width
        made.append(nn.Sequential(*parts))
    return made


class ResNet(nn.Module):
    """A stem, four stages of blocks, and a classifier.

    64, 128, 256 and 512 channels, at 224x224 on 56, 28, 14 and 7 rows.
    """

    def __init__(self, blocks: tuple[int, ...], bottleneck: bool, groups: int, classes: int = 1000):
        super().__init__()
        self.trunk = nn.Sequential(stem(), *stages(blocks, bottleneck, groups))
        channels = 64 * 2 ** (len(blocks) - 1)
        self.classify = classifier(4 * channels if bottleneck else channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.trunk(x))


def resnet18(batch: int, size: int = 224) -> Model:
    return seeded(lambda: ResNet((2, 2, 2, 2), False, 1), (batch, 3, size, size))


def resnet50(batch: int, size: int = 224, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> Model:
    return seeded(lambda: ResNet(blocks, True, 1), (batch, 3, size, size))


def resnext50(batch: int, size: int = 224, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> Model:
    """Return ResNeXt-50 32x4d: the 3x3 convolutions have 32 groups of 4, 8, 16 and 32 channels."""
    return seeded(lambda: ResNet(blocks, True, 32), (batch, 3, size, size))


def _filmed(inputs: int, outputs: int, kernel: tuple[int, int, int], stride: Any) -> nn.Sequential:
    first, second, third = kernel
    padding = first // 2, second // 2, third // 2
    layer = nn.Conv3d(inputs, outputs, kernel, stride, padding, bias=False)
    return nn.Sequential(layer, nn.BatchNorm3d(outputs))


def _film(channels: tuple[int, ...]) -> nn.Sequential:
    inputs = channels[0]
    layers = [_filmed(3, inputs, (3, 7, 7), (1, 2, 2)), nn.ReLU(inplace=True)]
    for number, width in enumerate(channels):
        for position in range(2):
            stride = 2 if number and not position else 1
            first, last = (
                _filmed(inputs, width, (3, 3, 3), stride),
                _filmed(width, width, (3, 3, 3), 1),
            )
            shortcut = _filmed(inputs, width, (1, 1, 1), stride)
            if (inputs, stride) == (width, 1):
                shortcut = nn.Identity()
            layers.append(Residual(nn.Sequential(first, nn.ReLU(inplace=True), last), shortcut))
            inputs = width
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(inputs, 400)]
    return nn.Sequential(*layers)


def resnet3d(
    batch: int, frames: int = 8, size: int = 112, channels: tuple[int, ...] = (64, 128, 256, 512)
) -> Model:
    """Return ResNet3D-18 (Tran et al., 2018): 3x3x3 taps over frames and pictures."""
    return seeded(lambda: _film(channels), (batch, 3, frames, size, size))
