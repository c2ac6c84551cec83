"""Groups of axes of an operator's operands, as loop nests walk them."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

from codegen.kernels.strided_axes import StridedAxis
from einalg.language.index.affine import Index
from einalg.language.ir.kernel import View


def single_axis(letter: str, **views: View) -> StridedAxis | None:
    """A group of axes as one that each operand walks in one stride; None where one does not.

    >>> single_axis("i", left=View("A", 0, {"i": ((4, 6), (3, 2))}), target=View("O", 0, {"i": ((12, 1),)}))
    Axis(index=i, extent=12, left=2, right=0, target=1, beside=())
    """
    strides, size = dict[str, Any](), 1
    for operand, view in views.items():
        group = [axis for axis in view.axes[letter] if axis[0] != 1]
        if any(step != inner * stride for (_, step), (inner, stride) in pairwise(group)):
            return None
        size = prod(n for n, _ in group)
        strides[operand] = group[-1][1] if group else 0
    return StridedAxis(Index(letter), size, **strides)


def group_axes(letter: str, **views: View) -> tuple[StridedAxis, ...]:
    """A group of axes, those of extent 1 left out."""
    groups = list(zip(*(view.axes[letter] for view in views.values())))
    found = [
        StridedAxis(
            Index(letter if len(groups) == 1 else f"{letter}{number}"),
            group[0][0],
            **{o: step for o, (_, step) in zip(views, group)},
        )
        for number, group in enumerate(groups)
    ]
    return tuple(a for a in found if a.extent != 1)
