"""ResNet-18 (He et al., 2016), and the ResNet-50 trunk of other models."""

from __future__ import annotations

import torch
from torch import nn

from bench.models.seeded import Model, seeded


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class Residual(nn.Module):
    """`relu(path(x) + shortcut(x))`, where the shortcut is a 1x1 convolution if shapes differ."""

    def __init__(self, path: nn.Sequential, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.path = path
        self.shortcut = (
            nn.Identity()
            if (inputs, stride) == (outputs, 1)
            else _convolution(inputs, outputs, 1, stride)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))


def _basic(inputs: int, width: int, stride: int) -> Residual:
    path = nn.Sequential(
        _convolution(inputs, width, 3, stride), nn.ReLU(inplace=True), _convolution(width, width, 3)
    )
    return Residual(path, inputs, width, stride)


def _bottleneck(inputs: int, width: int, stride: int) -> Residual:
    first, middle, last = (
        _convolution(inputs, width, 1),
        _convolution(width, width, 3, stride),
        _convolution(width, 4 * width, 1),
    )
    return Residual(
        nn.Sequential(first, nn.ReLU(inplace=True), middle, nn.ReLU(inplace=True), last),
        inputs,
        4 * width,
        stride,
    )


def stem() -> nn.Sequential:
    """Return the layers before the blocks, which leave a quarter of the height and width."""
    return nn.Sequential(_convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))


def stages(blocks: tuple[int, ...], bottleneck: bool) -> list[nn.Sequential]:
    """The stages of a ResNet, each but the first of half the size of the one before."""
    made, inputs = [], 64
    for k, count in enumerate(blocks):
        width = 64 * 2**k
        parts = []
        for position in range(count):
            parts.append(
                (_bottleneck if bottleneck else _basic)(
                    inputs, width, 2 if k and not position else 1
                )
            )
            inputs = 4 * width if bottleneck else width
        made.append(nn.Sequential(*parts))
    return made


class ResNet18(nn.Module):
    """Two basic blocks a stage.

    64, 128, 256 and 512 channels, at 224x224 on 56, 28, 14 and 7 rows.
    """

    def __init__(self, classes: int = 1000):
        super().__init__()
        self.trunk = nn.Sequential(stem(), *stages((2, 2, 2, 2), bottleneck=False))
        self.classify = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.trunk(x))


def resnet18(batch: int, size: int = 224) -> Model:
    return seeded(ResNet18, (batch, 3, size, size))
