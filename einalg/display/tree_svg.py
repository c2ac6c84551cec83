"""A tree as a picture that is walked by mouse or keyboard: HTML with SVG, and a script that zooms
(design §8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from einalg.display.html import asset, fresh_id, page
from einalg.text.wording import counted, shortened

COLUMN, LINE = 250, 44  # pixels from a node to its children, and to the next line
WIDTH, HEIGHT = 190, 36  # of a node
LONGEST, LEAST = 30, 20  # letters of a line of a label, of which there are two
BASELINES = {1: (22,), 2: (15, 28)}  # of the lines of a label, in pixels from the top


@dataclass(frozen=True)
class TreeNode:
    """A node: its number and its parent's, a `label` of which it shows what tells it from others, a
    `note` and `text` for when it is chosen.

    `colour` fills it; it is `bold` on the way that matters, and `framed` where it is a result.
    """

    number: int
    parent: int | None
    label: str
    note: str
    colour: str
    bold: bool = False
    framed: bool = False
    text: str = ""


def tree_html(nodes: Sequence[TreeNode], hidden: int = 0) -> str:
    """Nodes, each after its parent, with the root on the left; `hidden` says how many more there
    are.
    """
    if not nodes:
        return page("<p>nothing was explored</p>", "einalg-tree")
    places = layout(nodes)
    width = max(x for x, _ in places.values()) + WIDTH + 20
    height = max(y for _, y in places.values()) + HEIGHT + 20
    edges = "".join(
        _edge(places[node.parent], places[node.number], node.bold)
        for node in nodes
        if node.parent in places
    )
    labels = shortened((node.label for node in nodes), LONGEST + LEAST)
    boxes = "".join(_box(node, labels[node.label], *places[node.number]) for node in nodes)
    more = f"<small>not shown, farther away: {counted(hidden, 'state')}.</small>" if hidden else ""
    name = fresh_id()
    bar = "".join(
        f'<button type="button" data-zoom="{key}" title="{title}" aria-label="{title}">{sign}</button>'
        for key, sign, title in (
            ("in", "+", "zoom in"),
            ("out", "−", "zoom out"),
            ("fit", "fit", "show all"),
            ("one", "1:1", "natural size"),
        )
    )
    legend = '<span class="einalg-legend">near an operator<i></i>far</span>'
    states = counted(len(nodes), "state")
    svg = (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" tabindex="0" role="img" '
        f'aria-label="tree of {states}; the arrow keys walk in it">{edges}{boxes}</svg>'
    )
    content = (
        f'<div class="einalg-bar">{bar}{legend}{more}</div><div class="einalg-canvas">{svg}</div>'
        '<div class="einalg-chosen" aria-live="polite">Point at a state, or walk with the arrow keys, to see its expression.</div>'
    )
    script = f"<script>(() => {{ {asset('tree.js')}\n enliven(document.getElementById('{name}')); }})();</script>"
    return page(f'<div id="{name}">{content}</div>{script}', "einalg-tree")


def layout(nodes: Sequence[TreeNode]) -> dict[int, tuple[int, int]]:
    """Left upper corners: a column for each depth, a line for each leaf, and a parent beside the
    first of its children.
    """
    known = {node.number for node in nodes}
    children: dict[int | None, list[TreeNode]] = {}
    for node in nodes:
        parent = node.parent if node.parent in known and node.parent != node.number else None
        children.setdefault(parent, []).append(node)
    places: dict[int, tuple[int, int]] = {}
    line = 0
    todo = [(node, 0, False) for node in reversed(children.get(None, []))]
    while todo:
        node, depth, follows = todo.pop()
        line += 0 if follows else 1
        places[node.number] = (10 + depth * COLUMN, 10 + (line - 1) * LINE)
        below = children.get(node.number, [])
        todo += [
            (child, depth + 1, position == 0)
            for position, child in reversed(list(enumerate(below)))
        ]
    return places


def _edge(parent: tuple[int, int], child: tuple[int, int], bold: bool) -> str:
    x, y = parent[0] + WIDTH, parent[1] + HEIGHT // 2
    to, down = child[0], child[1] + HEIGHT // 2
    middle = (x + to) // 2
    return f'<path class="{"bold" if bold else ""}" d="M{x} {y} C{middle} {y} {middle} {down} {to} {down}"/>'


def _lines(label: str) -> list[str]:
    """A label in one line or two, broken at a space where there is one near the end of the first."""
    if len(label) <= LONGEST:
        return [label]
    space = label.rfind(" ", LEAST, LONGEST + 1)
    end = space if space > 0 else LONGEST
    return [label[:end], label[end:].strip()]


def _box(node: TreeNode, label: str, x: int, y: int) -> str:
    lines = _lines(label)
    texts = "".join(
        f'<text x="{x + WIDTH // 2}" y="{y + down}">{escape(line)}</text>'
        for line, down in zip(lines, BASELINES[len(lines)])
    )
    classes = " ".join(word for word, has in (("bold", node.bold), ("framed", node.framed)) if has)
    title = "\n".join(part for part in (node.label, node.note, node.text) if part)
    parent = "" if node.parent is None else f' data-parent="{node.parent}"'
    return (
        f'<g class="{classes}" data-number="{node.number}"{parent} data-label="{escape(node.label)}" data-note="{escape(node.note)}" '
        f'data-text="{escape(node.text)}"><title>{escape(title)}</title>'
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{3 if node.framed else 11}" fill="{node.colour}"/>'
        f"{texts}</g>"
    )
