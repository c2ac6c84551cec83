"""ONNX operators as expressions of the language: a file for each family."""

from __future__ import annotations

from einalg.frontends.onnx.nodes.registry import DEFINITIONS
from einalg.frontends.onnx.operators.layers import (  # noqa: F401 - each fills the table
    attention,
    convolution,
    normalization,
    pooling,
    recurrent,
    resize,
)
from einalg.frontends.onnx.operators.math import (  # noqa: F401 - each fills the table
    activations,
    arithmetic,
    elementwise,
    matmul,
    reductions,
    scans,
)
from einalg.frontends.onnx.operators.shape import (  # noqa: F401 - each fills the table
    concatenation,
    constants,
    indexing,
    reshape,
    selection,
)

__all__ = ["DEFINITIONS"]
