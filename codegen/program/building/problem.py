"""A flat program whose kernels are to be built, and the functions that are generated for these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from codegen.ir.nodes import Function
from codegen.kernels.contraction.problem import OPERATORS as CONTRACTIONS
from codegen.lowering.schedule import Schedule
from codegen.program.building.deduplicate import KernelSignature, kernel_signature
from codegen.program.building.epilogue_fusion import Fused, fusible_pairs
from codegen.program.building.generated_code import (
    EINALG,
    KERNEL_RECORDS,
    KernelRecord,
    read_record,
    store_record,
)
from codegen.program.building.generated_kernels import best_candidate
from codegen.program.building.row_fusion import (
    RowGroup,
    has_loops_alone,
    row_groups,
    with_row_groups,
)
from codegen.runtime.protocol import GENERATED
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.object_store import BackgroundCompiler, Place, compiler_for, placed
from codegen.targets.c.source_file import own_sources
from codegen.tuning.fingerprint import host_fingerprint
from codegen.tuning.records.winners import TUNINGS
from codegen.tuning.spaces.space import CodeCandidate
from codegen.tuning.spaces.unit import CodeUnit, Reader
from codegen.tuning.spaces.unit_spaces import OPERATOR_SPACES
from einalg.language.analysis.compile_time import compile_time_constants
from einalg.language.analysis.padded_reads import fills_gaps
from einalg.language.analysis.ranges.read_places import unread_gaps, with_read_places
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import reductions
from einalg.runtime.clock import check_time
from einalg.runtime.processors import core_count
from einalg.storage.fingerprint import KERNEL_CODE, text_digest

GENERATING_SECONDS = 0.1  # of an operator with its reader
COMPILING_SECONDS = 0.25  # of the same, all optimizations included


@dataclass(frozen=True)
class KernelSource:
    """A generated function, and whose code it is: that of an operator, or a plain loop nest."""

    library: str
    function: Function


@dataclass(frozen=True)
class CompiledSource:
    """The C file of a function, and where its machine code lies: `("9f…", 3)`."""

    text: str
    place: Place


def build_state(compiler: Compiler, schedule: Schedule) -> str:
    """Return a digest of all that generated code depends on besides its statement."""
    fingerprint = host_fingerprint(KERNEL_CODE, compiler)
    return fingerprint.key(TUNINGS.entries_digest(), repr(schedule))


def with_filled_gaps(program: Program, kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels, with an eOperator for each one whose gaps no library fills.

    A gap is a point at which a statement that it reads has no value; see `fills_gaps`.
    """
    scopes = dict(program.statements)
    usable: list[Kernel] = []
    for kernel in kernels:
        if fills_gaps(scopes[kernel.output], scopes):
            kernel = Kernel(EOP, kernel.sizes, kernel.inputs, kernel.output, scope=kernel.scope)
        usable.append(kernel)
    return usable


@dataclass(frozen=True, eq=False)
class BuildProblem:
    """A flat program with one kernel for each statement, and what these are compiled with.

    Unless it `compares` them, code with the shape of an operator is not timed beside libraries.
    `candidates` are those that somebody has chosen for units, by the digest of each. `rows` has the
    statements that are parts of others, in the order in which they became that. Of `unread_gaps`,
    nothing reads the points without a value.
    """

    program: Program
    kernels: tuple[Kernel, ...]
    compiler: Compiler
    schedule: Schedule
    timeout: float
    compares: bool = True
    candidates: Mapping[str, CodeCandidate] = field(default_factory=dict)
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread_gaps: frozenset[str] = frozenset()
    _sources: dict[str, KernelSource] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        program: Program,
        kernels: Sequence[Kernel],
        compiler: Compiler,
        schedule: Schedule,
        timeout: float,
        compares: bool = True,
    ) -> BuildProblem:
        """Return the problem, with an eOperator for each kernel whose gaps no library fills.

        Statements that compute a value of each row are parts of what reads them where that pays,
        and what nothing reads is not computed.
        """
        usable = with_filled_gaps(program, kernels)
        problem = cls(program, tuple(usable), compiler, schedule, timeout, compares)
        return problem._with_rows()._with_read_places()

    def quick(self) -> BuildProblem:
        """Return the problem with code that is optimized less, and so compiled sooner."""
        return replace(self, compiler=self.compiler.quick())

    def expected_seconds(self) -> float:
        """Return about how long building the operators of which there is no record takes."""
        operators = {k.output for k in self.uncached_kernels() if not k.is_eop}
        each = max(GENERATING_SECONDS, (GENERATING_SECONDS + COMPILING_SECONDS) / core_count())
        return len(operators) * each

    def _with_read_places(self) -> BuildProblem:
        """Return the problem with products, and what is element-wise, computed where it is read.

        What may be inside of the kernel of another statement is computed as that needs it.
        """
        inside = {*self.rows, *chain(*self.rows.values())}
        for pairs in self.fusible.values():
            inside.update(*(pair.inside for pair in pairs))
        names: set[str] = set()
        for kernel in self.kernels:
            is_elementwise = kernel.is_eop and not any(reductions(self.scopes[kernel.output].body))
            if is_elementwise or kernel.op in CONTRACTIONS:
                names.add(kernel.output)
        program = with_read_places(self.program, names - inside)
        gaps = unread_gaps(program)
        if not gaps:
            return self
        return replace(self, program=program, unread_gaps=gaps)

    def _with_rows(self) -> BuildProblem:
        """Return the problem with the statements as parts of others that are faster so."""
        fixed = set(self.constants)
        for name, pairs in self.fusible.items():
            if not all(pair.inside[1:] or has_loops_alone(pair.product) for pair in pairs):
                fixed.add(name)
        groups: list[RowGroup] = []
        parts: set[str] = set()
        for choices in row_groups(self.program, self.kernels, fixed, self.schedule):
            if choices[0].kernel.output in parts:
                continue
            group = choices[self._fewest_cycles(choices)]
            if group.parts:
                groups.append(group)
                parts.update(group.parts)
        if not groups:
            return self
        program = with_row_groups(self.program, groups)
        known = {**self.by_output, **{group.kernel.output: group.kernel for group in groups}}
        kernels = tuple(known[name] for name, _ in program.statements)
        rows = {group.kernel.output: group.parts for group in groups}
        return replace(self, program=program, kernels=kernels, rows=rows)

    def _fewest_cycles(self, choices: Sequence[RowGroup]) -> int:
        """Return the number of the choice that costs least, with what is no part of it then."""
        whole = choices[-1]
        scopes = {**self.scopes, whole.kernel.output: whole.scope}
        signature = kernel_signature(whole.kernel, scopes, self.constants, self.unread_gaps)
        key = text_digest("rows", self.key(signature), repr(whole.parts))
        record = read_record(key)
        if record is None:
            record = KernelRecord({"parts": self._cheapest(choices)})
            store_record(key, record)
        return int(record.row["parts"])

    def _cheapest(self, choices: Sequence[RowGroup]) -> int:
        """Return the number of the choice that costs least by the model."""
        alone = [self._cycles(self.by_output[name], self.scopes) for name in choices[-1].parts]
        totals: list[float] = []
        for number, group in enumerate(choices):
            scopes = {**self.scopes, group.kernel.output: group.scope}
            totals.append(self._cycles(group.kernel, scopes) + sum(alone[number:]))
        return totals.index(min(totals))

    def _cycles(self, kernel: Kernel, scopes: Mapping[str, Scope]) -> float:
        """Return what the model expects of a run of a kernel of a program with these statements."""
        check_time()
        signature = kernel_signature(kernel, scopes, self.constants, self.unread_gaps)
        unit = self._unit(kernel, signature.scope, signature)
        candidate = best_candidate(unit, self.compiler)
        assert candidate is not None  # any statement has loops
        return candidate.cycles

    @cached_property
    def scopes(self) -> dict[str, Scope]:
        """The statements by their names."""
        return dict(self.program.statements)

    @cached_property
    def by_output(self) -> dict[str, Kernel]:
        """The kernels by the statements that they compute."""
        return {kernel.output: kernel for kernel in self.kernels}

    @cached_property
    def constants(self) -> frozenset[str]:
        """The tensors and statements whose values are known before a run."""
        return frozenset(compile_time_constants(self.program))

    @cached_property
    def state(self) -> str:
        return build_state(self.compiler, self.schedule)

    @cached_property
    def signatures(self) -> dict[str, KernelSignature]:
        """The signature of each kernel by itself, by its output."""
        return {
            kernel.output: kernel_signature(kernel, self.scopes, self.constants, self.unread_gaps)
            for kernel in self.kernels
        }

    @cached_property
    def fusible(self) -> dict[str, list[Fused]]:
        """The operators that may be one kernel with a statement, by that statement's name."""
        return fusible_pairs(self.program, self.kernels, self.constants, self.signatures)

    def key(self, signature: KernelSignature) -> str:
        """Return what the record of a kernel is stored under."""
        return text_digest("made", self.state, repr(signature.key))

    def source(self, kernel: Kernel) -> KernelSource:
        """Return code for a kernel that is not fused: that of its operator, else a loop nest."""
        name = kernel.output
        if name not in self._sources:
            self._sources[name] = self._generated(kernel)
        return self._sources[name]

    def _generated(self, kernel: Kernel) -> KernelSource:
        check_time()
        candidate = self._candidate(self.unit(kernel))
        assert candidate is not None  # any statement has loops
        library = GENERATED
        if candidate.space.name in OPERATOR_SPACES:
            library = EINALG
        return KernelSource(library, candidate.build())

    def fused_function(self, pair: Fused) -> Function | None:
        """Return a function for an operator with its reader; None where there is none."""
        check_time()
        candidate = self._candidate(self.fused_unit(pair))
        if candidate is None:
            return None
        return candidate.build()

    def _candidate(self, unit: CodeUnit) -> CodeCandidate | None:
        """Return the candidate that was chosen for a unit, else the best; None where none is."""
        return self.candidates.get(unit.digest) or best_candidate(unit, self.compiler)

    def unit(self, kernel: Kernel) -> CodeUnit:
        """Return a kernel that is not fused as code generation sees it."""
        signature = self.signatures[kernel.output]
        return self._unit(kernel, signature.scope, signature)

    def fused_unit(self, pair: Fused) -> CodeUnit:
        """Return an operator with its readers as code generation sees them."""
        product = pair.product
        assert product.scope is not None
        return self._unit(product, product.scope, pair.signature, pair.readers)

    def _unit(
        self,
        kernel: Kernel,
        scope: Scope,
        signature: KernelSignature,
        readers: tuple[Reader, ...] = (),
    ) -> CodeUnit:
        digest = text_digest("unit", repr(signature.key), repr(self.schedule))
        output = kernel.output
        if readers:
            output, _ = readers[-1]
        leaves_gaps = output in self.unread_gaps
        return CodeUnit(
            kernel,
            scope,
            self.constants,
            self.scopes,
            self.schedule,
            readers,
            digest,
            leaves_gaps,
        )

    def cycles(self) -> float:
        """Return what the model expects of a run, each distinct kernel by itself.

        What is known before a run costs nothing. Raises `OutOfTime` where the time for the work
        under way is over.
        """
        total, cycles = 0.0, dict[str, float]()
        for kernel in self.kernels:
            name = kernel.output
            if name in self.constants:
                continue
            key = self.key(self.signatures[name])
            if key not in cycles:
                cycles[key] = self._cycles(kernel, self.scopes)
            total += cycles[key]
        return total

    def compiler_for(self, function: Function) -> Compiler:
        """Return the compiler with the flags that a function needs."""
        return compiler_for(self.compiler, function)

    def compile(self, sources: Mapping[str, KernelSource]) -> dict[str, CompiledSource]:
        """Compile functions, by their keys; those that need the same flags together."""
        compiled: dict[str, CompiledSource] = {}
        for compiler, batch in self._batches(sources):
            functions = list(batch.values())
            texts = own_sources(functions)
            places = placed(compiler, functions, texts, self.timeout)
            compiled.update(zip(batch, map(CompiledSource, texts, places)))
        return compiled

    def begin(self, sources: Mapping[str, KernelSource], background: BackgroundCompiler) -> None:
        """Begin to compile functions in the background."""
        for compiler, batch in self._batches(sources):
            functions = list(batch.values())
            background.begin(compiler, functions, own_sources(functions), self.timeout)

    def _batches(
        self, sources: Mapping[str, KernelSource]
    ) -> Iterable[tuple[Compiler, dict[str, Function]]]:
        """Return functions, by their keys, with the compiler that they need."""
        batches: dict[Compiler, dict[str, Function]] = {}
        for key, source in sources.items():
            batch = batches.setdefault(self.compiler_for(source.function), {})
            batch[key] = source.function
        return batches.items()

    def uncached_kernels(self) -> list[Kernel]:
        """Return the kernels that no record is of, as they are before fusion; one for each key."""
        pairs: list[Fused] = []
        for candidates in self.fusible.values():
            pairs += candidates
        kernels: dict[str, Kernel] = {}
        for pair in pairs:
            kernels.setdefault(self.key(pair.signature), pair.product)
        products = {name for pair in pairs for name in pair.inside}
        alone: dict[str, Kernel] = {}
        for kernel in self.kernels:
            if kernel.output not in products:
                alone.setdefault(self.key(self.signatures[kernel.output]), kernel)
        kernels |= alone
        return [kernel for key, kernel in kernels.items() if KERNEL_RECORDS.read(key) is None]
