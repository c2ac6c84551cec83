"""Candidates that run in child processes, each of them with its times or a reason against it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from codegen.tuning.measuring.task import (
    MARKER,
    NOT_MARKED,
    OUTCOMES,
    VALUES,
    CandidateTask,
    Outcome,
    outcome_from_line,
)
from einalg.runtime.processes import run_command

CRASH = "crash"
HANG = Outcome(reason="time-out")
SILENT = Outcome(reason="its process reported nothing")
NO_VALUES = Outcome(reason="there are no values to compare with")
# Signals that code brings about; others come from outside, as where memory is short.
FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
START_SECONDS = 60.0  # for a child to begin, and to measure what is fast
# Of a slow candidate, each of which may take as long as a first run.
LOADING = 1
VALUE_RUNS = 2  # where the values of the first one are to be expected ones
SLOW_TURNS = 2
CACHES = 2  # warm ones and empty ones
SLOW_RUNS = LOADING + VALUE_RUNS + CACHES * SLOW_TURNS
PROGRAM = """\
import sys
sys.path[:] = {path!r}
from {module} import main
main({arguments!r})
"""


@dataclass
class BatchRunner:
    """Runs candidates of one `task`, which has none of them yet.

    Where the task has no expected values, those of the first candidate that runs are expected from
    then on, so that has to be one which is known to be right.
    """

    task: CandidateTask

    def outcomes(self, candidates: Mapping[int, Any]) -> dict[int, Outcome]:
        """Return the outcome of each candidate.

        One that ends its process is refused, and the others run in another process. Where it is the
        one that is known to be right, so are they.
        """
        outcomes: dict[int, Outcome] = {}
        waiting = dict(candidates)
        while waiting:
            batch = waiting
            if self.task.expected is None:
                batch = dict(islice(waiting.items(), 1))
            outcomes |= self._in_one_process(batch) or dict.fromkeys(batch, SILENT)
            waiting = {n: candidate for n, candidate in waiting.items() if n not in outcomes}
            if self.task.expected is None:
                return outcomes | dict.fromkeys(waiting, NO_VALUES)
        return outcomes

    def _in_one_process(self, candidates: Mapping[int, Any]) -> dict[int, Outcome]:
        """Return the outcomes of a process; none where it tells nothing that can be read.

        One of them is that of the candidate that ended it, where one did.
        """
        numbers = list(candidates)
        with TemporaryDirectory(prefix="einalg-") as name:
            folder = Path(name)
            replace(self.task, candidates=tuple(candidates.values())).write(folder)
            np.array([NOT_MARKED], np.int64).tofile(folder / MARKER)
            (folder / OUTCOMES).touch()
            end = self._run(folder, len(numbers))
            outcomes: dict[int, Outcome] = {}
            for line in (folder / OUTCOMES).read_text(encoding="utf-8").splitlines():
                entry = outcome_from_line(line)
                if entry is not None and entry[0] in range(len(numbers)):
                    outcomes[numbers[entry[0]]] = entry[1]
            marked = int(np.fromfile(folder / MARKER, np.int64)[0])
            if end is not None and len(outcomes) < len(numbers):
                outcomes |= _ended(end, numbers, marked)
            first = outcomes.get(numbers[0], SILENT)
            if self.task.expected is None and first.score is not None:
                self.task = replace(self.task, expected=np.load(folder / VALUES))
        return outcomes

    def _run(self, folder: Path, count: int) -> Outcome | None:
        """Return how a process ended before it was done; None where it was."""
        program = PROGRAM.format(path=sys.path, module=self.task.module, arguments=[str(folder)])
        seconds = START_SECONDS + count * SLOW_RUNS * self.task.first_seconds
        try:
            status, said = run_command([sys.executable, "-c", program], seconds)
        except subprocess.TimeoutExpired:
            return HANG
        if status == -signal.SIGALRM:
            return HANG
        if status < 0:
            reason = f"{CRASH}: {signal.Signals(-status).name}"
            return Outcome(reason=reason, strikes=int(-status in FAULTS))
        if status:
            last = (said.strip().splitlines() or ["no message"])[-1]
            return Outcome(reason=f"{CRASH}: {last[:100]}")
        return None


def _ended(end: Outcome, numbers: Sequence[int], marked: int) -> dict[int, Outcome]:
    """Return the outcome of the candidate that ended a process: that which was marked.

    Where the process ended before it began one, the first is refused, which is not to blame.
    """
    if marked == NOT_MARKED:
        return {numbers[0]: replace(end, strikes=0)}
    return {numbers[marked]: end}
