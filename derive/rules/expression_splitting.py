"""Expression splitting: a domain is cut in two, and each part is an expression of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from derive.moves import Rule
from derive.rules.bodies import reads
from einalg.access import Access, Padded, unpadded
from einalg.affine import Affine, affine
from einalg.errors import RuleError
from einalg.facts import simplify_scope
from einalg.scope import Iterator as Range
from einalg.scope import Scope

MOST_CUTS = 8  # proposed for one index


def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Cuts where a read enters or leaves the box of what it reads, where a condition changes, and in the middle."""
    for it in scope.iterators:
        if it.extent > 1:
            cuts = dict.fromkeys(v for v in _cuts(scope, it) if it.low < v < it.high)
            for at in sorted(cuts)[:MOST_CUTS]:
                yield {"index": it.index.name, "at": at}


def _cuts(scope: Scope, it: Range) -> Iterator[int]:
    for read in reads(scope):
        ranges = {i: r for i, r in read.ranges.items() if i != it.index}
        for subscript, (low, high) in zip(read.access.subscripts, unpadded(read.access.base).box):
            if isinstance(read.access.base, Padded):
                yield from _crossings(subscript - low, it, ranges)
                yield from _crossings(subscript - high, it, ranges)
    for condition in scope.where:
        yield from _crossings(condition.form, it, {o.index: (o.low, o.high) for o in scope.iterators if o is not it})
    yield it.low + it.extent // 2


def _crossings(form: Affine, it: Range, ranges: Any) -> Iterator[int]:
    """Values of the index from which `form >= 0` may hold, and from which it must."""
    coefficient = form.coefficient(it.index)
    rest = form - affine(it.index) * coefficient
    if coefficient == 0 or it.index in rest.indices or not rest.indices <= set(ranges):
        return
    for bound in rest.interval(ranges):
        yield -(bound // coefficient) if coefficient > 0 else bound // -coefficient + 1


def split(scope: Scope, index: str, at: int) -> Scope:
    """Cut the range of an index before the value `at`; the whole is the sum of the two parts, each padded by zeros."""
    it = next((it for it in scope.iterators if it.index.name == index), None)
    if it is None:
        raise RuleError(f"there is no index {index} in the traversal; it has {', '.join(map(str, scope.indices))}")
    if not it.low < at < it.high:
        raise RuleError(f"{index} ranges over [{it.low},{it.high}): a cut at {at} leaves one part empty")
    subscripts = tuple(affine(i) for i in scope.indices)
    parts = []
    for low, high in ((it.low, at), (at, it.high)):
        part = Scope([Range(o.index, low, high) if o is it else o for o in scope.iterators], scope.where, scope.body)
        amounts = [(low - it.low, it.high - high) if o is it else (0, 0) for o in scope.iterators]
        parts.append(Access.of(Padded(simplify_scope(part), amounts), subscripts))
    return Scope(scope.iterators, scope.where, parts[0] + parts[1])


RULE = Rule(
    name="expression splitting",
    before="L[X] f",
    after="L[X] ({L[X0] f}.pad + {L[X1] f}.pad)",
    requires="X0 and X1 cover X and are disjoint",
    find=find,
    rewrite=split,
)
