"""`einalg verify`: the verdicts on the rewrite rules of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import einalg as ea
from einalg.cli.output import say
from einalg.errors import UseError

MAX_NAMES = 5  # in a remedy


def run(file: str, names: Sequence[str], seconds: float) -> bool:
    """Print a verdict for each rule, and the numbers of them; return whether all hold at all
    sizes. Each takes some seconds at most.
    """
    counts: Counter[str] = Counter()
    holds = True
    for rule in _chosen(file, names):
        verdict = ea.substitutions.verify(rule, seconds=seconds)
        say(str(verdict))
        kind = verdict.verdict
        if verdict.condition_text:
            kind += f" where {verdict.condition_text}"
        counts[kind] += 1
        holds = holds and verdict.verdict in ("proved", "tested") and verdict.condition is None
    say(", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return holds


def _chosen(file: str, names: Sequence[str]) -> Sequence[Any]:
    """Return the rules of a file that have one of some names, or all where none is given."""
    rules = ea.substitutions.load(file)
    known = list(dict.fromkeys(rule.name for rule in rules))
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, MAX_NAMES) or known[:MAX_NAMES]
            raise UseError(f"{file} has no rule {name}\n  it has, for example, {', '.join(near)}")
    return [rule for rule in rules if not names or rule.name in names]
