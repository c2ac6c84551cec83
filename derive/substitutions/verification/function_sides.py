"""Rules whose sides are functions of tensors, for what has no expression with all sizes open: a
reshape to a product of sizes is none (design §14).

Numbers are put in the places of as few sizes as give an expression, and all others stay open: what
is proved then holds at these numbers, and for all other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED
from derive.proof.sides import as_sides
from derive.substitutions.verification.comparing import Sides, compared
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.errors import EinalgError
from einalg.language.index.size import Size, at_sizes, by_name, sizes_in
from einalg.language.ir.scope import numbers_of_sizes
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.builders import tensor

STEPS = (0, 1, 2, 4)  # from the smallest number of a size to those that are tried
MAX_CHOICES = 16
Numbers = Mapping[str, int]


@dataclass(frozen=True)
class FunctionSides:
    """Both sides of a rule as functions of tensors, which they are given by name."""

    before: Callable[..., Any]
    after: Callable[..., Any]
    tensors: tuple[Tensor, ...]

    @property
    def sizes(self) -> dict[str, Size]:
        return by_name(sizes_in([extent for one in self.tensors for extent in one.shape]))

    def at(self, numbers: Numbers) -> Sides:
        """Return both sides with numbers for some sizes. Raises as the functions do."""
        values = numbers_of_sizes(self.sizes, numbers)
        tensors = {}
        for one in self.tensors:
            shape = tuple([at_sizes(extent, values) for extent in one.shape])
            tensors[one.name] = tensor(one.name, shape, one.dtype)
        before, after = self.before(**tensors), self.after(**tensors)
        return as_sides(before, after)

    def least_numbers(self) -> dict[str, int]:
        """Return numbers for as few sizes as give both sides an expression, all of which are open
        where that does. Raises as the functions do where no sizes do.
        """
        sizes = tuple(self.sizes.values())
        for count in range(len(sizes)):
            for chosen in combinations(sizes, count):
                numbers = {size.name: _numbers(size)[:2][-1] for size in chosen}
                with suppress(EinalgError):
                    self.at(numbers)
                    return numbers
        numbers = {size.name: _numbers(size)[:2][-1] for size in sizes}
        self.at(numbers)
        return numbers


def verdict_on_functions(name: str, sides: FunctionSides) -> RuleVerdict:
    """Decide a rule for all sizes where both sides have an expression of these; else at numbers for
    as few of them as possible.
    """
    chosen = [sides.sizes[size] for size in sides.least_numbers()]
    if not chosen:
        return compared(*sides.at({})).verdict_on(name)
    choices = sorted(product(*map(_numbers, chosen)), key=sum)[:MAX_CHOICES]
    coverages = []
    for choice in choices:
        numbers = {size.name: number for size, number in zip(chosen, choice)}
        verdict = compared(*sides.at(numbers)).verdict_on(name)
        if verdict.counterexample is not None or verdict.verdict == DIFFERENT:
            example = {**numbers, **(verdict.counterexample or {})}
            return RuleVerdict(name, DIFFERENT, counterexample=example, region=verdict.region)
        if verdict.verdict != PROVED:
            return RuleVerdict(name, TESTED, coverage=verdict.coverage)
        coverages.append(" and ".join(f"{key} = {number}" for key, number in numbers.items()))
    return RuleVerdict(
        name, TESTED, coverage=f"proved at {'; '.join(coverages)}, for all other sizes"
    )


def _numbers(size: Size) -> list[int]:
    """Return the smallest numbers that a size may be, in order."""
    smallest = size.smallest
    numbers = [smallest + step * size.multiple_of for step in STEPS]
    return [number for number in numbers if size.holds(number)]
