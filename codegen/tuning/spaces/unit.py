"""Units of code generation: a statement with its operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codegen.ir.types import computed_in
from codegen.lowering.schedule import DEFAULT, Schedule
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.scope import Scope

PRODUCT_TYPES = ("f32", "f64", "i32", "i64")  # in which products are summed


@dataclass(frozen=True, eq=False)
class CodeUnit:
    """A statement with its operator, which one kernel computes.

    `constants` are the inputs whose values are known before a run, `statements` those of the
    program that it reads, which may have no value at some points, and `schedule` the numbers with
    which its loops are written where nothing better is known.
    """

    kernel: Kernel
    scope: Scope
    constants: frozenset[str] = frozenset()
    statements: Mapping[str, Scope] = field(default_factory=dict)
    schedule: Schedule = DEFAULT

    @property
    def name(self) -> str:
        return self.kernel.output

    @property
    def dtype(self) -> str:
        """Return the type in which it is computed."""
        return computed_in(self.scope)

    @property
    def is_operator(self) -> bool:
        """Whether code with a shape of its own may compute it."""
        is_number = self.dtype in PRODUCT_TYPES and self.scope.dtype != "bool"
        return self.kernel.op != EOP and is_number
