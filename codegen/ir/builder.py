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
    """`out` is the body of the innermost loop that is open; `names` are taken by the function's arguments.

    >>> w = LoopBuilder({"A", "O"})
    >>> with w.loop(Index("i"), 4):
    ...     w.put(Ref(Buf("O", (4,), "f32"), (affine(Index("i")),)), "=", Ref(Buf("A", (4,), "f32"), (affine(Index("i")),)))
    >>> w.out[0].extent
    4
    """

    def __init__(self, names: Iterable[str]):
        self.out: list[Statement] = []
        self.names = dict.fromkeys(names, 1)

    @contextmanager
    def loop(
        self,
        index: Index,
        high: Bound | int,
        low: Bound | int = 0,
        kind: str = "seq",
        known: tuple[int, int] | None = None,
    ) -> Iterator[Affine]:
        """A loop around all that is written inside; `known` encloses its values where its bounds are not numbers."""
        before, self.out = self.out, []
        yield affine(index)
        low, high = (affine(b) if isinstance(b, int) else b for b in (low, high))
        if known is None:
            assert isinstance(low, Affine) and isinstance(high, Affine)
            known = low.const, high.const
        inside, self.out = tuple(self.out), before
        if inside:
            self.out.append(For(index, low, high, known, inside, kind))

    @contextmanager
    def loops(self, axes: Sequence[Any], kind: str = "seq") -> Iterator[None]:
        """Loops over whole axes, the first one outermost."""
        if not axes:
            yield
            return
        with self.loop(axes[0].index, axes[0].extent, kind=kind), self.loops(axes[1:], kind):
            yield

    @contextmanager
    def where(self, *conditions: Constraint) -> Iterator[None]:
        """What is written inside runs where the conditions hold."""
        before, self.out = self.out, []
        yield
        inside, self.out = tuple(self.out), before
        if inside:
            self.out.append(If(Predicate(conditions), inside))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What is written inside runs where the conditions of the `where` just before do not hold."""
        *before, last = self.out
        assert isinstance(last, If)
        self.out = []
        yield
        self.out = [*before, replace(last, orelse=tuple(self.out))]

    def put(self, ref: Ref, op: str, value: Value) -> None:
        self.out.append(Store(ref, op, value))

    def local(self, name: str, shape: tuple[int, ...], dtype: str, space: str = "local") -> Buf:
        """A buffer declared here, under a name that no other one of the function has."""
        self.names[name] = number = self.names.get(name, 0) + 1
        buf = Buf(name if number == 1 else f"{name}{number}", shape, dtype, space)
        self.out.append(Alloc(buf))
        return buf

    def lanes(self, put: Store, extent: int, *unrolled: tuple[Index, int, int]) -> None:
        """A statement in vectors of `extent` elements, for all values of the unrolled indices, the last one outermost."""
        body: Statement = For(LANE, affine(0), affine(extent), (0, extent), (put,), "lanes")
        for index, low, high in unrolled:
            body = For(index, affine(low), affine(high), (low, high), (body,), "unroll")
        if all(high > low for _, low, high in unrolled):
            self.out.append(body)


def maximum(*bounds: Bound | int) -> Bound:
    """The largest of some bounds."""
    return _extreme("max", bounds)


def minimum(*bounds: Bound | int) -> Bound:
    """The smallest of some bounds."""
    return _extreme("min", bounds)


def _extreme(op: str, bounds: Sequence[Bound | int]) -> Bound:
    """Numbers among the bounds as one, and one bound as itself."""
    pick = max if op == "max" else min
    found = list(dict.fromkeys(affine(b) if isinstance(b, int) else b for b in bounds))
    numbers = [b.const for b in found if isinstance(b, Affine) and not b.terms]
    others = [b for b in found if not isinstance(b, Affine) or b.terms]
    kept = (*others, *((affine(pick(numbers)),) if numbers else ()))
    return kept[0] if len(kept) == 1 else MinMax(op, kept)
