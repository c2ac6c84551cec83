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
MARGIN = 10  # pixels around the picture
MAX_LINE_LETTERS, MIN_LINE_LETTERS = 30, 20  # of a label, which has two lines
BASELINES = {1: (22,), 2: (15, 28)}  # of the lines of a label, in pixels from the top
ROUND_CORNER, SHARP_CORNER = 11, 3  # radius in pixels: of a node, and of a framed one
BUTTONS = (
    ("in", "+", "zoom in"),
    ("out", "−", "zoom out"),
    ("fit", "fit", "show all"),
    ("one", "1:1", "natural size"),
)
HINT = "Point at a state, or walk with the arrow keys, to see its expression."
BEST = "bold: the way to the best"


@dataclass(frozen=True)
class TreeNode:
    """A node: its number and its parent's, a `label` of which it shows what tells it from others, a
    `note` and `text` for when it is chosen.

    `colour` fills it; it is `bold` on the way that matters, at whose `end` the picture opens, and
    `framed` where it is a result.
    """

    number: int
    parent: int | None
    label: str
    note: str
    colour: str
    bold: bool = False
    framed: bool = False
    text: str = ""
    end: bool = False


def tree_html(nodes: Sequence[TreeNode], hidden: int = 0) -> str:
    """Return nodes, each after its parent, as a picture with the root on the left; below it the
    expression at which it opens.

    `hidden` says how many more there are.
    """
    if not nodes:
        return page("<p>nothing was explored</p>", "einalg-tree")
    name = fresh_id()
    parts = [
        f'<div class="einalg-bar">{_bar(nodes, hidden)}</div>',
        f'<div class="einalg-canvas">{_svg(nodes)}</div>',
        f'<div class="einalg-chosen" aria-live="polite">{_chosen(nodes)}</div>',
        f"<small>{HINT}</small>",
    ]
    start = f"enliven(document.getElementById('{name}'));"
    script = f"<script>(() => {{ {asset('tree.js')}\n {start} }})();</script>"
    return page(f'<div id="{name}">{"".join(parts)}</div>{script}', "einalg-tree")


def _chosen(nodes: Sequence[TreeNode]) -> str:
    """Return what is said of the node at the end of the way that matters."""
    for node in nodes:
        if node.end:
            head = f"<strong>{escape(node.label)}</strong> — {escape(node.note)}"
            text = f"<pre>{escape(node.text)}</pre>" if node.text else ""
            return f"<div>{head}</div>{text}"
    return ""


def _bar(nodes: Sequence[TreeNode], hidden: int) -> str:
    """Return the buttons above the picture, and the legend."""
    parts = []
    for key, sign, title in BUTTONS:
        attributes = f'data-zoom="{key}" title="{title}" aria-label="{title}"'
        parts.append(f'<button type="button" {attributes}>{sign}</button>')
    parts.append('<span class="einalg-legend">near an operator<i></i>far</span>')
    if any(node.end for node in nodes):
        parts.append(f"<small>{BEST}</small>")
    if hidden:
        parts.append(f"<small>not shown, farther away: {counted(hidden, 'state')}.</small>")
    return "".join(parts)


def _svg(nodes: Sequence[TreeNode]) -> str:
    places = layout(nodes)
    width = max(x for x, _ in places.values()) + WIDTH + 2 * MARGIN
    height = max(y for _, y in places.values()) + HEIGHT + 2 * MARGIN
    edges, boxes = [], []
    labels = shortened((node.label for node in nodes), MAX_LINE_LETTERS + MIN_LINE_LETTERS)
    for node in nodes:
        place = places[node.number]
        if node.parent in places:
            edges.append(_edge(places[node.parent], place, node.bold))
        boxes.append(_box(node, labels[node.label], *place))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    label = f"tree of {counted(len(nodes), 'state')}; the arrow keys walk in it"
    content = "".join([*edges, *boxes])
    return f'<svg {size} tabindex="0" role="img" aria-label="{label}">{content}</svg>'


def layout(nodes: Sequence[TreeNode]) -> dict[int, tuple[int, int]]:
    """Return left upper corners: a column for each depth, a line for each leaf.

    A parent is beside the first of its children.
    """
    children = _children(nodes)
    places: dict[int, tuple[int, int]] = {}
    line = 0
    todo = [(node, 0, False) for node in reversed(children.get(None, []))]
    while todo:
        node, depth, is_on_parents_line = todo.pop()
        if not is_on_parents_line:
            line += 1
        places[node.number] = (MARGIN + depth * COLUMN, MARGIN + (line - 1) * LINE)
        below = list(enumerate(children.get(node.number, [])))
        for position, child in reversed(below):
            todo.append((child, depth + 1, position == 0))
    return places


def _children(nodes: Sequence[TreeNode]) -> dict[int | None, list[TreeNode]]:
    """Return the nodes by their parents; those of an unknown one, or of themselves, by None."""
    known = {node.number for node in nodes}
    children: dict[int | None, list[TreeNode]] = {}
    for node in nodes:
        is_root = node.parent not in known or node.parent == node.number
        children.setdefault(None if is_root else node.parent, []).append(node)
    return children


def _edge(parent: tuple[int, int], child: tuple[int, int], bold: bool) -> str:
    x, y = parent[0] + WIDTH, parent[1] + HEIGHT // 2
    end, down = child[0], child[1] + HEIGHT // 2
    middle = (x + end) // 2
    kind = "bold" if bold else ""
    curve = f"M{x} {y} C{middle} {y} {middle} {down} {end} {down}"
    return f'<path class="{kind}" d="{curve}"/>'


def _lines(label: str) -> list[str]:
    """Break a label into one line or two, at a space where one is near the end of the first."""
    if len(label) <= MAX_LINE_LETTERS:
        return [label]
    end = label.rfind(" ", MIN_LINE_LETTERS, MAX_LINE_LETTERS + 1)
    if end <= 0:
        end = MAX_LINE_LETTERS
    return [label[:end], label[end:].strip()]


def _box(node: TreeNode, label: str, x: int, y: int) -> str:
    lines = _lines(label)
    texts = []
    for line, down in zip(lines, BASELINES[len(lines)]):
        texts.append(f'<text x="{x + WIDTH // 2}" y="{y + down}">{escape(line)}</text>')
    corner = SHARP_CORNER if node.framed else ROUND_CORNER
    size = f'width="{WIDTH}" height="{HEIGHT}" rx="{corner}"'
    rectangle = f'<rect x="{x}" y="{y}" {size} fill="{node.colour}"/>'
    title = "\n".join(part for part in (node.label, node.note) if part)
    content = f"<title>{escape(title)}</title>{rectangle}{''.join(texts)}"
    return f"<g {_attributes(node)}>{content}</g>"


def _attributes(node: TreeNode) -> str:
    """Return what the script reads of a node."""
    classes = []
    if node.bold:
        classes.append("bold")
    if node.framed:
        classes.append("framed")
    if node.end:
        classes.append("end")
    attributes = [f'class="{" ".join(classes)}"', f'data-number="{node.number}"']
    if node.parent is not None:
        attributes.append(f'data-parent="{node.parent}"')
    for name, text in (("label", node.label), ("note", node.note), ("text", node.text)):
        attributes.append(f'data-{name}="{escape(text)}"')
    return " ".join(attributes)
