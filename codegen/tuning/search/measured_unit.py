"""Candidates of one unit compiled, run on the same inputs, and recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from codegen.hardware.cpu import machine
from codegen.runtime.array_arguments import Array
from codegen.tuning.cost_model.description import unit_features
from codegen.tuning.cost_model.knowledge import UnitKnowledge
from codegen.tuning.cost_model.samples import Sample
from codegen.tuning.kernel_choice import inputs_of
from codegen.tuning.measuring.batch import BatchRunner
from codegen.tuning.measuring.compilation import CandidateCompiler
from codegen.tuning.measuring.task import LASTING, MeasuringTask, Outcome
from codegen.tuning.records.log import TuningLog, TuningRecord
from codegen.tuning.spaces.points import point_row
from codegen.tuning.spaces.space import NO_CODE, CodeCandidate, Identity, identity
from codegen.tuning.spaces.unit import CodeUnit
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.numpy.loops import defined_points
from einalg.language.ir.program import in_double
from einalg.storage.fingerprint import text_digest

Compiled = Any  # machine code, of a processor or of a device
Written = Any  # a loop nest, or the kernels of a device
Code = Compiled | Outcome
MAX_REFERENCE_POINTS = 1 << 31  # above which the start's values are the expected ones
DIGITS = 3  # of a recorded feature, behind the point
FIRST_SECONDS = 20.0  # for loading and packing a candidate, and for a first run


class CodeCompiler(Protocol):
    """Makes machine code of candidates."""

    def text(self, code: Written, /) -> str:
        """Return the text of a candidate, which tells it from others."""
        ...

    def compiled(self, codes: Mapping[int, Written], /) -> Mapping[int, Code]:
        """Return the machine code of candidates by their numbers, or why they have none."""
        ...


@dataclass
class MeasuredUnit:
    """A unit whose candidates are measured: in batches, each in turns with an incumbent.

    `sources` has the first candidate of each code.
    """

    unit: CodeUnit
    compiler: CodeCompiler
    log: TuningLog
    runner: BatchRunner
    knowledge: UnitKnowledge
    sources: dict[str, CodeCandidate] = field(default_factory=dict)  # by the digest of their code

    @classmethod
    def of(
        cls,
        unit: CodeUnit,
        compiler: CandidateCompiler,
        log: TuningLog,
        knowledge: UnitKnowledge | None = None,
        stays_warm: bool = False,
    ) -> MeasuredUnit:
        """Return a unit, of which and of others something may be known."""
        known = knowledge or known_unit(unit, [], machine().level2)
        runner = BatchRunner(measuring_task(unit, compiler, stays_warm))
        return cls(unit, compiler, log, runner, known)

    @property
    def has_expected(self) -> bool:
        """Whether there are values to compare with."""
        return self.runner.task.expected is not None

    def built(self, candidate: CodeCandidate) -> Written | Outcome:
        """Return the code of a candidate, or why there is none."""
        try:
            code = candidate.build()
            source = self.compiler.text(code)
        except NO_CODE as error:
            return Outcome(reason=f"no code: {type(error).__name__}", strikes=LASTING)
        self.sources.setdefault(text_digest(source), candidate)
        return code

    def is_first(self, candidate: CodeCandidate) -> bool:
        """Say whether no other candidate had the code of one that is built."""
        return candidate in self.sources.values()

    def compiled(self, codes: Mapping[int, Written]) -> Mapping[int, Code]:
        """Return the machine code of candidates, by their numbers."""
        return self.compiler.compiled(codes)

    def outcomes(self, compiled: Mapping[int, Code]) -> dict[int, Outcome]:
        """Return what came of candidates, by their numbers."""
        outcomes: dict[int, Outcome] = {}
        runnable: dict[int, Compiled] = {}
        for number, code in compiled.items():
            if isinstance(code, Outcome):
                outcomes[number] = code
            else:
                runnable[number] = code
        return outcomes | self.runner.outcomes(runnable)

    def record(self, candidate: CodeCandidate, outcome: Outcome) -> None:
        """Add what came of a candidate to the log, and to the samples that a model learns from."""
        description = self.knowledge.described(candidate)
        self.knowledge.add(description, outcome.score)
        self.log.append(
            TuningRecord(
                self.log.provenance,
                self.unit.digest,
                statement_text(self.unit),
                candidate.space.name,
                point_row(candidate.point),
                description.cycles,
                {name: round(number, DIGITS) for name, number in description.features.items()},
                outcome,
            )
        )

    def recorded(
        self, starts: Sequence[CodeCandidate]
    ) -> tuple[list[CodeCandidate], set[Identity]]:
        """Return the candidates that the log knows, the fastest first; and those that it refuses.

        The latter are pairs of a space's name and a point, with strikes enough in all records.
        """
        spaces = {start.space.name: start.space for start in starts}
        fast: list[tuple[float, int, CodeCandidate]] = []
        strikes: Counter[Identity] = Counter()
        for number, record in enumerate(self.log.of_unit(self.unit.digest)):
            space = spaces.get(record.space)
            if space is None:
                continue
            try:
                point = space.read(record.point)
            except ValueError:
                continue
            candidate = CodeCandidate(space, point)
            strikes[identity(candidate)] += record.outcome.strikes
            if record.outcome.score is not None:
                fast.append((record.outcome.score, number, candidate))
        refused = {name for name, count in strikes.items() if count >= LASTING}
        fast.sort(key=lambda entry: entry[:2])
        right = [candidate for _, _, candidate in fast if identity(candidate) not in refused]
        return right, refused


def known_unit(unit: CodeUnit, samples: list[Sample], cache_bytes: int) -> UnitKnowledge:
    """Return what is known of a unit, to which its measurements will be added.

    `cache_bytes` are those of memory near by, where it runs.
    """
    return UnitKnowledge(unit.digest, unit_features(unit, cache_bytes), samples)


def measuring_task(
    unit: CodeUnit, compiler: CandidateCompiler, stays_warm: bool = False
) -> MeasuringTask:
    """Return what the candidates of a unit are asked to do; they are added later.

    One that moves more than the cache holds finds none of it there, unless it `stays_warm`.
    """
    program = unit.program
    arrays = inputs_of(program.tensors)
    (output,) = program.outputs
    scope = program[output]
    moved = sum(array.nbytes for array in arrays.values())
    return MeasuringTask(
        candidates=(),
        compiler=compiler.compiler,
        arrays=arrays,
        constants=[name for name in arrays if name in unit.constants],
        output=output,
        dtype=scope.dtype,
        expected=expected_values(unit, arrays),
        first_seconds=FIRST_SECONDS,
        is_cold=moved > machine().level2 and not stays_warm,
        defined=defined_points(scope),
    )


def expected_values(unit: CodeUnit, arrays: Mapping[str, Array]) -> Array | None:
    """Return the values that the code of a unit must have; None where these are not at hand."""
    if unit.points > MAX_REFERENCE_POINTS or _reads_gaps(unit):
        return None
    program = unit.program
    (output,) = program.outputs
    return np.asarray(execute(in_double(program), arrays)[output])


def statement_text(unit: CodeUnit) -> str:
    """Return a unit on one line."""
    return "; ".join(f"{name} = {scope}" for name, scope in unit.program.statements)


def _reads_gaps(unit: CodeUnit) -> bool:
    """Say whether a unit reads a statement that has no value at some points.

    Code knows these points, and the reference would have to be given the whole program.
    """
    names = unit.program.inputs
    return any(scope.where for name, scope in unit.statements.items() if name in names)
