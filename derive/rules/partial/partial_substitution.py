"""Partial substitution: a scope that is nearly equal takes the place of another one, which is
computed again where they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import islpy as isl
import sympy

from derive.proof.exact.compare import compare_exactly
from derive.rewriting.body_queries import memoized_per_scope
from derive.rewriting.moves import Example, Rule
from derive.rules.partial.mutations import dilation, mutated, proposed, windowed
from derive.rules.partial.regions import Cover, covers_of, part_of, points_in
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.analysis.sizes import allowed_sizes
from einalg.language.index.cases import Piecewise
from einalg.language.ir.scope import Scope

FACTOR = 2  # of tiles, joined neighbours and phases that are proposed, beside the dilations
MAX_MOVES = 12  # proposed at one scope; `einalg.mutants` lists all
MAX_SHARE = 0.5  # of the points that are computed again in a move that is proposed


class Correction(NamedTuple):
    """A scope, the same after mutations, and covers of the points at which the two differ."""

    original: Scope
    mutant: Scope
    region: isl.Set
    covers: tuple[Cover, ...]

    @property
    def share(self) -> float:
        """The number of points that are computed again, of those of the scope."""
        if not self.covers:
            return 0.0
        again = sum(map(points_in, self.covers))
        return again / max(1, prod(self.original.shape))

    def applied(self) -> Scope:
        """Return the mutant, computed as the original at the points of the covers.

        Raises `RuleError` where one cover holds all points.
        """
        if not self.covers:
            return self.mutant
        cases: list[Any] = []
        for cover in self.covers:
            read, condition = part_of(self.original, cover)
            if condition is sympy.true:
                raise RuleError(
                    "the mutant differs at every point, or at points all over\n"
                    "  see einalg.mutants for where each one differs"
                )
            cases.append((read, condition))
        whole = Piecewise(*cases, (self.mutant.body, True))
        return simplify_scope(Scope(self.original.iterators, (), whole))


def correction(scope: Scope, mutations: Sequence[Mapping[str, Any]]) -> Correction:
    """Return the mutant of a scope, with exactly where the two differ and what covers that.

    Raises `RuleError` where there is no such mutant, or where it is not known at which points it is
    equal; with symbolic sizes, where some are not.
    """
    mutant = mutated(scope, mutations)
    allowed = allowed_sizes(scope, mutant) if scope.sizes else None
    comparison = compare_exactly(scope, mutant, allowed)
    differences = comparison.region_of_differences()
    if differences is None:
        raise RuleError(f"it is not known where the mutant is equal: {comparison.why}")
    region, _ = differences
    if scope.sizes and region.is_empty():
        return Correction(scope, mutant, region, ())
    if scope.sizes:
        known = ", ".join(scope.sizes)
        raise RuleError(f"what is corrected needs numbers for {known}\n  give them by .at()")
    return Correction(scope, mutant, region, tuple(covers_of(region, scope.shape)))


def substituted(scope: Scope, mutations: Sequence[Mapping[str, Any]]) -> Scope:
    """Return the scope after mutations, and as it was at the points at which it is then different.

    Raises `RuleError` where one cover of these holds all points.
    """
    return correction(scope, mutations).applied()


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Propose a few single mutations that leave at least half of the points as they are."""
    yield from islice(_substitutions(scope), MAX_MOVES)


def _substitutions(scope: Scope) -> Iterator[dict[str, Any]]:
    dilations = {dilation(scope, it.index) for it in windowed(scope)}
    for mutation in proposed(scope, sorted({FACTOR, *dilations})):
        try:
            corrected = correction(scope, [mutation])
            if corrected.share > MAX_SHARE:
                continue
            corrected.applied()
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
