"""A block of an output as an expression of its own: every scope and tensor cut to what the block
reads.

Expressions are evaluated at real sizes this way where evaluating them as a whole would take too
long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, without_conversions
from einalg.language.ir.dtypes import bounds
from einalg.language.ir.program import Program, as_double, as_program
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Box, Constant, Padded, Tensor, padded_box
from einalg.language.ir.traversal import accesses, map_accesses, reductions

Ranges = dict[Index, tuple[int, int]]


@dataclass(frozen=True)
class OutputBlock:
    """The scopes of both sides over one block of the output, which starts at `origin` (from 0), and
    what they read.
    """

    origin: tuple[int, ...]
    scopes: list[Scope]
    tensors: dict[str, Tensor]

    @cached_property
    def programs(self) -> list[Program]:
        """The scopes as programs, which every evaluation of the block shares."""
        return [as_program(scope) for scope in self.scopes]


@dataclass(frozen=True)
class _Demand:
    """The boxes that a block needs: of scopes in their own coordinates, of tensors by name and
    counted from 0, as in `{"A": ((0, 4), (2, 9))}`.
    """

    scopes: dict[Scope, Box] = field(default_factory=dict)
    tensors: dict[str, Box] = field(default_factory=dict)


def cut_block(
    scopes: list[Scope], origin: tuple[int, ...], extents: tuple[int, ...]
) -> OutputBlock:
    """Return the expressions over one block of their outputs. Floating-point tensors become double
    precision.
    """
    demand = _demand(scopes, origin, extents)
    tensors: dict[str, Tensor] = {}
    return OutputBlock(origin, [_cut_scope(scope, demand, tensors) for scope in scopes], tensors)


def arrays_of_part(
    block: OutputBlock, part: OutputBlock, arrays: Mapping[str, np.ndarray[Any, Any]]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays that a part of a block reads, which was cut out of the block's scopes."""
    read = {}
    for name, tensor in part.tensors.items():
        ranges = []
        for (low, high), (first, _) in zip(tensor.box, block.tensors[name].box):
            ranges.append(slice(low - first, high - first))
        read[name] = arrays[name][tuple(ranges)]
    return read


def _demand(scopes: list[Scope], origin: tuple[int, ...], extents: tuple[int, ...]) -> _Demand:
    demand = _Demand()
    for scope in scopes:
        box = []
        for (low, _), start, extent in zip(scope.box, origin, extents):
            box.append((low + start, low + start + extent))
        demand.scopes[scope] = tuple(box)
        for node in reversed(list(all_scopes(scope))):
            _add_reads(demand, node)
    return demand


def _add_reads(demand: _Demand, node: Scope) -> None:
    """Add what a scope reads over the box that is needed of it."""
    box = demand.scopes.setdefault(node, _first_element(node.box))
    ranges = _ranges(node, box)
    for access in accesses(node.body):
        base = access.tensor
        read = _elements_read(access, ranges)
        if _is_empty(box) or _is_empty(read):
            continue
        if isinstance(base, Scope):
            demand.scopes[base] = _hull(demand.scopes.get(base), read)
        else:
            from_zero = _shifted(read, base.box, -1)
            demand.tensors[base.name] = _hull(demand.tensors.get(base.name), from_zero)


def _ranges(node: Scope, box: Box) -> Ranges:
    """Return the ranges of all indices of a scope where its points are those of a box.

    Reductions of one body may share a name: the widest range counts.
    """
    ranges = dict(zip(node.indices, box))
    widest: Ranges = {}
    for reduction in reductions(node.body):
        for it in reduction.iterators:
            low, high = widest.get(it.index, (it.low, it.high))
            widest[it.index] = min(low, it.low), max(high, it.high)
    return {**ranges, **widest}


def _elements_read(access: Access, ranges: Ranges) -> Box:
    """Return the part of what is read that an access reaches."""
    box = []
    for subscript, (low, high) in zip(access.subscripts, access.tensor.box):
        first, last = subscript.interval(ranges)
        box.append((max(first, low), min(last + 1, high)))
    return tuple(box)


def _is_empty(box: Box) -> bool:
    return any(low >= high for low, high in box)


def _shifted(box: Box, origin: Box, direction: int) -> Box:
    """Return a box in coordinates that differ by the first elements of another one: -1 to count
    from 0, 1 to count from these.
    """
    shifted = []
    for (low, high), (first, _) in zip(box, origin):
        shifted.append((low + direction * first, high + direction * first))
    return tuple(shifted)


def _first_element(box: Box) -> Box:
    """Return what remains of something of which only the padding is read."""
    return tuple((low, min(low + 1, high)) for low, high in box)


def _hull(one: Box | None, other: Box) -> Box:
    """Return the smallest box around two; the other one where there is only that."""
    if one is None:
        return other
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(one, other))


def _cut_scope(scope: Scope, demand: _Demand, tensors: dict[str, Tensor]) -> Scope:
    """Return a scope over what is needed of it; the tensors that it reads are added to
    `tensors`.
    """
    smaller: dict[Scope, Scope] = {}
    for node in all_scopes(scope):
        smaller[node] = _cut_node(node, demand, smaller, tensors)
    return smaller[scope]


def _cut_node(
    node: Scope, demand: _Demand, smaller: Mapping[Scope, Scope], tensors: dict[str, Tensor]
) -> Scope:
    """Return one scope over what is needed of it, where those that it reads are cut already."""
    box = demand.scopes[node]
    ranges = _ranges(node, box)

    def change(access: Access) -> Access:
        base = access.tensor
        if isinstance(base, Scope):
            base = smaller[base]
        else:
            base = _cut_tensor(base, demand, tensors)
        reach = [subscript.interval(ranges) for subscript in access.subscripts]
        return Access.of(_padded_as_far_as_read(access.base, base, reach), access.subscripts)

    iterators = [LoopIndex(index, low, high) for index, (low, high) in zip(node.indices, box)]
    body = without_conversions(map_accesses(node.body, change))
    return Scope(iterators, node.where, body)


def _cut_tensor(tensor: Tensor, demand: _Demand, tensors: dict[str, Tensor]) -> Tensor:
    if isinstance(tensor, Constant):
        return as_double(tensor)
    from_zero = demand.tensors.get(tensor.name)
    if not from_zero:
        from_zero = _first_element(tuple((0, extent) for extent in tensor.shape))
    axes = _shifted(from_zero, tensor.box, 1)
    smaller = as_double(Tensor(tensor.name, axes, tensor.dtype, tensor.role))
    tensors.setdefault(tensor.name, smaller)
    return smaller


def _padded_as_far_as_read(view: Any, base: Any, reach: list[tuple[int, int]]) -> Any:
    """Return the same view of a smaller base, padded as far as it is read: `reach` holds the first
    and the last subscript of every axis.
    """
    if not isinstance(view, Padded):
        return base
    inner = _padded_as_far_as_read(view.base, base, reach)
    pads = []
    for (low, high), (first, last), (inner_low, inner_high) in zip(
        padded_box(view), reach, padded_box(inner)
    ):
        before, after = inner_low - max(low, first), min(high, last + 1) - inner_high
        pads.append((max(0, before), max(0, after)))
    return Padded(inner, pads, view.fill)


def evaluation_steps(scopes: list[Scope]) -> int:
    """Return how many times bodies are evaluated, those of reductions included."""
    steps = 0
    for scope in scopes:
        for node in all_scopes(scope):
            steps += prod(node.shape) * _steps_per_point(node)
    return steps


def _steps_per_point(scope: Scope) -> int:
    return max(1, _body_steps(scope.body))


def _body_steps(body: Any) -> int:
    if isinstance(body, Reduce):
        return prod(it.extent for it in body.iterators) * max(1, _body_steps(body.body))
    if isinstance(body, (Access, IndexArithmetic)):
        return 1
    return sum(map(_body_steps, getattr(body, "args", ())))


def _demanded_steps(demand: _Demand, steps_per_point: Mapping[Scope, int]) -> int:
    """Return the evaluation steps of a block that needs these boxes."""
    steps = 0
    for node, box in demand.scopes.items():
        steps += prod(high - low for low, high in box) * steps_per_point[node]
    return steps


def block_steps(scopes: list[Scope], origin: tuple[int, ...], extents: tuple[int, ...]) -> int:
    """Return the evaluation steps of a block."""
    demand = _demand(scopes, origin, extents)
    return _demanded_steps(demand, {node: _steps_per_point(node) for node in demand.scopes})


def block_extents(scopes: list[Scope], max_steps: int) -> tuple[int, ...]:
    """Return the extents of the largest block, by halving the longest axis, whose evaluation takes
    at most `max_steps` steps.
    """
    steps_per_point = {}
    for scope in scopes:
        for node in all_scopes(scope):
            steps_per_point[node] = _steps_per_point(node)
    extents = list(scopes[0].shape)
    origin = (0,) * len(extents)
    while prod(extents) > 1:
        demand = _demand(scopes, origin, tuple(extents))
        if _demanded_steps(demand, steps_per_point) <= max_steps:
            break
        longest = extents.index(max(extents))
        extents[longest] = (extents[longest] + 1) // 2
    return tuple(extents)


def origins(
    shape: tuple[int, ...], extents: tuple[int, ...], number: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Return where the blocks of a round start: a corner of the output, where padding is read, and
    a random place.
    """
    first = (0,) * len(shape)
    last = tuple(size - extent for size, extent in zip(shape, extents))
    place = tuple(_random_start(most, rng) for most in last)
    if not any(last):
        return [first]
    corner = last if number % 2 else first
    return list(dict.fromkeys([corner, place]))


def _random_start(most: int, rng: np.random.Generator) -> int:
    """Draw one of the ends, or anything between."""
    return int(rng.choice([0, most, int(rng.integers(0, most + 1))]))


def values_for(tensor: Tensor, draw: Any) -> np.ndarray[Any, Any]:
    """Return an array for a tensor: truth values for bool, else `draw(shape)`."""
    drawn = draw(tensor.shape)
    if tensor.dtype == "bool":
        return np.asarray(drawn) % 2 >= 1
    return drawn


def within_type(dtype: str, integers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return integers with those that a type does not hold moved to its least or largest value.

    >>> within_type("u8", np.array([-3, 7, 300]))
    array([  0,   7, 255])
    """
    low, high = bounds(dtype)
    return np.clip(integers, low, high)
