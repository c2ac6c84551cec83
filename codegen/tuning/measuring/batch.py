"""Candidates that run in child processes, each of them with its times or a reason against it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from codegen.tuning.measuring.task import (
    MARKER,
    NOT_MARKED,
    OUTCOMES,
    CompiledCandidate,
    MeasuringTask,
    Outcome,
    outcome_from_line,
)
from einalg.runtime.processes import run_command

CRASH, HANG = "crash", "time-out"
START_SECONDS = 60.0  # for a child to begin, and to measure, besides first runs
PROGRAM = """\
import sys
sys.path[:] = {path!r}
from codegen.tuning.measuring.child import main
main({arguments!r})
"""


@dataclass(frozen=True)
class BatchRunner:
    """Runs candidates of one task, whose `template` has none of them yet."""

    template: MeasuringTask

    def outcomes(self, candidates: Mapping[int, CompiledCandidate]) -> dict[int, Outcome]:
        """Return the outcome of each candidate.

        One that ends its process is refused, and the others run in another process.
        """
        outcomes: dict[int, Outcome] = {}
        waiting = dict(candidates)
        while waiting:
            outcomes |= self._in_one_process(waiting)
            waiting = {n: candidate for n, candidate in waiting.items() if n not in outcomes}
        return outcomes

    def _in_one_process(self, candidates: Mapping[int, CompiledCandidate]) -> dict[int, Outcome]:
        """Return the outcomes of a process, at least one: that of the candidate that ended it."""
        numbers = list(candidates)
        with TemporaryDirectory(prefix="einalg-") as name:
            folder = Path(name)
            replace(self.template, candidates=tuple(candidates.values())).write(folder)
            np.array([NOT_MARKED], np.int64).tofile(folder / MARKER)
            (folder / OUTCOMES).touch()
            reason = self._run(folder, len(numbers))
            outcomes: dict[int, Outcome] = {}
            for line in (folder / OUTCOMES).read_text(encoding="utf-8").splitlines():
                entry = outcome_from_line(line)
                if entry is not None:
                    outcomes[numbers[entry[0]]] = entry[1]
            marked = int(np.fromfile(folder / MARKER, np.int64)[0])
        if reason is not None and len(outcomes) < len(numbers):
            culprit = numbers[0]
            if marked != NOT_MARKED:
                culprit = numbers[marked]
            outcomes[culprit] = Outcome(reason=reason)
        return outcomes

    def _run(self, folder: Path, count: int) -> str | None:
        """Return why a process ended before it was done; None where it was."""
        program = PROGRAM.format(path=sys.path, arguments=[str(folder)])
        seconds = START_SECONDS + count * self.template.first_seconds
        try:
            status, said = run_command([sys.executable, "-c", program], seconds)
        except subprocess.TimeoutExpired:
            return HANG
        if status == -signal.SIGALRM:
            return HANG
        if status < 0:
            return f"{CRASH}: {signal.Signals(-status).name}"
        if status:
            return f"{CRASH}: {(said.strip().splitlines() or ['no message'])[-1][:100]}"
        return None
