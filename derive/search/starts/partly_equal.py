"""Partly equal starts: sums over windows computed on other axes, and corrected (PET, design §15).

Dilated windows become plain ones where the points that they read lie side by side; the images of a
batch become one. Each has two corrections: room between the parts (a halo), or the points that
differ once more; what each costs in all decides which the search starts from. Several sums are
arranged together, with room, so that nothing is moved between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from derive.rewriting.body_queries import has_reduction, is_empty
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import Path, paths
from derive.rules.partial.arrangements import (
    iterator_of,
    joint_pitches,
    phase_pitches,
)
from derive.rules.partial.mutations import core_of, dilation, joinable_axes, windowed
from derive.rules.partial.partial_substitution import RULE
from derive.search.starts.arranged_together import arranged_together, with_sums_apart
from einalg.errors import EinalgError, RuleError
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope

MAX_STARTS = 2  # the cheapest, of one program
MAX_SCOPES = 2  # sums of one program that are looked at
MAX_SUMS = 2  # of one program that are arranged together: proofs of more take long
MAX_RELATIVE_COST = 1.5  # of the program as it is: variations may make more of it

Cleanup = Callable[[Program, Mapping[str, Rule]], tuple[Program, list[Move]]]
Cost = Callable[[Program], float]
Mutations = list[dict[str, Any]]
Corrected = tuple[Program, list[Move]]


def partly_equal(
    program: Program, rules: Mapping[str, Rule], clean: Cleanup, cost: Cost
) -> Iterator[Corrected]:
    """Yield the program with sums over windows on other axes, with the moves: a few sums together,
    and of those with a single sum on other axes the cheapest.

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

    def cheapest(corrected: Iterable[Corrected]) -> list[_Start]:
        """Return the cheapest of several programs; none where all cost too much."""
        starts: list[_Start] = []
        for after, moves in corrected:
            after, cleaning = clean(after, rules)
            start = _Start(cost(after), after, [*moves, *cleaning])
            if start.seconds <= limit:
                starts.append(start)
        return sorted(starts, key=lambda start: start.seconds)[:1]

    together = cheapest(_corrected_together(program, rules))
    alone: list[_Start] = []
    for corrections in _corrected_alone(program, rules):
        alone += cheapest(corrections)
    alone.sort(key=lambda start: start.seconds)
    for start in [*together, *alone][:MAX_STARTS]:
        yield start.program, start.moves


class _Start(NamedTuple):
    """A program to start from, what it costs at least, and the moves to it."""

    seconds: float
    program: Program
    moves: list[Move]


def _corrected_together(program: Program, rules: Mapping[str, Rule]) -> Iterator[Corrected]:
    """Yield the program with a few sums on other axes together, with room between the parts."""
    apart, lifting = with_sums_apart(program, rules)
    for at in arrangements_together(apart):
        if len(at) <= MAX_SUMS:
            with suppress(EinalgError):
                after, moves = arranged_together(apart, at, rules)
                yield after, [*lifting, *moves]


def _corrected_alone(program: Program, rules: Mapping[str, Rule]) -> Iterator[Iterator[Corrected]]:
    """Yield the program with a single sum on other axes, in groups of either correction."""
    for path, corrections in _proposals(program):
        yield _substituted(program, path, corrections, rules)


def _substituted(
    program: Program, path: Path, corrections: Sequence[Mutations], rules: Mapping[str, Rule]
) -> Iterator[Corrected]:
    """Yield a program after each of several partial substitutions at a path."""
    for mutations in corrections:
        move = Move(RULE.name, path, {"mutations": mutations})
        with suppress(EinalgError):
            yield apply(program, move, rules), [move]


def arrangements_together(program: Program) -> Iterator[dict[Path, Mutations]]:
    """Yield mutations of several statements that have the same gaps: all dilated windows as plain
    ones, and all images of a batch as one; those at the same distances where they may be.

    >>> import einalg as ea
    >>> text = "T[h:9] = Sum[r](A.pad(2)[h+2*r-2]*K[r])\\nO[h:9] = Sum[r](T.pad(4)[h+2*r-4]*L[r])"
    >>> (at,) = arrangements_together(ea.parse(text, A=(9,), K=(3,), L=(5,)))
    >>> [(path, mutations[0]["pitch"]) for path, mutations in at.items()]
    [(('T',), 7), (('O',), 7)]
    """
    for propose in (_plain_with_room, _one_image_with_room):
        at: dict[Path, Mutations] = {}
        for name, scope in program.statements:
            mutations = propose(scope) if _may_be_arranged(scope) else []
            if mutations:
                at[name,] = mutations
        if len(at) > 1:
            yield _with_equal_pitches(program, at)


def _plain_with_room(scope: Scope) -> Mutations:
    return _as_plain_windows(scope, has_room=True)


def _one_image_with_room(scope: Scope) -> Mutations:
    """Return the mutation that joins all images with room between them; none if there is none."""
    *_, corrections = [[[]], *_as_one_image(scope)]
    return corrections[-1]


def _with_equal_pitches(program: Program, at: Mapping[Path, Mutations]) -> dict[Path, Mutations]:
    """Return mutations in which axes of one length have one pitch, which is room for all windows.

    Then the movement back of one is inverse to that of the next one.
    """
    pitches: dict[Any, int] = {}
    keys: dict[tuple[Path, int], Any] = {}
    for path, mutations in at.items():
        for number, mutation in enumerate(mutations):
            along = iterator_of(program[path[0]], mutation.get("into", mutation["index"]))
            parts = mutation.get("parts", mutation.get("phases"))
            key = keys[path, number] = (mutation["kind"], parts, along.extent)
            pitches[key] = max(pitches.get(key, 0), mutation["pitch"])
    equal: dict[Path, Mutations] = {}
    for path, mutations in at.items():
        equal[path] = [
            {**mutation, "pitch": pitches[keys[path, number]]}
            for number, mutation in enumerate(mutations)
        ]
    return equal


def _proposals(program: Program) -> Iterator[tuple[Path, list[Mutations]]]:
    """Yield mutations for the first few sums over windows of a program, in groups of either
    correction.
    """
    scopes = 0
    for path, scope in paths(program):
        groups = list(_mutations(scope))
        for corrections in groups:
            yield path, corrections
        scopes += bool(groups)
        if scopes == MAX_SCOPES:
            return


def _mutations(scope: Scope) -> Iterator[list[Mutations]]:
    """Yield all dilated windows as plain ones, and all images of a batch as one, each with either
    correction.
    """
    if not _may_be_arranged(scope):
        return
    plain = [_as_plain_windows(scope, has_room) for has_room in (False, True)]
    if all(plain):
        yield plain
    yield from _as_one_image(scope)


def _may_be_arranged(scope: Scope) -> bool:
    """Tell whether a scope reduces, and has points, at numbers, without gaps."""
    if scope.where or scope.sizes or is_empty(scope.iterators):
        return False
    return has_reduction(scope.body)


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
    phases = dilation(scope, it.index)
    if not 1 < phases <= it.extent // 2:
        return []
    name = it.index.name
    try:
        pitches = phase_pitches(scope, name, phases)
    except RuleError:
        return []
    pitch = pitches.with_room if has_room else pitches.touching
    return [{"kind": "interleave", "index": name, "phases": phases, "pitch": pitch}]


def _as_one_image(scope: Scope) -> Iterator[list[Mutations]]:
    """Yield mutations that join all images along the last axis on which windows move, where they
    touch and with room between them.
    """
    axes = list(windowed(scope))
    for outer, along in joinable_axes(scope):
        if outer in axes or along not in axes[-1:] or outer.extent < 2:
            continue
        names = {"index": outer.index.name, "into": along.index.name}
        try:
            pitches = joint_pitches(scope, **names)
        except RuleError:
            continue
        join = {"kind": "join", **names, "parts": outer.extent}
        yield [[{**join, "pitch": pitch}] for pitch in dict.fromkeys(pitches)]
