"""Partial substitution: a scope that is nearly equal takes the place of another one, which is
computed again where they differ (PET, design §15).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import islpy as isl

from derive.proof.exact.compare import compare_exactly
from derive.rewriting.body_queries import memoized_per_scope
from derive.rewriting.moves import Example, Rule
from derive.rules.partial.mutations import mutated, proposed
from derive.rules.partial.regions import Cover, covers_of, part_of, points_in
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.cases import Piecewise
from einalg.language.ir.scope import Scope

FACTORS = (2,)  # of tiles, joined neighbours and phases that are proposed
MAX_MOVES = 12  # proposed at one scope; `einalg.mutants` lists all
MAX_SHARE = 0.5  # of the points that are computed again in a move that is proposed


class Correction(NamedTuple):
    """A scope after mutations, and covers of the points at which it is no longer the same."""

    mutant: Scope
    region: isl.Set
    covers: tuple[Cover, ...]

    @property
    def share(self) -> float:
        """The number of points that are computed again, of those of the scope."""
        again = sum(map(points_in, self.covers))
        return again / max(1, prod(it.extent for it in self.mutant.iterators))


def correction(scope: Scope, mutations: Sequence[Mapping[str, Any]]) -> Correction:
    """Return the mutant of a scope, with exactly where the two differ and what covers that.

    Raises `RuleError` where there is no such mutant, or where it is not known at which points it is
    equal.
    """
    if scope.sizes:
        known = ", ".join(scope.sizes)
        raise RuleError(f"what is corrected needs numbers for {known}\n  give them by .at()")
    mutant = mutated(scope, mutations)
    comparison = compare_exactly(scope, mutant)
    region = comparison.region
    if comparison.equal:
        return Correction(mutant, isl.Set.empty(scope.domain.get_space()), ())
    if comparison.equal is None:
        bound = comparison.region_of_differences()
        if bound is None:
            raise RuleError(f"it is not known where the mutant is equal: {comparison.why}")
        region = bound[0]
    assert region is not None
    return Correction(mutant, region, tuple(covers_of(region, scope.shape)))


def substituted(scope: Scope, mutations: Sequence[Mapping[str, Any]]) -> Scope:
    """Return the scope after mutations, and as it was at the points at which it is then different.

    Raises `RuleError` where these are all points.
    """
    corrected = correction(scope, mutations)
    if not corrected.covers:
        return corrected.mutant
    cases: list[Any] = []
    for cover in corrected.covers:
        read, condition = part_of(scope, cover)
        if condition == True:  # noqa: E712 - a condition of SymPy
            raise RuleError(
                "the mutant differs at every point, or at points all over\n"
                "  see einalg.mutants for where each one differs"
            )
        cases.append((read, condition))
    whole = Piecewise(*cases, (corrected.mutant.body, True))
    return simplify_scope(Scope(scope.iterators, (), whole))


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Propose a few single mutations that leave at least half of the points as they are."""
    yield from islice(_substitutions(scope), MAX_MOVES)


def _substitutions(scope: Scope) -> Iterator[dict[str, Any]]:
    for mutation in proposed(scope, FACTORS):
        try:
            if correction(scope, [mutation]).share > MAX_SHARE:
                continue
            substituted(scope, [mutation])
        except RuleError:
            continue
        yield {"mutations": [mutation]}


RULE = Rule(
    name="partial substitution",
    before="L[X] f",
    after="L[X∖R] g ~ L[R] f",
    requires="f and g agree outside R; R is empty where g has the halos of its windows",
    find=find,
    rewrite=substituted,
    section="PET §5",
    example=Example("O[h] += A.pad(1)[h+r-1]*K[r]", {"A": 8, "K": 3}),
)
