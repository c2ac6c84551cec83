"""Dense prediction.

The back end of CSRNet (Li et al., 2018), the Global Convolutional Network (Peng et al., 2017) and
U-Net (Ronneberger et al., 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn.functional import interpolate, max_pool2d

from bench.models.layers import convolution
from bench.models.resnet import stages, stem
from bench.models.seeded import Model, seeded


def csrnet(batch: int, size: int = 14, width: int = 64) -> Model:
    """The dilated back end on features of a VGG-16.

    3x3 taps, dilation 2, 512 channels thrice, then 256, 128, 64, and 1x1 to a map.
    """
    channels = [8 * width, 8 * width, 8 * width, 8 * width, 4 * width, 2 * width, width]
    layers = [[nn.Conv2d, nn.ReLU] for _ in channels[1:]]

    def made() -> nn.Module:
        dilated = (
            (convolution(a, b, 3, padding=2, dilation=2), relu(inplace=True))
            for (convolution, relu), a, b in zip(layers, channels, channels[1:])
        )
        return nn.Sequential(*(part for pair in dilated for part in pair), nn.Conv2d(width, 1, 1))

    return seeded(made, (batch, 8 * width, size, size))


class GlobalConvolution(nn.Module):
    """A large kernel as two pairs of thin ones: `k x 1` then `1 x k`, plus `1 x k` then `k x 1`."""

    def __init__(self, inputs: int, outputs: int, kernel: int):
        super().__init__()
        tall, wide = (kernel, 1), (1, kernel)
        self.left = nn.Sequential(
            self._thin(inputs, outputs, tall), self._thin(outputs, outputs, wide)
        )
        self.right = nn.Sequential(
            self._thin(inputs, outputs, wide), self._thin(outputs, outputs, tall)
        )

    @staticmethod
    def _thin(inputs: int, outputs: int, kernel: tuple[int, int]) -> nn.Conv2d:
        return nn.Conv2d(inputs, outputs, kernel, padding=(kernel[0] // 2, kernel[1] // 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.left(x) + self.right(x)


class BoundaryRefinement(nn.Module):
    """A residual of two 3x3 convolutions."""

    def __init__(self, channels: int):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.path(x)


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


class GCN(nn.Module):
    """A ResNet-50 with a global convolution and a refinement on every stage.

    They are joined from coarse to fine.
    """

    def __init__(self, classes: int = 21, kernel: int = 11, blocks: tuple[int, ...] = (3, 4, 6, 3)):
        super().__init__()
        self.stem = stem()
        self.stages = nn.ModuleList(stages(blocks, bottleneck=True))
        self.globals = nn.ModuleList(
            GlobalConvolution(256 * 2**k, classes, kernel) for k in range(len(blocks))
        )
        self.refined = nn.ModuleList(BoundaryRefinement(classes) for _ in blocks)
        self.joined = nn.ModuleList(BoundaryRefinement(classes) for _ in blocks[1:])
        self.last = BoundaryRefinement(classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features, x = [], self.stem(x)
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        coarse, *finer = reversed(
            [
                refine(convolution(f))
                for f, convolution, refine in zip(features, self.globals, self.refined)
            ]
        )
        score = _doubled(coarse)
        for own, join in zip(finer, self.joined):
            score = _doubled(join(score + own))
        return self.last(_doubled(score))


def gcn(batch: int, size: int = 224, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> Model:
    """Return a Global Convolutional Network for 21 classes.

    At 224x224 the coarsest features are 2048 channels on 7x7, read by 11x1 taps.
    """
    return seeded(lambda: GCN(blocks=blocks), (batch, 3, size, size))


class UNet(nn.Module):
    """Convolutions on smaller and smaller pictures, then on larger ones beside those of the way in.

    A picture is enlarged by a transposed convolution of 2x2 taps.
    """

    def __init__(self, channels: Sequence[int], classes: int):
        super().__init__()
        before = 3
        self.down, self.up, self.enlarge = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for width in channels:
            self.down.append(self._twice(before, width))
            before = width
        for large, small in pairwise(reversed(channels)):
            self.enlarge.append(nn.ConvTranspose2d(large, small, 2, 2))
            self.up.append(self._twice(2 * small, small))
        self.last = nn.Conv2d(channels[0], classes, 1)

    @staticmethod
    def _twice(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(*convolution(inputs, outputs, 3), *convolution(outputs, outputs, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        passed = []
        for number, block in enumerate(self.down):
            if number:
                x = max_pool2d(x, 2)
            x = block(x)
            passed.append(x)
        for enlarge, block, side in zip(self.enlarge, self.up, passed[-2::-1]):
            x = block(torch.cat([side, enlarge(x)], 1))
        return self.last(x)


def unet(batch: int, size: int = 128, channels: Sequence[int] = (64, 128, 256, 512, 1024)) -> Model:
    """Return U-Net (Ronneberger et al., 2015), padded so that sizes stay."""
    return seeded(lambda: UNet(channels, 21), (batch, 3, size, size))
