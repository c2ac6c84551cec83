"""Bars of costs on one scale, divided by kernel, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from derive.results.costs import Bar, kernel_cost, longest

COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#edc948", "#9c755f")


def stacks(bars: Sequence[Bar]) -> str:
    """Return bars on one scale."""
    scale = longest(bars)
    return "".join(stack(bar, scale) for bar in bars)


def stack(bar: Bar, scale: float) -> str:
    """Return a bar below its title, each part in the colour of its `mark`; `scale` seconds are as
    wide as the page.
    """
    parts = []
    for number, ((kernel, seconds), width) in enumerate(zip(bar.kernels, bar.widths())):
        if not seconds:
            continue
        style = f"width:{100 * width / scale:.2f}%;background:{_colour(number)}"
        title = f"{escape(kernel)}: {kernel_cost(seconds)}"
        parts.append(f'<span style="{style}" title="{title}"></span>')
    title = escape(bar.title)
    head = f"<p><strong>{title}</strong> {bar.cost}</p>"
    content = "".join(parts)
    return f'{head}<div class="einalg-stack" role="img" aria-label="{title}">{content}</div>'


def mark(number: int | None) -> str:
    """Return a square in the colour of a part of a `stack`, by its number; None for what has no
    part.
    """
    background = "none" if number is None else _colour(number)
    return f'<i style="background:{background}"></i>'


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
