"""Units of code generation: a statement with its operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from codegen.ir.types import computed_in
from codegen.lowering.schedule import DEFAULT, Schedule
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.language.ir.traversal import reductions

Reader = tuple[str, Scope]  # a statement that reads a unit's results: its name and scope
PRODUCT_TYPES = ("f32", "f64", "i32", "i64")  # in which products are summed


@dataclass(frozen=True, eq=False)
class CodeUnit:
    """A statement with its operator, which one kernel computes.

    `constants` are the inputs whose values are known before a run, `statements` those of the
    program that it reads, which may have no value at some points, and `schedule` the numbers with
    which its loops are written where nothing better is known. Where there are `readers`, each reads
    the results of the one before it, and the kernel stores those of the last one. With
    `leaves_gaps`, nothing reads the points at which these have no value. `digest` says what records
    know the unit by; without one there are none.
    """

    kernel: Kernel
    scope: Scope
    constants: frozenset[str] = frozenset()
    statements: Mapping[str, Scope] = field(default_factory=dict)
    schedule: Schedule = DEFAULT
    readers: tuple[Reader, ...] = ()
    digest: str = ""
    leaves_gaps: bool = False

    @property
    def name(self) -> str:
        """Return the name of the statement."""
        return self.kernel.output

    @property
    def program(self) -> Program:
        """Return the unit as a program of its own, whose inputs are what it reads of others."""
        statements = [(self.name, self.scope), *self.readers]
        known = {name for name, _ in statements}
        inputs: dict[str, Tensor] = {}
        for _, scope in statements:
            for name, tensor in scope.tensors.items():
                if name not in known and tensor.role == "intermediate":
                    inputs[name] = Tensor(name, tensor.axes, tensor.dtype)
        own = [(name, substitute_tensors(scope, inputs)) for name, scope in statements]
        return Program(own, (own[-1][0],))

    @property
    def points(self) -> int:
        """Return how often the innermost bodies are computed."""
        total = 0
        for _, scope in self.program.statements:
            summed = [prod(it.extent for it in node.iterators) for node in reductions(scope.body)]
            total += prod(scope.shape) * max(1, sum(summed))
        return total

    @property
    def dtype(self) -> str:
        """Return the type in which it is computed."""
        return computed_in(self.scope)

    @property
    def is_operator(self) -> bool:
        """Whether code that holds a tile of results in registers may compute it."""
        return self.dtype in PRODUCT_TYPES and self.scope.dtype != "bool"


@dataclass(frozen=True)
class RepeatedUnit:
    """A unit, and how often a run computes it, as the equal layers of a network.

    It `stays_warm` where it mostly reads again what it has read just before, as the weights of a
    recurrent layer.
    """

    unit: CodeUnit
    count: int = 1
    stays_warm: bool = False
