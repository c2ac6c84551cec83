"""Programs whose kernels are built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from codegen.program.building.epilogue_fusion import Fused, fused_program
from codegen.program.building.fusion import FusionDecision, FusionVerdict, decide_fusion
from codegen.program.building.generated_code import GeneratedCode, Implementation, KernelCall
from codegen.program.building.problem import BuildProblem, KernelSource
from codegen.program.building.selection import KernelSelection, select_kernels
from codegen.runtime.protocol import KernelFunction
from codegen.targets.c.source_file import c_source
from codegen.tuning.kernel_choice import by_library
from einalg.errors import CodegenError
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program


@dataclass(frozen=True, eq=False)
class BuiltProgram:
    """A program whose kernels are built."""

    decision: FusionDecision
    selection: KernelSelection

    @property
    def program(self) -> Program:
        """The flat program, with a statement for each kernel."""
        return self.decision.fused_program.program

    @property
    def implementations(self) -> list[Implementation]:
        """The implementation of each kernel."""
        return [self.selection.implementations[key] for key in self.decision.keys]

    @property
    def has_open_choices(self) -> bool:
        """Whether kernels may be compared with libraries still."""
        return self.selection.has_open_choices

    @property
    def is_optimized(self) -> bool:
        """Whether code was optimized in full."""
        return not self.decision.problem.compiler.is_quick

    def steps(self) -> list[KernelCall]:
        """Return the call of each kernel."""
        steps: list[KernelCall] = []
        for position, implementation in enumerate(self.implementations):
            kernel = self.decision.kernels[position]
            if isinstance(implementation, GeneratedCode):
                library = implementation.library
                run = self._generated_kernel(implementation, position)
            else:
                library = implementation
                run = self._library_call(kernel, implementation, position)
            steps.append(KernelCall(kernel.output, library, run))
        return steps

    def record(self) -> dict[str, Any] | None:
        """Return the steps as JSON values, for `codegen.program.restore`.

        None where another run may choose other ones.
        """
        if not (self.is_optimized and self.decision.is_conclusive and self.selection.is_conclusive):
            return None
        codes: dict[str, Any] = {}
        steps: list[dict[str, Any]] = []
        for position, implementation in enumerate(self.implementations):
            key = self.decision.keys[position]
            if isinstance(implementation, GeneratedCode) and key not in codes:
                codes[key] = implementation.record()
            steps.append(self._step_record(position, implementation))
        return {"state": self.decision.problem.state, "codes": codes, "steps": steps}

    def kernels(self) -> list[Kernel]:
        """Return the kernels, those that are generated with their source."""
        kernels: list[Kernel] = []
        for kernel, implementation in zip(self.decision.kernels, self.implementations):
            if isinstance(implementation, GeneratedCode):
                kernel = replace(kernel, source=implementation.source)
            kernels.append(kernel)
        return kernels

    def text(self) -> str:
        """Return the C file with all that is generated, each code once."""
        positions = self.decision.positions.values()
        return c_source([self.decision.source(position).function for position in positions])

    def generated_kernel(self, name: str) -> KernelFunction:
        """Return the generated code of a statement that a library fails to run."""
        outputs = [kernel.output for kernel in self.decision.kernels]
        return self._fallback(outputs.index(name))

    def _fallback(self, position: int) -> KernelFunction:
        key = self.decision.keys[position]
        first = self.decision.positions[key]
        (code,) = self.decision.compile({key: self.decision.source(position)}).values()
        return self._generated_kernel(code, first)

    def _generated_kernel(self, code: GeneratedCode, position: int) -> KernelFunction:
        problem = self.decision.problem
        signature = self.decision.signatures[position]
        kernel = code.kernel(
            problem.compiler, signature.tensors, signature.offsets, problem.timeout
        )
        if kernel is None:
            raise CodegenError(
                "the compiled kernels vanished from the cache while they were loaded\n"
                "  try it again"
            )
        return kernel

    def _library_call(self, kernel: Kernel, library: str, position: int) -> KernelFunction:
        scope = self.decision.problem.scopes[kernel.output]
        return by_library(kernel, scope, library, lambda: self._fallback(position))

    def _step_record(self, position: int, implementation: Implementation) -> dict[str, Any]:
        output = self.decision.kernels[position].output
        fused = self.decision.fused_program.fused.get(output)
        rows = self.decision.problem.rows.get(output, ())
        step: dict[str, Any] = {"output": output, "inside": (), "rows": rows, "library": None}
        if fused is not None:
            step["inside"] = fused.inside
        if isinstance(implementation, GeneratedCode):
            signature = self.decision.signatures[position]
            step["code"] = self.decision.keys[position]
            step["tensors"] = signature.tensors
            step["offsets"] = signature.offsets
        else:
            step["library"] = implementation
        return step


def build(problem: BuildProblem) -> BuiltProgram:
    """Build the kernels of a program: those that are known, and others, compiled together now."""
    decision = decide_fusion(problem)
    return BuiltProgram(decision, select_kernels(decision))


def build_generated(problem: BuildProblem) -> BuiltProgram:
    """Build all kernels of generated code, whatever library is faster; nothing is measured."""
    decision = generated_decision(problem)
    sources: dict[str, KernelSource] = {}
    for key, position in decision.positions.items():
        sources[key] = decision.source(position)
    return BuiltProgram(decision, KernelSelection(decision.compile(sources), True))


def generated_decision(problem: BuildProblem) -> FusionDecision:
    """Return the decision that each operator is one kernel with its reader where there is code."""
    verdicts: dict[str, FusionVerdict] = {}

    def has_code(pair: Fused) -> bool:
        key = problem.key(pair.signature)
        if key not in verdicts:
            function = problem.fused_function(pair)
            verdicts[key] = FusionVerdict(function is not None, function=function)
        return verdicts[key].is_fused

    program = fused_program(problem.program, problem.kernels, problem.fusible, has_code)
    return FusionDecision(problem, program, verdicts)
