"""Costs of programs as bars that are divided by kernel."""

from __future__ import annotations

from html import escape

from derive.results.costs import Bar, Costs, kernel_cost
from einalg.display.cost_bars import mark, stack
from einalg.display.html import page


def costs_html(costs: Costs) -> str:
    """Return a bar for each program, with its kernels below."""
    bars = [_bar(bar, costs.longest) for bar in costs.bars]
    return page("".join(bars), "einalg-costs")


def _bar(bar: Bar, longest: float) -> str:
    parts = [stack(bar, longest)]
    for number, (kernel, seconds) in enumerate(bar.kernels):
        square = mark(number if seconds else None)
        cost = kernel_cost(seconds)
        parts.append(f"<div>{square}<code>{escape(kernel)}</code> <small>{cost}</small></div>")
    rest = bar.rest()
    if rest is not None:
        cost, meaning = rest
        parts.append(f"<div>{mark(None)}{escape(meaning)} <small>{cost}</small></div>")
    return f"<div>{''.join(parts)}</div>"
