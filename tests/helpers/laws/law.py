"""A row of a table of laws."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import einalg as ea


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


def law_of_row(family: str, row: tuple[str, str, str], shapes: Mapping[str, Any]) -> Law:
    """Return a row of a name and two texts with the shapes of the tensors that these read."""
    name, one, two = row
    words = set(re.findall(r"\w+", one + two)) - set(re.findall(r"(?m)^\w+", f"{one}\n{two}"))
    named = {tensor: shape for tensor, shape in shapes.items() if tensor in words}
    return Law(family, name, one, two, named)
