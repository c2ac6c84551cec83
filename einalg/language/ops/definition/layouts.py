"""Axis orders as text: `"NCHW"`, `"HWIO"`, one letter for each axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.ir.tensor import Access
from einalg.language.ops.definition.operands import ArrayView, Pair


def axis_order(layout: Any, name: str, required: str, optional: str = "") -> str:
    """Check an axis order: every letter of `required` once, those of `optional` at most once,
    nothing else.
    """
    order = layout.upper() if isinstance(layout, str) else ""
    allowed = set(required) | set(optional)
    if not set(required) <= set(order) <= allowed or len(set(order)) < len(order):
        letters = f"{', '.join(required)} once"
        if optional:
            letters += f", and may have {', '.join(optional)}"
        raise ShapeError(
            f"{name} must have each of the letters {letters}, not {layout!r}\n"
            f"  e.g. {name}={optional + required!r}"
        )
    return order


@dataclass(frozen=True)
class LabelledArray:
    """An operand whose axes are known by letters."""

    operand: ArrayView
    layout: str

    def size(self, letter: str) -> int:
        return self.operand.shape[self.layout.index(letter)]

    def sizes(self, letters: Iterable[str]) -> tuple[int, ...]:
        return tuple(map(self.size, letters))

    def read(self, subscripts: Mapping[str, Any]) -> Access:
        """Return the element at a subscript for each letter."""
        return self.operand[tuple(subscripts[letter] for letter in self.layout)]

    def padded(self, amounts: Mapping[str, Pair], fill: Any = 0) -> LabelledArray:
        """Return the operand with `(before, after)` elements of `fill` around some axes."""
        pairs = [amounts.get(letter, (0, 0)) for letter in self.layout]
        return LabelledArray(self.operand.padded(pairs, fill), self.layout)


def with_axes(
    operand: ArrayView, layout: Any, name: str, required: str, optional: str = ""
) -> LabelledArray:
    """Return the operand with the axes that `layout`, the argument called `name`, gives it."""
    order = axis_order(layout, name, required, optional)
    if operand.rank != len(order):
        what = (
            f"{operand.name} has {operand.rank} axes, of sizes {operand.shape}, but "
            f"{name}={order!r} names {len(order)}"
        )
        raise ShapeError(f"{what}\n  give each axis a letter")
    return LabelledArray(operand, order)


def ranges(order: str, indices: Mapping[str, Index], sizes: Mapping[str, int]) -> tuple[slice, ...]:
    """Return ranges from 0 for the brackets of `L`, in an axis order."""
    return tuple(slice(indices[letter], sizes[letter]) for letter in order)
