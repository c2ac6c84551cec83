"""`einalg verify`: the verdicts on the rewrite rules of a file."""

from __future__ import annotations

from collections.abc import Sequence

import einalg as ea
from einalg.cli.output import say
from einalg.errors import UseError

MAX_NAMES = 5  # in a remedy


def run(file: str, names: Sequence[str]) -> bool:
    """Print a verdict for each rule, and the numbers of them; return whether all hold at all
    sizes.
    """
    rules = {rule.name: rule for rule in ea.substitutions.load(file)}
    for name in names:
        if name not in rules:
            known = ", ".join(list(rules)[:MAX_NAMES])
            raise UseError(f"{file} has no rule {name}\n  its rules are {known} …")
    counts: dict[str, int] = {}
    holds = True
    for name in names or rules:
        verdict = ea.substitutions.verify(rules[name])
        say(str(verdict))
        kind = verdict.verdict
        if verdict.condition_text:
            kind += f" where {verdict.condition_text}"
        counts[kind] = counts.get(kind, 0) + 1
        holds = holds and verdict.verdict != "different" and verdict.condition is None
    say(", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return holds
