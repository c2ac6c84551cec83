"""What several rules ask of a body: its reductions by position, its reads with their context, where it may be non-zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple

import islpy as isl
import sympy

from einalg.errors import RuleError
from einalg.language.analysis.simplify import with_padding
from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.isl import Space, bounded
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import IDENTITY, Reduce, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, unpadded
from einalg.language.ir.traversal import accesses, reductions

MOST_REMEMBERED = 20_000
MOST_SETS = 8192  # of isl, that are kept: the states of a search ask the same of them many times


def reduction_at(scope: Scope, position: Any) -> Reduce:
    """The reduction at a position, outer before inner."""
    found = list(reductions(scope.body))
    if not isinstance(position, int) or not 0 <= position < len(found):
        raise RuleError(f"there is no reduction number {position}: there are {len(found)}")
    return found[position]


def enclosing_domain(scope: Scope, node: Reduce) -> tuple[tuple[LoopIndex, ...], tuple[Constraint, ...]]:
    """The iterators and the conditions under which a reduction of a scope's body is evaluated.

    Raises `RuleError` where it stands, as one and the same node, under different ones.
    """
    found = dict.fromkeys(_around(scope.body, node, scope.iterators, scope.where))
    if len(found) != 1:
        raise RuleError("the reduction occurs several times, under different indices")
    return next(iter(found))


def _around(
    body: Any, node: Reduce, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> Iterator[Any]:
    if body is node:
        yield iterators, where
    elif isinstance(body, Reduce):
        yield from _around(body.body, node, (*iterators, *body.iterators), (*where, *body.where))
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in body.args:
            yield from _around(argument, node, iterators, where)


def replace_reduction(scope: Scope, old: Reduce, new: Any) -> Scope:
    """The scope with one reduction replaced."""

    def leaf(node: Any) -> Any:
        if node is old:
            return new
        if isinstance(node, Reduce):
            inner = rebuild(node.body, leaf)
            return (
                node if inner is node.body else Reduce(node.op, node.iterators, node.where, inner)
            )
        return node

    return Scope(scope.iterators, scope.where, rebuild(scope.body, leaf))


def memoized_per_scope(find: Callable[[Scope], Iterator[Any]]) -> Callable[[Scope], Iterator[Any]]:
    """A `find` that is asked once for each scope: most scopes of a program outlive a move."""
    known: dict[int, tuple[Scope, list[Any]]] = {}

    @wraps(find)
    def again(scope: Scope) -> Iterator[Any]:
        entry = known.get(id(scope))
        if entry is None or entry[0] is not scope:
            if len(known) >= MOST_REMEMBERED:
                known.clear()
            entry = known[id(scope)] = (
                scope,
                list(find(scope)),
            )  # the scope is held, so that no other gets its id
        return iter(entry[1])

    return again


def may_vanish(body: Any) -> bool:
    """Whether a body has conditions or reads padding: elsewhere it may be anything."""
    return any(isinstance(a.base, Padded) for a in accesses(body)) or any(
        r.where for r in reductions(body)
    )


class ReadContext(NamedTuple):
    """An access with the iterators and conditions under which it is evaluated, and the reductions around it."""

    access: Access
    iterators: tuple[LoopIndex, ...]
    where: tuple[Constraint, ...]
    enclosing_domain: tuple[Reduce, ...]

    @property
    def ranges(self) -> dict[Index, tuple[int, int]]:
        return {it.index: (it.low, it.high) for it in self.iterators}

    def points(self) -> tuple[Space, isl.Set]:
        space = Space([it.index for it in self.iterators])
        return space, space.set(self.iterators, self.where)

    def image(self) -> isl.Set:
        """The elements that are read, in the coordinates of what is read."""
        return _image(self.access.subscripts, self.iterators, self.where)


@lru_cache(maxsize=MOST_SETS)
def _image(
    subscripts: tuple[Affine, ...], iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> isl.Set:
    space = Space([it.index for it in iterators])
    return space.map(subscripts).intersect_domain(space.set(iterators, where)).range()


def reads(scope: Scope) -> Iterator[ReadContext]:
    """Every access of a scope's body with its context."""
    yield from _reads(scope.body, scope.iterators, scope.where, ())


def _reads(
    body: Any, iterators: Any, where: Any, around: tuple[Reduce, ...]
) -> Iterator[ReadContext]:
    if isinstance(body, Access):
        yield ReadContext(body, iterators, where, around)
    elif isinstance(body, Reduce):
        yield from _reads(
            body.body, (*iterators, *body.iterators), (*where, *body.where), (*around, body)
        )
    elif not isinstance(body, IndexArithmetic):
        for argument in body.args:
            yield from _reads(argument, iterators, where, around)


def reads_of(scope: Scope, inner: Scope) -> list[ReadContext]:
    """The reads of one inner scope."""
    return [
        r for r in reads(scope) if isinstance(r.access.tensor, Scope) and r.access.tensor == inner
    ]


def with_padded_reads(body: Any, iterators: Sequence[LoopIndex], fill: Any = 0) -> Any:
    """The body with padding wherever a box of points reads beyond what is there; a cut domain is padded in any case."""

    def at(ranges: dict[Index, tuple[int, int]]) -> Any:
        def leaf(node: Any) -> Any:
            if isinstance(node, Access):
                gaps = isinstance(node.base, Scope) and node.base.where
                return with_padding(
                    Access.of(Padded(node.base, [0] * node.base.rank, fill=fill), node.subscripts)
                    if gaps
                    else node,
                    ranges,
                    fill,
                )
            if isinstance(node, Reduce):
                inner = rebuild(
                    node.body,
                    at({**ranges, **{it.index: (it.low, it.high) for it in node.iterators}}),
                )
                return (
                    node
                    if inner is node.body
                    else Reduce(node.op, node.iterators, node.where, inner)
                )
            return node

        return leaf

    return rebuild(body, at({it.index: (it.low, it.high) for it in iterators}))


@lru_cache(maxsize=MOST_SETS)
def bounding_box(points: isl.Set) -> tuple[tuple[int, int], ...] | None:
    """Half-open bounds of every dimension; None where the set is empty."""
    if points.is_empty():
        return None
    return tuple(
        (points.dim_min_val(k).to_python(), points.dim_max_val(k).to_python() + 1)
        for k in range(points.dim(isl.dim_type.set))
    )


@lru_cache(maxsize=MOST_SETS, typed=True)
def may_differ_from(
    value: Any, body: Any, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> isl.Set:
    """A set that holds every point of a domain at which `body` may be something else than `value` (0, or a reduction's identity)."""
    space = Space([it.index for it in iterators])
    return _differs(value, body, space).intersect(space.set(iterators, where))


def _differs(value: Any, body: Any, space: Space) -> isl.Set:
    if isinstance(body, Access):
        return _access_differs(value, body, space)
    if body == value:
        return isl.Set.empty(space.space)
    if isinstance(body, Reduce) and value == IDENTITY[body.op]:
        return _reduction_differs(value, body, space)
    if value == 0 and isinstance(body, sympy.Mul):
        return _intersection([_differs(value, a, space) for a in body.args if is_finite(a)], space)
    if value == 0 and isinstance(body, sympy.Pow) and body.exp.is_positive:
        return _differs(value, body.base, space)
    if isinstance(body, (sympy.Max, sympy.Min)) or (
        value == 0 and isinstance(body, (sympy.Add, sympy.Abs, sympy.sign, sympy.tanh))
    ):
        return _union([_differs(value, a, space) for a in body.args], space)
    return space.universe()


def is_finite(body: Any) -> bool:
    """Whether no infinity is written in a body, nor in a fill: 0 times it is 0, and it distributes over sums."""
    return not body.has(sympy.oo, -sympy.oo)


def _access_differs(value: Any, access: Access, space: Space) -> isl.Set:
    base = access.base
    if not isinstance(base, Padded) or base.fill != value or isinstance(base.base, Padded):
        return space.universe()
    inside = space.universe()
    for subscript, (low, high) in zip(access.subscripts, base.box):
        inside = inside.intersect(space.between(subscript, low, high))
    inner = unpadded(base)
    if isinstance(inner, Scope) and inner.where:
        mapping = dict(zip(inner.indices, access.subscripts))
        for condition in inner.where:
            inside = inside.intersect(space.where(condition.substitute(mapping)))
    return inside


def _reduction_differs(value: Any, node: Reduce, space: Space) -> isl.Set:
    """A reduction of identities is the identity: it may differ only where some term does."""
    inner = Space([*space.indices, *node.indices])
    points = _differs(value, node.body, inner)
    for it in node.iterators:
        points = points.intersect(inner.set([it]))
    for condition in node.where:
        points = points.intersect(inner.where(condition))
    return points.project_out(isl.dim_type.set, len(space.indices), len(node.indices))


def _union(parts: list[isl.Set], space: Space) -> isl.Set:
    total = isl.Set.empty(space.space)
    for part in parts:
        total = total.union(part)
    return total


def _intersection(parts: list[isl.Set], space: Space) -> isl.Set:
    total = space.universe()
    for part in parts:
        total = total.intersect(part)
    return total


def holds_everywhere(question: Any) -> bool:
    """Ask isl a yes/no question within bounds; a question that costs too much counts as no."""
    try:
        with bounded():
            return bool(question())
    except isl.Error:
        return False
