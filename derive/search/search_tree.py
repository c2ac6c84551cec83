"""The log of a search: a row for each state that it kept, and their tree (design §8)."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from derive.rewriting.moves import Move, Rule, apply
from derive.rules import ALL
from einalg.errors import EinalgError, RecordError
from einalg.language.ir.program import Program
from einalg.text.terminal import fitted
from einalg.text.wording import counted, shortened

RGB = tuple[int, int, int]
# Light colours, so that black text reads well.
RED: RGB = (0xF4, 0xA5, 0x9A)
YELLOW: RGB = (0xFB, 0xE8, 0xA6)
GREEN: RGB = (0xA8, 0xDB, 0xA8)
MAX_LABEL_LENGTH = 60
MAX_TEXT_LABEL_LENGTH = 42  # beside the rest of a line of a terminal
MAX_TEXT_ROWS = 28  # that the plain text shows


@dataclass(frozen=True)
class SearchNode:
    """A state: its number, its parent, the last move to it, its distance to an operator.

    `candidate` tells whether it was kept as one, with its estimated `seconds`. `steps` are all
    moves that lead there from the parent.
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
        """Return the row as JSON values."""
        record = {name: getattr(self, name) for name in _KINDS}
        return {**record, "steps": [step.as_record() for step in self.steps]}

    @classmethod
    def from_record(cls, row: Any) -> SearchNode:
        """Read a row back; `RecordError` where it is broken."""
        if not isinstance(row, dict):
            raise RecordError("a row of what was explored is broken")
        values = {}
        for name, kind in _KINDS.items():
            values[name] = row.get(name, ...)
            if not isinstance(values[name], kind):
                raise RecordError("a row of what was explored is broken")
        steps = row.get("steps", [])  # older records have none
        if not isinstance(steps, list):
            raise RecordError("a row of what was explored is broken")
        return cls(**values, steps=tuple(map(Move.from_record, steps)))


_KINDS: Mapping[str, Any] = {  # the types of the values in a record, but for the steps
    "number": int,
    "parent": (int, type(None)),
    "move": str,
    "distance": (int, float),
    "candidate": bool,
    "seconds": (int, float, type(None)),
}


def dot(rows: Iterable[SearchNode], best: int | None = None) -> str:
    r"""Return the tree as Graphviz text.

    Red is far from an operator, green near; candidates are boxes, the path to `best` is bold.
    Without `best`, it is the path to the candidate of the least seconds.

    >>> start = SearchNode(0, None, "", 3.0, False, None)
    >>> print(dot([start, SearchNode(1, 0, "lifting", 0.0, False, None)]))
    digraph explored {
      node [fontname="sans-serif", fontsize=10, style="filled", shape=ellipse];
      edge [color="#888888", fontname="sans-serif", fontsize=8];
      n0 [label="as it is", fillcolor="#f4a59a", tooltip="as it is: distance 3"];
      n1 [label="lifting", fillcolor="#a8dba8", tooltip="lifting: distance 0"];
      n0 -> n1;
    }
    """
    rows = list(rows)
    path = _path(rows, _best(rows) if best is None else best)
    numbers = {row.number for row in rows}
    lines = [
        "digraph explored {",
        '  node [fontname="sans-serif", fontsize=10, style="filled", shape=ellipse];',
        '  edge [color="#888888", fontname="sans-serif", fontsize=8];',
    ]
    farthest = max((row.distance for row in rows), default=0.0)
    labels = _short_labels(rows)
    for row in rows:
        lines.append(_node(row, labels[row.label], farthest, row.number in path))
    for row in rows:
        if row.parent in numbers:
            lines.append(_edge(row, row.number in path))
    return "\n".join([*lines, "}"])


def _short_labels(rows: Iterable[SearchNode], longest: int = MAX_LABEL_LENGTH) -> dict[str, str]:
    return shortened((row.label for row in rows), longest)


def _node(row: SearchNode, label: str, farthest: float, bold: bool) -> str:
    label_lines = list(map(_escaped, textwrap.wrap(label, MAX_LABEL_LENGTH // 2)))
    if row.candidate and row.seconds is not None:
        label_lines.append(f"{row.seconds * 1e3:.3f} ms")
    text = "\\n".join(label_lines)
    share = row.distance / farthest if farthest > 0 else 0.0
    attributes = [f'label="{text}"', f'fillcolor="{colour(share)}"']
    if row.candidate:
        attributes.append("shape=box")
    attributes.append(f'tooltip="{_escaped(row.label)}: distance {row.distance:g}"')
    if bold:
        attributes.append("penwidth=3")
    return f"  n{row.number} [{', '.join(attributes)}];"


def _edge(row: SearchNode, bold: bool) -> str:
    style = ' [penwidth=3, color="#000000"]' if bold else ""
    return f"  n{row.parent} -> n{row.number}{style};"


def colour(share: float) -> str:
    """Return a colour from green at 0, by yellow, to red at 1.

    >>> colour(0), colour(0.5), colour(1)
    ('#a8dba8', '#fbe8a6', '#f4a59a')
    """
    share = min(1.0, max(0.0, share))
    if share <= 0.5:
        return _blend(GREEN, YELLOW, 2 * share)
    return _blend(YELLOW, RED, 2 * share - 1)


def _blend(one: RGB, two: RGB, part: float) -> str:
    channels = (round(a + (b - a) * part) for a, b in zip(one, two))
    return "#" + bytes(channels).hex()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _best(rows: Sequence[SearchNode]) -> int | None:
    """Return the number of the candidate of the least seconds."""
    costs = []
    for row in rows:
        if row.candidate and row.seconds is not None:
            costs.append((row.seconds, row.number))
    return min(costs)[1] if costs else None


def _path(rows: Sequence[SearchNode], last: int | None) -> set[int]:
    """Return the numbers of a state and of its ancestors."""
    parents = {row.number: row.parent for row in rows}
    path: set[int] = set()
    while last is not None and last in parents and last not in path:
        path.add(last)
        last = parents[last]
    return path


class SearchTree:
    """The tree of what a search explored from `start`; in Jupyter a picture to zoom and walk in.

    The path to the best comes first: that of the `best` moves, or where these are not given or lead
    to no state, that to the candidate of the least estimated seconds.
    """

    def __init__(
        self,
        rows: Sequence[SearchNode],
        start: Program | None = None,
        rules: Mapping[str, Rule] = ALL,
        best: Sequence[Move] | None = None,
    ):
        self.rows, self.start, self.rules = tuple(rows), start, rules
        self.best = None if best is None else tuple(best)

    @property
    def dot(self) -> str:
        """Return the tree as Graphviz text."""
        return dot(self.rows, self.best_number)

    def svg(self) -> str | None:
        """Return the picture that Graphviz makes, or None where it is not installed."""
        try:
            import graphviz
        except ImportError:
            return None
        if shutil.which("dot") is None:
            return None
        return graphviz.Source(self.dot).pipe(format="svg", encoding="utf-8")

    @cached_property
    def best_number(self) -> int | None:
        """Return the number of the state of the best candidate; None where there is none."""
        if self.best is not None:
            moves: dict[int | None, tuple[Move, ...]] = {}
            for row in self.rows:
                moves[row.number] = (*moves.get(row.parent, ()), *row.steps)
                if moves[row.number] == self.best:
                    return row.number
        return _best(self.rows)

    @cached_property
    def best_path(self) -> set[int]:
        """Return the numbers of the states up to that of the best candidate."""
        return _path(self.rows, self.best_number)

    def nearest(self, limit: int) -> list[SearchNode]:
        """Return about `limit` states, those next to an operator and their ancestors, in order."""
        shown = self._near(limit)
        return [row for row in self._in_order() if row.number in shown]

    def programs(self, rows: Sequence[SearchNode]) -> list[str]:
        """Return the expressions of states, parents before children; empty where not known."""
        known: dict[int | None, Program] = {}
        if self.start is not None:
            known[None] = self.start
        texts = []
        for row in rows:
            program = self._program(row, known.get(row.parent))
            if program is not None:
                known[row.number] = program
            texts.append("" if program is None else str(program))
        return texts

    def _program(self, row: SearchNode, parent: Program | None) -> Program | None:
        """Return the program of a state; None where its steps or their rules are not known."""
        if parent is None or (row.parent is not None and not row.steps):
            return None
        program = parent
        try:
            for step in row.steps:
                program = apply(program, step, self.rules)
        except EinalgError:  # by a rule that is not given here
            return None
        return program

    def __str__(self) -> str:
        """Return the tree, indented; of many states those next to an operator."""
        rows, path = self.nearest(MAX_TEXT_ROWS), self.best_path
        if not rows:
            return "nothing was explored"
        labels = _short_labels(rows, MAX_TEXT_LABEL_LENGTH)
        lines = [self._line(row, labels[row.label], path) for row in rows]
        if len(path) > 1:
            lines.append("*: the way to the best")
        hidden = len(self.rows) - len(rows)
        if hidden:
            lines.append(f"… and {counted(hidden, 'more state')}")
        return fitted("\n".join(lines))

    __repr__ = __str__

    def _near(self, limit: int) -> set[int]:
        """Return the numbers of the states nearest to an operator, and of their ancestors."""
        path = self.best_path

        def rank(row: SearchNode) -> tuple[Any, ...]:
            return row.number not in path, not row.candidate, row.distance, row.number

        numbers: set[int] = set()
        for row in sorted(self.rows, key=rank):
            if len(numbers) >= limit:
                break
            numbers |= _path(self.rows, row.number)
        return numbers

    def _in_order(self) -> list[SearchNode]:
        """Return each state followed by its children, those on the way to the best first."""
        numbers, path = {row.number for row in self.rows}, self.best_path
        children: dict[int | None, list[SearchNode]] = {}
        for row in sorted(self.rows, key=lambda row: row.number not in path):
            parent = row.parent if row.parent in numbers else None
            children.setdefault(parent, []).append(row)
        ordered, todo = [], children.get(None, [])[::-1]
        while todo:
            row = todo.pop()
            ordered.append(row)
            todo += reversed(children.get(row.number, []))
        return ordered

    def _line(self, row: SearchNode, label: str, path: set[int]) -> str:
        mark = "*" if row.number in path else " "
        indent = "  " * (len(_path(self.rows, row.number)) - 1)
        return f"{mark} {indent}{label}  ({row.note})"
