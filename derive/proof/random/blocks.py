"""A block of an output as an expression of its own: every scope and tensor cut to what the block reads.

Expressions are evaluated at real sizes this way where evaluating them as a whole would take too long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import as_double
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Box, Constant, Padded, Tensor, padded_box
from einalg.language.ir.traversal import accesses, map_accesses, reductions

Ranges = dict[Index, tuple[int, int]]


@dataclass
class OutputBlock:
    """The scopes of both sides over one block of the output, which starts at `origin` (from 0), and what they read."""

    origin: tuple[int, ...]
    scopes: list[Scope]
    tensors: dict[str, Tensor]


@dataclass
class _Demand:
    """The boxes that a block needs: of scopes in their own coordinates, of tensors by name and counted from 0."""

    scopes: dict[Scope, Box] = field(default_factory=dict)
    tensors: dict[str, Box] = field(default_factory=dict)


def cut(scopes: list[Scope], origin: tuple[int, ...], extents: tuple[int, ...]) -> OutputBlock:
    """The expressions over one block of their outputs. Floating-point tensors become double precision."""
    demands = _demands(scopes, origin, extents)
    tensors: dict[str, Tensor] = {}
    return OutputBlock(origin, [_rebuilt(scope, demands, tensors) for scope in scopes], tensors)


def _demands(scopes: list[Scope], origin: tuple[int, ...], extents: tuple[int, ...]) -> _Demand:
    demands = _Demand()
    for scope in scopes:
        demands.scopes[scope] = tuple(
            (it.low + o, it.low + o + e) for it, o, e in zip(scope.iterators, origin, extents)
        )
        for node in reversed(list(all_scopes(scope))):
            box = demands.scopes.setdefault(node, _first_element(node.box))
            ranges = _ranges(node, box)
            for access in accesses(node.body):
                _demand_of_access(access, ranges, box, demands)
    return demands


def _ranges(node: Scope, box: Box) -> Ranges:
    return {
        **{it.index: bounds for it, bounds in zip(node.iterators, box)},
        **_reduction_ranges(node.body),
    }


def _demand_of_access(access: Access, ranges: Ranges, box: Box, demands: _Demand) -> None:
    base = access.tensor
    read = tuple(
        _overlap(s.interval(ranges), bounds) for s, bounds in zip(access.subscripts, base.box)
    )
    if any(low >= high for low, high in (*box, *read)):
        return
    if isinstance(base, Scope):
        demands.scopes[base] = _hull(demands.scopes.get(base), read)
    else:
        from_zero = tuple(
            (low - first, high - first) for (low, high), (first, _) in zip(read, base.box)
        )
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
    return (
        box
        if known is None
        else tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, box))
    )


def _rebuilt(scope: Scope, demands: _Demand, tensors: dict[str, Tensor]) -> Scope:
    made: dict[Scope, Scope] = {}
    ranges: Ranges = {}

    def change(access: Access) -> Access:
        base = access.tensor
        smaller = made[base] if isinstance(base, Scope) else _tensor(base, demands, tensors)
        return Access.of(
            _viewed(access.base, smaller, [s.interval(ranges) for s in access.subscripts]),
            access.subscripts,
        )

    for node in all_scopes(scope):
        ranges = _ranges(node, demands.scopes[node])
        iterators = [
            LoopIndex(it.index, low, high)
            for it, (low, high) in zip(node.iterators, demands.scopes[node])
        ]
        made[node] = Scope(iterators, node.where, map_accesses(node.body, change))
    return made[scope]


def _tensor(tensor: Tensor, demands: _Demand, tensors: dict[str, Tensor]) -> Tensor:
    if isinstance(tensor, Constant):
        return as_double(tensor)
    from_zero = demands.tensors.get(tensor.name) or _first_element(
        tuple((0, n) for n in tensor.shape)
    )
    axes = tuple(
        (low + first, high + first) for (low, high), (first, _) in zip(from_zero, tensor.box)
    )
    made = as_double(Tensor(tensor.name, axes, tensor.dtype, tensor.role))
    tensors.setdefault(tensor.name, made)
    return made


def _viewed(view: Any, base: Any, reach: list[tuple[int, int]]) -> Any:
    """The same view of a smaller base, padded as far as it is read: `reach` holds the first and the last subscript of every axis."""
    if not isinstance(view, Padded):
        return base
    inner = _viewed(view.base, base, reach)
    pads = []
    for (low, high), (first, last), (inner_low, inner_high) in zip(
        padded_box(view), reach, padded_box(inner)
    ):
        pads.append((max(0, inner_low - max(low, first)), max(0, min(high, last + 1) - inner_high)))
    return Padded(inner, pads, view.fill)


def work(scopes: list[Scope]) -> int:
    """How many times bodies are evaluated, those of reductions included."""
    return sum(
        prod(node.shape) * max(1, _body_work(node.body))
        for scope in scopes
        for node in all_scopes(scope)
    )


def _work(demands: _Demand, costs: dict[Scope, int]) -> int:
    return sum(
        prod(high - low for low, high in box) * max(1, costs[node])
        for node, box in demands.scopes.items()
    )


def _body_work(body: Any) -> int:
    if isinstance(body, Reduce):
        return prod(it.extent for it in body.iterators) * max(1, _body_work(body.body))
    if isinstance(body, (Access, IndexArithmetic)):
        return 1
    return sum(map(_body_work, getattr(body, "args", ())))


def block_extents(scopes: list[Scope], limit: int) -> tuple[int, ...]:
    """Extents of the largest block, found by halving the longest axis, whose evaluation takes at most `limit` steps."""
    extents, costs = (
        list(scopes[0].shape),
        {node: _body_work(node.body) for scope in scopes for node in all_scopes(scope)},
    )
    while (
        prod(extents) > 1
        and _work(_demands(scopes, (0,) * len(extents), tuple(extents)), costs) > limit
    ):
        longest = max(range(len(extents)), key=lambda axis: extents[axis])
        extents[longest] = (extents[longest] + 1) // 2
    return tuple(extents)


def origins(
    shape: tuple[int, ...], extents: tuple[int, ...], number: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Where the blocks of a round start: a corner of the output, where padding is read, and a random place."""
    room = [n - e for n, e in zip(shape, extents)]
    corner = tuple(room) if number % 2 else (0,) * len(room)
    place = tuple(int(rng.choice([0, r, int(rng.integers(0, r + 1))])) for r in room)
    return list(dict.fromkeys([corner, place])) if any(room) else [(0,) * len(room)]


def values_for(tensor: Tensor, draw: Any) -> np.ndarray[Any, Any]:
    """An array for a tensor: truth values for bool, else `draw(shape)`, without signs where the type has none."""
    drawn = draw(tensor.shape)
    if tensor.dtype == "bool":
        return np.asarray(drawn) % 2 >= 1
    return np.abs(drawn) if tensor.dtype.startswith("u") else drawn
