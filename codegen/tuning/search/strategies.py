"""What to measure next: three answers behind one protocol.

Random points are nearly all bad, so the cost model drafts and measurements decide. The others are
what a search is compared with: the model alone, and chance alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from time import perf_counter
from typing import Protocol

from codegen.tuning.search.history import SearchHistory, identity
from codegen.tuning.spaces.space import CodeCandidate
from einalg.runtime.clock import check_time

DRAFT_SECONDS = 1.0  # for pricing the points of one space in one draft
POPULATION, GENERATIONS = 64, 4  # of each space
PARENTS = 16  # of a generation, that the next one descends from
CROSSED = 0.3  # of a generation; the others are neighbours of one of the last
EPSILON = 0.05  # of what is measured, by chance
SURVIVORS = 4  # of the measured, that are crossed and whose neighbours are measured
MAX_DRAWS = 256  # for a few points that are new


class Strategy(Protocol):
    """Says what to measure next."""

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        """Return candidates that were not measured, so many at most; none where it knows none.

        The first ones are to be measured first: some may have the code of others.
        """
        ...


@dataclass(frozen=True)
class ModelStrategy:
    """Measure what costs least by the model: the starts, and what is drafted around them."""

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        return _first_new(history, (*history.starts, *_drafted(history)), count)


@dataclass(frozen=True)
class RandomStrategy:
    """Measure points by chance, of every space as many."""

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        return _first_new(history, _by_chance(history), count)


@dataclass(frozen=True)
class GivenStrategy:
    """Measure a candidate that somebody has chosen, and nothing else."""

    candidate: CodeCandidate

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        return _first_new(history, [self.candidate], count)


@dataclass(frozen=True)
class EvolutionStrategy:
    """Measure what the model drafts, then what is near the fastest, and what crosses these.

    First come the starts and what was fast before. While there are neighbours of the fastest that
    were not measured, these are half of a batch: a descent, from where the draft has led to.
    """

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        near = _first_new(history, _near_the_fastest(history), count)
        drafts = _first_new(history, (*_crossed_fastest(history), *_drafted(history)), count)
        candidates = [*history.starts, *history.recorded]
        if history.rng.random() < EPSILON * count:
            candidates += islice(_by_chance(history), 1)
        for pair in zip_longest(near, drafts):
            candidates += [candidate for candidate in pair if candidate is not None]
        return _first_new(history, candidates, count)


STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "evolution": EvolutionStrategy,
    "random": RandomStrategy,
    "model": ModelStrategy,
}


def _first_new(
    history: SearchHistory, candidates: Iterable[CodeCandidate], count: int
) -> list[CodeCandidate]:
    """Return the first candidates that were not measured, no two of them equal."""
    chosen: dict[object, CodeCandidate] = {}
    for candidate in candidates:
        if len(chosen) >= count:
            break
        if history.is_new(candidate):
            chosen.setdefault(identity(candidate), candidate)
    return list(chosen.values())


def _by_chance(history: SearchHistory) -> Iterator[CodeCandidate]:
    for _ in range(MAX_DRAWS):
        space = history.rng.choice(history.starts).space
        yield CodeCandidate(space, space.sample(history.rng))


def _near_the_fastest(history: SearchHistory) -> Iterator[CodeCandidate]:
    """Yield the neighbours of the fastest, of one after the other, the cheapest first."""
    for trial in history.measured[:SURVIVORS]:
        space = trial.candidate.space
        near = [CodeCandidate(space, p) for p in space.neighbours(trial.candidate.point)]
        history.rng.shuffle(near)
        yield from _priced(filter(history.is_new, near))


def _crossed_fastest(history: SearchHistory) -> list[CodeCandidate]:
    """Return points that have something of two of the fastest, of one space each."""
    children: list[CodeCandidate] = []
    fastest = [trial.candidate for trial in history.measured[:SURVIVORS]]
    for one in fastest:
        for other in fastest:
            if one is not other and one.space is other.space:
                point = one.space.cross(one.point, other.point, history.rng)
                children.append(CodeCandidate(one.space, point))
    return children


def _drafted(history: SearchHistory) -> list[CodeCandidate]:
    """Return what is drafted in every space, what costs least by the model first."""
    drafts: list[CodeCandidate] = []
    for start in history.starts:
        drafts += _evolved(history, start)
    return sorted(drafts, key=_cycles)


def _evolved(history: SearchHistory, start: CodeCandidate) -> list[CodeCandidate]:
    """Return new points of a space that generations of mutation and crossover lead to.

    The start, and what was fast when it was measured, are in the first generation.
    """
    space, rng = start.space, history.rng
    fastest = [t.candidate for t in history.measured if t.candidate.space is space]
    population = [start, *fastest[:SURVIVORS]]
    population += [CodeCandidate(space, space.sample(rng)) for _ in range(POPULATION)]
    everything: dict[object, CodeCandidate] = {}
    deadline = perf_counter() + DRAFT_SECONDS
    for _ in range(GENERATIONS):
        ranked = _priced(population, deadline)
        everything.update((identity(candidate), candidate) for candidate in ranked)
        parents = sorted(everything.values(), key=_cycles)[:PARENTS]
        population = [_child(parents, history) for _ in range(POPULATION)]
        if perf_counter() > deadline:
            break
    return [candidate for candidate in everything.values() if history.is_new(candidate)]


def _child(parents: list[CodeCandidate], history: SearchHistory) -> CodeCandidate:
    """Return a crossing of two parents, or a neighbour of one."""
    rng = history.rng
    one, other = rng.choice(parents), rng.choice(parents)
    if one is not other and rng.random() < CROSSED:
        return CodeCandidate(one.space, one.space.cross(one.point, other.point, rng))
    return CodeCandidate(one.space, one.space.mutate(one.point, rng))


def _priced(
    candidates: Iterable[CodeCandidate], deadline: float | None = None
) -> list[CodeCandidate]:
    """Return candidates by their cycles; those that the time is too short for are left out."""
    if deadline is None:
        deadline = perf_counter() + DRAFT_SECONDS
    priced: list[tuple[float, int, CodeCandidate]] = []
    for number, candidate in enumerate(candidates):
        check_time()
        priced.append((candidate.cycles, number, candidate))
        if perf_counter() > deadline:
            break
    return [candidate for _, _, candidate in sorted(priced, key=lambda entry: entry[:2])]


def _cycles(candidate: CodeCandidate) -> float:
    return candidate.cycles
