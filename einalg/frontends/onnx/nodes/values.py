"""Values of an ONNX graph while a file is read, and their types in the language."""

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
# Dtypes by ONNX's numbers of element types.
DTYPES = {
    1: "f32",
    2: "u8",
    3: "i8",
    4: "u16",
    5: "i16",
    6: "i32",
    7: "i64",
    9: "bool",
    10: "f16",
    11: "f64",
    12: "u32",
    13: "u64",
    16: "bf16",
}
ELEMENTS = {dtype: element for element, dtype in DTYPES.items()}
# Of one value; more cannot be computed here, and are a damaged size more often than not.
MAX_ELEMENTS = 2**31


@dataclass
class Value:
    """A value of the file: `name` as the file has it, its ONNX type, and the elements of constants.

    `place` is its name in the graph under construction, None for a constant that nobody has read
    there. `tensor` is what expressions read, None where the language has none like it, or its shape
    is known at run time only.
    """

    name: str
    type: Any = None
    array: Any = None
    place: str | None = None
    tensor: Tensor | None = None

    @property
    def is_constant(self) -> bool:
        return self.array is not None

    @property
    def shape(self) -> Sizes | None:
        if self.array is not None and hasattr(self.array, "shape"):
            return tuple(self.array.shape)
        if self.tensor is not None:
            return self.tensor.shape
        return sizes_of(self.type)


def tensor_type(element: int, shape: Sizes | None) -> Any:
    """Return an ONNX type of tensors."""
    return onnx_package().helper.make_tensor_type_proto(element, shape)


def element_of(kind: Any) -> int | None:
    """Return ONNX's number of the element type of a tensor.

    None where a value is no tensor, or its element type is not declared.
    """
    if kind is None or not kind.HasField("tensor_type"):
        return None
    return kind.tensor_type.elem_type or None


def sizes_of(kind: Any) -> Sizes | None:
    """Return the shape of a type; None unless every size is a number."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    sizes: list[int] = []
    for dim in kind.tensor_type.shape.dim:
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            return None
        sizes.append(dim.dim_value)
    return tuple(sizes)


def dtype_of(kind: Any) -> str | None:
    """Return the dtype of the language for an ONNX type.

    None for text, complex numbers, 8-bit floats and sequences.
    """
    return DTYPES.get(element_of(kind) or 0)


def is_too_large(shape: Sizes) -> bool:
    return prod(shape) > MAX_ELEMENTS


def array_of(tensor: Any, what: str) -> Array:
    """Return the elements of a stored tensor; `RecordError` where they do not fit its shape."""
    onnx = onnx_package()
    if any(size < 0 for size in tensor.dims) or is_too_large(tuple(tensor.dims)):
        raise RecordError(
            f"{what} has the sizes {list(tensor.dims)}, which no tensor can have\n"
            "  the file is damaged: fetch it anew"
        )
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # whatever a damaged tensor makes of the reader
        raise RecordError(
            f"{what} cannot be read: {error}\n  the file is damaged: fetch it anew"
        ) from None
    if tuple(array.shape) != tuple(tensor.dims):
        raise RecordError(
            f"{what} has the sizes {list(tensor.dims)}, but {array.size} elements\n"
            "  the file is damaged: fetch it anew"
        )
    return array


def constant_value(name: str, array: Any) -> Value:
    """Return a value whose elements are constant."""
    array = np.asarray(array)
    try:
        kind = tensor_type(onnx_package().helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    except (KeyError, ValueError, TypeError):
        kind = None
    return Value(name, kind, array)
