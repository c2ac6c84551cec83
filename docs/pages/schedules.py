"""The reference of schedules: the numbers of every kind of code, each with its card."""

from __future__ import annotations

from codegen.tuning.by_hand.unit import KIND_CARD
from codegen.tuning.spaces.unit_spaces import SPACE_CARDS
from docs.pages.markdown import table

INTRODUCTION = f"""# Schedules

A kernel is written as one of some kinds of code, each with numbers. `ea.tune` searches them, and
`ea.Schedule` changes them by hand; see [tune schedules](../how-to/tune-schedules.md) for what the
kinds are, and for both. The card of a number says which step sets it, what it decides, and what
has to hold for it. The step `kind` {KIND_CARD.effect}. Which values there are depends on the sizes
of a kernel and on the machine: `s.moves()` lists those that are possible.
"""
HEADS = ("number", "step", "what it decides", "condition")


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for name, cards in SPACE_CARDS.items():
        rows: list[tuple[str, ...]] = []
        for number, card in cards.items():
            rows.append((f"`{number}`", f"`{card.step}`", card.effect, card.condition))
        parts.append(f"## {name.capitalize()}\n\n{table(HEADS, rows)}")
    return "\n\n".join(parts)
