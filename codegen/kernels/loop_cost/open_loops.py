"""The loops that are open around a statement, and the branches between them (design §10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.ir.nodes import Bound, For, If, MinMax, Predicate, Statement
from einalg.language.index.affine import FloorDiv, Index, IndexQuotient


@dataclass(frozen=True)
class OpenLoop:
    """A loop that is open around a statement, `low <= index < high`.

    Where its bounds depend on outer loops, those of their middle steps.
    """

    index: Index
    low: float
    high: float

    @property
    def steps(self) -> float:
        return max(0.0, self.high - self.low)

    @property
    def middle(self) -> float:
        return (self.low + self.high - 1) / 2


def walked(loop: For, outer: Sequence[OpenLoop]) -> OpenLoop:
    """Return how a loop is walked inside of others."""
    middles = {walk.index: walk.middle for walk in outer}
    first, last = loop.range
    low, high = _middle(loop.low, middles), _middle(loop.high, middles)
    return OpenLoop(loop.index, max(first, low), min(last, high))


@dataclass(frozen=True)
class Branch:
    """A branch: its statements, the loops around with the steps that lead there, and their part."""

    body: Sequence[Statement]
    loops: tuple[OpenLoop, ...]
    share: float


def branches(branch: If, loops: tuple[OpenLoop, ...]) -> list[Branch]:
    """Return both branches of a condition.

    A condition on one index cuts its loop; one on several holds everywhere, as guards do.
    """
    if not isinstance(branch.test, Predicate):
        return [Branch(branch.then, loops, 0.5), Branch(branch.orelse, loops, 0.5)]
    inside, outside, share = list(loops), list(loops), 1.0
    for condition in branch.test.conditions:
        for place, walk in enumerate(inside):
            if condition.relation != ">=" or condition.form.indices != {walk.index}:
                continue
            factor = condition.form.coefficient(walk.index)
            if not factor or not walk.steps:
                continue
            bound = -condition.form.const / factor
            cut, rest = replace(walk, high=bound + 1), replace(walk, low=bound + 1)
            if factor > 0:
                cut, rest = replace(walk, low=bound), replace(walk, high=bound)
            cut, rest = _clipped(cut, walk), _clipped(rest, walk)
            share *= cut.steps / walk.steps
            inside[place], outside[place] = cut, rest
    return [
        Branch(branch.then, tuple(inside), share),
        Branch(branch.orelse, tuple(outside), 1 - share),
    ]


def _clipped(walk: OpenLoop, whole: OpenLoop) -> OpenLoop:
    low = min(max(walk.low, whole.low), whole.high)
    return replace(walk, low=low, high=max(low, min(walk.high, whole.high)))


def _middle(bound: Bound, middles: Mapping[Index, float]) -> float:
    if isinstance(bound, MinMax):
        parts = [_middle(part, middles) for part in bound.of]
        if bound.op == "min":
            return min(parts)
        return max(parts)
    total = float(bound.const)
    for atom, factor in bound.terms:
        if isinstance(atom, Index):
            total += factor * middles.get(atom, 0.0)
        else:
            total += factor * _middle_of_quotient(atom, middles)
    return total


def _middle_of_quotient(quotient: IndexQuotient, middles: Mapping[Index, float]) -> float:
    value = _middle(quotient.argument, middles)
    if isinstance(quotient, FloorDiv):
        return value // quotient.divisor
    return value % quotient.divisor
