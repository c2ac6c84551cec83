"""What a search explored: a row for each state that it kept, and the tree of them as a picture (design §8)."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from derive.rewriting.moves import Move, Rule, apply
from derive.rules import ALL
from einalg.errors import EinalgError, RecordError
from einalg.language.ir.program import Program
from einalg.text.wording import counted, shortened

RED, YELLOW, GREEN = (
    (0xF4, 0xA5, 0x9A),
    (0xFB, 0xE8, 0xA6),
    (0xA8, 0xDB, 0xA8),
)  # light, so that black text reads well
LONGEST_LABEL = 60
LONGEST_TEXT = 40  # rows that the plain text shows


@dataclass(frozen=True)
class SearchNode:
    """A state: its number, the state that it was made from and the move that made it, its distance to an operator.

    `candidate` is whether it was kept as one, with its estimated `seconds`. `steps` are all moves that lead there from the other state.
    """

    number: int
    parent: int | None
    move: str
    distance: float
    candidate: bool
    seconds: float | None
    steps: tuple[Move, ...] = ()

    @property
    def label(self) -> str:
        """The move that made it, in words."""
        return self.move or "as it is"

    @property
    def note(self) -> str:
        """Its distance and, of a candidate, its estimate: `distance 3, 2.000 ms`."""
        if not self.candidate or self.seconds is None:
            return f"distance {self.distance:g}"
        return f"distance {self.distance:g}, {self.seconds * 1e3:.3f} ms"

    def as_record(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "steps": [step.as_record() for step in self.steps],
        }

    @classmethod
    def from_record(cls, row: Any) -> SearchNode:
        """Read a row back; `RecordError` where it is broken."""
        kinds = {
            "number": int,
            "parent": (int, type(None)),
            "move": str,
            "distance": (int, float),
            "candidate": bool,
        }
        kinds["seconds"] = (int, float, type(None))
        steps = row.get("steps", []) if isinstance(row, dict) else None  # older records have none
        if not isinstance(steps, list) or any(
            not isinstance(row.get(name, ...), kinds[name]) for name in _PLAIN
        ):
            raise RecordError("a row of what was explored is broken")
        return cls(
            **{name: row[name] for name in _PLAIN}, steps=tuple(map(Move.from_record, steps))
        )


_PLAIN = tuple(f.name for f in fields(SearchNode) if f.name != "steps")


def dot(rows: Iterable[SearchNode], best: int | None = None) -> str:
    r"""The tree as Graphviz text: red is far from an operator, green near; candidates are boxes, the path to `best` is bold.

    Without `best`, it is the path to the candidate of the least seconds.

    >>> rows = [SearchNode(0, None, "", 3.0, True, 0.002), SearchNode(1, 0, "summation splitting", 0.0, True, 0.001)]
    >>> print(dot(rows))
    digraph explored {
      node [fontname="sans-serif", fontsize=10, style="filled", shape=ellipse];
      edge [color="#888888", fontname="sans-serif", fontsize=8];
      n0 [label="as it is\n2.000 ms", fillcolor="#f4a59a", shape=box, tooltip="as it is: distance 3", penwidth=3];
      n1 [label="summation splitting\n1.000 ms", fillcolor="#a8dba8", shape=box, tooltip="summation splitting: distance 0", penwidth=3];
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
    labels = shortened((row.label for row in kept), LONGEST_LABEL)
    lines += [_node(row, labels[row.label], farthest, row.number in path) for row in kept]
    lines += [_edge(row, row.number in path) for row in kept if row.parent in known]
    return "\n".join([*lines, "}"])


def _node(row: SearchNode, label: str, farthest: float, bold: bool) -> str:
    shown = "\\n".join(map(_escaped, textwrap.wrap(label, LONGEST_LABEL // 2)))
    shown += f"\\n{row.seconds * 1e3:.3f} ms" if row.candidate and row.seconds is not None else ""
    parts = [
        f'label="{shown}"',
        f'fillcolor="{colour(row.distance / farthest if farthest > 0 else 0.0)}"',
    ]
    parts += ["shape=box"] if row.candidate else []
    parts += [
        f'tooltip="{_escaped(row.label)}: distance {row.distance:g}"',
        *(["penwidth=3"] if bold else []),
    ]
    return f"  n{row.number} [{', '.join(parts)}];"


def _edge(row: SearchNode, bold: bool) -> str:
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


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _best(rows: Sequence[SearchNode]) -> int | None:
    costs = [(row.seconds, row.number) for row in rows if row.candidate and row.seconds is not None]
    return min(costs)[1] if costs else None


def _path(rows: Sequence[SearchNode], last: int | None) -> set[int]:
    """The numbers of a state and of those that it came from."""
    parents = {row.number: row.parent for row in rows}
    path: set[int] = set()
    while last is not None and last in parents and last not in path:
        path.add(last)
        last = parents[last]
    return path


class SearchTree:
    """The tree of what a search explored, from `start`; in Jupyter a picture to zoom and walk in. `dot` is the same as Graphviz text."""

    def __init__(
        self,
        rows: Sequence[SearchNode],
        start: Program | None = None,
        rules: Mapping[str, Rule] = ALL,
    ):
        self.rows, self.start, self.rules = tuple(rows), start, rules

    @property
    def dot(self) -> str:
        """The tree as Graphviz text."""
        return dot(self.rows)

    def svg(self) -> str | None:
        """The picture that Graphviz makes, or None where it is not installed."""
        try:
            import graphviz
        except ImportError:
            return None
        if shutil.which("dot") is None:
            return None
        return graphviz.Source(self.dot).pipe(format="svg", encoding="utf-8")

    @property
    def best_path(self) -> set[int]:
        """The numbers of the states from the start to the candidate of the least seconds."""
        return _path(self.rows, _best(self.rows))

    def nearest(self, limit: int) -> list[SearchNode]:
        """Return about `limit` states, those next to an operator and their ancestors, in order."""
        shown = self._near(limit)
        return [row for row in self._in_order() if row.number in shown]

    def programs(self, rows: Sequence[SearchNode]) -> list[str]:
        """The expressions of states, each after the one that it was made from; empty where that is not known."""
        known: dict[int | None, Program] = {} if self.start is None else {None: self.start}
        for row in rows:
            before = known.get(row.parent) if row.parent is None or row.steps else None
            try:
                for step in row.steps:
                    before = apply(before, step, self.rules) if before is not None else None
            except EinalgError:  # by a rule that is not given here
                before = None
            if before is not None:
                known[row.number] = before
        return [str(known.get(row.number, "")) for row in rows]

    def __str__(self) -> str:
        """The tree, indented, with the states next to an operator first where there are many."""
        rows, path = self.nearest(LONGEST_TEXT), self.best_path
        if not rows:
            return "nothing was explored"
        labels = shortened((row.label for row in rows), LONGEST_LABEL)
        lines = [self._line(row, labels[row.label], path) for row in rows]
        hidden = len(self.rows) - len(rows)
        if hidden:
            lines.append(f"… and {counted(hidden, 'more state')}")
        return "\n".join(lines)

    __repr__ = __str__

    def _near(self, most: int) -> set[int]:
        """The numbers of so many states, the nearest to an operator, and of those that they were made from."""
        path = self.best_path
        near = sorted(
            self.rows,
            key=lambda row: (row.number not in path, not row.candidate, row.distance, row.number),
        )[:most]
        return set().union(*(_path(self.rows, row.number) for row in near)) if near else set()

    def _in_order(self) -> list[SearchNode]:
        """Each state followed by those made from it."""
        known = {row.number for row in self.rows}
        children: dict[int | None, list[SearchNode]] = {}
        for row in self.rows:
            children.setdefault(row.parent if row.parent in known else None, []).append(row)
        ordered, todo = [], list(reversed(children.get(None, [])))
        while todo:
            row = todo.pop()
            ordered.append(row)
            todo += reversed(children.get(row.number, []))
        return ordered

    def _line(self, row: SearchNode, label: str, path: set[int]) -> str:
        depth = len(_path(self.rows, row.number)) - 1
        return f"{'*' if row.number in path else ' '} {'  ' * depth}{label}  ({row.note})"
