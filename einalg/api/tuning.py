"""`einalg.tune`: the fastest schedules of a program's kernels, found by search on this machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from codegen.hardware.cpu import machine
from codegen.lowering.schedule import DEFAULT
from codegen.program.building.problem import BuildProblem
from codegen.program.building.tunable_units import tunable_units
from codegen.program.compile import checked_kernels
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, Compiler, find_compiler
from codegen.tuning.measuring.compilation import CandidateCompiler
from codegen.tuning.records.log import TuningLog
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.search.measured_unit import statement_text
from codegen.tuning.search.strategies import STRATEGIES
from codegen.tuning.search.tuner import (
    INTERRUPTED,
    Curve,
    UnitTuning,
    UntunedUnit,
    tune_unit,
)
from codegen.tuning.spaces.points import point_row
from codegen.tuning.spaces.space import CodeCandidate
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import cheapest
from derive.matching import kernels_of
from derive.results.candidates import Candidate
from derive.results.progress import shown_progress
from derive.rules.inter.lifting_nesting import lifted
from einalg.boundary import public
from einalg.display.html import page
from einalg.display.results.tuning_curve import tuning_curve_svg
from einalg.display.tables import table
from einalg.errors import CodegenError
from einalg.language.ir.program import Program, as_program
from einalg.language.notation.text_arguments import reads_text
from einalg.options import EXECUTOR, PROGRESS, SECONDS, SEED, checked, one_of, whole
from einalg.runtime.clock import Clock
from einalg.text.wording import counted

CANDIDATE_SECONDS = 60.0  # for compiling a file of candidates
HEADS = ("kernel", "start", "winner", "gain", "trials", "used later", "schedule")
NUMBERS = (1, 2, 3, 4)
NOT_USED = "no"  # by later compilations
MAX_STATEMENT = 60  # characters of a statement in a table


@public
@dataclass(frozen=True)
class Tuning:
    """The result of `tune`: what came of each kernel, and the curve of the best so far.

    `units` has the kernels that were tuned, each with its `start` and its `winner`, their seconds,
    its `curve` and what was `refused`. `untuned` has those of which nothing was measured, each with
    what was `refused`, and `left_out` counts them. `log` is the file with all measurements.

    >>> import einalg as ea
    >>> tuning = ea.tune("O[i] += A[i,j]", A=(8, 64), seconds=0)
    >>> tuning.units, tuning.left_out, tuning.reason
    ((), 0, 'the time did not suffice for a first measurement; allow more seconds')
    """

    units: Sequence[UnitTuning]
    untuned: Sequence[UntunedUnit]
    log: Path

    @property
    def left_out(self) -> int:
        """Return how many kernels there are of which nothing was measured."""
        return len(self.untuned)

    @property
    def best(self) -> UnitTuning | None:
        """Return the kernel that gained most; None where none was tuned."""
        return max(self.units, key=lambda unit: unit.gain, default=None)

    @property
    def seconds(self) -> float:
        """Return the seconds of all winners together."""
        return sum(unit.seconds for unit in self.units)

    @property
    def start_seconds(self) -> float:
        """Return the seconds of all starts together, which is what the cost model chose."""
        return sum(unit.start_seconds for unit in self.units)

    @property
    def curve(self) -> Curve:
        """Return, for each trial, its number, the seconds since the start, and those of the best.

        The latter are of all kernels together, each with what is the best of it by then.
        """
        best = {number: unit.curve[0][2] for number, unit in enumerate(self.units)}
        events: list[tuple[float, int, float]] = []
        for number, unit in enumerate(self.units):
            events += [(elapsed, number, seconds) for _, elapsed, seconds in unit.curve]
        points: list[tuple[int, float, float]] = []
        for trial, (elapsed, number, seconds) in enumerate(sorted(events), 1):
            best[number] = seconds
            points.append((trial, elapsed, sum(best.values())))
        return tuple(points)

    @property
    def refused(self) -> Mapping[str, int]:
        """Return how many candidates were refused, by the reason."""
        total: Counter[str] = Counter()
        for unit in (*self.units, *self.untuned):
            total.update(unit.refused)
        return total

    @property
    def reason(self) -> str:
        """Return why the search ended, or why no kernel was tuned.

        Where that of some kernels ended for other reasons, each with the number of these.
        """
        if self.units:
            reasons = Counter(unit.reason for unit in (*self.units, *self.untuned))
            if len(reasons) == 1:
                return self.units[0].reason
            return "; ".join(f"{one} ({counted(n, 'kernel')})" for one, n in reasons.items())
        if any(unit.reason == INTERRUPTED for unit in self.untuned):
            return "it was interrupted before a first measurement; let it run on"
        if self.refused:
            return "all candidates that were tried were refused; the kernels stay as they were"
        return "the time did not suffice for a first measurement; allow more seconds"

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row for each kernel, under `HEADS`."""
        return [_row(unit) for unit in self.units]

    def remarks(self) -> list[str]:
        """Return what else is to be said, a line each."""
        remarks = [f"the search ended because {self.reason}"]
        if not self.units:
            remarks = [self.reason]
        for reason, count in self.refused.items():
            remarks.append(f"{counted(count, 'candidate')} refused: {reason}")
        if self.left_out:
            kernels = counted(self.left_out, "kernel")
            remarks.append(f"nothing was measured of {kernels}: no time was left, or all failed")
        remarks.append(f"all measurements: {self.log}")
        return remarks

    def __str__(self) -> str:
        lines: list[str] = []
        for statement, start, winner, gain, trials, used, schedule in self.rows():
            made = counted(int(trials), "trial")
            if used == NOT_USED:
                made += ", not used later"
            lines.append(f"{statement}\n  {start} -> {winner} ({gain}), {made}")
            lines.append(f"  {schedule}")
        return "\n".join([*lines, *self.remarks()])

    def _repr_html_(self) -> str:
        shown = table(HEADS, self.rows(), numbers=NUMBERS)
        picture = tuning_curve_svg(self.curve)
        remarks = "<br>".join(self.remarks())
        return page(f'{picture}{shown}<p class="einalg-muted">{remarks}</p>', "einalg-tuning")


def _row(unit: UnitTuning) -> tuple[str, ...]:
    statement = unit.statement
    if len(statement) > MAX_STATEMENT:
        statement = statement[:MAX_STATEMENT] + " …"
    return (
        statement,
        _duration(unit.start_seconds),
        _duration(unit.seconds),
        f"{unit.gain:.2f}x",
        str(unit.trials),
        "yes" if unit.is_stored else NOT_USED,
        candidate_text(unit.winner),
    )


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms"


def candidate_text(candidate: CodeCandidate) -> str:
    """Return a candidate on one line: its space, and the numbers of its point."""
    numbers: list[str] = []
    for row in _parts(point_row(candidate.point)):
        numbers.append(" ".join(f"{name}={value}" for name, value in row.items()))
    return f"{candidate.space.name}: {'; '.join(numbers)}"


def _parts(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(row.get("parts", [row]))


@reads_text("program")
@checked(
    seconds=SECONDS,
    trials=whole(1),
    executor=EXECUTOR,
    strategy=one_of(*STRATEGIES),
    seed=SEED,
    progress=PROGRESS,
)
def tune(
    program: Any,
    seconds: float = 60.0,
    trials: int = 64,
    executor: Any = None,
    strategy: str = "evolution",
    seed: int = 0,
    progress: Callable[[Any], None] | bool | None = None,
    **tensors: Any,
) -> Tuning:
    """Search for the fastest schedules of a program's kernels on this machine (Ansor, OSDI'20).

    Every kernel can be written in several ways, each with numbers: sizes of tiles, orders of loops,
    what is packed. A cost model drafts some, which are compiled and run; the search goes on from
    the fastest. What it finds is used by all later compilations on this machine with this compiler.
    Ctrl-C keeps the best so far.

    - `program`: a scope, a program, a candidate of `derive`, or text with the shapes of its tensors
      by name, as for `einalg.parse`.
    - `seconds`: the time for the whole; kernels that are estimated to take longest come first, and
      have equal shares of what is left.
    - `trials`: how many schedules are measured of each kernel.
    - `executor`: compiles elsewhere; anything with the `submit` of `concurrent.futures.Executor`.
      Its workers need this compiler and this kind of processor. Schedules run on this machine.
    - `strategy`: `"evolution"`, or what it is compared with: `"model"` measures what the cost model
      thinks best, `"random"` what chance gives.
    - `seed`: decides what chance gives.
    - `progress`: by default a line shows in terminals and notebooks what is being done. True logs
      such lines anywhere, False shows nothing. A function is called at each change.

    Raises `NotationError` for anything but an expression, `UseError` for an option of a wrong kind,
    and `CodegenError` where there is no C compiler.

    >>> import einalg as ea
    >>> tuning = ea.tune("O[i,j] += A[i,k]*B[k,j]", trials=1, A=(8, 64), B=(64, 32))
    >>> [unit.winner.space.name for unit in tuning.units], tuning.reason
    (['contraction'], 'all trials were made')
    """
    compiler = find_compiler()
    if compiler is None:
        raise CodegenError(
            "schedules are compiled to be measured\n  install gcc or clang, or set CC"
        )
    clock = Clock.of(seconds)
    log = TuningLog.here(Provenance.here(compiler))
    units: list[CodeUnit] = []
    tuned: list[UnitTuning] = []
    untuned: list[UntunedUnit] = []
    with shown_progress(progress, clock, "tune") as listener, _heard(clock, listener):
        with clock.bounding():
            units = _units(program, compiler)
        with TemporaryDirectory(prefix="einalg-") as folder:
            candidates = CandidateCompiler(compiler, Path(folder), CANDIDATE_SECONDS, executor)
            for number, unit in enumerate(units):
                share = clock.within(clock.left / (len(units) - number))
                chosen = STRATEGIES[strategy]()
                tuning = tune_unit(unit, candidates, log, chosen, trials, share, seed)
                if isinstance(tuning, UntunedUnit):
                    untuned.append(tuning)
                    continue
                tuned.append(tuning)
                clock.course.tell_result(f"{tuning.gain:.2f}x for {tuning.statement}")
    return Tuning(tuple(tuned), tuple(untuned), log.path)


@contextmanager
def _heard(clock: Clock, listener: Callable[..., None] | None) -> Iterator[None]:
    """Call a function at each change of what is being done, where there is one."""
    if listener is None:
        yield
        return
    with clock.course.heard_by(listener):
        yield


def _units(program: Any, compiler: Compiler) -> list[CodeUnit]:
    """Return the units of a program, those that are estimated to take longest first."""
    flat, kernels = _flat(program)
    checked = checked_kernels(flat, kernels)
    problem = BuildProblem.of(flat, checked, compiler, DEFAULT, COMPILE_TIMEOUT_SECONDS)

    def cycles(unit: CodeUnit) -> float:
        best = cheapest(unit, machine())
        if best is None:
            raise CodegenError(
                f"{statement_text(unit)} is no one kernel with what follows it\n"
                "  please report the program"
            )
        return best.cycles

    return sorted(tunable_units(problem), key=cycles, reverse=True)


def _flat(program: Any) -> tuple[Program, Sequence[Any]]:
    """Return a program without inner scopes, and its kernels."""
    if isinstance(program, Candidate):
        return program.program, program.kernels
    flat = lifted(as_program(program))
    return flat, kernels_of(flat)


__all__ = ["Tuning", "tune"]
