"""What a child process is asked to do: candidates with their compiled code, and the values wanted.

A task travels in a file that only this process and its child see. Outcomes come back line by line,
so that those before a crash are known.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from codegen.ir.nodes import Function
from codegen.runtime.array_arguments import Array
from codegen.targets.c.compiler import Compiler
from einalg.runtime.timing import MeasuringPolicy

TASK, OUTCOMES, MARKER = "task", "outcomes", "marker"  # files of a task's folder
VALUES = "values.npy"  # of a task without expected ones: those of its first candidate
NOT_MARKED = -1
LASTING = 2  # strikes, from which on a candidate is not measured again
# A candidate in a child: few turns each, since only the best one matters.
POLICY = MeasuringPolicy(0.05, 5, 50, hopeless_ratio=2.0, visits=1, late_factor=3.0)
COLD_POLICY = replace(POLICY, seconds_per_alternative=0.03, min_turns=5, max_turns=20)


@dataclass(frozen=True)
class CompiledCandidate:
    """A function without its body, and its machine code: a file, and a position in it."""

    library: Path
    position: int
    function: Function


@dataclass(frozen=True, kw_only=True)
class CandidateTask:
    """Candidates that compute the same, on the same inputs, which are the `arrays`.

    `expected` are the values that a candidate must have; where that is None, those of the first
    one, which is known to be right. `first_seconds` is the time for loading and packing one of
    them, and for a first run. The `module` is what runs in the child.
    """

    module: ClassVar[str]
    candidates: Sequence[Any]
    arrays: Mapping[str, Array]
    output: str
    dtype: str
    expected: Array | None
    first_seconds: float

    def write(self, folder: Path) -> None:
        (folder / TASK).write_bytes(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))


@dataclass(frozen=True, kw_only=True)
class MeasuringTask(CandidateTask):
    """Shared objects that run on this machine.

    The `constants` among the inputs are known before a run. Where `is_cold`, candidates are timed
    with empty caches too. Values count where they are `defined`, None everywhere.
    """

    module = "codegen.tuning.measuring.child"
    candidates: Sequence[CompiledCandidate]
    compiler: Compiler
    constants: Sequence[str]
    is_cold: bool
    defined: Array | None = None
    policy: MeasuringPolicy = POLICY
    cold_policy: MeasuringPolicy = COLD_POLICY


@dataclass(frozen=True)
class Outcome:
    """The seconds of a candidate, warm and with empty caches, or the reason why it is refused.

    `spread` is that of its turns, as a part of the seconds; `busy` says that the machine did other
    work meanwhile. `strikes` says how far the reason follows from the code: with `LASTING` of them,
    in one record or in several, it is not measured again. A reason of the moment has none.
    """

    seconds: float | None = None
    cold_seconds: float | None = None
    spread: float = 0.0
    busy: bool = False
    reason: str | None = None
    strikes: int = 0

    @property
    def score(self) -> float | None:
        """Return the seconds that decide: with empty caches where these were measured."""
        if self.cold_seconds is not None:
            return self.cold_seconds
        return self.seconds

    def line(self, number: int) -> str:
        """Return the outcome of a candidate as a line of JSON."""
        return json.dumps({"candidate": number, **asdict(self)}) + "\n"


def read_task(folder: Path) -> Any:
    """Return the task that another process has written."""
    task = pickle.loads((folder / TASK).read_bytes())
    assert isinstance(task, CandidateTask)
    return task


def outcome_from_line(line: str) -> tuple[int, Outcome] | None:
    """Return the number of a candidate and its outcome; None for a line that is torn."""
    try:
        row: dict[str, Any] = json.loads(line)
        return int(row.pop("candidate")), Outcome(**row)
    except (ValueError, TypeError, KeyError):
        return None


def without_body(function: Function) -> Function:
    """Return what a call needs to know of a function."""
    packs = tuple(replace(pack, body=()) for pack in function.packs)
    return replace(function, body=(), packs=packs)
