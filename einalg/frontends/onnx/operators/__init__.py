"""What every ONNX operator that the language expresses is: a file for each family."""

from __future__ import annotations

from einalg.frontends.onnx.nodes.registry import DEFINITIONS
from einalg.frontends.onnx.operators.layers import (
    attention,
    convolution,
    normalization,
    pooling,
    recurrent,
    resize,
)
from einalg.frontends.onnx.operators.math import (
    activations,
    arithmetic,
    elementwise,
    matmul,
    reductions,
    scans,
)
from einalg.frontends.onnx.operators.shape import (
    concatenation,
    constants,
    indexing,
    reshape,
    selection,
)

__all__ = ["DEFINITIONS"]
