"""Conditions on sizes under which two programs are proved that differ at other ones.

Access relations say at which sizes two programs differ. The laws of functions, and what is computed
at some sizes, do not: there the conditions are tried that rules have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import islpy as isl

from derive.proof.all_sizes import prove_for_all_sizes
from derive.proof.outcome.verdict import PROVED, Proof
from einalg.errors import EinalgError
from einalg.language.analysis.sizes import where_all_hold
from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.size import Size, by_name
from einalg.language.ir.program import Program
from einalg.language.ir.scope import scope_at_sizes


@dataclass(frozen=True)
class SizeCondition:
    """A condition on sizes, and what has the values of a size under it: `N = K`, and K for N."""

    condition: Constraint
    values: Mapping[Size, Affine]

    def side(self, program: Program) -> Program:
        """Return a program under the condition."""
        known = {size: form for size, form in self.values.items() if size.name in program.sizes}
        if not known:
            return program
        statements = [(name, scope_at_sizes(scope, known)) for name, scope in program.statements]
        return Program(statements, program.outputs)

    def is_sufficient(self, before: Program, after: Program) -> bool:
        """Say whether two programs are proved to be equal wherever the condition holds."""
        try:
            sides = self.side(before), self.side(after)
            return prove_for_all_sizes(*sides, _refuse).verdict == PROVED
        except (EinalgError, _Refused):
            return False


class _Refused(Exception):
    """Neither relations nor laws decide."""


def _refuse(one: Program, two: Program) -> Proof:
    raise _Refused


def sufficient_condition(
    before: Program, after: Program, counterexample: Mapping[str, int]
) -> isl.Set | None:
    """Return sizes at which two programs are proved to be equal: the first of some conditions under
    which they are; None where there is none. They differ at a `counterexample`.

    >>> from einalg.language.ir.program import Program
    >>> import einalg as ea
    >>> shapes = {"A": ("M", "N"), "B": ("M", "K")}
    >>> means = "O[i] = (Sum[j](A[i,j])/N + Sum[k](B[i,k])/K)/2"
    >>> mean = "O[i] = (Sum[j](A[i,j]) + Sum[k](B[i,k]))/(N + K)"
    >>> sides = [Program([("O", ea.parse(text, **shapes))], ["O"]) for text in (means, mean)]
    >>> sufficient_condition(*sides, {"K": 1, "M": 1, "N": 2})
    Set("[K, N] -> {  : N = K }")
    """
    sizes = sorted(by_name({*before.sizes.values(), *after.sizes.values()}).values(), key=str)
    for candidate in _conditions(sizes, counterexample):
        if candidate.is_sufficient(before, after):
            return where_all_hold([candidate.condition])
    return None


def _conditions(
    sizes: Sequence[Size], counterexample: Mapping[str, int]
) -> Iterator[SizeCondition]:
    """Yield conditions on sizes: two of them are the same, one is even or odd, less or more than in
    a counterexample, or the smallest that it may be.
    """
    for one, other in combinations(sizes, 2):
        yield SizeCondition(Constraint(affine(one) - other, "=="), {other: affine(one)})
    for size in sizes:
        if (size.at_least, size.at_most, size.multiple_of) == (1, None, 1):
            form = affine(size)
            yield SizeCondition(Constraint(form % 2, "=="), {size: form * 2})
            yield SizeCondition(Constraint(form % 2 - 1, "=="), {size: form * 2 - 1})
    for size in sizes:
        if size.name in counterexample:
            yield from _beside(size, counterexample[size.name])
    for size in sizes:
        least = affine(size.smallest)
        yield SizeCondition(Constraint(affine(size) - least, "=="), {size: least})


def _beside(size: Size, number: int) -> Iterator[SizeCondition]:
    """Yield that a size is less than a number, and that it is more."""
    form = affine(size)
    if number > size.smallest:
        less = Size(size.name, size.at_least, number - 1, size.multiple_of)
        yield SizeCondition(Constraint(-form + (number - 1), ">="), {size: affine(less)})
    if size.at_most is None or number < size.at_most:
        more = Size(size.name, number + 1, size.at_most, size.multiple_of)
        yield SizeCondition(Constraint(form - (number + 1), ">="), {size: affine(more)})
