"""One step of a compiled program: a statement with the operator that runs it (design §12)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from einalg.language.ir.scope import Scope

EOP = "eop"


@dataclass(frozen=True)
class View:
    """A tensor as an operator's operand: for each letter of its axes the (extent, stride) of the
    axes that make it up, outer first.

    `offset` and strides are in elements of the contiguous tensor; a stride may be negative. `pads`
    are elements read before and after an axis; `batch` are the axes that stand beside the
    operator's own.
    """

    name: str
    offset: int
    axes: Mapping[str, tuple[tuple[int, int], ...]]
    pads: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    batch: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Kernel:
    """A statement `output = scope` and the operator `op` that computes it: a template's name, or
    `"eop"` for generated code.

    `sizes` are the operator's extents and parameters by name (elements; a parameter that has its
    least value is left out), `inputs` the tensors that are read, in the operator's order, `views`
    how the operator sees each of these and the output. A `plain` operator needs no library; its
    definition takes `parameters`, beside the operands as they are seen. An `epilogue` is made of
    each of its results before that is stored: a scope that reads them by the name of the last view.
    """

    op: str
    sizes: Mapping[str, int]
    inputs: tuple[str, ...]
    output: str
    source: str | None = None
    scope: Scope | None = field(default=None, repr=False, compare=False)
    views: tuple[View, ...] = field(default=(), repr=False, compare=False)
    parameters: Mapping[str, Any] = field(default_factory=dict, compare=False)
    plain: bool = field(default=False, repr=False, compare=False)
    epilogue: Scope | None = field(default=None, repr=False, compare=False)

    @property
    def is_eop(self) -> bool:
        """Return whether it is an eOperator, be it one with a name: generated code runs it as fast
        as memory allows.

        >>> transpose = Kernel("transpose", {}, ("A",), "O", plain=True)
        >>> transpose.is_eop, Kernel("matmul", {}, ("A", "B"), "O").is_eop
        (True, False)
        """
        return self.op == EOP or self.plain

    def __str__(self) -> str:
        text = f"{self.output} = {self.op}({', '.join(self.inputs)})"
        settings = {**self.sizes, **self.parameters}
        if settings:
            text += f"  [{', '.join(f'{name}={value}' for name, value in settings.items())}]"
        if self.epilogue is not None:
            text += f", then {self.epilogue}"
        return text

    def as_record(self) -> dict[str, Any]:
        """Return the kernel as JSON values."""
        record: dict[str, Any] = {
            "op": self.op,
            "sizes": dict(self.sizes),
            "inputs": list(self.inputs),
            "output": self.output,
        }
        if self.parameters:
            parameters = {name: _json_value(value) for name, value in self.parameters.items()}
            record["parameters"] = parameters
        return record


def _json_value(value: Any) -> Any:
    """Return a parameter as a JSON value: a number, a text, None, or a list of them."""
    if isinstance(value, (tuple, list)):
        return [_json_value(entry) for entry in value]
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    if not math.isfinite(number):
        return str(value)
    if number.is_integer():
        return int(number)
    return number
