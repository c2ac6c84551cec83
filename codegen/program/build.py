"""The code of statements: generated, compiled and loaded once, whatever programs they are in.

Values in a row, each made by one function (design §10): a `BuildProblem`; the `FusionDecision` of
`decide_fusion`, which says what becomes one kernel; the `KernelSelection` of `select_kernels`,
which says what runs each kernel; and the `BuiltProgram` of these. What was generated is found again
by what it depends on, so that a program whose kernels are known starts without code generation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from codegen.ir.nodes import Function
from codegen.libraries import library_kernels
from codegen.program.build_problem import BuildProblem, KernelSource
from codegen.program.deduplicate import KernelSignature
from codegen.program.epilogue_fusion import Fused, FusedProgram, fused_program
from codegen.program.generated_code import (
    EINALG,
    NOT_FUSED,
    GeneratedCode,
    Implementation,
    KernelCall,
    KernelRecord,
    read_record,
    store_record,
    warn_of_damage,
)
from codegen.runtime.protocol import KernelFunction
from codegen.targets.c.object_store import BackgroundCompiler, loaded
from codegen.targets.c.source_file import c_source, own_sources
from codegen.tuning.kernel_choice import (
    ReaderCode,
    alternatives,
    by_library,
    has_budget,
    library_for,
)
from einalg.errors import CodegenError, EinalgError
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.runtime.processors import core_count

MIN_BATCH_CHARACTERS = 16_000  # of C that take a compiler longer than to start
MAX_BATCH_CHARACTERS = 64_000  # of C that are not worth waiting for a compiler that is free
_reviewed: set[str] = set()  # keys of inconclusive records that this process has looked into


@dataclass(frozen=True)
class FusionVerdict:
    """Whether an operator and its reader become one kernel; `function` where it was generated.

    Where a `library` was found to be faster with the reader after it, it runs the operator.
    """

    is_fused: bool
    is_conclusive: bool = True
    function: Function | None = None
    library: str | None = None


@dataclass(frozen=True, eq=False)
class FusionDecision:
    """The statements that become one kernel, and by key the verdict on each pair looked at."""

    problem: BuildProblem
    fused_program: FusedProgram
    verdicts: Mapping[str, FusionVerdict]

    @cached_property
    def libraries(self) -> dict[str, FusionVerdict]:
        """The verdicts that chose a library for an operator, by the operator's output."""
        chosen: dict[str, FusionVerdict] = {}
        for pairs in self.problem.fusible.values():
            for pair in pairs:
                verdict = self.verdicts.get(self.problem.key(pair.signature))
                if verdict is not None and verdict.library is not None:
                    chosen[pair.product.output] = verdict
        return chosen

    @property
    def kernels(self) -> Sequence[Kernel]:
        return self.fused_program.kernels

    @cached_property
    def signatures(self) -> list[KernelSignature]:
        """The signatures of the kernels: all that the code of each depends on."""
        fused = self.fused_program.fused
        signatures: list[KernelSignature] = []
        for kernel in self.kernels:
            if kernel.output in fused:
                signatures.append(fused[kernel.output].signature)
            else:
                signatures.append(self.problem.signatures[kernel.output])
        return signatures

    @cached_property
    def keys(self) -> list[str]:
        """The keys under which records of kernels are stored; equal for those that share code."""
        return list(map(self.problem.key, self.signatures))

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of the first kernel with each key."""
        positions: dict[str, int] = {}
        for position, key in enumerate(self.keys):
            positions.setdefault(key, position)
        return positions

    @property
    def is_conclusive(self) -> bool:
        """Whether another run would decide the same; what is generated now is judged later."""
        cached = [verdict for verdict in self.verdicts.values() if verdict.function is None]
        return all(verdict.is_conclusive for verdict in cached)

    def source(self, position: int) -> KernelSource:
        """Return code for a kernel: that of its operator where there is some, else a loop nest."""
        kernel = self.kernels[position]
        if kernel.epilogue is None:
            return self.problem.source(kernel)
        verdict = self.verdicts[self.keys[position]]
        function = verdict.function
        if function is None:
            function = self.problem.fused_function(self.fused_program.fused[kernel.output])
        assert function is not None  # as it was when this kernel was fused
        return KernelSource(EINALG, function)

    def compile(self, sources: Mapping[str, KernelSource]) -> dict[str, GeneratedCode]:
        """Compile the code of kernels, by their keys."""
        codes: dict[str, GeneratedCode] = {}
        for key, compiled in self.problem.compile(sources).items():
            source = sources[key]
            tensors = self.signatures[self.positions[key]].tensors
            codes[key] = GeneratedCode(
                source.library, source.function, tensors, compiled.text, compiled.place
            )
        return codes


@dataclass(frozen=True)
class KernelSelection:
    """The implementations of the kernels, by key, and whether another run would choose the same."""

    implementations: Mapping[str, Implementation]
    is_conclusive: bool


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
        if not (self.decision.is_conclusive and self.selection.is_conclusive):
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
        step: dict[str, Any] = {"output": output, "product": None, "library": None}
        if fused is not None:
            step["product"] = fused.product.output
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
    verdicts: dict[str, FusionVerdict] = {}

    def has_code(pair: Fused) -> bool:
        key = problem.key(pair.signature)
        if key not in verdicts:
            function = problem.fused_function(pair)
            verdicts[key] = FusionVerdict(function is not None, function=function)
        return verdicts[key].is_fused

    program = fused_program(problem.program, problem.kernels, problem.fusible, has_code)
    decision = FusionDecision(problem, program, verdicts)
    sources: dict[str, KernelSource] = {}
    for key, position in decision.positions.items():
        sources[key] = decision.source(position)
    return BuiltProgram(decision, KernelSelection(decision.compile(sources), True))


def compile_together(
    problems: Sequence[BuildProblem], background: BackgroundCompiler | None = None
) -> None:
    """Compile what no record is of, for programs that are built with the same compiler later.

    Compilers run while code is still generated. With a `background` all of it is one file, which
    only begins. What fails is reported to whoever builds it.
    """
    if not problems:
        return
    sources = _uncached_sources(problems)
    if background is not None:
        problems[0].begin(dict(sources), background)
        return
    _compile_while_generating(problems[0], sources)


def _compile_while_generating(
    problem: BuildProblem, sources: Iterator[tuple[str, KernelSource]]
) -> None:
    """Compile code beside its generation, on all cores; what fails is compiled again later."""
    compiler = BackgroundCompiler(core_count())
    try:
        for batch in _batches(sources, compiler):
            problem.begin(batch, compiler)
        compiler.finish()
    finally:
        compiler.stop()


def _batches(
    sources: Iterator[tuple[str, KernelSource]], compiler: BackgroundCompiler
) -> Iterator[dict[str, KernelSource]]:
    """Yield code in batches that are worth a compiler's start; they grow while none may start."""
    batch: dict[str, KernelSource] = {}
    characters = 0
    for name, source in sources:
        batch[name] = source
        (text,) = own_sources([source.function])
        characters += len(text)
        is_large = characters >= MAX_BATCH_CHARACTERS
        if is_large or (characters >= MIN_BATCH_CHARACTERS and compiler.is_free):
            yield batch
            batch, characters = {}, 0
    if batch:
        yield batch


def _uncached_sources(problems: Sequence[BuildProblem]) -> Iterator[tuple[str, KernelSource]]:
    """Yield the code of the kernels that no record is of, under names of their own."""
    for number, problem in enumerate(problems):
        with suppress(EinalgError):
            for kernel in problem.uncached_kernels():
                yield f"{number}.{kernel.output}", problem.source(kernel)


def decide_fusion(problem: BuildProblem) -> FusionDecision:
    """Decide which operators and readers become one kernel.

    A comparison with libraries needs the machine for itself, so what is generated is compiled
    before, beside the generation of more.
    """
    functions: dict[str, Function | None] = {}  # of operators with their readers, by key
    _compile_while_generating(problem, _expected_sources(problem, functions))
    verdicts: dict[str, FusionVerdict] = {}

    def is_better(pair: Fused) -> bool:
        key = problem.key(pair.signature)
        if key not in verdicts:
            verdicts[key] = _fusion_verdict(problem, pair, key, functions)
        return verdicts[key].is_fused

    program = fused_program(problem.program, problem.kernels, problem.fusible, is_better)
    return FusionDecision(problem, program, verdicts)


def _expected_sources(
    problem: BuildProblem, functions: dict[str, Function | None]
) -> Iterator[tuple[str, KernelSource]]:
    """Yield the code that a program without records needs, or is compared with libraries by.

    The functions of operators with their readers are added to `functions`.
    """
    fused: set[str] = set()  # the operators and the readers of one kernel
    for name, pairs in problem.fusible.items():
        for pair in pairs:
            key = problem.key(pair.signature)
            record = read_record(key)
            if record is None and key not in functions:
                function = functions[key] = problem.fused_function(pair)
                if function is not None:
                    yield key, KernelSource(EINALG, function)
                    if _needs_comparison(problem, pair.product):
                        yield f"reader {name}", problem.source(problem.by_output[name])
            is_fused = functions.get(key) is not None
            if record is not None:
                is_fused = record.row != NOT_FUSED
            if is_fused:
                fused |= {name, pair.product.output}
                break
    seen: set[str] = set()
    for kernel in problem.kernels:
        key = problem.key(problem.signatures[kernel.output])
        if kernel.output not in fused and key not in seen and read_record(key) is None:
            seen.add(key)
            yield f"alone {kernel.output}", problem.source(kernel)


def select_kernels(decision: FusionDecision) -> KernelSelection:
    """Select what runs each kernel, and store it: libraries where these are faster.

    All that is generated is compiled together.
    """
    implementations: dict[str, Implementation] = {}
    sources: dict[str, KernelSource] = {}
    is_conclusive: dict[str, bool] = {}
    for key, position in decision.positions.items():
        record = _usable_record(key)
        implementation = record and _cached_implementation(decision, record, position)
        if record and implementation:
            implementations[key], is_conclusive[key] = implementation, record.is_conclusive
    unknown = [key for key in decision.positions if key not in implementations]
    for key in unknown:
        verdict = decision.libraries.get(decision.kernels[decision.positions[key]].output)
        if verdict is not None and verdict.library is not None:
            implementations[key], is_conclusive[key] = verdict.library, verdict.is_conclusive
        else:
            sources[key] = decision.source(decision.positions[key])
    for key in list(sources):
        library, is_conclusive[key] = _faster_library(decision, key, sources[key].function)
        if library is not None:
            implementations[key] = library
            del sources[key]
    implementations.update(decision.compile(sources))
    for key in unknown:
        row = _implementation_record(implementations[key])
        _store_reviewed(key, KernelRecord(row, is_conclusive[key]))
    return KernelSelection(implementations, all(is_conclusive.values()))


def _fusion_verdict(
    problem: BuildProblem, pair: Fused, key: str, functions: dict[str, Function | None]
) -> FusionVerdict:
    """Say whether an operator and its reader are one kernel.

    They are where no library is faster, with the reader after it.
    """
    record = _usable_record(key)
    if record is not None:
        return FusionVerdict(record.row != NOT_FUSED, record.is_conclusive)
    if key not in functions:
        functions[key] = problem.fused_function(pair)
    function, library, is_conclusive = functions[key], None, True
    if function is not None and _needs_comparison(problem, pair.product):
        library, is_conclusive = _compare_with_reader(problem, pair, function)
        if library is not None:
            function = None
    if function is None:
        _store_reviewed(key, KernelRecord(NOT_FUSED, is_conclusive))
    return FusionVerdict(function is not None, is_conclusive, function, library)


def _needs_comparison(problem: BuildProblem, product: Kernel) -> bool:
    """Say whether a library may be faster than an operator and its reader as one kernel.

    None is where another program has learned that generated code is faster for the operator alone.
    """
    libraries = alternatives(product, problem.scopes[product.output])
    if not libraries:
        return False
    record = _record_alone(problem, product)
    return record is None or _if_among(record.row.get("library", ""), libraries) is not None


def _compare_with_reader(
    problem: BuildProblem, pair: Fused, function: Function
) -> tuple[str | None, bool]:
    """Return the library that is faster with a reader after it than both as one function.

    None where no library is; and whether that is beyond doubt.
    """
    product, name = pair.product, pair.kernel.output
    reader = ReaderCode(name, pair.scope, problem.source(problem.by_output[name]).function)
    return library_for(
        product,
        problem.scopes[product.output],
        function,
        problem.constants,
        problem.compiler_for(function),
        problem.timeout,
        reader,
    )


def _record_alone(problem: BuildProblem, product: Kernel) -> KernelRecord | None:
    """Return the record of an operator that is not fused."""
    return _usable_record(problem.key(problem.signatures[product.output]))


def _faster_library(
    decision: FusionDecision, key: str, function: Function
) -> tuple[str | None, bool]:
    """Return the library that is faster than a kernel's function, and whether that is conclusive.

    A fused kernel was compared when it was fused.
    """
    kernel = decision.kernels[decision.positions[key]]
    if kernel.epilogue is not None:
        return None, decision.verdicts[key].is_conclusive
    return _compare_libraries(decision.problem, kernel, function)


def _compare_libraries(
    problem: BuildProblem, kernel: Kernel, function: Function
) -> tuple[str | None, bool]:
    return library_for(
        kernel,
        problem.scopes[kernel.output],
        function,
        problem.constants,
        problem.compiler_for(function),
        problem.timeout,
    )


def _cached_implementation(
    decision: FusionDecision, record: KernelRecord, position: int
) -> Implementation | None:
    """Return what a record names; None where that is not there, or what it needs."""
    row = record.row
    if not row:
        return None
    if "library" in row:
        name = str(row["library"])
        scope = decision.signatures[position].scope
        return _if_among(name, library_kernels(decision.kernels[position], scope))
    try:
        code = GeneratedCode.from_record(row)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        warn_of_damage(error)
        return None
    problem = decision.problem
    if not loaded(problem.compiler, code.place, problem.timeout):
        return None
    return code


def _if_among(name: str, names: Collection[str]) -> str | None:
    if name in names:
        return name
    return None


def _implementation_record(implementation: Implementation) -> Mapping[str, Any]:
    if isinstance(implementation, GeneratedCode):
        return implementation.record()
    return {"library": implementation}


def _usable_record(key: str) -> KernelRecord | None:
    """Return a record; None for one in doubt while there is time to look into it once more."""
    record = read_record(key)
    if record is None or record.is_conclusive:
        return record
    if key in _reviewed or not has_budget():
        return record
    return None


def _store_reviewed(key: str, record: KernelRecord) -> None:
    _reviewed.add(key)
    store_record(key, record)
