"""Results laid out in memory as torch lays them out: with its strides, and views where it returns
views of other results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from einalg.frontends.torch.nodes.tensors import with_strides

Restore = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True)
class _Layout:
    """Where the elements of a result lie: in its own memory, or in that of the result `base`."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    base: int | None


def layout_restorer(examples: Sequence[Any]) -> Restore | None:
    """Return a function that lays results out as the tensors of a trace lie; None where they are
    contiguous and no two share memory.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> whole = torch.zeros(2, 3).t()
    >>> restore = layout_restorer([whole, whole[1], 5])
    >>> one, two, number = restore([torch.ones(3, 2), torch.ones(2), 5])
    >>> one.stride(), two.stride(), two.data_ptr() - one.data_ptr(), number
    ((1, 3), (3,), 4, 5)
    """
    layouts: dict[int, _Layout] = {}
    for position, example in enumerate(examples):
        layout = _layout(position, examples) if _is_static(example) else None
        if layout is not None:
            layouts[position] = layout
    if not layouts:
        return None

    def restore(results: list[Any]) -> list[Any]:
        restored = list(results)
        for position, layout in layouts.items():
            if layout.base is None:
                restored[position] = with_strides(results[position], layout.strides)
        for position, layout in layouts.items():
            if layout.base is not None:
                base = restored[layout.base]
                offset = base.storage_offset() + layout.offset
                restored[position] = base.as_strided(layout.shape, layout.strides, offset)
        return restored

    return restore


def _is_static(example: Any) -> bool:
    """Tell whether a value is a tensor whose place in memory is known before a call."""
    import torch

    if not isinstance(example, torch.Tensor) or example.layout is not torch.strided:
        return False
    sizes = (*example.shape, *example.stride(), example.storage_offset())
    return all(type(size) is int for size in sizes)


def _layout(position: int, examples: Sequence[Any]) -> _Layout | None:
    """Return the layout of a result; None where that is the usual one."""
    example = examples[position]
    shape, strides = tuple(example.shape), tuple(example.stride())
    for other, base in enumerate(examples):
        if other != position and _is_static(base) and _is_base(base, example, other < position):
            offset = example.storage_offset() - base.storage_offset()
            return _Layout(shape, strides, offset, other)
    if example.is_contiguous():
        return None
    return _Layout(shape, strides, 0, None)


def _is_base(base: Any, view: Any, is_earlier: bool) -> bool:
    """Tell whether a result holds all the memory that another one reads."""
    if base.untyped_storage()._cdata != view.untyped_storage()._cdata:
        return False
    if base.dtype is not view.dtype or not _is_whole(base):
        return False
    return is_earlier or not _is_whole(view)


def _is_whole(tensor: Any) -> bool:
    """Tell whether a tensor has all elements of its memory."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return _is_dense(tensor) and tensor.numel() == count


def _is_dense(tensor: Any) -> bool:
    """Tell whether the elements of a tensor lie side by side, in any order of its axes."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
