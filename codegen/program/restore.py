"""Compiled programs as records: what runs a program is found again by what it was built of.

No statement is read or generated for that (design §10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from codegen.libraries import library_kernels
from codegen.lowering.schedule import DEFAULT
from codegen.program.building.built_program import BuiltProgram, build
from codegen.program.building.generated_code import GeneratedCode, KernelCall
from codegen.program.building.problem import BuildProblem, build_state
from codegen.program.building.row_fusion import with_row_value
from codegen.runtime.protocol import KernelFunction
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, Compiler
from codegen.tuning.kernel_choice import by_library
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.scope import LazyBody, Scope

KernelOf = Callable[[str, Scope], Kernel]


@dataclass(frozen=True)
class RestoredProgram:
    """A record of `BuiltProgram.record`, and the flat program that it was made of.

    `kernel_of` gives the kernel of a statement.
    """

    row: Mapping[str, Any]
    whole: Program
    kernel_of: KernelOf
    compiler: Compiler
    has_open_choices = False
    is_optimized = True

    @cached_property
    def rebuilt(self) -> BuiltProgram:
        """The program built of its statements, for what the record does not hold."""
        kernels = [self.kernel_of(name, scope) for name, scope in self.whole.statements]
        return build(
            BuildProblem.of(self.whole, kernels, self.compiler, DEFAULT, COMPILE_TIMEOUT_SECONDS)
        )

    @cached_property
    def program(self) -> Program:
        """The statements that are left where some are one kernel with others."""
        statements: list[tuple[str, Scope]] = []
        for step in self.row["steps"]:
            name = step["output"]
            statements.append((name, self._scope(name, step["inside"], step["rows"])))
        return Program(statements, self.whole.outputs)

    def kernels(self) -> Sequence[Kernel]:
        return self.rebuilt.kernels()

    def text(self) -> str:
        return self.rebuilt.text()

    def record(self) -> Mapping[str, Any]:
        return self.row

    def steps(self) -> list[KernelCall] | None:
        """Return the calls that run the program.

        None where the record is of another state, or something that it needs is no longer there.
        """
        if self.row["state"] != build_state(self.compiler, DEFAULT):
            return None
        codes: dict[str, GeneratedCode] = {}
        for key, row in self.row["codes"].items():
            codes[key] = GeneratedCode.from_record(row)
        steps: list[KernelCall] = []
        for row in self.row["steps"]:
            step = self._step(row, codes.get(row.get("code")))
            if step is None:
                return None
            steps.append(step)
        return steps

    def _step(self, row: Mapping[str, Any], code: GeneratedCode | None) -> KernelCall | None:
        """Return the call of one kernel; None where what it needs is no longer there."""
        name = row["output"]
        if code is None:
            library = row["library"]
            run = self._library_call(name, library)
        else:
            library = code.library
            run = code.kernel(
                self.compiler, row["tensors"], row["offsets"], COMPILE_TIMEOUT_SECONDS
            )
        if run is None:
            return None
        return KernelCall(name, library, run)

    def _library_call(self, name: str, library: str) -> KernelFunction | None:
        scope = self.whole[name]
        kernel = self.kernel_of(name, scope)
        if library not in library_kernels(kernel, scope):
            return None
        return by_library(kernel, scope, library, lambda: self.rebuilt.generated_kernel(name))

    def _scope(self, name: str, inside: Sequence[str], rows: Sequence[str]) -> Scope:
        """Return a statement, with those in it that are one kernel with it."""
        scope = self.whole[name]
        for part in rows:
            scope = with_row_value(scope, part, self.whole[part])
        for part in reversed(inside):  # the last one reads the others
            scope = _with_inner(scope, part, self.whole[part])
        return scope


def _with_inner(scope: Scope, name: str, inner: Scope) -> Scope:
    """Return a statement that computes another one by itself, whose body is made when asked for."""
    tensors = {**inner.tensors, **scope.tensors}
    del tensors[name]
    body = LazyBody(lambda: substitute_tensors(scope, {name: inner}).body, scope.dtype, tensors)
    return Scope.with_lazy_body(scope.iterators, scope.where, body)
