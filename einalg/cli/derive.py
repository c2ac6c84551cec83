"""`einalg derive`: a search, as text or as JSON of `derive.schema.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

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


def run(text: str, shapes: Mapping[str, Shape], weights: Iterable[str], explain: bool, as_json: bool, save: Path | None, **search: Any) -> None:
    """Search and print what was found; `search` goes to `einalg.derive`."""
    (program,) = programs([text], shapes, weights)
    with working("searching and measuring") as tell:
        found = ea.derive(program, progress=lambda s: tell(f"{s.states} states, {s.candidates} candidates"), **search)
    if save is not None:
        found.save(save)
    if as_json:
        explanation = {"explanation": found.explain()} if explain else {}
        print_json({**record(found), **explanation})
        return
    say(str(found))
    _candidates(found)
    if explain:
        say(found.explain())


def _candidates(found: Any) -> None:
    rows = [
        (str(number), f"{c.cost * 1e3:.3f}", "measured" if c.measured else "estimated", c.verdict, str(len(c.moves)), ", ".join(c.operators))
        for number, c in enumerate(found.candidates[:MOST_ROWS], 1)
    ]
    table(("#", "ms", "how", "verdict", "moves", "kernels"), rows, numbers=("#", "ms", "moves"))
    left = len(found.candidates) - len(rows)
    if left:
        say(f"and {left} more")


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
