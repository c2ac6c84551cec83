"""`einalg doctor`: what this machine has, and the remedy for what is missing."""

from __future__ import annotations

from einalg.api.questions import doctor
from einalg.cli.output import table


def run() -> None:
    """Print every fact in a table."""
    table(
        ("", "what", "which, or what to do"),
        [("ok" if fact.found else "missing", fact.name, fact.detail) for fact in doctor()],
    )
