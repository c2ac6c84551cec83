"""One program of a network, optimized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from derive.backend import Backend, Runnable
from derive.optimizer.layers import Layer
from derive.rules.spelling import lifted
from derive.search import kernels_of
from einalg.kernel import Kernel
from einalg.program import Program


@dataclass
class Part:
    """One program of the graph: as it was, as it is now, its layers, its seconds before and after, and the largest relative error.

    `verdict` is the weakest one of its layers: "proved" where every change is. `channels_last` says whether what convolutions sum over
    comes last in what lies between its layers, as it did not before.
    """

    before: Program
    after: Program
    layers: list[Layer]
    kernels: tuple[Kernel, ...] = ()
    seconds: tuple[float, float] = (0.0, 0.0)
    error: float = 0.0
    verdict: str = "proved"
    run: Runnable | None = field(default=None, repr=False)
    channels_last: bool = False

    def source(self, language: str) -> str:
        """The text of its generated kernels."""
        assert self.run is not None
        return self.run.source(language)


def verdict(layers: Sequence[Layer]) -> str:
    """The weakest verdict of some layers."""
    return "tested" if any(layer.candidate is not None and layer.candidate.verdict == "tested" for layer in layers) else "proved"


def compiled(program: Program, backend: Backend, weights: Mapping[str, Any]) -> Runnable:
    """A program compiled, with its weights given."""
    flat = lifted(program)
    return backend.compile(flat, kernels_of(flat)).bind(**weights)
