"""`einalg.Schedule`: how kernels are written, chosen by hand, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codegen.program.by_hand import Points, ProgramSchedule, ScheduleStep, UnitTime, in_cycles
from codegen.program.executable import Executable
from codegen.tuning.by_hand.choices import ScheduleChoice, ScheduleChoices
from codegen.tuning.by_hand.moves import ScheduleMove, move_from_record
from derive.results.candidates import Candidate
from derive.results.script import start_lines
from einalg.api.interactive.schedule_html import schedule_html
from einalg.api.schedules.flat import flat_program
from einalg.api.schedules.tuning import Tuning, candidate_text, duration
from einalg.boundary import called, public
from einalg.errors import RecordError, RuleError
from einalg.language.ir.program import as_program
from einalg.language.notation.program_json import program_from_record, program_record
from einalg.language.notation.text_arguments import reads_text
from einalg.options import (
    FLAG,
    NEW_FILE,
    PATH,
    SECONDS,
    checked,
    either,
    instance_of,
    one_of,
    optional,
    shown,
    text,
    whole,
)
from einalg.runtime.clock import Clock
from einalg.storage import record
from einalg.text.tables import Listing
from einalg.text.wording import counted

RECORD_KIND = "einalg schedule"
MOVE = instance_of((ScheduleMove, ScheduleChoice), "a step", "see s.moves()", RuleError)
KERNEL = optional(text("O", RuleError))
PART = optional(whole().raising(RuleError))
LANGUAGE = one_of("c", "cuda")


@dataclass(frozen=True)
class ScheduleTime:
    """The measured seconds of a run, and those with the schedule that the kernels had at first.

    `kernels` has both of each kernel by itself; their sum is that of a run.
    """

    kernels: Sequence[UnitTime]

    @property
    def seconds(self) -> float:
        return sum(own.count * own.seconds for own in self.kernels)

    @property
    def first_seconds(self) -> float:
        return sum(own.count * own.first_seconds for own in self.kernels)

    @property
    def gain(self) -> float:
        """Return how many times as fast as at first a run is."""
        return self.first_seconds / self.seconds

    def __str__(self) -> str:
        before, now = duration(self.first_seconds), duration(self.seconds)
        return f"{before} at first, {now} now ({self.gain:.2f}x)"

    __repr__ = __str__


class ScheduleHistory(Listing[ScheduleStep]):
    """The steps of a schedule, each with the cycles that the model expects before and after."""

    def __str__(self) -> str:
        lines = [f"{number}. {step}" for number, step in enumerate(self, 1)]
        return "\n".join(lines) or "no step yet"


@called("Schedule")
@public
class HandSchedule:
    """The way in which each kernel of a program is written, chosen by hand: see the steps that are
    possible, apply one, read the code, measure it, take it back.

    - `expr`: a scope, a program, a candidate of `derive`, or text with the shapes of its tensors by
      name, as for `einalg.parse`.
    - `tuned`: begin with what `einalg.tune` or `keep` found on this machine, where there is such a
      schedule; else, and where it is False, with what the cost model thinks best.

    A kernel is written as one of a few kinds of code (`kind`), each with numbers: sizes of tiles,
    orders of loops, what is copied first. A step sets some of them. One that is not possible is a
    `RuleError` that says why, and what is. All kernels are generated code, whatever library is
    faster, and a schedule never changes what is computed. Raises `NotationError` for anything but
    an expression, and `CodegenError` where there is no C compiler.

    >>> import einalg as ea
    >>> s = ea.Schedule("O[i,j] += Abs(A[i,k] - B[k,j])", A=(12, 40), B=(40, 32))
    >>> s.kind("loops").move
    ScheduleMove(kernel='O', space='loops', values=(), part=None)
    >>> s.set(row=16).after.point.row
    16
    >>> s.set(row=1000)
    Traceback (most recent call last):
    einalg.errors.RuleError: O: row=1000 is not possible: row is from 8 to 512 here, not 1000
      possible here: row=8, 32, 64, 128, 256, 512
    >>> len(s.undo(2).history)
    0
    """

    @reads_text("expr")
    @checked(tuned=FLAG)
    def __init__(self, expr: Any, tuned: bool = True, **tensors: Any):
        self.expr = expr.program if isinstance(expr, Candidate) else as_program(expr)
        self._schedule = ProgramSchedule(*flat_program(expr), tuned)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels by the statements that they compute; equal ones, which share a schedule, by
        the first of these.
        """
        return tuple(self._schedule.units)

    @property
    def points(self) -> Points:
        """The kind of code of each kernel, and its numbers, as the records of `tune` have them."""
        return self._schedule.points()

    @property
    def history(self) -> ScheduleHistory:
        """The steps that led here."""
        return ScheduleHistory(self._schedule.steps)

    @checked(kernel=KERNEL, name=optional(text("rows", RuleError)))
    def moves(self, kernel: str | None = None, name: str | None = None) -> ScheduleChoices:
        """The steps that are possible now, numbered, each with its condition and its effect.

        They are those of a `kernel`, and those that set the number `name` or are called so, if
        given; each has its number among all of them. `apply` takes one, or its number.

        >>> import einalg as ea
        >>> s = ea.Schedule("O[i] = exp(A[i])", tuned=False, A=(1000,))
        >>> choice = s.moves(name="unroll")[0]
        >>> choice.name, choice.effect, choice.value
        ('unroll', 'most points of a reduction that are written out one by one', 1)
        """
        return self._schedule.choices(kernel, name)

    @checked(move=either(MOVE, whole(None)))
    def apply(self, move: ScheduleMove | ScheduleChoice | int) -> ScheduleStep:
        """Apply a step, or that of a number in `moves()`.

        Raises `RuleError` that says why it is not possible.
        """
        if isinstance(move, ScheduleChoice):
            move = move.move
        if not isinstance(move, ScheduleMove):
            choices = self._schedule.choices()
            if not 0 <= move < len(choices):
                raise RuleError(
                    f"there is no step number {shown(move)}: there are {len(choices)}\n"
                    "  see s.moves()"
                )
            move = choices[move].move
        return self._schedule.apply(move)

    @checked(space=text("loops", RuleError), kernel=KERNEL)
    def kind(self, space: str, kernel: str | None = None) -> ScheduleStep:
        """Write a kernel as another kind of code, with the numbers that the model thinks best."""
        return self.apply(ScheduleMove(self._schedule.unit(kernel).name, space))

    @checked(kernel=KERNEL, part=PART)
    def set(
        self, kernel: str | None = None, part: int | None = None, **values: Any
    ) -> ScheduleStep:
        """Set numbers of the code of a kernel in one step, as `s.set(rows=6, vectors=2)`.

        Where the code has several parts, as the phases of a transposed convolution, those of one
        `part`, or of all. What follows from them changes too.
        """
        return self._set(None, kernel, part, values)

    def tile(
        self, kernel: str | None = None, part: int | None = None, **sizes: Any
    ) -> ScheduleStep:
        """Set sizes of the tile that is held in registers, as `s.tile(rows=6, vectors=2)`."""
        return self._set("tile", kernel, part, sizes)

    def split(
        self, kernel: str | None = None, part: int | None = None, **sizes: Any
    ) -> ScheduleStep:
        """Set sizes of blocks, as `s.split(block=8)`."""
        return self._set("split", kernel, part, sizes)

    def fuse(self, kernel: str | None = None, part: int | None = None, **axes: Any) -> ScheduleStep:
        """Set how many axes are walked as one, as `s.fuse(column_axes=2)`."""
        return self._set("fuse", kernel, part, axes)

    def reorder(
        self, kernel: str | None = None, part: int | None = None, **order: Any
    ) -> ScheduleStep:
        """Set the order of operands and axes, as `s.reorder(order=1)`."""
        return self._set("reorder", kernel, part, order)

    def stage(
        self, kernel: str | None = None, part: int | None = None, **operands: Any
    ) -> ScheduleStep:
        """Set which operands are copied before they are used, as `s.stage(pack_left=True)`."""
        return self._set("stage", kernel, part, operands)

    def vectorize(
        self, kernel: str | None = None, part: int | None = None, **lanes: Any
    ) -> ScheduleStep:
        """Set the elements of a vector, as `s.vectorize(lanes=8)`."""
        return self._set("vectorize", kernel, part, lanes)

    def unroll(
        self, kernel: str | None = None, part: int | None = None, **points: Any
    ) -> ScheduleStep:
        """Set how much is written out one by one, as `s.unroll(unroll=16)`."""
        return self._set("unroll", kernel, part, points)

    def _set(
        self, name: str | None, kernel: Any, part: Any, values: Mapping[str, Any]
    ) -> ScheduleStep:
        unit = self._schedule.unit(KERNEL.check("kernel", kernel))
        if not values:
            raise RuleError("no number is given\n  s.moves() lists them, e.g. s.set(rows=6)")
        for hole in unit.candidate.space.holes(unit.candidate.point):
            if name is not None and hole.name in values and hole.card.step != name:
                raise RuleError(
                    f"{name} does not set {hole.name}, which is of the step {hole.card.step}\n"
                    f"  write s.set({hole.name}={shown(values[hole.name])})"
                )
        number = PART.check("part", part)
        return self.apply(ScheduleMove(unit.name, None, tuple(values.items()), number))

    @checked(steps=whole(None).raising(RuleError))
    def undo(self, steps: int = 1) -> HandSchedule:
        """Take the last steps back."""
        if not 0 < steps <= len(self.history):
            done = counted(len(self.history), "step")
            raise RuleError(
                f"{shown(steps)} steps cannot be taken back: the history has {done}\n"
                "  see s.history"
            )
        for _ in range(steps):
            self._schedule.undo()
        return self

    def redo(self) -> HandSchedule:
        """Apply again the step that was taken back last."""
        if not self._schedule.undone:
            raise RuleError("no step was taken back\n  take one back first: s.undo()")
        self._schedule.redo()
        return self

    @checked(language=LANGUAGE, kernel=KERNEL)
    def source(self, language: str = "c", kernel: str | None = None) -> str:
        """Return the C text of all kernels, or of one.

        `language="cuda"` gives that for a device, where schedules are chosen apart: the numbers
        here are those of a processor.

        >>> import einalg as ea
        >>> s = ea.Schedule("O[i] = 2*A[i]", A=(1000,))
        >>> "for (" in s.source()
        True
        """
        if language == "cuda":
            return self._schedule.cuda_source(kernel)
        return self._schedule.source(kernel)

    @checked(kernel=KERNEL)
    def loops(self, kernel: str | None = None) -> str:
        """Return the loops of all kernels, or of one, as a tree of text."""
        return self._schedule.loops(kernel)

    def estimate(self) -> float:
        """Return the cycles of one core that the cost model expects of a run."""
        return self._schedule.cycles

    def time(self) -> ScheduleTime:
        """Measure each kernel by itself, in turns with the schedule that it had at first.

        They run in a child process on random inputs, and their values are compared with the
        reference. The times are in the log of `tune` too, where a later search finds them. Raises
        `CodegenError` for a kernel that crashes, hangs, or computes something else.
        """
        return ScheduleTime(tuple(self._schedule.times()))

    def compile(self) -> Executable:
        """Return the program with these schedules as a callable `run(**arrays)`.

        >>> import einalg as ea
        >>> s = ea.Schedule("O[i] += A[i,j]", A=(2, 3))
        >>> s.compile()(A=[[1, 2, 3], [4, 5, 6]])
        array([ 6., 15.], dtype=float32)
        """
        return self._schedule.executable().accepting(self.expr.inputs)

    @checked(seconds=SECONDS)
    def keep(self, seconds: float = 60.0) -> Tuning:
        """Have all later compilations on this machine use these schedules.

        Each is measured once more beside what the cost model thinks best and what was kept or tuned
        before, as the winner of a search is, and used later where it is clearly faster; the result
        says so. Raises `CodegenError` as `time`.
        """
        kept = self._schedule.keep(Clock.of(seconds))
        return Tuning(kept.units, kept.untuned, kept.log)

    def to_json(self) -> str:
        """Return the text that `save` writes."""
        return record.text(RECORD_KIND, self._record())

    @checked(path=NEW_FILE)
    def save(self, path: Any) -> None:
        """Save the program and the steps; `Schedule.load` continues them."""
        record.write(path, RECORD_KIND, self._record())

    def _record(self) -> dict[str, Any]:
        return {
            "start": program_record(self.expr),
            "first": self._schedule.points_at_first(),
            "steps": [step.move.as_record() for step in self.history],
        }

    @classmethod
    @checked(path=PATH)
    def load(cls, path: Any) -> HandSchedule:
        """Return a schedule that continues a saved one.

        Raises `RecordError` where the file is broken, or code with its numbers cannot be written on
        this machine.
        """
        content = record.read(path, RECORD_KIND)
        schedule = cls(program_from_record(content.get("start")), tuned=False)
        try:
            schedule._schedule.begin_from(content["first"])
            for row in content["steps"]:
                schedule.apply(move_from_record(row))
        except (KeyError, TypeError, AttributeError, ValueError, RuleError) as error:
            reason = str(error).splitlines() or [type(error).__name__]
            raise RecordError(
                f"the steps of {path} cannot be applied: {reason[0]}\n"
                "  load it on the machine, and with the version of einalg, that it was saved with"
            ) from None
        return schedule

    def script(self) -> str:
        """Return Python that makes the program and applies the steps."""
        lines = [*start_lines(self.expr), "s = ea.Schedule(expr, tuned=False)"]
        lines += _point_lines(self._schedule.other_points_at_first())
        for step in self.history:
            lines += _move_lines(step.move)
        return "\n".join([*lines, "print(s)"])

    def __str__(self) -> str:
        lines = [str(self.expr)]
        for name, unit in self._schedule.units.items():
            count = f" ({len(unit.outputs)}x)" if len(unit.outputs) > 1 else ""
            cycles = in_cycles(unit.candidate.cycles)
            lines.append(f"  {name}{count} as {candidate_text(unit.candidate)}")
            lines.append(f"    {cycles} expected")
        undone = len(self._schedule.undone)
        taken_back = f", {undone} taken back" if undone else ""
        return "\n".join([*lines, f"{counted(len(self.history), 'step')}{taken_back}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return schedule_html(self._schedule)


def _point_lines(points: Points) -> Iterator[str]:
    """Yield calls that set all numbers of some kernels."""
    for kernel, row in points.items():
        yield f's.kind("{row["space"]}", kernel="{kernel}")'
        parts = row["point"].get("parts")
        if parts is None:
            yield _call(kernel, None, row["point"])
            continue
        for number, part in enumerate(parts):
            yield _call(kernel, number, part)


def _move_lines(move: ScheduleMove) -> Iterator[str]:
    if move.space is not None:
        yield f's.kind("{move.space}", kernel="{move.kernel}")'
    if move.values:
        yield _call(move.kernel, move.part, dict(move.values))


def _call(kernel: str, part: int | None, values: Mapping[str, Any]) -> str:
    arguments = [f'kernel="{kernel}"']
    if part is not None:
        arguments.append(f"part={part}")
    arguments += [f"{name}={value!r}" for name, value in values.items()]
    return f"s.set({', '.join(arguments)})"


Schedule = HandSchedule

__all__ = ["Schedule"]
