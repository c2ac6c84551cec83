"""The two sides of a comparison."""

from __future__ import annotations

from typing import Any

from einalg.errors import UseError
from einalg.language.index.size import check_names
from einalg.language.ir.program import Program, as_symbolic_program


def as_sides(before: Any, after: Any) -> tuple[Program, Program]:
    """Return two expressions as programs over the same inputs.

    Raises `NotationError` for what is no expression and for two sizes of one name, `UseError` for
    inputs of one name with two element types.
    """
    one, two = as_symbolic_program(before), as_symbolic_program(after)
    check_names({*one.sizes.values(), *two.sizes.values()})
    for name, tensor in one.inputs.items():
        other = two.inputs.get(name, tensor)
        if tensor.dtype != other.dtype:
            raise UseError(
                f"{name} is {tensor.dtype} on one side, and {other.dtype} on the other\n"
                f"  give {name} one type: ea.tensor({name!r}, ..., {tensor.dtype!r})"
            )
    return one, two
