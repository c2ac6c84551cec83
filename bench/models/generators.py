"""Generators that enlarge noise by transposed convolutions.

InfoGAN (Chen et al., 2016) and DCGAN (Radford et al., 2016).
"""

from __future__ import annotations

from torch import nn

from bench.models.seeded import Model, seeded


def _enlarge(inputs: int, outputs: int, norm: bool = True) -> list[nn.Module]:
    """Twice the height and width, by 4x4 taps."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False)]
    return [*layers, *([nn.BatchNorm2d(outputs)] if norm else []), nn.ReLU(inplace=True)]


def _begin(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
    return [
        nn.ConvTranspose2d(inputs, outputs, kernel, 1, 0, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    ]


def _picture(inputs: int) -> list[nn.Module]:
    return [nn.ConvTranspose2d(inputs, 3, 4, 2, 1, bias=False), nn.Tanh()]


def infogan(batch: int, width: int = 64) -> Model:
    """Noise and codes, 228 numbers, to a picture of 32x32.

    The second layer has 448 to 256 channels on 2x2.
    """
    c = width
    return seeded(
        lambda: nn.Sequential(
            *_begin(228, 7 * c, 2),
            *_enlarge(7 * c, 4 * c),
            *_enlarge(4 * c, 2 * c, norm=False),
            *_enlarge(2 * c, c, norm=False),
            *_picture(c),
        ),
        (batch, 228, 1, 1),
    )


def dcgan(batch: int, width: int = 64) -> Model:
    """Return a network from noise, 100 numbers, to a picture of 64x64.

    It goes through 512, 256, 128 and 64 channels on 4x4 to 32x32.
    """
    c = width
    return seeded(
        lambda: nn.Sequential(
            *_begin(100, 8 * c, 4),
            *_enlarge(8 * c, 4 * c),
            *_enlarge(4 * c, 2 * c),
            *_enlarge(2 * c, c),
            *_picture(c),
        ),
        (batch, 100, 1, 1),
    )
