"""When a loop has enough work for several threads."""

from __future__ import annotations

from math import prod

from codegen.ir.nodes import Buf
from einalg.language.ir.dtypes import numpy_dtype

# From which on threads pay, which takes ten microseconds or so; sharing takes one or two.
MIN_PRODUCTS = 1 << 19
MIN_ELEMENTS = 1 << 16  # that are moved
MIN_BYTES = 1 << 19  # that products read


def pays(products: int, *operands: Buf) -> bool:
    """Whether threads pay for so many products of elements of some buffers."""
    size = sum(prod(buf.shape) * numpy_dtype(buf.dtype).itemsize for buf in operands)
    return products >= MIN_PRODUCTS or size >= MIN_BYTES
