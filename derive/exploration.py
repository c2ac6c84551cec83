"""What a search explored: a row for each state that it kept, and the tree of them as a picture (design §8)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from einalg.errors import RecordError

RED, YELLOW, GREEN = (0xF4, 0xA5, 0x9A), (0xFB, 0xE8, 0xA6), (0xA8, 0xDB, 0xA8)  # light, so that black text reads well
LONGEST_LABEL = 44
LONGEST_TEXT = 40  # rows that the plain text shows


@dataclass(frozen=True)
class Explored:
    """A state: its number, the state that it was made from and the move that made it, its distance to an operator.

    `candidate` is whether it was kept as one, with its estimated `seconds`.
    """

    number: int
    parent: int | None
    move: str
    distance: float
    candidate: bool
    seconds: float | None

    def as_record(self) -> dict[str, Any]:
        """The row as JSON values."""
        return asdict(self)

    @classmethod
    def from_record(cls, row: Any) -> Explored:
        """Read a row back; `RecordError` where it is broken."""
        kinds = {"number": int, "parent": (int, type(None)), "move": str, "distance": (int, float), "candidate": bool}
        kinds["seconds"] = (int, float, type(None))
        if not isinstance(row, dict) or any(not isinstance(row.get(f.name, ...), kinds[f.name]) for f in fields(cls)):
            raise RecordError("a row of what was explored is broken")
        return cls(**{f.name: row[f.name] for f in fields(cls)})


def dot(rows: Iterable[Explored], best: int | None = None) -> str:
    r"""The tree as Graphviz text: red is far from an operator, green near; candidates are boxes, the path to `best` is bold.

    Without `best`, it is the path to the candidate of the least seconds.

    >>> rows = [Explored(0, None, "", 3.0, True, 0.002), Explored(1, 0, "summation splitting", 0.0, True, 0.001)]
    >>> print(dot(rows))
    digraph explored {
      node [fontname="sans-serif", fontsize=10, style="filled", shape=ellipse];
      edge [color="#888888", fontname="sans-serif", fontsize=8];
      n0 [label="as it is\n2.000 ms", fillcolor="#f4a59a", shape=box, tooltip="distance 3", penwidth=3];
      n1 [label="summation splitting\n1.000 ms", fillcolor="#a8dba8", shape=box, tooltip="distance 0", penwidth=3];
      n0 -> n1 [penwidth=3, color="#000000"];
    }
    """
    kept = list(rows)
    path = _path(kept, _best(kept) if best is None else best)
    farthest = max((row.distance for row in kept), default=0.0)
    known = {row.number for row in kept}
    lines = [
        "digraph explored {",
        '  node [fontname="sans-serif", fontsize=10, style="filled", shape=ellipse];',
        '  edge [color="#888888", fontname="sans-serif", fontsize=8];',
    ]
    lines += [_node(row, farthest, row.number in path) for row in kept]
    lines += [_edge(row, row.number in path) for row in kept if row.parent in known]
    return "\n".join([*lines, "}"])


def _node(row: Explored, farthest: float, bold: bool) -> str:
    label = _escaped(_shortened(row.move or "as it is"))
    label += f"\\n{row.seconds * 1e3:.3f} ms" if row.candidate and row.seconds is not None else ""
    parts = [f'label="{label}"', f'fillcolor="{colour(row.distance / farthest if farthest > 0 else 0.0)}"']
    parts += ["shape=box"] if row.candidate else []
    parts += [f'tooltip="distance {row.distance:g}"', *(["penwidth=3"] if bold else [])]
    return f"  n{row.number} [{', '.join(parts)}];"


def _edge(row: Explored, bold: bool) -> str:
    style = ' [penwidth=3, color="#000000"]' if bold else ""
    return f"  n{row.parent} -> n{row.number}{style};"


def colour(share: float) -> str:
    """Green at 0, by yellow, to red at 1.

    >>> colour(0), colour(0.5), colour(1)
    ('#a8dba8', '#fbe8a6', '#f4a59a')
    """
    share = min(1.0, max(0.0, share))
    one, two, part = (GREEN, YELLOW, 2 * share) if share <= 0.5 else (YELLOW, RED, 2 * share - 1)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(one, two))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _best(rows: Sequence[Explored]) -> int | None:
    costs = [(row.seconds, row.number) for row in rows if row.candidate and row.seconds is not None]
    return min(costs)[1] if costs else None


def _path(rows: Sequence[Explored], last: int | None) -> set[int]:
    """The numbers of a state and of those that it came from."""
    parents = {row.number: row.parent for row in rows}
    path: set[int] = set()
    while last is not None and last in parents and last not in path:
        path.add(last)
        last = parents[last]
    return path


class Plot:
    """The tree of what a search explored: `dot` is Graphviz text; in Jupyter a picture where the package graphviz and its `dot` are installed."""

    def __init__(self, rows: Sequence[Explored]):
        self.rows = tuple(rows)

    @property
    def dot(self) -> str:
        """The tree as Graphviz text."""
        return dot(self.rows)

    def svg(self) -> str | None:
        """The picture, or None where Graphviz is not installed."""
        try:
            import graphviz
        except ImportError:
            return None
        if shutil.which("dot") is None:
            return None
        return graphviz.Source(self.dot).pipe(format="svg", encoding="utf-8")

    def __str__(self) -> str:
        """The tree, indented, with the states next to an operator first where there are many."""
        path = _path(self.rows, _best(self.rows))
        near = sorted(self.rows, key=lambda row: (row.number not in path, not row.candidate, row.distance, row.number))[:LONGEST_TEXT]
        shown = set().union(*(_path(self.rows, row.number) for row in near)) if near else set()
        lines = [self._line(row, path) for row in self._in_order() if row.number in shown]
        hidden = len(self.rows) - len(shown)
        return "\n".join([*lines, *([f"… and {hidden} more states"] if hidden else [])]) or "nothing was explored"

    __repr__ = __str__

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        picture = self.svg()
        return {"text/plain": str(self), **({"image/svg+xml": picture} if picture else {})}

    def _in_order(self) -> list[Explored]:
        """Each state followed by those made from it."""
        known = {row.number for row in self.rows}
        children: dict[int | None, list[Explored]] = {}
        for row in self.rows:
            children.setdefault(row.parent if row.parent in known else None, []).append(row)
        ordered, todo = [], list(reversed(children.get(None, [])))
        while todo:
            row = todo.pop()
            ordered.append(row)
            todo += reversed(children.get(row.number, []))
        return ordered

    def _line(self, row: Explored, path: set[int]) -> str:
        depth = len(_path(self.rows, row.number)) - 1
        cost = f", {row.seconds * 1e3:.3f} ms" if row.candidate and row.seconds is not None else ""
        return f"{'*' if row.number in path else ' '} {'  ' * depth}{_shortened(row.move or 'as it is')}  (distance {row.distance:g}{cost})"
