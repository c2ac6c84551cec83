"""Modules with random weights that are the same in every run, ready for inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]
SEED = 2023


def seeded(module: Callable[[], nn.Module], *shapes: Sequence[int]) -> Model:
    """`module()` in evaluation mode, and inputs of the given shapes.

    Batch norms get statistics that are not 0 and 1.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        made = module().eval().requires_grad_(False)
        for part in made.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                _settle(part)
        return made, tuple(torch.randn(*shape) for shape in shapes)


def _settle(norm: Any) -> None:
    norm.running_mean.uniform_(-0.5, 0.5)
    norm.running_var.uniform_(0.5, 1.5)
    norm.weight.uniform_(0.5, 1.5)
    norm.bias.uniform_(-0.5, 0.5)
