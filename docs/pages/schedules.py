"""The reference of schedules: the numbers of every kind of code, each with its card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codegen.tuning.by_hand.unit import KIND_CARD
from codegen.tuning.spaces.cuda.unit_spaces import DEVICE_CARDS
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.unit_spaces import SPACE_CARDS
from docs.pages.markdown import table

INTRODUCTION = f"""# Schedules

A kernel is written as one of some kinds of code, each with numbers. `ea.tune` searches them, and
`ea.Schedule` changes them by hand; see [tune schedules](../how-to/tune-schedules.md) for what the
kinds are, and for both. The card of a number says which step sets it, what it decides, and what
has to hold for it. The step `kind` {KIND_CARD.effect}. Which values there are depends on the sizes
of a kernel and on the machine: `s.moves()` lists those that are possible.
"""
ON_A_DEVICE = """## On a CUDA device

The kernels of a device have numbers of their own. The cheapest by the cost model, or what was
measured there, is compiled; `ea.Schedule` changes those of a processor.
"""
HEADS = ("number", "step", "what it decides", "condition")


def page() -> str:
    """The whole page."""
    return "\n\n".join(
        [INTRODUCTION, *_tables(SPACE_CARDS, "##"), ON_A_DEVICE, *_tables(DEVICE_CARDS, "###")]
    )


def _tables(spaces: Mapping[str, Mapping[str, StepCard]], heading: str) -> Iterator[str]:
    """Yield a table for each kind of code, under a heading."""
    for name, cards in spaces.items():
        rows: list[tuple[str, ...]] = []
        for number, card in cards.items():
            rows.append((f"`{number}`", f"`{card.step}`", card.effect, card.condition))
        yield f"{heading} {name.capitalize()}\n\n{table(HEADS, rows)}"
