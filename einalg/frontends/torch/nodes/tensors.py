"""Torch tensors as arrays and back, sharing their memory wherever NumPy has the element type and the layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from einalg.errors import UseError
from einalg.language.ir.dtypes import dtype_name

Array = np.ndarray[Any, Any]


def array_of(tensor: Any) -> Array:
    """A tensor as an array of the same memory; bfloat16, which NumPy has not, as float32, and what lies on a device copied.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> t = torch.zeros(2, 3)
    >>> array_of(t)[1, 2] = 5; t[1, 2].item()
    5.0
    """
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise UseError(
            f"a tensor of torch is expected, not a {type(tensor).__name__}\n  e.g. torch.as_tensor(x)"
        )
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy(force=True)


def tensor_of(array: Any, dtype: Any = None, device: Any = None) -> Any:
    """An array as a tensor of the same memory, unless its layout, `dtype` or `device` needs a copy.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> tensor_of(np.arange(3)[::-1], torch.float32)
    tensor([2., 1., 0.])
    """
    import torch

    array = np.asarray(array)
    flags = array.flags
    if not flags.writeable or not (flags.forc or min(array.strides, default=0) >= 0):
        array = array.copy()
    tensor = torch.from_numpy(array)
    return (
        tensor
        if device is None and dtype in (None, tensor.dtype)
        else tensor.to(device=device, dtype=dtype)
    )


def memory_key(tensor: Any) -> tuple[Any, ...] | None:
    """Where a tensor lies and how: the same for two that are one. None without elements."""
    return (
        (
            tensor.data_ptr(),
            tensor.storage_offset(),
            tuple(tensor.shape),
            tensor.stride(),
            tensor.dtype,
        )
        if tensor.numel()
        else None
    )


def shape_and_dtype(value: Any) -> tuple[tuple[int, ...], str] | None:
    """Shape and dtype of a tensor that a trace holds for a value; None where they depend on data, or the value is none of ours."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return ((), dtype_name(type(value).__name__)) if type(value) in (bool, int, float) else None
    if not all(type(size) is int for size in shape):
        return None
    try:
        return tuple(shape), dtype_name(value.dtype)
    except ValueError:
        return None
