"""The graph of a network before and after: rows in the order in which they run, with the lines from
what makes a value to what reads it beside them.

Everything but the search works without a script: rows and layers unfold, and say what they read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from derive.search.search_tree import colour
from einalg.display.html import asset, folded, fresh_id, page
from einalg.display.mathml import MAX_FORMULAS, formula
from einalg.display.network_graph import (
    GraphSide,
    GraphStatement,
    Lanes,
    NetworkGraph,
    lanes,
)
from einalg.text.wording import counted

LANE, ROW = 12, 30  # pixels between lanes, and of a row
MAX_LANES = 8  # that are drawn
RADIUS = 4.5  # of the dot of a row, in pixels
LEGEND = (
    '<span class="einalg-legend">little time<i></i>much</span>'
    "<small>the share is that of the times of all kernels, each by itself</small>"
)


def network_html(graph: NetworkGraph) -> str:
    """Return both sides, with a field to search in them."""
    name = fresh_id()
    search = (
        '<input type="search" hidden placeholder="Search the statements" '
        'aria-label="Search the statements">'
        '<button type="button" data-fold="open" hidden>Unfold all</button>'
        '<button type="button" data-fold="" hidden>Fold all</button>'
        '<small class="einalg-hits" aria-live="polite"></small>'
    )
    sides = "".join(map(_side, graph.sides))
    remarks = "<br>".join(map(escape, graph.remarks()))
    content = (
        f'<div id="{name}"><div class="einalg-bar">{search}{LEGEND}</div>'
        f'<div class="einalg-sides">{sides}</div><p class="einalg-muted">{remarks}</p></div>'
    )
    start = f"searchable(document.getElementById('{name}'));"
    script = f"<script>(() => {{ {asset('network.js')}\n {start} }})();</script>"
    return page(content + script, "einalg-network")


def _side(side: GraphSide) -> str:
    groups = side.groups()
    ends = []
    for _, members in groups:
        names = {member.name for member in members}
        reads = [name for member in members for name in member.reads if name not in names]
        ends.append((names, reads))
    drawn = lanes(ends)
    width = 1 + max((max(row.own, *row.ending, *row.passing, 0) for row in drawn), default=0)
    width = min(width, MAX_LANES)
    longest = max((_seconds(members) for _, members in groups), default=0.0)
    rows = []
    for (layer, members), lines in zip(groups, drawn, strict=True):
        share = _seconds(members) / longest if longest else 0.0
        picture = _lines(lines, width, _fill(members, share))
        if layer and len(members) > 1:
            rows.append(_group(side, layer, members, picture, share))
        else:
            rows.append(_statement(side, members[0], picture, share))
    once = [statement for statement in side.statements if statement.once]
    if once:
        listed = "".join(_statement(side, statement, "", 0.0) for statement in once)
        rows.append(folded(f"{counted(len(once), 'statement')} done once, from weights", listed))
    return f'<section class="einalg-side"><h4>{escape(side.head)}</h4>{"".join(rows)}</section>'


def _seconds(members: Iterable[GraphStatement]) -> float:
    return sum(member.seconds or 0.0 for member in members)


def _fill(members: Sequence[GraphStatement], share: float) -> str:
    """Return the colour of a time, or that of the page where none is known."""
    if all(member.seconds is None for member in members):
        return "var(--ea-ground)"
    return colour(share)


def _group(
    side: GraphSide, layer: str, members: Sequence[GraphStatement], picture: str, share: float
) -> str:
    """Return the statements of a layer as one row that unfolds."""
    seconds = _seconds(members)
    is_measured = all(member.is_measured for member in members)
    time = f"{'' if is_measured else '~'}{seconds * 1e3:.3f}"
    operators = ", ".join(dict.fromkeys(member.operator for member in members))
    what = f"{counted(len(members), 'statement')}: {operators}"
    heat = _heat(_time(time, side.share(seconds)), _fill(members, share))
    head = _head(picture, heat, layer, what)
    longest = max(member.seconds or 0.0 for member in members) or 1.0
    rows = ""
    for member in members:
        rows += _statement(side, member, "", (member.seconds or 0.0) / longest)
    names = " ".join(member.name for member in members)
    reads = " ".join(name for member in members for name in member.reads)
    attributes = f'data-makes="{escape(names)}" data-reads="{escape(reads)}"'
    inside = f'<div class="einalg-inside">{rows}</div>'
    return f'<details class="einalg-node" {attributes}><summary>{head}</summary>{inside}</details>'


def _statement(side: GraphSide, statement: GraphStatement, picture: str, share: float) -> str:
    """Return a statement as a row that unfolds to its expression."""
    scope = statement.scope
    shape = "×".join(map(str, statement.shape)) if statement.shape else ""
    what = f"{statement.operator} {shape}".strip()
    head = _head(picture, _heat_of(side, statement, share), statement.name, what, scope is None)
    reads = " ".join(statement.reads)
    attributes = (
        f'data-makes="{escape(statement.name)}" data-reads="{escape(reads)}" '
        f'data-text="{escape(f"{what} {statement.text}".lower())}"'
    )
    body = f"<p>{escape(statement.text)}</p>"
    if scope is not None:
        body = f"<pre>{escape(statement.text)}</pre>"
        if len(side.statements) <= MAX_FORMULAS:
            body = formula([(statement.name, scope)])
    if statement.reads:
        body += f"<small>reads {escape(', '.join(statement.reads))}</small>"
    return f'<details class="einalg-node" {attributes}><summary>{head}</summary>{body}</details>'


def _heat_of(side: GraphSide, statement: GraphStatement, share: float) -> str:
    """Return the time of a statement on its colour; nothing for what is done once."""
    if statement.once:
        return ""
    time = statement.time
    if statement.seconds is not None:
        time = _time(time, side.share(statement.seconds))
    return _heat(time, _fill([statement], share))


def _time(time: str, share: float) -> str:
    return f"{escape(time)} ms <small>{share:.0%}</small>"


def _heat(time: str, fill: str) -> str:
    kind = "einalg-heat unknown" if fill.startswith("var") else "einalg-heat"
    return f'<span class="{kind}" style="background:{fill}">{time}</span>'


def _head(picture: str, heat: str, name: str, what: str, is_opaque: bool = False) -> str:
    """Return what a folded row shows."""
    kind = " framework" if is_opaque else ""
    title = escape(f"{name} {what}")
    text = f"<strong>{escape(name)}</strong> <small>{escape(what)}</small>"
    return f'{picture}{heat}<span class="einalg-what{kind}" title="{title}">{text}</span>'


def _lines(row: Lanes, width: int, fill: str) -> str:
    """Return the lines beside a row, and its dot."""
    middle, parts = ROW / 2, []
    for lane in row.passing:
        if lane != row.own or lane not in row.ending:
            parts.append(_path(lane, 0, lane, ROW, width))
    for lane in row.ending:
        parts.append(_path(lane, 0, row.own, middle, width))
    if row.goes_on:
        parts.append(_path(row.own, middle, row.own, ROW, width))
    x = _x(min(row.own, width - 1))
    parts.append(f'<circle cx="{x}" cy="{middle:g}" r="{RADIUS}" fill="{fill}"/>')
    size = f'width="{width * LANE}" height="{ROW}" aria-hidden="true"'
    return f'<svg class="einalg-lanes" {size}>{"".join(parts)}</svg>'


def _path(lane: int, y: float, to_lane: int, to_y: float, width: int) -> str:
    if lane >= width or to_lane >= width:
        return ""
    x, to_x = _x(lane), _x(to_lane)
    half = (y + to_y) / 2
    return f'<path d="M{x} {y:g} C{x} {half:g} {to_x} {half:g} {to_x} {to_y:g}"/>'


def _x(lane: int) -> int:
    return lane * LANE + LANE // 2
