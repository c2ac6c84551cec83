"""`einalg.tune`: the fastest schedules of a program's kernels, found by search on this machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.program.tune import RepeatedProgram, TuningOptions, tune_programs
from codegen.tuning.search.program_tuner import INTERRUPTED
from codegen.tuning.search.strategies import STRATEGIES
from codegen.tuning.search.tuner import Curve, UnitTuning, UntunedUnit
from codegen.tuning.spaces.points import point_row
from codegen.tuning.spaces.space import CodeCandidate
from derive.programs import OptimizedNetwork, repeated_programs
from derive.programs.optimization import optimized
from derive.results.candidates import Candidate
from derive.results.progress import shown_progress
from einalg.api.backend import TARGET, LocalBackend, require_device
from einalg.api.models import EXAMPLES, network
from einalg.api.schedules.flat import flat_program
from einalg.boundary import public
from einalg.display.html import page
from einalg.display.results.tuning_curve import tuning_curve_svg
from einalg.display.tables import table
from einalg.errors import UseError
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.notation.text_arguments import reads_text
from einalg.options import EXECUTOR, PROGRESS, SECONDS, SEED, checked, one_of, real, whole
from einalg.runtime.clock import READING, Clock
from einalg.runtime.garbage import with_few_full_collections
from einalg.text.wording import counted

MAX_OPTIMIZING_SHARE = 0.5  # of the time, that optimizing a network may take before it is tuned
HEADS = (
    "kernel",
    "in a run",
    "share of a run",
    "start",
    "winner",
    "gain",
    "trials",
    "spent",
    "next round",
    "used later",
    "schedule",
    "learned model",
)
NUMBERS = range(1, 9)
TOO_LITTLE_TIME = "the time did not suffice for a first measurement; allow more seconds"
NO_KERNEL = (
    "there is no kernel of einalg's to tune: its operators stay calls, or are computed before a run"
)
STOPPED = "it was interrupted before a first measurement; let it run on"
NOT_USED = "no"  # by later compilations
LATENCY = real("1e-3")
MAX_STATEMENT = 60  # characters of a statement in a table


@public
@dataclass(frozen=True, repr=False)
class Tuning:
    """The result of `tune`: what came of each kernel, and the curve of the best so far.

    `units` has the kernels that were tuned, each with its `start` and its `winner`, their seconds,
    its `curve` and what was `refused`. `untuned` has those of which nothing was measured, each with
    what was `refused`, and `left_out` counts them. `log` is the file with all measurements. The
    `share` of a unit says how often a run computes it, what it had of the search, and why. `ending`
    is the reason where nothing was tried of any kernel.

    >>> import einalg as ea
    >>> tuning = ea.tune("O[i] += A[i,j]", A=(8, 64), seconds=0)
    >>> tuning.units, tuning.left_out, tuning.reason
    ((), 0, 'the time did not suffice for a first measurement; allow more seconds')
    """

    units: Sequence[UnitTuning]
    untuned: Sequence[UntunedUnit]
    log: Path
    ending: str = TOO_LITTLE_TIME

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
        """Return the seconds of a run with all winners."""
        return sum(unit.share.count * unit.seconds for unit in self.units)

    @property
    def start_seconds(self) -> float:
        """Return the seconds of a run with all starts, which is what the cost model chose."""
        return sum(unit.share.count * unit.start_seconds for unit in self.units)

    @property
    def curve(self) -> Curve:
        """Return, for each trial, its number, the seconds since the start, and those of the best.

        The latter are those of a run of all kernels, each with what is the best of it by then, or
        its first one.
        """
        best: dict[int, float] = {}
        events: list[tuple[float, int, float]] = []
        for number, unit in enumerate(self.units):
            count = unit.share.count
            best[number] = count * unit.curve[0][2]
            events += [(elapsed, number, count * seconds) for _, elapsed, seconds in unit.curve]
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
            return STOPPED
        if self.refused:
            return "all candidates that were tried were refused; the kernels stay as they were"
        return self.ending

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row for each kernel, under `HEADS`."""
        return [_row(unit, self.start_seconds) for unit in self.units]

    def remarks(self) -> list[str]:
        """Return what else is to be said, a line each."""
        remarks = [f"the search ended because {self.reason}"]
        if len(self.units) > 1:
            times = duration(self.start_seconds), duration(self.seconds)
            remarks.insert(0, "all kernels of a run: {} -> {}".format(*times))
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
        for row in self.rows():
            cell = dict(zip(HEADS, row, strict=True))
            made = counted(int(cell["trials"]), "trial")
            if cell["used later"] == NOT_USED:
                made += ", not used later"
            lines.append(cell["kernel"])
            lines.append(f"  {cell['start']} -> {cell['winner']} ({cell['gain']}), {made}")
            lines.append(f"  {cell['schedule']}")
            if len(self.units) > 1:
                lines.append(
                    f"  {cell['in a run']} in a run, {cell['share of a run']} of its time at first;"
                    f" {cell['spent']} spent, another round promises {cell['next round']}"
                )
            if cell["learned model"]:
                lines.append(f"  learned model: {cell['learned model']}")
        return "\n".join([*lines, *self.remarks()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = table(HEADS, self.rows(), numbers=NUMBERS)
        picture = tuning_curve_svg(self.curve)
        remarks = "<br>".join(self.remarks())
        return page(f'{picture}{shown}<p class="einalg-muted">{remarks}</p>', "einalg-tuning")


def _row(unit: UnitTuning, whole: float) -> tuple[str, ...]:
    """Return the cells of a unit, of a run that took `whole` seconds at first."""
    statement = unit.statement
    if len(statement) > MAX_STATEMENT:
        statement = statement[:MAX_STATEMENT] + " …"
    share = unit.share
    return (
        statement,
        f"{share.count}x",
        f"{share.count * unit.start_seconds / whole:.0%}",
        duration(unit.start_seconds),
        duration(unit.seconds),
        f"{unit.gain:.2f}x",
        str(unit.trials),
        f"{share.seconds:.1f} s",
        duration(share.promised),
        "yes" if unit.is_stored else NOT_USED,
        candidate_text(unit.winner),
        str(unit.ranking or ""),
    )


def duration(seconds: float) -> str:
    if not seconds:
        return "nothing"
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
    example_inputs=EXAMPLES,
    latency=LATENCY,
    target=TARGET,
)
@with_few_full_collections
def tune(
    program: Any,
    seconds: float = 60.0,
    trials: int = 64,
    executor: Any = None,
    strategy: str = "evolution",
    seed: int = 0,
    progress: Callable[[Any], None] | bool | None = None,
    example_inputs: Any = None,
    latency: float = 0.0,
    target: str = "cpu",
    **tensors: Any,
) -> Tuning:
    """Search for the fastest schedules of a program's or a model's kernels on this machine.

    Every kernel can be written in several ways, each with numbers: sizes of tiles, orders of loops,
    what is packed. A cost model drafts some, which are compiled and run; the search goes on from
    the fastest, corrects the model by what was measured, also of other kernels, and spends its
    trials where a run saves most by them (Ansor, OSDI'20, §6). What it finds is used by all later
    compilations on this machine with this compiler. Ctrl-C keeps the best so far.

    - `program`: a scope, a program, a candidate of `derive`, or text with the shapes of its tensors
      by name, as for `einalg.parse`; or the result of `optimize`; or a model as `optimize` takes
      it, an ONNX file as a `pathlib.Path`. A model is optimized first, in half of the time at most,
      or read from disk as it was optimized before. Equal kernels are tuned once.
    - `seconds`: the time for the whole.
    - `trials`: how many schedules are measured of a kernel, on average. Each has its start and a
      batch, then those in which most of a run is expected to be saved.
    - `executor`: compiles elsewhere; anything with the `submit` of `concurrent.futures.Executor`.
      Its workers need this compiler and this kind of processor. Schedules run on this machine.
    - `strategy`: `"evolution"`, or what it is compared with: `"model"` measures what the cost model
      thinks best, `"random"` what chance gives.
    - `seed`: decides what chance gives.
    - `example_inputs`: of a model, as for `optimize`.
    - `latency`: ends the search once a run is expected to take so many seconds.
    - `target`: `"cpu"`, or `"cuda"` for the device of this machine: candidates are compiled by nvcc
      and timed by its clock. An `executor` compiles none of these. Programs and exports for this
      device use the winners.
    - `progress`: by default a line shows in terminals and notebooks what is being done. True logs
      such lines anywhere, False shows nothing. A function is called at each change.

    Raises `NotationError` for anything but an expression or a model, `UseError` for an option of a
    wrong kind or what was optimized for another target, `CodegenError` where there is no C
    compiler, and `DeviceError` where there is no device, or no nvcc.

    >>> import einalg as ea
    >>> tuning = ea.tune("O[i,j] += A[i,k]*B[k,j]", trials=1, A=(8, 64), B=(64, 32))
    >>> [unit.winner.space.name for unit in tuning.units], tuning.reason
    (['contraction'], 'all trials were made')
    """
    clock = Clock.of(seconds)
    require_device(target)
    options = TuningOptions(trials, executor, strategy, seed, latency, target)
    with shown_progress(progress, clock, "tune") as listener, _heard(clock, listener):
        programs: list[RepeatedProgram] = []
        with clock.bounding():
            programs = _programs(program, example_inputs, target, clock)
        tuned = tune_programs(programs, options, clock)
    return Tuning(tuned.units, tuned.untuned, tuned.log, _ending(clock))


def _ending(clock: Clock) -> str:
    """Return why nothing was tried of any kernel, if that is so."""
    if clock.course.is_stopped:
        return STOPPED
    if clock.is_over:
        return TOO_LITTLE_TIME
    return NO_KERNEL


@contextmanager
def _heard(clock: Clock, listener: Callable[..., None] | None) -> Iterator[None]:
    """Call a function at each change of what is being done, where there is one."""
    if listener is None:
        yield
        return
    with clock.course.heard_by(listener):
        yield


def _programs(
    program: Any, example_inputs: Any, target: str, clock: Clock
) -> list[RepeatedProgram]:
    """Return what is tuned as flat programs: those of a network as it is optimized."""
    if isinstance(program, OptimizedNetwork):
        return _network_programs(program, target)
    if isinstance(program, (Candidate, Program, Scope)):
        return [RepeatedProgram(*flat_program(program))]
    with clock.phase(READING, "the model"):
        model = network(program, example_inputs)
    limit = clock.within(MAX_OPTIMIZING_SHARE * clock.left)
    made = optimized(
        model.graph, model.arrays, LocalBackend(target), limit.left, clock=limit, is_compared=True
    )
    return _network_programs(made, target)


def _network_programs(made: OptimizedNetwork, target: str) -> list[RepeatedProgram]:
    """Return the programs of a network as they run; `UseError` where that is another target."""
    if isinstance(made.backend, LocalBackend) and made.backend.target != target:
        own = made.backend.target
        raise UseError(f"the model was optimized for {own!r}\n  use target={own!r}")
    return [RepeatedProgram(*own) for own in repeated_programs(made.parts.values())]


__all__ = ["Tuning", "tune"]
