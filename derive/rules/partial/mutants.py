"""Mutants: programs that equal another one at some points of its outputs, and exactly where they do
not (PET, design §15).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import islpy as isl

from derive.proof.exact.compare import compare_exactly
from derive.proof.outcome.regions import readable
from derive.rewriting.moves import Move, apply
from derive.rewriting.paths import Path, paths, replace_at
from derive.rules.partial.mutations import core_of, mutated, proposed
from derive.rules.partial.partial_substitution import RULE
from einalg.boundary import public
from einalg.errors import RuleError
from einalg.language.analysis.sizes import allowed_sizes
from einalg.language.index.isl import Space
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.program import Program, as_symbolic_program, inlined
from einalg.language.ir.scope import Scope
from einalg.language.notation.text_arguments import reads_text
from einalg.options import checked, several, whole
from einalg.runtime.garbage import with_few_full_collections
from einalg.text.tables import Listing, aligned
from einalg.text.terminal import fitted

DEPTH = whole(1, 4)
NUMBERS = several(whole(2), "numbers of 2 or more in a list", "e.g. {name}=(2, 3)")
Regions = Mapping[str, isl.Set]


@public
@dataclass(frozen=True, repr=False)
class Mutant:
    """A program with the inputs and the shapes of another one, and where their outputs differ.

    `regions` maps each output to the `islpy.Set` of its points that differ, counted from 0 on every
    axis: exactly these where `is_region_exact`, else none outside of them. `move` is the partial
    substitution that takes the mutant and corrects it.

    >>> import einalg as ea
    >>> blur = ea.parse("O[i] += A.pad(1)[i+r-1]*K[r]", A=(12,), K=(3,))
    >>> tiles = mutants(blur)[-1]
    >>> tiles
    mutant at O: tile i, size 6: 16.7% of the output differs
      where: { [i] : 5 <= i <= 6 }
    >>> ea.prove(blur, tiles.corrected()).verdict
    'proved'
    """

    original: Program
    program: Program
    move: Move
    regions: Regions = field(hash=False)
    is_region_exact: bool = True

    @property
    def region(self) -> isl.Set:
        """The points that differ, of the first output that has some."""
        for region in self.regions.values():
            if not region.is_empty():
                return region
        return next(iter(self.regions.values()))

    @property
    def is_equal(self) -> bool:
        """True where no output differs: each part has room for its windows."""
        return all(region.is_empty() for region in self.regions.values())

    @property
    def share(self) -> float | None:
        """The number of points that differ, of those of all outputs; None with symbolic sizes."""
        if self.original.sizes:
            return None
        points = sum(prod(self.original[name].shape) for name in self.regions)
        return sum(map(_number_of_points, self.regions.values())) / max(1, points)

    def corrected(self) -> Program:
        """Return the mutant, computed as the original at the points that differ.

        Raises `RuleError` where these fall into too many parts, or lie all over, and where some
        points differ and sizes are symbolic.
        """
        return apply(self.original, self.move, {RULE.name: RULE})

    @property
    def mutations(self) -> Sequence[Mapping[str, Any]]:
        """The mutations, one inside the other, as JSON values."""
        return self.move.args["mutations"]

    @property
    def description(self) -> str:
        """The mutations in words: "tile h, size 7, with a halo"."""
        return "; ".join(map(_in_words, self.mutations))

    @property
    def difference(self) -> str:
        """How much of the output differs, in words: "none", "a part", "14.3%"."""
        if self.is_equal:
            return "none"
        return "a part" if self.share is None else f"{self.share:.1%}"

    def __str__(self) -> str:
        text = f"mutant at {self.move.place}: {self.description}: "
        if self.is_equal:
            return f"{text}equal at every output point"
        where = "where" if self.is_region_exact else "at most where"
        return f"{text}{self.difference} of the output differs\n  {where}: {self.region}"

    __repr__ = __str__


class Mutants(Listing[Mutant]):
    """Mutants, those that are equal first: a list that shows one line for each, and a table in
    Jupyter.

    >>> import einalg as ea
    >>> ea.mutants("O[i] += A.pad(1)[i+r-1]*K[r]", A=(12,), K=(3,))[:2]
       differs  at  mutations
    0  none     O   tile i, size 6, with a halo
    1  16.7%    O   tile i, size 6
    """

    heads = ("", "differs", "at", "mutations")

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of `heads` for every mutant."""
        for number, mutant in enumerate(self):
            yield str(number), mutant.difference, mutant.move.place, mutant.description

    def __str__(self) -> str:
        if not self:
            return "no mutant"
        return fitted(aligned([self.heads, *self.rows()]))


def _in_words(mutation: Mapping[str, Any]) -> str:
    """Return a mutation as text: "tile h, size 10"."""
    words = [f"{mutation['kind']} {mutation['index']}"]
    for name, value in mutation.items():
        if value is True:
            words.append(f"with a {name}")
        elif name not in ("kind", "index") and value is not False:
            words.append(f"{name} {value}")
    return ", ".join(words)


def _number_of_points(region: isl.Set) -> int:
    return int(region.count_val().to_python())


@reads_text("expr")
@checked(depth=DEPTH, factors=NUMBERS)
@with_few_full_collections
def mutants(expr: Any, *, depth: int = 1, factors: Sequence[int] = (2,), **tensors: Any) -> Mutants:
    """Return programs that are nearly equal to one, each with exactly the points that differ; those
    that differ nowhere first, then by how many do.

    A mutant computes a scope on other axes, cut and joined by `factors`: tiles of an axis side by
    side, images joined along an axis into one, the points of an axis in the order of their
    remainders; or with other steps between the taps of a window. Where windows cross a border that
    was not there before, it differs. Up to `depth` of these are made one inside the other. What
    differs everywhere is left out.

    Text is read with the shapes that are given by name, as by `einalg.parse`. Raises `UseError` for
    a depth or factors that are no such numbers. PET §4.

    >>> import einalg as ea
    >>> conv = ea.parse(
    ...     "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]",
    ...     A=(16, 3, 14, 14), K=(4, 3, 3, 3),
    ... )
    >>> pairs = next(m for m in mutants(conv) if not m.is_equal and m.mutations[0]["into"] == "w")
    >>> round(pairs.share, 4)
    0.0714
    """
    program = as_symbolic_program(expr)
    candidates: list[Mutant] = []
    for path, scope in list(paths(program)):
        candidates += _mutants_at(program, path, scope, depth, factors)
    return Mutants(sorted(candidates, key=_by_difference))


def _by_difference(mutant: Mutant) -> tuple[bool, float, int]:
    return not mutant.is_equal, mutant.share or 0.0, len(mutant.mutations)


def _mutants_at(
    program: Program, path: Path, scope: Scope, depth: int, factors: Sequence[int]
) -> Iterator[Mutant]:
    """Yield the mutants of a scope, those of fewer mutations first."""
    seen = {scope}
    lists: list[list[Any]] = [[]]
    for _ in range(depth):
        longer = []
        for mutations in lists:
            for mutation in proposed(core_of(scope, mutations), factors):
                mutant = _mutant(program, path, scope, [*mutations, mutation], seen)
                if mutant is not None:
                    longer.append([*mutations, mutation])
                    yield mutant
        lists = longer


def _mutant(
    program: Program, path: Path, scope: Scope, mutations: list[Any], seen: set[Scope]
) -> Mutant | None:
    """Return a mutant; None where there is none, or where all of an output differs."""
    try:
        new = mutated(scope, mutations)
    except RuleError:
        return None
    if new in seen:
        return None
    seen.add(new)
    after = replace_at(program, path, new)
    regions: dict[str, isl.Set] = {}
    exact, allowed = True, None
    if program.sizes:
        allowed = allowed_sizes(program, after)
    for name in program.outputs:
        region = _region(inlined(program, name), inlined(after, name), allowed)
        if region is None:
            return None
        regions[name] = region[0]
        exact = exact and region[1]
    move = Move(RULE.name, path, {"mutations": mutations})
    if all(_whole(program[name], allowed).is_subset(regions[name]) for name in regions):
        return None
    return Mutant(program, after, move, regions, exact)


def _whole(scope: Scope, allowed: isl.Set | None) -> isl.Set:
    """Return all points of an output, counted from 0 on every axis."""
    points = Space(scope.indices).set([LoopIndex(it.index, 0, it.extent) for it in scope.iterators])
    return points if allowed is None else points.intersect_params(allowed)


def _region(one: Scope, two: Scope, allowed: isl.Set | None) -> tuple[isl.Set, bool] | None:
    """Return the points at which two scopes differ, and whether they do at all of them; None where
    that is not known.
    """
    comparison = compare_exactly(one, two, allowed)
    differences = comparison.region_of_differences()
    if differences is None:
        return None
    region, is_exact = differences
    return readable(region, [index.name for index in one.indices]), is_exact
