"""`einalg optimize`: an ONNX model made faster, on inputs that are given or drawn."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import einalg as ea
from einalg.cli.model_inputs import examples
from einalg.cli.output import finite, note, print_json, say
from einalg.cli.shape_options import ONNX, Shape
from einalg.frontends.onnx.nodes.model_file import read_model


def run(
    path: str,
    files: Mapping[str, str],
    shapes: Mapping[str, Shape],
    seconds: float,
    target: str,
    seed: int,
    output: Path | None,
    export_c: Path | None,
    as_json: bool,
    **options: Any,
) -> bool:
    """Optimize, print the report, and save it if asked to; False where that was interrupted.

    The `options` are others of `einalg.optimize`.
    """
    model = read_model(path)
    arrays = examples(model, files, shapes, np.random.default_rng(seed))
    with _noticed() as interrupts:
        made = ea.optimize(model, arrays, target, seconds, **options)
    if as_json:
        print_json(record(made))
    else:
        say(made.report.text)
    if output is not None:  # last: what cannot be saved is reported all the same
        save = made.to_onnx if output.suffix == ONNX else made.save
        save(output)
        note(f"saved in {output}")
    if export_c is not None:
        made.export_c(export_c)
        note(f"written as C into {export_c}")
    return not interrupts


@contextmanager
def _noticed() -> Iterator[list[int]]:
    """The interrupts that came, which raise `KeyboardInterrupt` as ever."""
    came: list[int] = []

    def notice(number: int, frame: Any) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, notice)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def record(made: Any) -> dict[str, Any]:
    """Return what was done, as JSON values.

    That is every program with its layers before and after, and what stays a call of the framework.
    """
    return {
        "schema": 1,
        "einalg": ea.__version__,
        "seconds": finite(made.seconds),
        "programs": [_program(part) for part in made.parts.values()],
        "opaque": [{"operator": node.operator, "why": node.why} for node in made.opaque],
    }


def _program(part: Any) -> dict[str, Any]:
    before, after = part.seconds
    return {
        "seconds_before": finite(before),
        "seconds_after": finite(after),
        "verdict": part.verdict,
        "error": finite(part.error),
        "slices": part.slices.count if part.slices else 1,  # runs of its layers in one of it
        "layers": [_layer(layer) for layer in part.layers],
    }


def _layer(layer: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "names": list(layer.names),
        "text": layer.text,
        "seconds_before": finite(layer.original),
        "seconds_after": None,
        "verdict": None,
        "moves": [],
        "kernels": [],
    }
    candidate = layer.candidate
    if candidate is not None:
        row["seconds_after"] = finite(candidate.cost)
        row["verdict"] = candidate.verdict
        row["moves"] = [move.as_record() for move in candidate.moves]
        row["kernels"] = [kernel.as_record() for kernel in candidate.kernels]
    return row
