"""One step of a compiled program: a statement with the operator that runs it (design §12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from einalg.affine import Index
from einalg.scope import Scope

EOP = "eop"


@dataclass(frozen=True)
class Kernel:
    """A statement `output = scope` and the operator `op` that computes it: a template's name, or `"eop"` for generated code.

    `sizes` are the operator's parameters by name (elements), `inputs` the tensors that are read, in the operator's order,
    `groups` the indices of `scope` that play each of the operator's roles, e.g. `{"b": (), "m": (h, w), "n": (f,), "k": (c,)}`.
    """

    op: str
    sizes: Mapping[str, int]
    inputs: tuple[str, ...]
    output: str
    source: str | None = None
    scope: Scope | None = field(default=None, repr=False, compare=False)
    groups: Mapping[str, tuple[Index, ...]] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        return f"{self.output} = {self.op}({', '.join(self.inputs)})" + (f"  [{sizes}]" if sizes else "")

    def as_record(self) -> dict[str, Any]:
        """The kernel as JSON values."""
        return {"op": self.op, "sizes": dict(self.sizes), "inputs": list(self.inputs), "output": self.output}
