"""Library operators as expressions: the definition types an operator, is its template for matching, and its reference (design §5)."""

# ruff: noqa: F401 - every operator is exported, as the registry lists it
from __future__ import annotations

from einalg.ops.attention import attention, banded_attention
from einalg.ops.bands import g2bmm, gbmm
from einalg.ops.contraction import linear, matmul
from einalg.ops.convolution import conv1d, conv2d, conv3d, depthwise_conv1d, depthwise_conv2d, depthwise_conv3d
from einalg.ops.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool,
    global_max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from einalg.ops.recurrent import gru_cell, lstm_cell
from einalg.ops.registry import OPERATORS, operator
from einalg.ops.transposed_convolution import conv_transpose1d, conv_transpose2d, conv_transpose3d

__all__ = ["OPERATORS", "operator", *OPERATORS]  # pyright: ignore
