"""Expressions in the place of a function: one, or those that a function makes of shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from derive.proof import Proof, prove
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from einalg.testing.equality.problem import Problem, named_like


@dataclass(frozen=True)
class Pair:
    """An expression, by the name that a message calls it, and the one that it is compared with."""

    name: str
    program: Program
    problem: Problem

    @property
    def __name__(self) -> str:
        return self.name

    @cached_property
    def _alike(self) -> Program:
        """The expression with the names of the other's inputs, in order where they are others."""
        names, order = list(self.program.inputs), self.problem.order
        if len(names) != len(order) or set(names) == set(order):
            return self.program
        return named_like(self.program, dict(zip(names, order)))

    @cached_property
    def proof(self) -> Proof:
        """What is proved of the two."""
        return prove(self._alike, self.problem.program)

    @property
    def region_text(self) -> str:
        """The points at which the two differ, in words; empty where these are not known."""
        if self.proof.region is None:
            return ""
        extent = "" if self.proof.is_region_exact else "at least "
        return f"The two expressions differ {extent}where {self.proof.region}, for some inputs."

    def call_text(self, arguments: Sequence[str]) -> str:
        """Return the evaluation of the expression as code has it."""
        pairs = [f"{name}={name}" for name in arguments]
        return f"ea.evaluate({', '.join(['expression', *pairs])})"

    def __call__(self, *arrays: Any) -> dict[str, Any]:
        """Compute the expression from arrays in the order of the other's inputs."""
        named = dict(zip(self.problem.order, arrays))
        program = self._alike
        results = execute(program, {name: named[name] for name in program.inputs})
        return dict(zip(self.problem.outputs, results.values()))


def built(function: Callable[..., Any], problem: Problem) -> Program:
    """Return what a function makes of the shapes of the inputs; TypeError for no expression.

    >>> import einalg as ea
    >>> program = ea.Program([("O", ea.parse("O[i] = 2*A[i]", A=(4,)))])
    >>> built(lambda a: ea.parse("O[i] = A[i] + A[i]", A=a), Problem(program, ("A",)))
    O[i:4] = 2*A[i]
    """
    made = function(*[tensor.shape for tensor in problem.tensors])
    if not isinstance(made, (Scope, Program)):
        raise TypeError(f"a {type(made).__name__} is no expression")
    return as_program(made)


def builds(function: Callable[..., Any], problem: Problem) -> bool:
    """Tell whether a function makes an expression of shapes."""
    try:
        built(function, problem)
    except Exception:  # of a function of arrays
        return False
    return True
