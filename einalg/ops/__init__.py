"""Library operators as expressions: the definition types an operator, is its template for matching, and its reference (design §5)."""

from __future__ import annotations

from einalg.ops.contraction import linear, matmul
from einalg.ops.convolution import conv1d, conv2d, conv3d, depthwise_conv1d, depthwise_conv2d, depthwise_conv3d
from einalg.ops.registry import OPERATORS, operator
from einalg.ops.transposed_convolution import conv_transpose1d, conv_transpose2d, conv_transpose3d

__all__ = ["OPERATORS", "linear", "matmul", "operator"]
