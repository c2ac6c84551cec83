"""Partly equal starts: sums over windows computed on other axes, and corrected (PET, design §15).

Dilated windows become plain ones where the points that they read lie side by side; the images of a
batch become one. Each has two corrections: room between the parts (a halo), or the points that
differ once more; what each costs in all decides which the search starts from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd
from typing import Any

from derive.rewriting.body_queries import has_reduction, is_empty
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import Path, paths
from derive.rules.partial.arrangements import joint_pitches, phase_pitches, window_of
from derive.rules.partial.mutations import core_of, joinable_axes, windowed
from derive.rules.partial.partial_substitution import RULE
from einalg.errors import EinalgError, RuleError
from einalg.language.index.affine import Index
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses

MAX_STARTS = 2  # the cheapest, of one program
MAX_SCOPES = 2  # sums of one program that are looked at
MAX_RELATIVE_COST = 1.5  # of the program as it is: variations may make more of it

Cleanup = Callable[[Program, Mapping[str, Rule]], tuple[Program, list[Move]]]
Cost = Callable[[Program], float]
Mutations = list[dict[str, Any]]


def partly_equal(
    program: Program, rules: Mapping[str, Rule], clean: Cleanup, cost: Cost
) -> Iterator[tuple[Program, list[Move]]]:
    """Yield the program with a sum over windows on other axes, with the moves: the cheapest few.

    `clean` is what is done after the move, such as `derive.search.cleanup.cleaned_up`; `cost` is
    that of a program.

    >>> import einalg as ea
    >>> from derive.rules import ALL
    >>> from derive.search.cleanup import cleaned_up
    >>> from derive.search.expansion import ideal_seconds
    >>> from einalg.language.ir.program import as_program
    >>> text = "O[n,f,h:99] = Sum[c,r](A.pad(0,0,2)[n,c,h+2*r-2]*K[f,c,r])"
    >>> conv = as_program(ea.parse(text, A=(1, 512, 99), K=(512, 512, 3)))
    >>> program, moves = next(partly_equal(conv, ALL, cleaned_up, ideal_seconds))
    >>> moves[0].args["mutations"][0]["kind"]
    'interleave'
    """
    limit = MAX_RELATIVE_COST * cost(program)
    starts: list[tuple[float, Program, list[Move]]] = []
    for path, mutations in _proposals(program):
        move = Move(RULE.name, path, {"mutations": mutations})
        try:
            after, cleaning = clean(apply(program, move, rules), rules)
        except EinalgError:
            continue
        seconds = cost(after)
        if seconds <= limit:
            starts.append((seconds, after, [move, *cleaning]))
    starts.sort(key=lambda start: start[0])
    for _, after, moves in starts[:MAX_STARTS]:
        yield after, moves


def _proposals(program: Program) -> Iterator[tuple[Path, Mutations]]:
    """Yield mutations for the first few sums over windows of a program."""
    scopes = 0
    for path, scope in paths(program):
        proposals = list(_mutations(scope))
        for mutations in proposals:
            yield path, mutations
        scopes += bool(proposals)
        if scopes == MAX_SCOPES:
            return


def _mutations(scope: Scope) -> Iterator[Mutations]:
    """Yield all dilated windows as plain ones, and all images of a batch as one, with either
    correction.
    """
    if scope.where or scope.sizes or is_empty(scope.iterators) or not has_reduction(scope.body):
        return
    for has_room in (False, True):
        plain = _as_plain_windows(scope, has_room)
        if plain:
            yield plain
    yield from _as_one_image(scope)


def _as_plain_windows(scope: Scope, has_room: bool) -> Mutations:
    """Return mutations that put the phases of every dilated axis one after another, with room for
    their windows or without.
    """
    mutations: Mutations = []
    for axis in range(scope.rank):
        mutations += _as_phases(core_of(scope, mutations), axis, has_room)
    return mutations


def _as_phases(scope: Scope, axis: int, has_room: bool) -> Mutations:
    """Return the mutation of one dilated axis; none where it is not dilated."""
    it = scope.iterators[axis]
    phases = _dilation(scope, it.index)
    if not 1 < phases <= it.extent // 2:
        return []
    name = it.index.name
    try:
        pitches = phase_pitches(scope, name, phases)
    except RuleError:
        return []
    pitch = pitches.with_room if has_room else pitches.touching
    return [{"kind": "interleave", "index": name, "phases": phases, "pitch": pitch}]


def _dilation(scope: Scope, index: Index) -> int:
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


def _as_one_image(scope: Scope) -> Iterator[Mutations]:
    """Yield mutations that join all images along the last axis on which windows move."""
    axes = list(windowed(scope))
    for outer, along in joinable_axes(scope):
        if outer in axes or along not in axes[-1:] or outer.extent < 2:
            continue
        names = {"index": outer.index.name, "into": along.index.name}
        try:
            pitches = joint_pitches(scope, **names)
        except RuleError:
            continue
        for pitch in dict.fromkeys(pitches):
            yield [{"kind": "join", **names, "parts": outer.extent, "pitch": pitch}]
