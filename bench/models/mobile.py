"""Networks of inverted residuals: a few channels, widened, a depthwise convolution, a few again.

MobileNet-V2 (Sandler et al., 2018), MobileNetV3 (Howard et al., 2019) and EfficientNet (Tan and Le,
2019).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from bench.models.layers import Activation, Added, ReLU, classifier, convolution, perceptron
from bench.models.seeded import Model, seeded

V2_STAGES = (  # widened times, channels, blocks, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
V3_BLOCKS = (  # kernel, widened channels, channels, excited, activation, stride
    (3, 16, 16, True, ReLU, 2),
    (3, 72, 24, False, ReLU, 2),
    (3, 88, 24, False, ReLU, 1),
    (5, 96, 40, True, nn.Hardswish, 2),
    (5, 240, 40, True, nn.Hardswish, 1),
    (5, 240, 40, True, nn.Hardswish, 1),
    (5, 120, 48, True, nn.Hardswish, 1),
    (5, 144, 48, True, nn.Hardswish, 1),
    (5, 288, 96, True, nn.Hardswish, 2),
    (5, 576, 96, True, nn.Hardswish, 1),
    (5, 576, 96, True, nn.Hardswish, 1),
)
EFFICIENT_STAGES = (  # widened times, kernel, stride of the first, channels, blocks
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


class Excitation(nn.Module):
    """`x * gate(two linear layers of the mean of each channel)`."""

    def __init__(self, channels: int, squeezed: int, between: Activation, gate: Activation):
        super().__init__()
        self.weights = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            between(),
            nn.Conv2d(squeezed, channels, 1),
            gate(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weights(x)


def inverted(
    inputs: int,
    wide: int,
    outputs: int,
    kernel: int,
    stride: int,
    activation: Activation,
    excitation: nn.Module | None = None,
    epsilon: float = 1e-5,
) -> nn.Module:
    """Return an inverted residual, which adds its input where the shapes are the same."""
    path: list[nn.Module] = []
    if wide != inputs:
        path.append(convolution(inputs, wide, 1, activation=activation, epsilon=epsilon))
    depthwise = convolution(
        wide, wide, kernel, stride, wide, activation=activation, epsilon=epsilon
    )
    path.append(depthwise)
    if excitation is not None:
        path.append(excitation)
    path.append(convolution(wide, outputs, 1, activation=None, epsilon=epsilon))
    if (inputs, stride) == (outputs, 1):
        return Added(*path)
    return nn.Sequential(*path)


def _mobilenet_v2(stages: Sequence[tuple[int, int, int, int]], last: int) -> nn.Sequential:
    channels = 32
    layers: list[nn.Module] = [convolution(3, channels, 3, 2, activation=nn.ReLU6)]
    for times, outputs, count, first in stages:
        for number in range(count):
            stride = 1 if number else first
            layers.append(inverted(channels, times * channels, outputs, 3, stride, nn.ReLU6))
            channels = outputs
    layers.append(convolution(channels, last, 1, activation=nn.ReLU6))
    return nn.Sequential(*layers, classifier(last, 1000))


def mobilenet_v2(
    batch: int, size: int = 224, stages: Sequence[tuple[int, int, int, int]] = V2_STAGES
) -> Model:
    """Return MobileNet-V2: 17 inverted residuals, up to 960 channels inside."""
    return seeded(lambda: _mobilenet_v2(stages, 4 * stages[-1][1]), (batch, 3, size, size))


def _multiple_of_8(count: float) -> int:
    """Return the multiple of 8 that is nearest to a number of channels, not much less."""
    nearest = max(8, int(count + 4) // 8 * 8)
    if nearest < 0.9 * count:
        nearest += 8
    return nearest


def _mobilenet_v3(blocks: Sequence[tuple[int, int, int, bool, Activation, int]]) -> nn.Sequential:
    channels, epsilon = 16, 1e-3
    layers: list[nn.Module] = [
        convolution(3, channels, 3, 2, activation=nn.Hardswish, epsilon=epsilon)
    ]
    for kernel, wide, outputs, is_excited, activation, stride in blocks:
        excitation = None
        if is_excited:
            excitation = Excitation(wide, _multiple_of_8(wide / 4), ReLU, nn.Hardsigmoid)
        layers.append(
            inverted(channels, wide, outputs, kernel, stride, activation, excitation, epsilon)
        )
        channels = outputs
    last = 6 * channels
    layers.append(convolution(channels, last, 1, activation=nn.Hardswish, epsilon=epsilon))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), perceptron((last, 1024, 1000), nn.Hardswish)]
    return nn.Sequential(*layers)


def mobilenet_v3(
    batch: int,
    size: int = 224,
    blocks: Sequence[tuple[int, int, int, bool, Activation, int]] = V3_BLOCKS,
) -> Model:
    """Return MobileNetV3-small: 11 inverted residuals, 9 of them with an excitation."""
    return seeded(lambda: _mobilenet_v3(blocks), (batch, 3, size, size))


def _efficientnet(stages: Sequence[tuple[int, int, int, int, int]], last: int) -> nn.Sequential:
    channels, epsilon = 32, 1e-3
    layers: list[nn.Module] = [convolution(3, channels, 3, 2, activation=nn.SiLU, epsilon=epsilon)]
    for times, kernel, first, outputs, count in stages:
        for number in range(count):
            stride, wide = 1 if number else first, times * channels
            excitation = Excitation(wide, channels // 4, nn.SiLU, nn.Sigmoid)
            layers.append(
                inverted(channels, wide, outputs, kernel, stride, nn.SiLU, excitation, epsilon)
            )
            channels = outputs
    layers.append(convolution(channels, last, 1, activation=nn.SiLU, epsilon=epsilon))
    return nn.Sequential(*layers, classifier(last, 1000))


def efficientnet(
    batch: int, size: int = 224, stages: Sequence[tuple[int, int, int, int, int]] = EFFICIENT_STAGES
) -> Model:
    """Return EfficientNet-B0: 16 inverted residuals, each with an excitation."""
    return seeded(lambda: _efficientnet(stages, 4 * stages[-1][3]), (batch, 3, size, size))
