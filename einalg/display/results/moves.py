"""Moves that are possible, each with the mathematics that it changes."""

from __future__ import annotations

from html import escape

from derive.interactive.choices import MoveList, NumberedMove
from einalg.display.html import badge, page, table
from einalg.display.mathml import changed


def change_html(choice: NumberedMove) -> tuple[str, str]:
    """Return what a move replaces and what it puts there, with the symbols marked that differ."""
    return changed(*choice.change)


def nearness_html(choice: NumberedMove) -> str:
    """Return the distance to the operator that the session aims at, before and after the move."""
    if not choice.nearness:
        return ""
    return " " + badge(choice.nearness, "good" if choice.is_nearer else "")


def moves_html(moves: MoveList) -> str:
    """Return a row for each move, as mathematics before and after."""
    if not moves:
        return page("no move is possible", "einalg-moves")
    rows = []
    for choice in moves:
        before, after = change_html(choice)
        heading = f"{escape(str(choice.move))}{nearness_html(choice)}"
        rows.append([str(choice.number), f"{heading}{before}⇒ {after}"])
    return page(table(["number", "move"], rows), "einalg-moves")
