"""Loop nests being written from the outside inwards, for the skeletons of operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from codegen.ir.nodes import (
    Alloc,
    Bound,
    Buf,
    For,
    If,
    MinMax,
    Predicate,
    Ref,
    Statement,
    Store,
    Value,
)
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

LANE = Index("lane")


class LoopBuilder:
    """`out` is the body of the innermost loop that is open; `names` are those of buffers so far.

    >>> w = LoopBuilder({"A", "O"})
    >>> target, source = Buf("O", (4,), "f32"), Buf("A", (4,), "f32")
    >>> with w.loop(Index("i"), 4) as i:
    ...     w.put(Ref(target, (i,)), "=", Ref(source, (i,)))
    >>> w.out[0].extent
    4
    """

    def __init__(self, names: Iterable[str]):
        self.out: list[Statement] = []
        self.names = dict.fromkeys(names, 1)

    @contextmanager
    def nested(self) -> Iterator[list[Statement]]:
        """Collect what is written inside in a list of its own, which is not written here."""
        before, self.out = self.out, []
        inside = self.out
        yield inside
        self.out = before

    @contextmanager
    def loop(
        self,
        index: Index,
        high: Bound | int,
        low: Bound | int = 0,
        kind: str = "seq",
        known: tuple[int, int] | None = None,
    ) -> Iterator[Affine]:
        """Write a loop around all that is written inside.

        `known` encloses its values where its bounds are not numbers.
        """
        with self.nested() as inside:
            yield affine(index)
        low, high = _bound(low), _bound(high)
        if known is None:
            assert isinstance(low, Affine) and isinstance(high, Affine)
            known = low.const, high.const
        if inside:
            self.out.append(For(index, low, high, known, tuple(inside), kind))

    @contextmanager
    def loops(self, axes: Sequence[Any], kind: str = "seq") -> Iterator[None]:
        """Write loops over whole axes, the first one outermost."""
        if not axes:
            yield
            return
        with self.loop(axes[0].index, axes[0].extent, kind=kind), self.loops(axes[1:], kind):
            yield

    @contextmanager
    def where(self, *conditions: Constraint) -> Iterator[None]:
        """Run what is written inside where the conditions hold."""
        with self.nested() as inside:
            yield
        if inside:
            self.out.append(If(Predicate(conditions), tuple(inside)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Run what is written inside where the conditions of the last `where` do not hold."""
        last = self.out[-1]
        assert isinstance(last, If)
        with self.nested() as inside:
            yield
        self.out[-1] = replace(last, orelse=tuple(inside))

    def put(self, ref: Ref, op: str, value: Value) -> None:
        self.out.append(Store(ref, op, value))

    def buffer(self, name: str, shape: tuple[int, ...], dtype: str, space: str = "local") -> Buf:
        """Return a buffer under a name that no other one of the function has; not yet declared."""
        self.names[name] = number = self.names.get(name, 0) + 1
        if number > 1:
            name = f"{name}{number}"
        return Buf(name, shape, dtype, space)

    def local(self, name: str, shape: tuple[int, ...], dtype: str, space: str = "local") -> Buf:
        """Declare a buffer here, under a name that no other one of the function has."""
        buf = self.buffer(name, shape, dtype, space)
        self.out.append(Alloc(buf))
        return buf

    def lanes(self, put: Store, extent: int, *unrolled: tuple[Index, int, int]) -> None:
        """Write a statement in vectors of `extent` elements.

        It runs for all values of the unrolled indices, the last one of which is outermost.
        """
        body: Statement = For(LANE, affine(0), affine(extent), (0, extent), (put,), "lanes")
        for index, low, high in unrolled:
            if low >= high:
                return
            body = For(index, affine(low), affine(high), (low, high), (body,), "unroll")
        self.out.append(body)


def _bound(bound: Bound | int) -> Bound:
    if isinstance(bound, int):
        return affine(bound)
    return bound


def maximum(*bounds: Bound | int) -> Bound:
    """Return the largest of some bounds.

    >>> maximum(0, 3), maximum(affine(Index("i")), 1, 2)
    (3, MinMax(op='max', of=(i, 2)))
    """
    return _extreme("max", bounds)


def minimum(*bounds: Bound | int) -> Bound:
    """Return the smallest of some bounds."""
    return _extreme("min", bounds)


def _extreme(op: str, bounds: Sequence[Bound | int]) -> Bound:
    """Return the extreme of some bounds, the numbers among them as one."""
    numbers: list[int] = []
    parts: list[Bound] = []
    for bound in dict.fromkeys(map(_bound, bounds)):
        if isinstance(bound, Affine) and not bound.terms:
            numbers.append(bound.const)
        else:
            parts.append(bound)
    if numbers:
        pick = {"max": max, "min": min}[op]
        parts.append(affine(pick(numbers)))
    if len(parts) == 1:
        return parts[0]
    return MinMax(op, tuple(parts))
