"""An expression as the reference of a function: its values, and how far a computation in its
element type may be from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import sympy

from derive.proof.random.rounding import MARGIN, UNIT_ROUNDOFF, rounding
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import bounds, is_float
from einalg.language.ir.program import Program, in_double, inlined, substitute_tensors
from einalg.language.ir.scope import all_scopes
from einalg.language.ir.tensor import Tensor
from einalg.language.ir.traversal import reductions

Array = np.ndarray[Any, Any]
ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
TINY = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-24, "bf16": 2.0**-126}
ROUNDINGS = 16  # of functions and operations beside sums
ROUNDINGS_A_TERM = 4  # of a sum, in whatever order it is computed
GROWING = (sympy.exp, sympy.sinh, sympy.cosh, sympy.gamma, sympy.Pow)


@dataclass(frozen=True)
class Problem:
    """An expression, and the names of its inputs in the order in which a function takes them."""

    program: Program
    order: tuple[str, ...]

    @cached_property
    def tensors(self) -> list[Tensor]:
        """The inputs in order."""
        return [self.program.inputs[name] for name in self.order]

    @property
    def dtypes(self) -> list[str]:
        """The element types of the inputs in order."""
        return [tensor.dtype for tensor in self.tensors]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs in order."""
        return self.program.outputs

    def dtype(self, output: str) -> str:
        """Return the element type of an output."""
        return self.program[output].dtype

    @cached_property
    def _in_double(self) -> Program:
        return in_double(self.program)

    def expected(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """Return the outputs by name: integers exactly, floats in double precision."""
        return execute(self._in_double, self._named(arrays))

    def _named(self, arrays: Sequence[Array]) -> dict[str, Array]:
        named: dict[str, Array] = {}
        for name, array in zip(self.order, arrays):
            named[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
        return named

    @cached_property
    def terms(self) -> int:
        """The number of terms of all reductions on the way to an element."""
        total = 0
        for _, statement in self.program.statements:
            for scope in all_scopes(statement):
                for node in reductions(scope.body):
                    total += prod(it.extent for it in node.iterators)
        return total

    def relative_tolerance(self, output: str) -> float:
        """Return how far rounding moves an output, relative to what it is computed of.

        A library computes with inputs of one type in that type before it meets a wider one, so that
        the narrowest float decides.

        >>> import einalg as ea
        >>> Problem(ea.Program([("O", ea.parse("O[()] += A[i]", A=(8,)))]), ("A",)).terms
        8
        """
        roundings = ROUNDINGS + ROUNDINGS_A_TERM * self.terms
        dtypes = {self.dtype(output), *filter(is_float, self.dtypes)}
        return roundings * max(ROUNDOFF[dtype] for dtype in dtypes)

    def scale(self, output: str, arrays: Sequence[Array]) -> Array:
        """Return how far every element moves with what it is computed of, relative to that.

        It is the largest of the output, for algorithms such as a Fourier transform mix its
        elements; infinite where an element has no value nearby.
        """
        scope = inlined(self._in_double, output)
        with np.errstate(all="ignore"):
            moves = rounding(scope, self._named(arrays)) / (MARGIN * UNIT_ROUNDOFF)
        finite = np.isfinite(moves)
        largest = float(moves[finite].max(initial=0.0))
        return np.where(finite, largest, np.inf)

    def floor(self, output: str) -> float:
        """Return what is left where a number is too small for the element type."""
        return TINY[self.dtype(output)] * (ROUNDINGS + self.terms)

    @cached_property
    def may_overflow(self) -> bool:
        """Whether numbers on the way to a finite value may be too large for double precision."""
        for _, statement in self.program.statements:
            for scope in all_scopes(statement):
                if any(isinstance(node, GROWING) for node in _functions(scope.body)):
                    return True
        return False

    def is_representable(self, output: str, values: Array) -> Array:
        """Tell which exact integers count: those of 32 and 64 bits wrap round in every library,
        but what a short type cannot hold is a mistake.
        """
        if is_float(self.dtype(output)) or values.dtype.kind not in "iu":
            return np.ones(values.shape, bool)
        low, high = bounds(self.dtype(output))
        if high < 2**16:
            return np.ones(values.shape, bool)
        return (values >= low) & (values <= high)


def _functions(body: Any) -> Any:
    """Yield the nodes of a body that are functions, also inside reductions."""
    yield body
    for node in getattr(body, "args", ()):
        yield from _functions(node)
    inner = getattr(body, "body", None)
    if inner is not None and inner not in getattr(body, "args", ()):
        yield from _functions(inner)


def named_like(program: Program, names: Mapping[str, str]) -> Program:
    """Return a program with other names of inputs."""
    tensors = {}
    for name, tensor in program.inputs.items():
        tensors[name] = Tensor(names[name], tensor.axes, tensor.dtype, tensor.role)
    statements = [(name, substitute_tensors(scope, tensors)) for name, scope in program.statements]
    return Program(statements, program.outputs)
