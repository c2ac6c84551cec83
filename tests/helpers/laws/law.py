"""A row of a table of laws."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import einalg as ea
from einalg.language.ir.tensor import Tensor


@dataclass(frozen=True)
class Law:
    """Two texts of one family of laws, and the shapes of the tensors that they read, or
    the tensors.
    """

    family: str
    name: str
    one: str
    two: str
    shapes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.family}: {self.name}"

    def sides(self) -> tuple[ea.Scope | ea.Program, ea.Scope | ea.Program]:
        """Return both sides as expressions."""
        return ea.parse(self.one, **self.shapes), ea.parse(self.two, **self.shapes)


def with_sizes(law: Law) -> Law:
    """Return a law with a size in the place of each extent of its tensors but 1; numbers in its
    texts stay.
    """
    tensors = {}
    for name, shape in law.shapes.items():
        dtype = "f32"
        if isinstance(shape, Tensor):
            shape, dtype = shape.shape, shape.dtype
        extents = tuple([f"S{extent}" if extent > 1 else extent for extent in shape])
        tensors[name] = ea.tensor(name, extents, dtype)
    return Law(law.family, law.name, law.one, law.two, tensors)


def law_of_row(family: str, row: tuple[str, str, str], shapes: Mapping[str, Any]) -> Law:
    """Return a row of a name and two texts with the shapes of the tensors that these read."""
    name, one, two = row
    words = set(re.findall(r"\w+", one + two)) - set(re.findall(r"(?m)^\w+", f"{one}\n{two}"))
    named = {tensor: shape for tensor, shape in shapes.items() if tensor in words}
    return Law(family, name, one, two, named)
