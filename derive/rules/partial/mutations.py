"""Mutations: other scopes over the same inputs, of the same box, as JSON values.

An example: `{"kind": "tile", "index": "h", "size": 10}`. Several in a list are made one inside the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from math import gcd
from typing import Any

from derive.rewriting.body_queries import is_empty, with_padded_reads
from derive.rules.partial.arrangements import (
    Arrangement,
    Pitches,
    abutted,
    all_ranges,
    interleaved,
    joined,
    joint_pitches,
    joint_window,
    phase_pitches,
    tiled,
    window_of,
)
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, padded_box
from einalg.language.ir.traversal import accesses, map_accesses, reductions

Mutation = Mapping[str, Any]
ARRANGEMENTS: dict[str, Callable[..., Arrangement]] = {
    "tile": tiled,
    "join": joined,
    "interleave": interleaved,
}
SUBSCRIPT, ABUT = "subscript", "abut"


def mutated(scope: Scope, mutations: Sequence[Mutation]) -> Scope:
    """Return a scope of the same box and inputs, after each mutation in turn.

    Raises `RuleError` for a mutation that the scope does not have.
    """
    if not mutations:
        return scope
    first, *rest = mutations
    arrangement = _arranged(scope, first)
    core = mutated(arrangement.core, rest)
    if arrangement.place is None:
        return core
    return simplify_scope(Scope(scope.iterators, (), Access.of(core, arrangement.place)))


def core_of(scope: Scope, mutations: Sequence[Mutation]) -> Scope:
    """Return the scope on the axes that all mutations have led to, which a next one changes."""
    for mutation in mutations:
        scope = _arranged(scope, mutation).core
    return scope


def _arranged(scope: Scope, mutation: Mutation) -> Arrangement:
    """Return the scope after one mutation; `RuleError` for one that it does not have."""
    if _has_no_mutation(scope):
        raise RuleError("a mutation needs a box of points, all of which have a value")
    arguments = dict(mutation)
    kind = arguments.pop("kind", None)
    if kind in IN_PLACE:
        return Arrangement(IN_PLACE[kind](scope, **arguments))
    if kind not in ARRANGEMENTS:
        raise RuleError(f"there is no mutation {kind!r}\n  known: {', '.join(KINDS)}")
    return ARRANGEMENTS[kind](scope, **arguments)


def _has_no_mutation(scope: Scope) -> bool:
    """Tell whether a scope has gaps, or no points."""
    return bool(scope.where) or (not scope.sizes and is_empty(scope.iterators))


def with_subscript(
    scope: Scope, read: int, axis: int, index: str, coefficient: int, shift: int
) -> Scope:
    """Return a scope one of whose reads has another coefficient of an index: another stride or
    dilation. `shift` is added, as with another padding.
    """
    position = -1

    def change(access: Access) -> Access:
        nonlocal position
        position += 1
        if position != read:
            return access
        subscripts = list(access.subscripts)
        form, name = subscripts[axis], Index(index)
        subscripts[axis] = form + affine(name) * (coefficient - form.coefficient(name)) + shift
        if subscripts[axis] == form:
            raise RuleError(f"{access} has this subscript already")
        return Access.of(access.base, tuple(subscripts))

    body = map_accesses(scope.body, change)
    if position < read or read < 0:
        raise RuleError(f"there is no read number {read}: there are {position + 1}")
    return simplify_scope(Scope(scope.iterators, (), with_padded_reads(body, scope.iterators)))


IN_PLACE: dict[str, Callable[..., Scope]] = {SUBSCRIPT: with_subscript, ABUT: abutted}
KINDS = (*ARRANGEMENTS, *IN_PLACE)


def proposed(scope: Scope, factors: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield mutations of a scope: tiles, joins and phases by these factors, without and with a
    halo, along axes whose lengths are numbers; neighbours that touch, where one of their axes has
    a symbolic size; and windows with other steps, where none has.
    """
    if _has_no_mutation(scope):
        return
    factors = [factor for factor in dict.fromkeys(factors) if factor >= 2]
    for propose in (_tiles, _joins, _phases):
        for mutation in propose(scope, factors):
            try:
                mutated(scope, [mutation])
            except RuleError:
                continue
            yield mutation
    yield from _neighbours(scope, factors) if scope.sizes else _steps(scope)


def _is_window(access: Access, index: Index) -> bool:
    """Tell whether reads at neighbouring points of an index may meet, or leave the tensor."""
    try:
        window = window_of(access, index)
    except RuleError:
        return False
    if window is None:
        return False
    low, high = access.base.box[window.axis]
    return bool(window.rest.indices) or padded_box(access.base)[window.axis] != (low, high)


def windowed(scope: Scope) -> Iterator[LoopIndex]:
    """Yield the axes along which windows move, and that are as long as a number says."""
    for it in scope.iterators:
        if not isinstance(it.extent, int) or it.extent <= 1:
            continue
        if any(_is_window(read, it.index) for read in accesses(scope.body)):
            yield it


def dilation(scope: Scope, index: Index) -> int:
    """Return what the steps of all windows along an index have in common; 0 without windows."""
    common = 0
    for access in accesses(scope.body):
        try:
            window = window_of(access, index)
        except RuleError:
            return 0
        if window is not None:
            common = gcd(common, *(step for _, step in window.rest.terms))
    return common


def _tiles(scope: Scope, factors: Sequence[int]) -> Iterator[dict[str, Any]]:
    for it in windowed(scope):
        sizes = [-(-it.extent // factor) for factor in factors if factor < it.extent]
        for size in dict.fromkeys(sizes):
            for halo in (False, True):
                yield {"kind": "tile", "index": it.index.name, "size": size, "halo": halo}


def _joins(scope: Scope, factors: Sequence[int]) -> Iterator[dict[str, Any]]:
    for outer, along in joinable_axes(scope):
        if not isinstance(outer.extent, int):
            continue
        names = {"index": outer.index.name, "into": along.index.name}
        for pitch in _pitches(joint_pitches, scope, **names):
            for parts in dict.fromkeys([*factors, outer.extent]):
                if 2 <= parts <= outer.extent:
                    yield {"kind": "join", **names, "parts": parts, "pitch": pitch}


def joinable_axes(scope: Scope) -> Iterator[tuple[LoopIndex, LoopIndex]]:
    """Yield two axes where a read has the index of one bare, and that of the other in a window."""
    for outer, along in permutations(scope.iterators, 2):
        try:
            has_window = _has_joint_window(scope, outer, along)
        except RuleError:  # a read moves along both in another manner
            continue
        if has_window:
            yield outer, along


def _has_joint_window(scope: Scope, outer: LoopIndex, along: LoopIndex) -> bool:
    for access in accesses(scope.body):
        window = joint_window(access, outer, along)
        if window is not None and _is_window(access, along.index):
            return True
    return False


def _neighbours(scope: Scope, factors: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield neighbours along one axis that touch along another one, whatever its size."""
    for outer, along in joinable_axes(scope):
        if isinstance(outer.extent, int) and isinstance(along.extent, int):
            continue  # they are joined
        for parts in factors:
            names = {"index": outer.index.name, "into": along.index.name}
            yield {"kind": ABUT, **names, "parts": parts}


def _phases(scope: Scope, factors: Sequence[int]) -> Iterator[dict[str, Any]]:
    for it in windowed(scope):
        name = it.index.name
        for phases in factors:
            if phases <= it.extent:
                for pitch in _pitches(phase_pitches, scope, name, phases):
                    yield {"kind": "interleave", "index": name, "phases": phases, "pitch": pitch}


def _pitches(pitches: Callable[..., Pitches], *args: Any, **names: Any) -> tuple[int, ...]:
    """Return the pitches to try; none where the reads of a scope do not allow any."""
    try:
        return tuple(dict.fromkeys(pitches(*args, **names)))
    except RuleError:
        return ()


def _steps(scope: Scope) -> Iterator[dict[str, Any]]:
    """Yield windows with other steps between their taps, and with none; their middle stays."""
    ranges = all_ranges(scope)
    for read, axis, index, coefficient in _taps(scope):
        low, high = ranges[index]
        middle = (low + high - 1) // 2
        for other in dict.fromkeys([1, coefficient // 2, 2 * coefficient, 0]):
            if other != coefficient and high - low > 1:
                yield {
                    "kind": SUBSCRIPT,
                    "read": read,
                    "axis": axis,
                    "index": index.name,
                    "coefficient": other,
                    "shift": (coefficient - other) * middle,
                }


def _taps(scope: Scope) -> Iterator[tuple[int, int, Index, int]]:
    """Yield each summed index of a window: the number of the read, the axis, the index and its
    coefficient.
    """
    summed = {index for node in reductions(scope.body) for index in node.indices}
    for read, access in enumerate(accesses(scope.body)):
        for axis, form in enumerate(access.subscripts):
            if len(form.indices) > 1:
                for index in sorted(form.indices & summed, key=str):
                    yield read, axis, index, form.coefficient(index)
