"""Library operators as expressions: the definition types an operator, is its template for matching,
and its reference (design §5).

>>> import einalg as ea
>>> ea.ops.relu(ea.ops.matmul(ea.tensor("A", (4, 5)), ea.tensor("B", (5, 6))))
L[i:4, j:6](Max(0, (L[m:4, n:6](Sum[k:5](A[m, k]*B[k, n])))[i, j]))
"""

# ruff: noqa: F401 - every operator is exported, as the registry lists it
from __future__ import annotations

from typing import Any

from einalg.boundary import missing_attribute, public
from einalg.language.ops.definition.registry import OPERATORS, operator
from einalg.language.ops.layers.adaptive_pooling import adaptive_avg_pool, adaptive_max_pool
from einalg.language.ops.layers.attention import attention, banded_attention
from einalg.language.ops.layers.banded_matmul import g2bmm, gbmm
from einalg.language.ops.layers.convolution import (
    conv1d,
    conv2d,
    conv3d,
    depthwise_conv1d,
    depthwise_conv2d,
    depthwise_conv3d,
)
from einalg.language.ops.layers.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    rms_norm,
    softmax,
)
from einalg.language.ops.layers.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool,
    global_max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from einalg.language.ops.layers.recurrent import gru_cell, lstm_cell
from einalg.language.ops.layers.transposed_convolution import (
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from einalg.language.ops.layers.upsample import upsample_cubic, upsample_linear, upsample_nearest
from einalg.language.ops.math.activations import (
    clip,
    elu,
    gelu,
    hardsigmoid,
    hardswish,
    leaky_relu,
    relu,
    sigmoid,
    silu,
    softplus,
)
from einalg.language.ops.math.broadcasting import (
    add,
    bias_add,
    div,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    not_equal,
    pow,
    sub,
    where,
)
from einalg.language.ops.math.cast import cast
from einalg.language.ops.math.elementwise import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    floor,
    log,
    neg,
    reciprocal,
    rsqrt,
    sign,
    sin,
    sqrt,
    square,
    tanh,
)
from einalg.language.ops.math.matmul import linear, matmul
from einalg.language.ops.math.reductions import (
    argmax,
    argmin,
    cumprod,
    cumsum,
    logsumexp,
    max,
    mean,
    min,
    norm,
    prod,
    sum,
    variance,
)
from einalg.language.ops.shape.concatenation import concat, pad, split, stack
from einalg.language.ops.shape.gather import take
from einalg.language.ops.shape.indexing import (
    broadcast_to,
    diagonal,
    flip,
    repeat,
    roll,
    slice,
    tile,
    transpose,
    tril,
    triu,
)
from einalg.language.ops.shape.reshape import flatten, reshape, squeeze, unsqueeze
from einalg.language.ops.shape.space_to_depth import (
    batch_to_space,
    depth_to_space,
    pixel_shuffle,
    pixel_unshuffle,
    space_to_batch,
    space_to_depth,
    unfold,
)

__all__ = ["OPERATORS", "operator"]
__all__.extend(OPERATORS)  # pyright: ignore[reportUnsupportedDunderAll]


@public
def __getattr__(name: str) -> Any:
    raise missing_attribute("ea.ops", name, OPERATORS)


def __dir__() -> list[str]:
    return sorted(__all__)
