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
        """Whether it is an eOperator, be it one with a name: generated code runs it as fast as
        memory allows.

        >>> Kernel("transpose", {}, ("A",), "O", plain=True).is_eop, Kernel("matmul", {}, ("A", "B"), "O").is_eop
        (True, False)
        """
        return self.op == EOP or self.plain

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in {**self.sizes, **self.parameters}.items())
        then = f", then {self.epilogue}" if self.epilogue is not None else ""
        return (
            f"{self.output} = {self.op}({', '.join(self.inputs)})"
            + (f"  [{sizes}]" if sizes else "")
            + then
        )

    def as_record(self) -> dict[str, Any]:
        """The kernel as JSON values."""
        record = {
            "op": self.op,
            "sizes": dict(self.sizes),
            "inputs": list(self.inputs),
            "output": self.output,
        }
        return (
            {**record, "parameters": {k: _plain(v) for k, v in self.parameters.items()}}
            if self.parameters
            else record
        )


def _plain(value: Any) -> Any:
    """A parameter as a JSON value."""
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    if value is not None and not isinstance(value, str) and math.isfinite(number := float(value)):
        return int(number) if number.is_integer() else number
    return None if value is None else str(value)
