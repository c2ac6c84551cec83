"""`einalg derive`: a search, as text or as JSON of `derive.schema.json`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

import einalg as ea
from einalg.cli.commands.derivation_text import NOTHING_FASTER, nothing_to_explain, numbered, tell
from einalg.cli.output import finite, note, print_json, say
from einalg.cli.shape_options import Shape
from einalg.cli.sources import programs
from einalg.language.ir.program import Program

SCHEMA = 1


def schema_text() -> str:
    """The JSON schema of what `einalg derive --json` prints."""
    return (files("einalg.cli") / "derive.schema.json").read_text(encoding="utf-8")


def run(
    text: str,
    shapes: Mapping[str, Shape],
    weights: Iterable[str],
    explain: bool,
    number: int | None,
    as_json: bool,
    save: Path | None,
    export_c: Path | None,
    **search: Any,
) -> bool:
    """Search and print its result, with the derivation of candidate `number` (the best by default).

    `search` goes to `einalg.derive`. Returns False where it was interrupted: the result is the best
    until then.
    """
    (program,) = programs([text], shapes, weights)
    derivation = ea.derive(program, **search)
    if save is not None:
        derivation.save(save)
        note(f"saved in {save}")
    if export_c is not None:
        derivation.best.export_c(export_c)
        note(f"written as C into {export_c}")
    wanted = explain or number is not None
    if as_json:
        explanation = (
            {"explanation": derivation.explain(numbered(derivation, number or 0))} if wanted else {}
        )
        print_json({**record(derivation), **explanation})
        return not derivation.stats.is_interrupted
    tell(derivation)
    if wanted:
        say(derivation.explain(numbered(derivation, number or 0)))
    if explain and nothing_to_explain(derivation, number):
        say(f"\n{NOTHING_FASTER} To see another candidate:")
        click.echo(
            f"  einalg show {shlex.quote(str(save))} --candidate 1"
            if save
            else "  add --save FILE, then einalg show FILE --candidate 1"
        )
    return not derivation.stats.is_interrupted


def record(derivation: Any) -> dict[str, Any]:
    """A derivation as JSON values: the expression, the candidates (best first), and the statistics
    of the search.
    """
    stats = derivation.stats
    return {
        "schema": SCHEMA,
        "einalg": ea.__version__,
        "expression": _program(derivation.expression),
        "candidates": [_candidate(c) for c in derivation.candidates],
        "stats": {
            **{name: getattr(stats, name) for name in ("states", "generated", "duplicates")},
            "stopped": stats.ending,
            "seconds": finite(stats.seconds),
            "rejected": dict(stats.rejected),
        },
    }


def _program(program: Program) -> dict[str, Any]:
    inputs = {
        name: {"shape": list(t.shape), "dtype": t.dtype, "role": t.role}
        for name, t in program.inputs.items()
    }
    return {"text": str(program), "inputs": inputs, "outputs": list(program.outputs)}


def _candidate(candidate: Any) -> dict[str, Any]:
    return {
        "seconds": finite(candidate.cost),
        "measured": candidate.measured,
        "verdict": candidate.verdict,
        "error": finite(candidate.error),
        "program": str(candidate.program),
        "moves": [move.as_record() for move in candidate.moves],
        "kernels": [kernel.as_record() for kernel in candidate.kernels],
    }
