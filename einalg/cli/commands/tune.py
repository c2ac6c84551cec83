"""`einalg tune`: the fastest schedules of an expression's kernels, kept for this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import einalg as ea
from codegen.tuning.records.winners import exported, imported
from einalg.cli.output import say
from einalg.cli.shape_options import Shape
from einalg.cli.sources import programs
from einalg.storage.atomic_file import write_whole
from einalg.text.wording import counted


def run(text: str, shapes: Mapping[str, Shape], weights: Iterable[str], **options: Any) -> None:
    """Search, and print the winners."""
    (program,) = programs([text], shapes, weights)
    say(str(ea.tune(program, **options)))


def read(path: Path) -> None:
    """Take the winners of a file first."""
    say(f"{counted(imported(path), 'tuned kernel')} read from {path}")


def write(path: Path) -> None:
    """Write all winners that this machine has into a file."""
    write_whole(path, (exported() + "\n").encode())
    say(f"all tuned kernels are in {path}")
