"""Values of an ONNX graph: what is known of them while a file is read, and their types in the language."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from einalg.errors import RecordError
from einalg.frontends.onnx.nodes.model_file import onnx_package
from einalg.language.ir.tensor import Tensor

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
DTYPES = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64", 12: "u32", 13: "u64", 16: "bf16",
}  # fmt: skip
ELEMENTS = {dtype: element for element, dtype in DTYPES.items()}
MOST_ELEMENTS = (
    2**31
)  # of one value; what is larger cannot be computed here, and is a damaged size more often than not


@dataclass
class Value:
    """A value of the file: `name` as the file has it, its ONNX type, and its elements where they are known.

    `place` is its name in the graph that is built, None for a known value that nobody has read there. `tensor` is what
    expressions read, None where the language has none like it, or its shape is known at run time only.
    """

    name: str
    type: Any = None
    array: Any = None
    place: str | None = None
    tensor: Tensor | None = None

    @property
    def is_known(self) -> bool:
        return self.array is not None

    @property
    def shape(self) -> Sizes | None:
        if self.array is not None and hasattr(self.array, "shape"):
            return tuple(self.array.shape)
        return self.tensor.shape if self.tensor is not None else sizes_of(self.type)


def tensor_type(element: int, shape: Sizes | None) -> Any:
    """An ONNX type of tensors."""
    return onnx_package().helper.make_tensor_type_proto(element, shape)


def element_of(kind: Any) -> int | None:
    """The number that ONNX gives the element type of a tensor; None where a value is no tensor, or this is not known."""
    return (
        kind.tensor_type.elem_type or None
        if kind is not None and kind.HasField("tensor_type")
        else None
    )


def sizes_of(kind: Any) -> Sizes | None:
    """The shape of a type where every size is a number."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return (
        tuple(d.dim_value for d in dims)
        if all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims)
        else None
    )


def dtype_of(kind: Any) -> str | None:
    """The dtype of the language for an ONNX type; None where it has none: text, complex numbers, 8-bit floats, sequences."""
    return DTYPES.get(element_of(kind) or 0)


def is_too_large(shape: Sizes) -> bool:
    return prod(shape) > MOST_ELEMENTS


def array_of(tensor: Any, what: str) -> Array:
    """The elements of a stored tensor; `RecordError` where they do not fit its shape."""
    onnx = onnx_package()
    if any(size < 0 for size in tensor.dims) or is_too_large(tuple(tensor.dims)):
        raise RecordError(
            f"{what} has the sizes {list(tensor.dims)}, which no tensor can have\n  the file is damaged: fetch it anew"
        )
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # whatever a damaged tensor makes of the reader
        raise RecordError(
            f"{what} cannot be read: {error}\n  the file is damaged: fetch it anew"
        ) from None
    if tuple(array.shape) != tuple(tensor.dims):
        raise RecordError(
            f"{what} has the sizes {list(tensor.dims)}, but {array.size} elements\n  the file is damaged: fetch it anew"
        )
    return array


def known(name: str, array: Any) -> Value:
    """A value whose elements are known."""
    array = np.asarray(array)
    try:
        kind = tensor_type(onnx_package().helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    except (KeyError, ValueError, TypeError):
        kind = None
    return Value(name, kind, array)
