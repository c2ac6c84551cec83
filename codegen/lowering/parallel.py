"""When a loop has enough work for several threads."""

from __future__ import annotations

from math import prod

from codegen.ir.nodes import Buf
from einalg.language.ir.dtypes import numpy_dtype

# From which on threads pay: products, elements that are moved, and bytes that products read; ten microseconds or so, sharing takes one or two.
PRODUCTS, ELEMENTS, BYTES = 1 << 19, 1 << 16, 1 << 19


def pays(products: int, *operands: Buf) -> bool:
    """Whether threads pay for so many products of elements of these buffers."""
    return (
        products >= PRODUCTS
        or sum(prod(buf.shape) * numpy_dtype(buf.dtype).itemsize for buf in operands) >= BYTES
    )
