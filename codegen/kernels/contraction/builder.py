"""Loop nests under construction, and the parts of a contraction's columns and rows that they walk (design §10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from codegen.ir.nodes import Bound, For, MinMax, Ref, Statement, Store, Value
from codegen.kernels.strided_axes import Side, StridedAxis, merged
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

I, LINE, VECTOR, LANE = (Index(name) for name in ("i", "line", "v", "lane"))


class Nest:
    """Writes loops; `out` is the body that is being written."""

    def __init__(self) -> None:
        self.out: list[Statement] = []
        self.names: dict[str, int] = {}

    def named(self, name: str) -> str:
        """A name that no other buffer of the function has."""
        self.names[name] = number = self.names.get(name, 0) + 1
        return name if number == 1 else f"{name}{number}"

    @contextmanager
    def loop(
        self,
        index: Index,
        high: Bound | int,
        low: Bound | int = 0,
        kind: str = "seq",
        most: int = 0,
    ) -> Iterator[None]:
        """A loop around all that is written inside."""
        before, self.out = self.out, []
        yield
        low, high = (affine(b) if isinstance(b, int) else b for b in (low, high))
        last = most or (high.const if isinstance(high, Affine) else 0)
        first = low.const if isinstance(low, Affine) and not low.terms else 0
        before.append(For(index, low, high, (first, last), tuple(self.out), kind))
        self.out = before

    @contextmanager
    def loops(self, axes: Sequence[StridedAxis], kind: str = "seq") -> Iterator[None]:
        if not axes:
            yield
            return
        with self.loop(axes[0].index, axes[0].extent, kind=kind), self.loops(axes[1:], kind):
            yield

    def put(self, ref: Ref, op: str, value: Value) -> None:
        self.out.append(Store(ref, op, value))


@dataclass(frozen=True)
class ColumnPanel:
    """Some neighbouring columns: `lines` lines from `line` on, of `width` elements from `column` on.

    `number` counts the panels, and `place` those that are kept at the same time.
    """

    line: Affine
    lines: int
    column: Affine
    width: int
    lanes: int
    number: Affine
    place: Affine

    @property
    def vectors(self) -> int:
        """Of each line; the last one may be filled in part."""
        return -(-self.width // self.lanes)

    @property
    def elements(self) -> int:
        return self.lines * self.vectors * self.lanes

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """First vector, number of vectors and elements of each: those that are full, then the last one."""
        full, rest = divmod(self.width, self.lanes)
        if full:
            yield 0, full, self.lanes
        if rest:
            yield full, 1, rest


@dataclass(frozen=True)
class RowTile:
    """Neighbouring rows: the tile's number, its first row and how many rows it has."""

    number: Affine
    first: Affine
    rows: int


def each(panel: ColumnPanel, rows: int, put: Store, whole: bool = False) -> list[Statement]:
    """A statement for every vector of a tile; `whole` also where some of its elements do not count."""
    found: list[Statement] = []
    for first, number, lanes in [(0, panel.vectors, panel.lanes)] if whole else panel.parts():
        body: Statement = For(LANE, affine(0), affine(lanes), (0, lanes), (put,), "lanes")
        for index, low, high in (
            (VECTOR, first, first + number),
            (LINE, 0, panel.lines),
            (I, 0, rows),
        ):
            body = For(index, affine(low), affine(high), (low, high), (body,), "unroll")
        found.append(body)
    return found


def along(axes: Sequence[StridedAxis], place: Affine, side: Side) -> Affine:
    """Where the element at a place of several axes, walked as one, lies in an operand."""
    form, inner = affine(0), 1
    for number, axis in reversed(list(enumerate(joined := merged(axes, side)))):
        digit = (
            place
            if len(joined) == 1
            else place // inner
            if number == 0
            else place // inner % axis.extent
        )
        form = form + affine(digit) * axis.step(side)
        inner *= axis.extent
    return form


def flat(axes: Sequence[StridedAxis]) -> Affine:
    """The number of a place of some axes."""
    form = affine(0)
    for axis in axes:
        form = form * axis.extent + affine(axis.index)
    return form


def least(one: Affine, other: Affine) -> Bound:
    return MinMax("min", (one, other))


def limited(op: str, bound: Bound, other: Affine | int) -> Bound:
    """The `max` or `min` of a bound and another one."""
    other = affine(other)
    if isinstance(bound, Affine) and not bound.terms and not other.terms:
        return affine(
            max(bound.const, other.const) if op == "max" else min(bound.const, other.const)
        )
    return MinMax(op, (bound, other))
