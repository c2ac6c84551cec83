"""Compiled programs as records: what runs a program is found again without its statements being read or generated (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from codegen.libraries import ways
from codegen.lowering.schedule import DEFAULT
from codegen.program.build import Code, KernelBuilder, KernelCall, state
from codegen.runtime.protocol import KernelFunction
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, Compiler
from codegen.tuning.kernel_choice import by_library
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.scope import LazyBody, Scope

KernelOf = Callable[[str, Scope], Kernel]


@dataclass
class RestoredProgram:
    """A record of `KernelBuilder.record` with the flat program of which it was made, and what gives the kernel of a statement."""

    row: Mapping[str, Any]
    whole: Program
    kernel_of: KernelOf
    compiler: Compiler

    @cached_property
    def again(self) -> KernelBuilder:
        """The same made of the statements: for what is not kept."""
        kernels = [self.kernel_of(name, scope) for name, scope in self.whole.statements]
        making = KernelBuilder(self.whole, kernels, self.compiler, DEFAULT, COMPILE_TIMEOUT_SECONDS)
        making.steps()
        return making

    @cached_property
    def program(self) -> Program:
        """The statements that are left where some are one kernel with others."""
        scopes = [
            (step["output"], self._scope(step["output"], step["product"]))
            for step in self.row["steps"]
        ]
        return Program(scopes, self.whole.outputs)

    def kernels(self) -> Sequence[Kernel]:
        return self.again.kernels()

    def text(self) -> str:
        return self.again.text()

    def record(self) -> Mapping[str, Any]:
        return self.row

    def steps(self) -> list[KernelCall] | None:
        """What runs the program; None where the record is of another state, or something that it needs is no longer there."""
        if self.row["state"] != state(self.compiler, DEFAULT):
            return None
        codes = {key: Code.from_record(code) for key, code in self.row["codes"].items()}
        found = []
        for step in self.row["steps"]:
            code = codes.get(step.get("code"))
            run = (
                self._generated(code, step)
                if code
                else self._by_library(step["output"], step["library"])
            )
            if run is None:
                return None
            found.append(KernelCall(step["output"], code.name if code else step["library"], run))
        return found

    def _generated(self, code: Code, step: Mapping[str, Any]) -> KernelFunction | None:
        return code.entry(self.compiler, step["tensors"], step["offsets"], COMPILE_TIMEOUT_SECONDS)

    def _by_library(self, name: str, way: str) -> KernelFunction | None:
        scope = self.whole[name]
        kernel = self.kernel_of(name, scope)
        return (
            by_library(kernel, scope, way, lambda: self.again.instead(name))
            if way in ways(kernel, scope)
            else None
        )

    def _scope(self, name: str, product: str | None) -> Scope:
        """A statement, with that for its operator which is one kernel with it."""
        scope = self.whole[name]
        if product is None:
            return scope
        made = self.whole[product]
        read = {**made.tensors, **scope.tensors}
        del read[product]
        body = LazyBody(
            lambda: substitute_tensors(scope, {product: made}).body, scope.dtype, read
        )
        return Scope.with_lazy_body(scope.iterators, scope.where, body)
