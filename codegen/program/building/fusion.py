"""Which operators and their readers become one kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from codegen.ir.nodes import Function
from codegen.program.building.compilation import compile_while_generating
from codegen.program.building.deduplicate import KernelSignature
from codegen.program.building.epilogue_fusion import (
    Fused,
    FusedProgram,
    chosen_pairs,
    fused_program,
)
from codegen.program.building.generated_code import (
    EINALG,
    NOT_FUSED,
    GeneratedCode,
    KernelRecord,
    read_record,
)
from codegen.program.building.problem import BuildProblem, KernelSource
from codegen.program.building.reviewed_records import store_reviewed, usable_record
from codegen.tuning.kernel_choice import (
    NO_LIBRARY,
    OPEN,
    LibraryChoice,
    ReaderCode,
    alternatives,
    library_for,
)
from einalg.language.ir.kernel import Kernel


@dataclass(frozen=True)
class FusionVerdict:
    """Whether an operator and its reader become one kernel; `function` where it was generated.

    Where the `choice` is a library, it was found to be faster with the reader after it, and runs
    the operator.
    """

    is_fused: bool
    choice: LibraryChoice = NO_LIBRARY
    function: Function | None = None


@dataclass(frozen=True, eq=False)
class FusionDecision:
    """The statements that become one kernel, and by key the verdict on each pair looked at."""

    problem: BuildProblem
    fused_program: FusedProgram
    verdicts: Mapping[str, FusionVerdict]

    @cached_property
    def libraries(self) -> dict[str, LibraryChoice]:
        """The libraries that were chosen for operators, by the output of each."""
        chosen: dict[str, LibraryChoice] = {}
        for pairs in self.problem.fusible.values():
            for pair in pairs:
                verdict = self.verdicts.get(self.problem.key(pair.signature))
                if verdict is not None and verdict.choice.library is not None:
                    chosen[pair.product.output] = verdict.choice
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
        return all(verdict.choice.is_conclusive for verdict in cached)

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


def decide_fusion(problem: BuildProblem) -> FusionDecision:
    """Decide which operators and readers become one kernel.

    A comparison with libraries needs the machine for itself, so what is generated is compiled
    before, beside the generation of more.
    """
    functions: dict[str, Function | None] = {}  # of operators with their readers, by key
    compile_while_generating(problem, _expected_sources(problem, functions))
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
    expected: dict[str, KernelSource] = {}

    def is_expected(pair: Fused) -> bool:
        key = problem.key(pair.signature)
        record = read_record(key)
        if record is not None and _tells_fusion(record):
            return record.row != NOT_FUSED
        if key not in functions:
            function = functions[key] = problem.fused_function(pair)
            if function is not None:
                expected[key] = KernelSource(EINALG, function)
                if problem.compares and _needs_comparison(problem, pair.product):
                    for name, _ in pair.readers:
                        expected[f"reader {name}"] = problem.source(problem.by_output[name])
        return functions[key] is not None

    fused: set[str] = set()  # the statements of kernels of several
    for name, pair in chosen_pairs(problem.fusible, is_expected):
        fused |= {name, *pair.inside}
        yield from expected.items()
        expected.clear()
    seen: set[str] = set()
    for kernel in problem.kernels:
        key = problem.key(problem.signatures[kernel.output])
        if kernel.output not in fused and key not in seen and read_record(key) is None:
            seen.add(key)
            yield f"alone {kernel.output}", problem.source(kernel)


def _fusion_verdict(
    problem: BuildProblem, pair: Fused, key: str, functions: dict[str, Function | None]
) -> FusionVerdict:
    """Say whether an operator and its reader are one kernel.

    They are where no library is faster, with the reader after it.
    """
    record = usable_record(key)
    if record is not None and _tells_fusion(record):
        return FusionVerdict(record.row != NOT_FUSED, LibraryChoice(None, record.is_conclusive))
    if key not in functions:
        functions[key] = problem.fused_function(pair)
    function, choice = functions[key], NO_LIBRARY
    if function is not None and _needs_comparison(problem, pair.product):
        choice = _compare_with_reader(problem, pair, function)
        if choice.library is not None:
            function = None
    if function is None:
        store_reviewed(key, KernelRecord(NOT_FUSED, choice.is_conclusive))
    return FusionVerdict(function is not None, choice, function)


def _tells_fusion(record: KernelRecord) -> bool:
    """Whether a record says that an operator and its readers are one kernel, or are none."""
    return record.row == NOT_FUSED or "place" in record.row


def _needs_comparison(problem: BuildProblem, product: Kernel) -> bool:
    """Say whether a library may be faster than an operator and its reader as one kernel.

    None is where another program has learned that generated code is faster for the operator alone.
    """
    libraries = alternatives(product, problem.scopes[product.output])
    if not libraries:
        return False
    record = _record_alone(problem, product)
    return record is None or if_among(record.row.get("library", ""), libraries) is not None


def _compare_with_reader(problem: BuildProblem, pair: Fused, function: Function) -> LibraryChoice:
    """Return the library that is faster with a reader after it than both as one function."""
    if not problem.compares:
        return OPEN
    readers: list[ReaderCode] = []
    for name, scope in pair.readers:
        code = problem.source(problem.by_output[name]).function
        readers.append(ReaderCode(name, scope, code))
    return compare_libraries(problem, pair.product, function, readers)


def _record_alone(problem: BuildProblem, product: Kernel) -> KernelRecord | None:
    """Return the record of an operator that is not fused."""
    return usable_record(problem.key(problem.signatures[product.output]))


def compare_libraries(
    problem: BuildProblem,
    kernel: Kernel,
    function: Function,
    readers: Sequence[ReaderCode] = (),
) -> LibraryChoice:
    """Return the library that is faster than a function, if one is."""
    return library_for(
        kernel,
        problem.scopes[kernel.output],
        function,
        problem.constants,
        problem.compiler_for(function),
        problem.timeout,
        readers,
    )


def if_among(name: str, names: Collection[str]) -> str | None:
    if name in names:
        return name
    return None
