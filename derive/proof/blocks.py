"""A block of an output as an expression of its own: every scope and tensor cut to what the block reads.

Expressions are evaluated at real sizes this way where evaluating them as a whole would take too long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from einalg.access import Access, Box, Padded, Tensor
from einalg.affine import Index, IndexArithmetic
from einalg.dtypes import is_float
from einalg.scope import Iterator, Reduce, Scope
from einalg.traverse import accesses, all_scopes, map_accesses, reductions

Ranges = dict[Index, tuple[int, int]]


@dataclass
class Cut:
    """The scopes of both sides over one block of the output, which starts at `origin` (from 0), and what they read."""

    origin: tuple[int, ...]
    scopes: list[Scope]
    tensors: dict[str, Tensor]


@dataclass
class _Demand:
    """The boxes that a block needs: of scopes in their own coordinates, of tensors by name and counted from 0."""

    scopes: dict[Scope, Box] = field(default_factory=dict)
    tensors: dict[str, Box] = field(default_factory=dict)


def cut(scopes: list[Scope], origin: tuple[int, ...], extents: tuple[int, ...]) -> Cut:
    """The expressions over one block of their outputs. Floating-point tensors become double precision."""
    demands = _Demand()
    for scope in scopes:
        block = tuple((it.low + o, it.low + o + e) for it, o, e in zip(scope.iterators, origin, extents))
        _demand(scope, block, demands)
    tensors: dict[str, Tensor] = {}
    return Cut(origin, [_rebuilt(scope, demands, tensors) for scope in scopes], tensors)


def _demand(scope: Scope, block: Box, demands: _Demand) -> None:
    demands.scopes[scope] = block
    for node in reversed(list(all_scopes(scope))):
        box = demands.scopes.setdefault(node, _first_element(node.box))
        ranges = {it.index: bounds for it, bounds in zip(node.iterators, box)}
        for access in accesses(node.body):
            _demand_of_access(access, {**ranges, **_reduction_ranges(node.body)}, box, demands)


def _demand_of_access(access: Access, ranges: Ranges, box: Box, demands: _Demand) -> None:
    base = access.tensor
    read = tuple(_overlap(s.interval(ranges), bounds) for s, bounds in zip(access.subscripts, base.box))
    if any(low >= high for low, high in (*box, *read)):
        return
    if isinstance(base, Scope):
        demands.scopes[base] = _hull(demands.scopes.get(base), read)
    else:
        from_zero = tuple((low - first, high - first) for (low, high), (first, _) in zip(read, base.box))
        demands.tensors[base.name] = _hull(demands.tensors.get(base.name), from_zero)


def _reduction_ranges(body: Any) -> Ranges:
    """Reductions of one body may share a name: the widest range of each."""
    found: Ranges = {}
    for node in reductions(body):
        for it in node.iterators:
            low, high = found.get(it.index, (it.low, it.high))
            found[it.index] = (min(low, it.low), max(high, it.high))
    return found


def _overlap(closed: tuple[int, int], bounds: tuple[int, int]) -> tuple[int, int]:
    return max(closed[0], bounds[0]), min(closed[1] + 1, bounds[1])


def _first_element(box: Box) -> Box:
    """What is kept of something of which only the padding is read."""
    return tuple((low, min(low + 1, high)) for low, high in box)


def _hull(known: Box | None, box: Box) -> Box:
    return box if known is None else tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, box))


def _rebuilt(scope: Scope, demands: _Demand, tensors: dict[str, Tensor]) -> Scope:
    made: dict[Scope, Scope] = {}

    def change(access: Access) -> Access:
        base = access.tensor
        return Access.of(_viewed(access.base, made[base] if isinstance(base, Scope) else _tensor(base, demands, tensors)), access.subscripts)

    for node in all_scopes(scope):
        iterators = [Iterator(it.index, low, high) for it, (low, high) in zip(node.iterators, demands.scopes[node])]
        made[node] = Scope(iterators, node.where, map_accesses(node.body, change))
    return made[scope]


def _tensor(tensor: Tensor, demands: _Demand, tensors: dict[str, Tensor]) -> Tensor:
    from_zero = demands.tensors.get(tensor.name) or _first_element(tuple((0, n) for n in tensor.shape))
    axes = tuple((low + first, high + first) for (low, high), (first, _) in zip(from_zero, tensor.box))
    made = Tensor(tensor.name, axes, "f64" if is_float(tensor.dtype) else tensor.dtype, tensor.role)
    tensors.setdefault(tensor.name, made)
    return made


def _viewed(view: Any, base: Any) -> Any:
    """The same view of a smaller base: as far as the original one reaches."""
    if not isinstance(view, Padded):
        return base
    if isinstance(view.base, Padded):
        return Padded(_viewed(view.base, base), view.amounts, view.fill)
    pairs = zip(view.amounts, view.base.box, base.box)
    return Padded(base, [(low - first + before, last - high + after) for (before, after), (first, last), (low, high) in pairs], view.fill)


def work(scopes: list[Scope]) -> int:
    """How many times bodies are evaluated, those of reductions included."""
    return sum(prod(node.shape) * max(1, _body_work(node.body)) for scope in scopes for node in all_scopes(scope))


def _body_work(body: Any) -> int:
    if isinstance(body, Reduce):
        return prod(it.extent for it in body.iterators) * max(1, _body_work(body.body))
    if isinstance(body, (Access, IndexArithmetic)):
        return 1
    return sum(map(_body_work, getattr(body, "args", ())))


def block_extents(scopes: list[Scope], limit: int) -> tuple[int, ...]:
    """Extents of the largest block, found by halving the longest axis, whose evaluation takes at most `limit` steps."""
    extents = list(scopes[0].shape)
    while prod(extents) > 1 and work(cut(scopes, (0,) * len(extents), tuple(extents)).scopes) > limit:
        longest = max(range(len(extents)), key=lambda axis: extents[axis])
        extents[longest] = (extents[longest] + 1) // 2
    return tuple(extents)


def origins(shape: tuple[int, ...], extents: tuple[int, ...], count: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Where blocks start: the first and the last corner, where padding is read, and random places."""
    room = [n - e for n, e in zip(shape, extents)]
    if not any(room):
        return [(0,) * len(shape)]
    mixed = [tuple(int(rng.choice([0, r, int(rng.integers(0, r + 1))])) for r in room) for _ in range(max(0, count - 2))]
    return list(dict.fromkeys([(0,) * len(shape), tuple(room), *mixed]))


def values_for(tensor: Tensor, draw: Any) -> np.ndarray[Any, Any]:
    """An array for a tensor: truth values for bool, else `draw(shape)`, without signs where the type has none."""
    drawn = draw(tensor.shape)
    if tensor.dtype == "bool":
        return np.asarray(drawn) % 2 >= 1
    return np.abs(drawn) if tensor.dtype.startswith("u") else drawn
