"""What every ONNX operator that the language expresses is: a file for each family."""

from __future__ import annotations

from einalg.frontends.onnx.definitions import (  # noqa: F401 - each fills the table
    activations,
    arithmetic,
    attention,
    convolution,
    elementwise,
    joining,
    known,
    movement,
    normalization,
    pooling,
    products,
    recurrent,
    reductions,
    reshaping,
    resizing,
    scanning,
    selection,
)
from einalg.frontends.onnx.registry import DEFINITIONS

__all__ = ["DEFINITIONS"]
