"""Arrangements: the axes of a scope cut into tiles, joined, or put in the order of their phases.

The tensors that move along these axes are arranged in the same manner, and the scope is computed on
them as if nothing had happened. At the border of a tile or of an image, its windows then read
padding or a neighbour instead of what they read before: that is where the result differs. Where
there is room for the whole window around each part (a halo), it differs nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sympy

from derive.rewriting.body_queries import (
    bare_subscripts,
    bound_indices,
    index_ranges,
    iterator_named,
    with_padded_reads,
)
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope, with_padding
from einalg.language.index.affine import Affine, Index
from einalg.language.index.cases import Piecewise
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import fresh_index, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, unpadded
from einalg.language.ir.traversal import accesses, map_accesses, reductions

Ranges = Mapping[Index, tuple[Any, Any]]


@dataclass(frozen=True)
class Arrangement:
    """The scope on other axes, and the point of it that holds each point of the result; None where
    the axes are the same.
    """

    core: Scope
    place: tuple[Affine, ...] | None = None


class Pitches(NamedTuple):
    """The least distances from the start of one part to that of the next: at which they touch, and
    at which no window reaches into another part.
    """

    touching: int
    with_room: int


class Window(NamedTuple):
    """The axis of a tensor that an index moves along, as `stride*index + rest`."""

    axis: int
    stride: int
    rest: Affine


def iterator_of(scope: Scope, name: Any) -> LoopIndex:
    """Return the iterator of a name; `RuleError` where there is none."""
    iterator = iterator_named(scope.iterators, name) if isinstance(name, str) else None
    if iterator is None:
        known = ", ".join(map(str, scope.indices))
        raise RuleError(f"there is no index {name} in the traversal; it has {known}")
    return iterator


def _numbered_iterator(scope: Scope, name: Any) -> LoopIndex:
    """Return the iterator of a name; `RuleError` where there is none, or not so many values as a
    number says.
    """
    iterator = iterator_of(scope, name)
    _require_numbers(name, iterator.low, iterator.high)
    return iterator


def _require_numbers(what: Any, *bounds: Any) -> None:
    """Raise `RuleError` where bounds have symbolic sizes."""
    if not all(isinstance(bound, int) for bound in bounds):
        sizes = " to ".join(map(str, bounds))
        raise RuleError(f"the range of {what} has no numbers, but {sizes}\n  give them by .at()")


def window_of(access: Access, index: Index) -> Window | None:
    """Return the axis of a read that an index moves along; None where it moves along none.

    Raises `RuleError` where it moves along several, backwards, or by a quotient.
    """
    axes = [axis for axis, form in enumerate(access.subscripts) if index in form.indices]
    if not axes:
        return None
    form = access.subscripts[axes[0]]
    stride = form.coefficient(index)
    rest = form - affine(index) * stride
    if len(axes) > 1 or stride < 1 or index in rest.indices:
        raise RuleError(f"{index} does not move along one axis of {access}")
    return Window(axes[0], stride, rest)


def all_ranges(scope: Scope) -> dict[Index, tuple[Any, Any]]:
    """Return the ranges of all indices of a scope; of those that are bound twice, all values."""
    ranges = dict(index_ranges(scope.iterators))
    for node in reductions(scope.body):
        for index, (low, high) in index_ranges(node.iterators).items():
            if index in ranges and ranges[index] != (low, high):
                _require_numbers(index, low, high, *ranges[index])
                low, high = min(low, ranges[index][0]), max(high, ranges[index][1])
            ranges[index] = (low, high)
    return ranges


def _plain_tensor(access: Access) -> Any:
    """Return the tensor or scope of a read; `RuleError` where it has gaps, or two paddings."""
    base = access.base.base if isinstance(access.base, Padded) else access.base
    if isinstance(base, Padded) or (isinstance(base, Scope) and base.where):
        raise RuleError(f"{access} reads what has gaps, or several paddings")
    return base


def _numbered_range(access: Access, axis: int) -> tuple[int, int]:
    """Return the range of an axis of what is read; `RuleError` where it has no numbers."""
    low, high = _plain_tensor(access).box[axis]
    _require_numbers(f"axis {axis} of {access.base}", low, high)
    return low, high


class _Names:
    """Names of indices that a scope does not use yet."""

    def __init__(self, scope: Scope):
        self._used = set(bound_indices(scope))

    def like(self, index: Index) -> Index:
        """Return a new index named like another one."""
        new = fresh_index(index.name, self._used)
        self._used.add(new)
        return new


def _copy(
    access: Access, iterators: Sequence[LoopIndex], subscripts: Sequence[Affine], read_at: Any
) -> Access:
    """Return a read, at `read_at`, of the copy of a tensor that has its elements at `subscripts`,
    and the fill of its padding elsewhere.
    """
    fill = access.base.fill if isinstance(access.base, Padded) else 0
    element = Access.of(unpadded(access.base), tuple(subscripts))
    body = with_padding(element, index_ranges(iterators), fill)
    copy: Any = simplify_scope(Scope(iterators, (), body))
    if isinstance(access.base, Padded):
        copy = Padded(copy, [(0, 0)] * copy.rank, fill)
    return Access.of(copy, tuple(read_at))


def _axes_of(tensor: Any, names: _Names) -> list[LoopIndex]:
    """Return an iterator for each axis of a tensor."""
    return [LoopIndex(names.like(Index("d")), low, high) for low, high in tensor.box]


def _core(
    scope: Scope,
    iterators: Sequence[LoopIndex],
    change: Callable[[Access], Access],
    old: Mapping[Index, Affine],
) -> Scope:
    """Return the scope on other axes: `change` gives the reads, `old` the old indices."""
    body = substitute(map_accesses(scope.body, change), old)
    return simplify_scope(Scope(iterators, (), with_padded_reads(body, iterators)))


def tiled(scope: Scope, index: str, size: int, halo: bool = False) -> Arrangement:
    """Cut an axis into tiles of `size` points, each with its part of the tensors alone; with a
    halo, also with what its windows reach beyond.
    """
    it = _numbered_iterator(scope, index)
    if not 1 <= size < it.extent:
        raise RuleError(f"{index} has {it.extent} points: tiles have fewer, and at least 1")
    names, ranges = _Names(scope), all_ranges(scope)
    tile, inner = names.like(it.index), names.like(it.index)
    number = LoopIndex(tile, 0, -(-it.extent // size))
    ranges[inner] = (0, size)

    def change(access: Access) -> Access:
        window = window_of(access, it.index)
        if window is None:
            return access
        tensor = _plain_tensor(access)
        axis, stride, rest = window
        at = affine(inner) * stride + rest + it.low * stride
        low, high = 0, stride * size
        if halo:
            first, last = at.interval(ranges)
            low, high = first, last + 1
        axes = _axes_of(tensor, names)
        axes[axis] = LoopIndex(axes[axis].index, low, high)
        elements = list(bare_subscripts(axes))
        elements[axis] = elements[axis] + affine(tile) * (stride * size)
        read_at = [affine(tile), *access.subscripts]
        read_at[axis + 1] = at
        return _copy(access, [number, *axes], elements, read_at)

    iterators = [number]
    place = [(affine(it.index) - it.low) // size]
    for other in scope.iterators:
        if other is it:
            iterators.append(LoopIndex(inner, 0, size))
            place.append((affine(it.index) - it.low) % size)
        else:
            iterators.append(other)
            place.append(affine(other.index))
    old = {it.index: affine(tile) * size + inner + it.low}
    return Arrangement(_core(scope, iterators, change, old), tuple(place))


def joined(scope: Scope, index: str, into: str, parts: int, pitch: int) -> Arrangement:
    """Put `parts` neighbours along one axis, such as images, side by side along another one: each
    starts `pitch` points after the one before.
    """
    outer, along = _numbered_iterator(scope, index), _numbered_iterator(scope, into)
    if outer is along or not (2 <= parts <= outer.extent and pitch >= along.extent):
        raise RuleError(
            f"at least 2 of the {outer.extent} points of {index} are joined, each at least "
            f"{along.extent} points of {into} apart"
        )
    names = _Names(scope)
    group, line = names.like(outer.index), names.like(along.index)

    def change(access: Access) -> Access:
        window = joint_window(access, outer, along)
        if window is None:
            return access
        tensor = _plain_tensor(access)
        part_axis, (axis, stride, rest) = window
        axes, step = _axes_of(tensor, names), stride * pitch
        low, high = _numbered_range(access, axis)
        axes[part_axis] = LoopIndex(axes[part_axis].index, 0, -(-outer.extent // parts))
        length = step * (parts - 1) + min(step, high - low)
        axes[axis] = LoopIndex(axes[axis].index, 0, length)
        elements = list(bare_subscripts(axes))
        position = elements[axis]
        shift = access.subscripts[part_axis] - outer.index + outer.low
        elements[part_axis] = elements[part_axis] * parts + position // step + shift
        elements[axis] = position % step + low
        read_at = list(access.subscripts)
        read_at[part_axis] = affine(group)
        read_at[axis] = affine(line) * stride + rest + (along.low * stride - low)
        return _copy(access, axes, elements, read_at)

    groups = LoopIndex(group, 0, -(-outer.extent // parts))
    points = LoopIndex(line, 0, pitch * (parts - 1) + along.extent)
    from_first = affine(outer.index) - outer.low
    place = {
        outer: from_first // parts,
        along: from_first % parts * pitch + along.index - along.low,
    }
    old = {
        outer.index: affine(group) * parts + affine(line) // pitch + outer.low,
        along.index: affine(line) % pitch + along.low,
    }
    return _exchanged(scope, {outer: groups, along: points}, place, change, old)


def joint_window(access: Access, outer: LoopIndex, along: LoopIndex) -> tuple[int, Window] | None:
    """Return the axis on which a read has the outer index bare, and the window along the other one;
    None where it does not move along both.
    """
    used = set().union(*(form.indices for form in access.subscripts))
    if not {outer.index, along.index} <= used:
        return None
    part, window = window_of(access, outer.index), window_of(access, along.index)
    if part is None or window is None:
        return None
    if part.stride != 1 or part.rest.terms or part.axis == window.axis:
        raise RuleError(f"{outer.index} is not the index of an axis of {access}")
    return part.axis, window


def interleaved(scope: Scope, index: str, phases: int, pitch: int) -> Arrangement:
    """Put the points of an axis in the order of their remainders by `phases`: first all that have
    the remainder 0. Each class starts `pitch` points after the one before.
    """
    it = _numbered_iterator(scope, index)
    points = -(-it.extent // phases) if phases > 1 else 0
    if not (2 <= phases <= it.extent and pitch >= points):
        raise RuleError(
            f"{index} has {it.extent} points: of its phases there are 2 or more, each with a pitch "
            "that holds its points"
        )
    names = _Names(scope)
    line = names.like(it.index)

    def change(access: Access) -> Access:
        phase = phase_window(access, it, phases)
        if phase is None:
            return access
        axis, rest, shift = phase
        tensor = _plain_tensor(access)
        axes = _axes_of(tensor, names)
        _, high = _numbered_range(access, axis)
        length = pitch * (phases - 1) + max(1, min(pitch, -(-(high - shift) // phases)))
        axes[axis] = LoopIndex(axes[axis].index, 0, length)
        elements = list(bare_subscripts(axes))
        position = elements[axis]
        elements[axis] = position % pitch * phases + position // pitch + shift
        read_at = list(access.subscripts)
        read_at[axis] = rest + line
        return _copy(access, axes, elements, read_at)

    from_first = affine(it.index) - it.low
    place = {it: from_first % phases * pitch + from_first // phases}
    axis = LoopIndex(line, 0, pitch * (phases - 1) + points)
    old = {it.index: affine(line) % pitch * phases + affine(line) // pitch + it.low}
    return _exchanged(scope, {it: axis}, place, change, old)


def phase_window(access: Access, it: LoopIndex, phases: int) -> tuple[int, Affine, int] | None:
    """Return the axis of a read along which an index moves, the rest of its subscript in steps of
    `phases`, and what that leaves over; None where it does not move along any.

    Raises `RuleError` where the rest takes other steps: then it would read other phases.
    """
    window = window_of(access, it.index)
    if window is None:
        return None
    rest = window.rest + it.low
    shift = rest.const % phases
    if window.stride != 1 or any(c % phases for _, c in rest.terms):
        raise RuleError(f"the windows of {access} do not move in steps of {phases}")
    steps = affine(0)
    for atom, coefficient in (rest - shift).terms:
        steps = steps + affine(atom) * (coefficient // phases)
    return window.axis, steps + (rest.const - shift) // phases, shift


def _exchanged(
    scope: Scope,
    axes: Mapping[LoopIndex, LoopIndex],
    place: Mapping[LoopIndex, Affine],
    change: Callable[[Access], Access],
    old: Mapping[Index, Affine],
) -> Arrangement:
    """Return an arrangement that has other axes in the places of some, and keeps the rest."""
    iterators = [axes.get(it, it) for it in scope.iterators]
    places = [place.get(it, affine(it.index)) for it in scope.iterators]
    return Arrangement(_core(scope, iterators, change, old), tuple(places))


def abutted(scope: Scope, index: str, into: str, parts: int) -> Scope:
    """Have windows along one axis read the neighbour along another one, `parts` of which follow one
    another, where they leave a tensor: as `joined` without room, on the axes that there are.

    So sizes may be symbolic: no axis is as long as their product.
    """
    outer, along = iterator_of(scope, index), iterator_of(scope, into)
    if outer is along or parts < 2:
        raise RuleError(f"at least 2 points of {index} follow one another along {into}")

    def change(access: Access) -> Any:
        joint = joint_window(access, outer, along)
        if joint is None:
            return access
        part_axis, (axis, _, _) = joint
        low, high = _plain_tensor(access).box[axis]
        form = access.subscripts[axis]
        from_first = affine(outer.index) - outer.low
        cases: list[Any] = []
        for step, beyond in ((-1, form <= affine(low) - 1), (1, form >= affine(high))):
            subscripts = list(access.subscripts)
            subscripts[part_axis] = subscripts[part_axis] + step
            subscripts[axis] = form - (affine(high) - low) * step
            same_group: Any = sympy.Eq((from_first + step) // parts - from_first // parts, 0)
            cases.append((Access.of(access.base, tuple(subscripts)), sympy.And(beyond, same_group)))
        return Piecewise(*cases, (access, True))

    body = map_accesses(scope.body, change)
    return Scope(scope.iterators, (), with_padded_reads(body, scope.iterators))


def joint_pitches(scope: Scope, index: str, into: str) -> Pitches:
    """Return the pitches of the neighbours along one axis that `joined` puts behind one another."""
    outer, along = _numbered_iterator(scope, index), _numbered_iterator(scope, into)
    ranges = all_ranges(scope)
    touching = with_room = along.extent
    for access in accesses(scope.body):
        window = joint_window(access, outer, along)
        if window is not None:
            low, high = _numbered_range(access, window[1].axis)
            _, stride, rest = window[1]
            first, last = (rest + along.low * stride - low).interval(ranges)
            _require_numbers(f"the windows of {access}", first, last)
            end = stride * (along.extent - 1) + last + 1
            touching = max(touching, -(-(high - low) // stride))
            beyond = max(high - low - min(first, 0), end)
            with_room = max(with_room, -(-beyond // stride))
    return Pitches(touching, with_room)


def phase_pitches(scope: Scope, index: str, phases: int) -> Pitches:
    """Return the pitches of the phases that `interleaved` puts behind one another."""
    it, ranges = _numbered_iterator(scope, index), all_ranges(scope)
    points = -(-it.extent // phases)
    touching = with_room = points
    for access in accesses(scope.body):
        phase = phase_window(access, it, phases)
        if phase is not None:
            axis, steps, shift = phase
            _, high = _numbered_range(access, axis)
            elements = -(-(high - shift) // phases)
            first, last = steps.interval(ranges)
            _require_numbers(f"the windows of {access}", first, last)
            touching = max(touching, elements)
            with_room = max(with_room, elements - min(first, 0), points + last)
    return Pitches(touching, with_room)
