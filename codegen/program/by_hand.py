"""A program whose kernels have schedules that are chosen by hand, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from codegen.hardware.cpu import machine
from codegen.ir.loop_tree import loop_tree
from codegen.lowering.schedule import DEFAULT
from codegen.program.building.built_program import build_generated, generated_decision
from codegen.program.building.problem import BuildProblem
from codegen.program.building.tunable_units import shared_units
from codegen.program.compile import checked_kernels, compile_program
from codegen.program.cuda_executable import CudaCompiled
from codegen.program.executable import Executable
from codegen.program.tune import CANDIDATE_SECONDS, ProgramTuning, measuring_compiler
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS
from codegen.targets.c.source_file import c_source
from codegen.tuning.by_hand.choices import ScheduleChoice, ScheduleChoices
from codegen.tuning.by_hand.moves import ScheduleMove
from codegen.tuning.by_hand.unit import ScheduledUnit, applied, possible_moves
from codegen.tuning.measuring.compilation import CandidateCompiler
from codegen.tuning.measuring.task import Outcome
from codegen.tuning.records.log import TuningLog
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.records.winners import tuned
from codegen.tuning.search.measured_unit import MeasuredUnit
from codegen.tuning.search.program_tuner import ProgramTuner, TuningPlan
from codegen.tuning.search.strategies import GivenStrategy
from codegen.tuning.search.targets import ProcessorTarget
from codegen.tuning.search.tuner import NOTHING_NEW, UnitTuning, UntunedUnit
from codegen.tuning.spaces.points import point_row
from codegen.tuning.spaces.space import CodeCandidate, identity
from codegen.tuning.spaces.unit import CodeUnit, RepeatedUnit
from codegen.tuning.spaces.unit_spaces import cheapest, starts
from einalg.errors import CodegenError, RuleError
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.runtime.clock import Clock
from einalg.text.wording import counted, either_of

Points = dict[str, dict[str, Any]]  # by kernel: its space, and its point as a row of JSON
KEPT = "the schedule was compared, and is used from now on"
NOT_KEPT = "the schedule was compared: what is used so far stays, since nothing is clearly faster"
KEPT_TRIALS = 2  # of a kernel whose schedule is kept: the start, and the schedule


@dataclass(frozen=True)
class ScheduleStep:
    """A step that was applied, with the code of its kernel before and after it."""

    move: ScheduleMove
    before: CodeCandidate
    after: CodeCandidate

    @property
    def followed(self) -> tuple[tuple[str, Any], ...]:
        """Return the numbers that changed though the step names others, with their new values."""
        if self.before.space is not self.after.space or self.move.space is not None:
            return ()
        holes = self.after.space.holes(self.after.point)
        old = self.before.space.holes(self.before.point)
        named = dict(self.move.values)
        changed = [now for now, was in zip(holes, old) if now.value != was.value]
        return tuple((hole.name, hole.value) for hole in changed if hole.name not in named)

    def __str__(self) -> str:
        followed = ", ".join(f"{name}={value}" for name, value in self.followed)
        text = str(self.move)
        if followed:
            text += f" (so {followed})"
        return f"{text}   {in_cycles(self.before.cycles)} -> {in_cycles(self.after.cycles)}"

    __repr__ = __str__


def in_cycles(cycles: float) -> str:
    """Return what the cost model expects in words.

    >>> in_cycles(1234567.0)
    '1.23e+06 cycles'
    """
    return f"{cycles:.3g} cycles"


@dataclass(frozen=True)
class UnitTime:
    """The seconds of a run of a kernel, and those with the schedule that it had at first."""

    kernel: str
    count: int
    seconds: float
    first_seconds: float


class ProgramSchedule:
    """A flat program with a schedule for each kernel; steps change one, and are taken back.

    Its first schedules are those that were tuned on this machine, else what the cost model thinks
    best. All kernels are generated code. Raises `CodegenError` where there is no C compiler.
    """

    def __init__(self, program: Program, kernels: Sequence[Kernel], is_tuned: bool = True):
        self.compiler = measuring_compiler()
        self.program, self.kernels = program, checked_kernels(program, kernels)
        self.problem = BuildProblem.of(
            program, self.kernels, self.compiler, DEFAULT, COMPILE_TIMEOUT_SECONDS
        )
        self.units: dict[str, ScheduledUnit] = {}
        for one in shared_units(generated_decision(self.problem)):
            unit = _scheduled(one.unit, one.outputs)
            winner = is_tuned and tuned(one.unit.digest, unit.starts, self.compiler)
            if winner:
                unit = unit.with_candidate(winner)
            self.units[unit.name] = unit
        self.first = dict(self.units)
        self.steps: list[ScheduleStep] = []
        self.undone: list[ScheduleStep] = []

    def unit(self, name: str | None) -> ScheduledUnit:
        """Return the unit of a kernel, by one of its statements; of the only one without a name."""
        if name is None:
            if len(self.units) == 1:
                return next(iter(self.units.values()))
            raise RuleError(
                f"there are {counted(len(self.units), 'kernel')}\n  say which: "
                f"kernel={either_of([repr(unit) for unit in self.units])}"
            )
        for unit in self.units.values():
            if name in (*unit.outputs, unit.unit.name):
                return unit
        raise RuleError(f"there is no kernel {name!r}\n  there are: {', '.join(self.units)}")

    def choices(self, kernel: str | None = None, name: str | None = None) -> ScheduleChoices:
        """Return the steps that are possible: of a kernel; those called `name`, or that set it.

        Whatever is asked for, each has its number among all of them.
        """
        everything = self._all_choices()
        if kernel is not None:
            unit = self.unit(kernel)
            everything = [choice for choice in everything if choice.scheduled is unit]
        choices = ScheduleChoices()
        names: dict[str, None] = {}
        for choice in everything:
            own = (choice.name, *dict(choice.move.values))
            names.update(dict.fromkeys(own))
            if name is None or name in own:
                choices.append(choice)
        if name is not None and not choices:
            raise RuleError(
                f"no step is possible that is, or sets, {name!r}\n  there are: {', '.join(names)}"
            )
        return choices

    def _all_choices(self) -> list[ScheduleChoice]:
        choices: list[ScheduleChoice] = []
        for unit in self.units.values():
            for possible in possible_moves(unit):
                choices.append(ScheduleChoice(len(choices), possible, unit))
        return choices

    def apply(self, move: ScheduleMove) -> ScheduleStep:
        """Apply a step; `RuleError` says in words why it is not possible."""
        unit = self.unit(move.kernel)
        after = applied(unit, replace(move, kernel=unit.name))
        step = ScheduleStep(move, unit.candidate, after.candidate)
        self.units[unit.name] = after
        self.steps.append(step)
        self.undone.clear()
        return step

    def undo(self) -> None:
        """Take the last step back."""
        step = self.steps.pop()
        self._set(step.move.kernel, step.before)
        self.undone.append(step)

    def redo(self) -> None:
        """Apply the step again that was taken back last."""
        step = self.undone.pop()
        self._set(step.move.kernel, step.after)
        self.steps.append(step)

    def _set(self, kernel: str, candidate: CodeCandidate) -> None:
        unit = self.unit(kernel)
        self.units[unit.name] = unit.with_candidate(candidate)

    def points(self) -> Points:
        """Return the code of each kernel as records have it."""
        return _points(self.units)

    def points_at_first(self) -> Points:
        """Return the code with which each kernel began."""
        return _points(self.first)

    def other_points_at_first(self) -> Points:
        """Return the code of those kernels that did not begin with what the model thinks best."""
        other: dict[str, ScheduledUnit] = {}
        for name, unit in self.first.items():
            usual = cheapest(unit.unit, machine())
            if usual is None or identity(usual) != identity(unit.candidate):
                other[name] = unit
        return _points(other)

    def begin_from(self, points: Mapping[str, Any]) -> None:
        """Begin with the code of a record; `ValueError` where it does not fit here."""
        for name, row in points.items():
            unit = self.unit(name)
            start = unit.start_of(row["space"])
            candidate = CodeCandidate(start.space, start.space.read(row["point"]))
            self.units[unit.name] = unit.with_candidate(candidate)
        self.first = dict(self.units)

    @property
    def cycles(self) -> float:
        """Return the cycles of a run that the cost model expects."""
        return sum(len(unit.outputs) * unit.candidate.cycles for unit in self.units.values())

    def source(self, kernel: str | None = None) -> str:
        """Return the C text of all kernels, or of one."""
        return c_source([unit.candidate.build() for unit in self._some(kernel)])

    def cuda_source(self, kernel: str | None = None) -> str:
        """Return the CUDA text of the program, whose schedules are not those of a processor.

        That of one kernel has those kernels of the device that compute its statements.
        """
        names = self.program.names
        if kernel is not None:
            names = self.unit(kernel).unit.program.names
        compiled = compile_program(self.program, self.kernels, "cuda")
        assert isinstance(compiled, CudaCompiled)
        return compiled.source_of(names)

    def loops(self, kernel: str | None = None) -> str:
        """Return the loops of all kernels, or of one, as text."""
        return "\n".join(loop_tree(unit.candidate.build()) for unit in self._some(kernel))

    def _some(self, kernel: str | None) -> list[ScheduledUnit]:
        if kernel is None:
            return list(self.units.values())
        return [self.unit(kernel)]

    def executable(self) -> Executable:
        """Return the program compiled with these schedules."""
        chosen = {unit.unit.digest: unit.candidate for unit in self.units.values()}
        built = build_generated(replace(self.problem, candidates=chosen))
        return Executable(built.program, "cpu", built.steps(), built)

    def times(self) -> list[UnitTime]:
        """Measure each kernel by itself, in turns with its first schedule, and log the times.

        Raises `CodegenError` for one that crashes, hangs or has other values than the reference.
        """
        times: list[UnitTime] = []
        for name, unit in self.units.items():
            first = self.first[name].candidate
            seconds = self._seconds(unit.unit, [first, unit.candidate])
            times.append(UnitTime(name, len(unit.outputs), seconds[-1], seconds[0]))
        return times

    def _seconds(self, unit: CodeUnit, candidates: Sequence[CodeCandidate]) -> list[float]:
        """Return the seconds of candidates, which run in turns; equal ones once."""
        distinct = list({identity(candidate): candidate for candidate in candidates}.values())
        with TemporaryDirectory(prefix="einalg-") as folder:
            measured = MeasuredUnit.of(unit, self._candidate_compiler(folder), self._log)
            functions = {n: one.build() for n, one in enumerate(distinct)}
            outcomes = measured.outcomes(measured.compiled(functions))
        seconds: list[float] = []
        for number, candidate in enumerate(distinct):
            measured.record(candidate, outcomes[number])
            seconds.append(_right_seconds(unit.program.outputs[0], outcomes[number]))
        return seconds

    @property
    def _log(self) -> TuningLog:
        return TuningLog.here(Provenance.here(self.compiler))

    def _candidate_compiler(self, folder: str) -> CandidateCompiler:
        return CandidateCompiler(self.compiler, Path(folder), CANDIDATE_SECONDS)

    def keep(self, clock: Clock) -> ProgramTuning:
        """Have later compilations use the schedules, where each is faster than what they use now.

        Each is compared with what the model thinks best and with the winner that is stored, as
        after a search. Raises `CodegenError` for one that crashes, hangs or has other values than
        the reference; it is not kept.
        """
        units = list(self.units.values())
        repeated = [RepeatedUnit(unit.unit, len(unit.outputs)) for unit in units]
        log = self._log
        with TemporaryDirectory(prefix="einalg-") as folder:
            target = ProcessorTarget(self._candidate_compiler(folder))
            strategy = GivenStrategy({unit.unit.digest: unit.candidate for unit in units})
            tuner = ProgramTuner.of(repeated, TuningPlan(target, log, strategy, KEPT_TRIALS), clock)
            reason = tuner.search()
            _require_measured(tuner, units)
            tuned = tuner.results(reason)
            _require_measured(tuner, units)
        results: list[UnitTuning | UntunedUnit] = []
        for number, (unit, result) in enumerate(zip(units, tuned, strict=True)):
            is_measured = tuner.outcome(number, unit.candidate) is not None
            results.append(_compared(result, unit.candidate, is_measured))
        return ProgramTuning.of(results, log.path)


def _require_measured(tuner: ProgramTuner, units: Sequence[ScheduledUnit]) -> None:
    """Raise `CodegenError` for the first unit whose schedule was refused."""
    for number, unit in enumerate(units):
        outcome = tuner.outcome(number, unit.candidate)
        if outcome is not None:
            _right_seconds(unit.name, outcome)


def _scheduled(unit: CodeUnit, outputs: tuple[str, ...]) -> ScheduledUnit:
    usual = cheapest(unit, machine())
    assert usual is not None  # as its decision says
    firsts = tuple(starts(unit, machine()))
    for first in firsts:
        if first.space.name == usual.space.name:
            usual = CodeCandidate(first.space, usual.point)
    return ScheduledUnit(outputs, unit, firsts, usual)


def _points(units: Mapping[str, ScheduledUnit]) -> Points:
    points: Points = {}
    for name, unit in units.items():
        candidate = unit.candidate
        points[name] = {"space": candidate.space.name, "point": point_row(candidate.point)}
    return points


def _compared(
    result: UnitTuning | UntunedUnit, chosen: CodeCandidate, is_measured: bool
) -> UnitTuning | UntunedUnit:
    """Return what came of keeping a candidate, with a reason that says whether it is used later.

    One that was not measured, though there was time, has the code of the start.
    """
    if isinstance(result, UntunedUnit) or not result.is_stored:
        return result
    if not is_measured and result.reason != NOTHING_NEW:
        return result
    reason = KEPT if identity(result.winner) == identity(chosen) else NOT_KEPT
    return replace(result, reason=reason)


def _right_seconds(kernel: str, outcome: Outcome) -> float:
    if outcome.score is None:
        raise CodegenError(
            f"kernel {kernel} was not measured: {outcome.reason}\n"
            "  take the last step back: s.undo()"
        )
    return outcome.score
