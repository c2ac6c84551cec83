"""`einalg tune`: the fastest schedules of the kernels of an expression or a model, kept for this
machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

import einalg as ea
from codegen.tuning.records.winners import exported, imported
from einalg.cli.model_inputs import examples
from einalg.cli.output import say
from einalg.cli.shape_options import Shape
from einalg.cli.sources import is_model, programs
from einalg.frontends.onnx.nodes.model_file import read_model
from einalg.storage.atomic_file import write_whole
from einalg.text.wording import counted


def run(
    source: str,
    shapes: Mapping[str, Shape],
    weights: Iterable[str],
    files: Mapping[str, str],
    **options: Any,
) -> None:
    """Search, and print the winners. The `files` hold example inputs of a model."""
    if is_model(source):
        _refuse_with("a model", "--weight", weights)
        model = read_model(source)
        example = examples(model, files, shapes, np.random.default_rng(options["seed"]))
        say(str(ea.tune(model, example_inputs=example, **options)))
        return
    _refuse_with("an expression", "--input", files)
    (program,) = programs([source], shapes, weights)
    say(str(ea.tune(program, **options)))


def _refuse_with(what: str, option: str, values: Iterable[str]) -> None:
    """Raise a usage error for an option that says nothing of what is tuned."""
    if any(True for _ in values):
        raise click.UsageError(f"{what} has no {option}")


def read(path: Path) -> None:
    """Take the winners of a file first."""
    say(f"{counted(imported(path), 'tuned kernel')} read from {path}")


def write(path: Path) -> None:
    """Write all winners that this machine has into a file."""
    write_whole(path, (exported() + "\n").encode())
    say(f"all tuned kernels are in {path}")
