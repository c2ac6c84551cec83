"""Groups of axes of an operator's operands, as loop nests walk them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from codegen.ir.nodes import Buf
from codegen.kernels.strided_axes import StridedAxis
from einalg.language.index.affine import Index
from einalg.language.ir.kernel import Kernel, View
from einalg.language.ir.scope import Scope


def view_buffers(kernel: Kernel, scope: Scope) -> list[Buf] | None:
    """Return the buffers of a kernel's two operands and its result; None where it has others."""
    bufs = {name: Buf(name, t.shape, t.dtype) for name, t in scope.tensors.items()}
    bufs[kernel.output] = Buf(kernel.output, scope.shape, scope.dtype)
    if len(kernel.views) != 3 or any(view.name not in bufs for view in kernel.views):
        return None
    return [bufs[view.name] for view in kernel.views]


def single_axis(letter: str, **views: View) -> StridedAxis | None:
    """Return a group of axes as one that each operand walks in one stride; None where one does not.

    >>> a = View("A", 0, {"i": ((4, 6), (3, 2))})
    >>> axis = single_axis("i", left=a, target=View("O", 0, {"i": ((12, 1),)}))
    >>> axis.extent, axis.left, axis.target
    (12, 2, 1)
    """
    steps: dict[str, Any] = {}
    size = 1
    for operand, view in views.items():
        group = [axis for axis in view.axes[letter] if axis[0] != 1]
        if any(step != inner * stride for (_, step), (inner, stride) in pairwise(group)):
            return None
        size = prod(n for n, _ in group)
        steps[operand] = 0
        if group:
            steps[operand] = group[-1][1]
    return StridedAxis(Index(letter), size, **steps)


def group_axes(letter: str, **views: View) -> tuple[StridedAxis, ...]:
    """Return the axes of a group that all views have, those of extent 1 left out."""
    return strided_group(letter, **{operand: view.axes[letter] for operand, view in views.items()})


def strided_group(letter: str, **strides: Sequence[tuple[int, int]]) -> tuple[StridedAxis, ...]:
    """Return axes from their (extent, stride) in each operand, those of extent 1 left out.

    >>> (axis,) = strided_group("m", left=((4, 6), (1, 6)), target=((4, 1), (1, 1)))
    >>> axis.index, axis.extent, axis.left, axis.target
    (m0, 4, 6, 1)
    """
    groups = list(zip(*strides.values()))
    axes = []
    for number, group in enumerate(groups):
        name = letter
        if len(groups) > 1:
            name = f"{letter}{number}"
        steps = {operand: step for operand, (_, step) in zip(strides, group)}
        if group[0][0] != 1:
            axes.append(StridedAxis(Index(name), group[0][0], **steps))
    return tuple(axes)
