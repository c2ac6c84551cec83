"""Super-resolution: FSRCNN (Dong et al., 2016) and SRCNN (Dong et al., 2014)."""

from __future__ import annotations

from torch import nn

from bench.models.seeded import Model, seeded


def _convolution(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.PReLU(outputs)]


def fsrcnn(batch: int, size: int = 32, scale: int = 4) -> Model:
    """FSRCNN(56, 12, 4).

    32x32 to 128x128; the last layer has 9x9 taps at stride 4, 56 channels to 1.
    """
    detail, shrunk, depth = 56, 12, 4
    return seeded(
        lambda: nn.Sequential(
            *_convolution(1, detail, 5),
            *_convolution(detail, shrunk, 1),
            *(layer for _ in range(depth) for layer in _convolution(shrunk, shrunk, 3)),
            *_convolution(shrunk, detail, 1),
            nn.ConvTranspose2d(detail, 1, 9, scale, padding=4, output_padding=scale - 1),
        ),
        (batch, 1, size, size),
    )


def srcnn(batch: int, size: int = 224) -> Model:
    """SRCNN 9-5-5: the picture is enlarged before.

    The last layer has 5x5 taps, 32 channels to 1, on 224x224.
    """
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(1, 64, 9, padding=4),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 32, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 1, 5, padding=2),
        ),
        (batch, 1, size, size),
    )
