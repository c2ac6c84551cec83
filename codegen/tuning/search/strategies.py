"""What to measure next: some answers behind one protocol.

Random points are nearly all bad, so the cost model drafts and measurements decide, and correct the
model. The others are what a search is compared with: the model alone, chance alone, and searches
without one of their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, permutations, zip_longest
from time import perf_counter
from typing import Protocol

from codegen.tuning.cost_model.description import Description
from codegen.tuning.cost_model.learned import ANALYTIC, CandidateCosts
from codegen.tuning.search.history import SearchHistory
from codegen.tuning.spaces.space import CodeCandidate, identity
from einalg.runtime.clock import check_time

DRAFT_SECONDS = 1.0  # for pricing the points of one space in one draft
POPULATION, GENERATIONS = 64, 4  # of each space
PARENTS = 16  # of a generation, that the next one descends from
CROSSED = 0.3  # of a generation; the others are neighbours of one of the last
EPSILON = 0.05  # of what is measured, by chance
SURVIVORS = 4  # of the measured, that are crossed and whose neighbours are measured
MAX_DRAWS = 256  # for a few points that are new
PricedCandidate = tuple[float, CodeCandidate]


class Strategy(Protocol):
    """Says what to measure next; where it `learns`, from samples of other units too."""

    @property
    def learns(self) -> bool: ...

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        """Return candidates that were not measured, so many at most; none where it knows none.

        The first ones are to be measured first: some may have the code of others.
        """
        ...


@dataclass(frozen=True)
class ModelStrategy:
    """Measure what costs least by the model: the starts, and what is drafted around them.

    Where it `learns`, measurements correct the model.
    """

    learns: bool = False

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        draft = Draft.of(history, self.learns)
        return _first_new(history, (*history.starts, *draft.candidates()), count)


@dataclass(frozen=True)
class RandomStrategy:
    """Measure points by chance, of every space as many."""

    learns = False

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        return _first_new(history, _by_chance(history), count)


@dataclass(frozen=True)
class GivenStrategy:
    """Measure the candidate of each unit, by its digest, that somebody has chosen; nothing else.

    It is measured whatever earlier measurements say of it.
    """

    candidates: Mapping[str, CodeCandidate]
    learns = False

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        candidate = self.candidates[history.knowledge.unit]
        if history.trial_of(candidate) is not None:
            return []
        return [candidate]


@dataclass(frozen=True)
class EvolutionStrategy:
    """Measure what the model drafts, then what is near the fastest, and what crosses these.

    First come the starts and what was fast before. While there are neighbours of the fastest that
    were not measured, these are half of a batch: a descent, from where the draft has led to. The
    flags leave a part out, as an ablation does.
    """

    learns: bool = True
    crosses: bool = True
    descends: bool = True

    def propose(self, history: SearchHistory, count: int) -> list[CodeCandidate]:
        draft = Draft.of(history, self.learns, self.crosses)
        near: list[CodeCandidate] = []
        if self.descends:
            near = _first_new(history, draft.near_the_fastest(), count)
        drafts = _first_new(history, (*draft.crossed_fastest(), *draft.candidates()), count)
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
ABLATIONS: Mapping[str, Callable[[], Strategy]] = {
    **STRATEGIES,
    "learned model": partial(ModelStrategy, learns=True),
    "without learning": partial(EvolutionStrategy, learns=False),
    "without crossing": partial(EvolutionStrategy, crosses=False),
    "without descent": partial(EvolutionStrategy, descends=False),
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


@dataclass(frozen=True)
class Draft:
    """What a model thinks cheap of the spaces of a search, before anything of it is measured."""

    history: SearchHistory
    model: CandidateCosts
    crosses: bool = True

    @classmethod
    def of(cls, history: SearchHistory, learns: bool, crosses: bool = True) -> Draft:
        if learns:
            return cls(history, history.learned_model, crosses)
        return cls(history, ANALYTIC, crosses)

    def near_the_fastest(self) -> Iterator[CodeCandidate]:
        """Yield the neighbours of the fastest, of one after the other, the cheapest first."""
        history = self.history
        for trial in history.measured[:SURVIVORS]:
            space = trial.candidate.space
            near = [CodeCandidate(space, p) for p in space.neighbours(trial.candidate.point)]
            history.rng.shuffle(near)
            deadline = perf_counter() + DRAFT_SECONDS
            priced = self._priced(filter(history.is_new, near), deadline)
            yield from (candidate for _, candidate in sorted(priced, key=_cost))

    def crossed_fastest(self) -> list[CodeCandidate]:
        """Return points that have something of two of the fastest, of one space each."""
        children: list[CodeCandidate] = []
        fastest = [trial.candidate for trial in self.history.measured[:SURVIVORS]]
        for one, other in permutations(fastest, 2):
            if self.crosses and one.space is other.space:
                point = one.space.cross(one.point, other.point, self.history.rng)
                children.append(CodeCandidate(one.space, point))
        return children

    def candidates(self) -> list[CodeCandidate]:
        """Return what is drafted in every space, what costs least by the model first."""
        drafts: list[PricedCandidate] = []
        for start in self.history.starts:
            drafts += self._evolved(start)
        return [candidate for _, candidate in sorted(drafts, key=_cost)]

    def _evolved(self, start: CodeCandidate) -> list[PricedCandidate]:
        """Return new points of a space that generations of mutation and crossover lead to.

        The start, and what was fast when it was measured, are in the first generation.
        """
        history, space = self.history, start.space
        fastest = [t.candidate for t in history.measured if t.candidate.space is space]
        population = [start, *fastest[:SURVIVORS]]
        population += [CodeCandidate(space, space.sample(history.rng)) for _ in range(POPULATION)]
        everything: dict[object, PricedCandidate] = {}
        deadline = perf_counter() + DRAFT_SECONDS
        for _ in range(GENERATIONS):
            unknown = [one for one in population if identity(one) not in everything]
            for cost, candidate in self._priced(unknown, deadline):
                everything[identity(candidate)] = cost, candidate
            parents = [one for _, one in sorted(everything.values(), key=_cost)[:PARENTS]]
            population = [self._child(parents) for _ in range(POPULATION)]
            if perf_counter() > deadline:
                break
        return [priced for priced in everything.values() if history.is_new(priced[1])]

    def _child(self, parents: Sequence[CodeCandidate]) -> CodeCandidate:
        """Return a crossing of two parents, or a neighbour of one."""
        rng = self.history.rng
        one, other = rng.choice(parents), rng.choice(parents)
        if self.crosses and one is not other and rng.random() < CROSSED:
            return CodeCandidate(one.space, one.space.cross(one.point, other.point, rng))
        return CodeCandidate(one.space, one.space.mutate(one.point, rng))

    def _priced(
        self, candidates: Iterable[CodeCandidate], deadline: float
    ) -> list[PricedCandidate]:
        """Return candidates with their costs; those that the time is too short for are left out."""
        described: list[CodeCandidate] = []
        descriptions: list[Description] = []
        for candidate in candidates:
            check_time()
            described.append(candidate)
            descriptions.append(self.history.knowledge.described(candidate))
            if perf_counter() > deadline:
                break
        return list(zip(self.model.costs(descriptions), described))


def _cost(priced: PricedCandidate) -> float:
    return priced[0]
