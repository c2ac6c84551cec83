"""`einalg derive`: a search, as text or as JSON of `derive.schema.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

import einalg as ea
from einalg.cli.arguments import Shape
from einalg.cli.output import finite, print_json, say, table, working
from einalg.cli.reading import programs
from einalg.program import Program

SCHEMA = 1
MOST_ROWS = 8


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
    **search: Any,
) -> None:
    """Search and print what was found, with the derivation of candidate `number` (the best by default); `search` goes to `einalg.derive`."""
    (program,) = programs([text], shapes, weights)
    with working("searching and measuring") as tell:
        found = ea.derive(program, progress=lambda s: tell(f"{s.states} states, {s.candidates} candidates"), **search)
    if save is not None:
        found.save(save)
    wanted = explain or number is not None
    if as_json:
        print_json({**record(found), **({"explanation": _explanation(found, number or 0)} if wanted else {})})
        return
    say(str(found))
    rows = list(found.candidates[:MOST_ROWS].rows())
    table(("#", *found.candidates.heads[1:]), rows, numbers=("#", "ms", "moves"))
    if len(found.candidates) > len(rows):
        say(f"and {len(found.candidates) - len(rows)} more")
    if wanted:
        say(_explanation(found, number or 0))
    if explain and number is None and not found.best.moves and len(found.candidates) > 1:
        say("\nNothing is faster than what was given; --candidate 1 explains the next one.")


def _explanation(found: Any, number: int) -> str:
    """The derivation of a candidate step by step, after its number."""
    if number >= len(found.candidates):
        raise click.UsageError(f"there is no candidate {number}: {len(found.candidates)} were found, numbered from 0")
    return found.explain(found.candidates[number])


def record(found: Any) -> dict[str, Any]:
    """A derivation as JSON values: the expression, the candidates (best first), and the statistics of the search."""
    stats = found.stats
    return {
        "schema": SCHEMA,
        "einalg": ea.__version__,
        "expression": _program(found.expression),
        "candidates": [_candidate(c) for c in found.candidates],
        "stats": {
            **{name: getattr(stats, name) for name in ("states", "generated", "duplicates", "stopped")},
            "seconds": finite(stats.seconds),
            "rejected": dict(stats.rejected),
        },
    }


def _program(program: Program) -> dict[str, Any]:
    inputs = {name: {"shape": list(t.shape), "dtype": t.dtype, "role": t.role} for name, t in program.inputs.items()}
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
