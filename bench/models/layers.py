"""Layers that several networks are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

Activation = Callable[[], nn.Module]
Size = int | tuple[int, int]

ReLU: Activation = lambda: nn.ReLU(inplace=True)  # noqa: E731 - a kind of layer, as nn.SiLU is


def half(kernel: Size) -> Size:
    """Return the padding that keeps the size of a picture under a kernel of odd size."""
    if isinstance(kernel, int):
        return kernel // 2
    return kernel[0] // 2, kernel[1] // 2


def convolution(
    inputs: int,
    outputs: int,
    kernel: Size,
    stride: int = 1,
    groups: int = 1,
    padding: Size | None = None,
    activation: Activation | None = ReLU,
    epsilon: float = 1e-5,
) -> nn.Sequential:
    """Return a convolution, a batch norm and an activation; with None the latter is left out."""
    if padding is None:
        padding = half(kernel)
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, epsilon),
    ]
    if activation is not None:
        layers.append(activation())
    return nn.Sequential(*layers)


def perceptron(sizes: Sequence[int], activation: Activation) -> nn.Sequential:
    """Return linear layers between these numbers of features, with activations between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def classifier(channels: int, classes: int) -> nn.Sequential:
    """Return the mean of each channel, and a linear layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Stacked(nn.Module):
    """The results of several branches, one after the other along the channels."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Added(nn.Module):
    """`x + path(x)`."""

    def __init__(self, *path: nn.Module):
        super().__init__()
        self.path = nn.Sequential(*path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.path(x)


class ChannelsLast(nn.Module):
    """What works on the last axis, between two permutations of pictures."""

    def __init__(self, *path: nn.Module):
        super().__init__()
        self.path = nn.Sequential(*path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.path(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
