"""Torch tensors as arrays and back, on the same memory where NumPy can express that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from einalg.errors import ShapeError, UseError
from einalg.language.ir.dtypes import dtype_name

Array = np.ndarray[Any, Any]


def array_of(tensor: Any) -> Array:
    """Return a tensor as an array of the same memory.

    Tensors of bfloat16, which NumPy does not have, are copied to float32; those of a device are
    copied too.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> t = torch.zeros(2, 3)
    >>> array_of(t)[1, 2] = 5; t[1, 2].item()
    5.0
    """
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise UseError(
            f"a tensor of torch is expected, not a {type(tensor).__name__}\n"
            "  e.g. torch.as_tensor(x)"
        )
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    return tensor.numpy(force=True)


def tensor_of(array: Any, dtype: Any = None, device: Any = None) -> Any:
    """Return an array as a tensor of the same memory, or a copy.

    Its layout, `dtype` or `device` may need a copy.

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
    if device is None and dtype in (None, tensor.dtype):
        return tensor
    return tensor.to(device=device, dtype=dtype)


def changed_tensors(
    arguments: tuple[tuple[Any, ...], Mapping[str, Any]], change: Callable[[Array, str], Array]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with `change(array, dtype)` in the place of their tensors of floats, and
    copies of their other tensors.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> changed_tensors(((torch.ones(2), [torch.arange(2), 3]), {}), lambda array, _: 2 * array)
    ((tensor([2., 2.]), [tensor([0, 1]), 3]), {})
    """
    import torch
    from torch.utils._pytree import tree_map

    def changed(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        with torch.no_grad():
            tensor = leaf.detach().clone()
            if tensor.is_floating_point():
                array = np.array(array_of(tensor))
                changed_array = np.asarray(change(array, dtype_name(tensor.dtype)))
                tensor.copy_(torch.from_numpy(changed_array))
        return tensor

    args, keywords = arguments
    return tree_map(changed, tuple(args)), tree_map(changed, dict(keywords))


def arrays_and_types(result: Any) -> list[tuple[Array, str]]:
    """Return the tensors and numbers of a nested result as arrays, each with its element type."""
    import torch
    from torch.utils._pytree import tree_flatten

    arrays: list[tuple[Array, str]] = []
    for leaf in tree_flatten(result)[0]:
        if isinstance(leaf, torch.Tensor):
            arrays.append((array_of(leaf.detach()), str(leaf.dtype).removeprefix("torch.")))
        elif isinstance(leaf, (bool, int, float)):
            arrays.append((np.asarray(leaf), type(leaf).__name__))
    return [(array, _short_name(kind)) for array, kind in arrays]


def _short_name(dtype: str) -> str:
    """Return the short name of a dtype, and of one that has none its name in torch."""
    try:
        return dtype_name(dtype)
    except ShapeError:
        return dtype


def with_strides(tensor: Any, strides: Sequence[int]) -> Any:
    """Return a tensor in new memory, with some strides; what is repeated there is written once.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> with_strides(torch.tensor([[1, 2], [1, 2]]), (0, 1)).stride()
    (0, 1)
    """
    import torch

    once: list[slice] = []
    for stride in strides:
        once.append(slice(None) if stride else slice(1))
    part = tensor[tuple(once)]
    memory = torch.empty_strided(part.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return memory.copy_(part).as_strided(tensor.shape, strides)


def memory_key(tensor: Any) -> tuple[Any, ...] | None:
    """Return address and layout of a tensor: equal for two that are one. None without elements."""
    if not tensor.numel():
        return None
    layout = (tuple(tensor.shape), tensor.stride(), tensor.dtype)
    return (tensor.data_ptr(), tensor.storage_offset(), *layout)


def shape_and_dtype(value: Any) -> tuple[tuple[int, ...], str] | None:
    """Return shape and dtype of a value of a trace, for example `((2, 3), "f32")`.

    None where they depend on data, or the language has no such value.
    """
    shape = getattr(value, "shape", None)
    if shape is None:
        if type(value) in (bool, int, float):
            return (), dtype_name(type(value).__name__)
        return None
    if not all(type(size) is int for size in shape):
        return None
    try:
        return tuple(shape), dtype_name(value.dtype)
    except ValueError:
        return None
