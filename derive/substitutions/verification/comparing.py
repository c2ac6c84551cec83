"""Comparing two programs at all their sizes: the sizes at which they differ, over all outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import islpy as isl
import numpy as np

from derive.proof import prove
from derive.proof.all_sizes import ConcreteProof, prove_for_all_sizes
from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED, Proof
from derive.proof.random.blocks import evaluation_steps
from derive.substitutions.verification.conditions import sufficient_condition
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.errors import EinalgError
from einalg.language.analysis.sizes import (
    allowed_sizes,
    conditions_text,
    smallest,
    where_not_negative,
)
from einalg.language.index.size import is_number
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.program import Program
from einalg.language.ir.scope import all_scopes, numbers_of_sizes

SOME_SIZES = "it may hold at other sizes, too"
AT_AN_INPUT = "exact evaluation at whole numbers"
MAX_STEPS = 20_000  # bodies evaluated at one input
Sides = tuple[Program, Program]


class Undecided(Exception):
    """No exact comparison decides; others would take longer."""


@dataclass(frozen=True)
class SizesComparison:
    """The verdict of a comparison, with the sizes at which both sides have a meaning, those of them
    at which no result is empty, those at which the sides differ, the points that do, and whether
    these are all. Where they are not, the sides are proved to be equal at the `sufficient` ones.
    """

    verdict: str
    allowed: Any = None
    inhabited: Any = None
    differing: Any = None
    region: Any = None
    is_exact: bool = True
    coverage: str = ""
    sufficient: Any = None

    @property
    def counterexample(self) -> dict[str, int]:
        """The smallest sizes at which the sides differ; none where these have no names."""
        return smallest(self.differing) if self.differing is not None else {}

    @property
    def holding(self) -> Any:
        """The sizes at which the sides are known to be equal, and no result is empty, as where no
        window fits; where there are some.
        """
        if self.is_exact and self.differing is not None:
            holding = self.inhabited.subtract(self.differing).coalesce()
        elif self.sufficient is not None:
            holding = self.inhabited.intersect(self.sufficient).coalesce()
        else:
            return None
        return None if holding.is_empty() else holding

    def verdict_on(self, name: str) -> RuleVerdict:
        """Return the verdict on a rule that follows."""
        if self.verdict == TESTED:
            return RuleVerdict(name, TESTED, coverage=self.coverage)
        if self.verdict == PROVED:
            return RuleVerdict(name, PROVED)
        holding, example = self.holding, self.counterexample or None
        if holding is None:
            return RuleVerdict(name, DIFFERENT, counterexample=example, region=self.region)
        text = conditions_text(holding.gist(self.allowed))
        coverage = "" if self.is_exact else SOME_SIZES
        return RuleVerdict(name, PROVED, holding, text, example, self.region, coverage)


class Effort(Enum):
    """The methods of a comparison: relations, for a proof or for a difference too, laws of
    functions too, and some sizes too.
    """

    PROOF, RELATIONS, LAWS, SIZES = range(4)


def compared(
    before: Program,
    after: Program,
    effort: Effort = Effort.SIZES,
    at_numbers: ConcreteProof = prove,
) -> SizesComparison:
    """Compare two programs; `at_numbers` decides at some sizes. Raises `Undecided` where that would
    take more methods than those of an effort.
    """
    if not before.sizes and not after.sizes and effort is Effort.SIZES:
        proof = at_numbers(before, after)
        return SizesComparison(proof.verdict, region=proof.region, coverage=proof.coverage)
    if len(before.outputs) != len(after.outputs):
        return _of_proof(prove(before, after), before, after)
    parts = []
    for one, two in zip(before.outputs, after.outputs):
        sides = _of_output(before, one), _of_output(after, two)
        if effort is Effort.SIZES:
            proof = prove_for_all_sizes(*sides, at_numbers)
        else:
            proof = prove_for_all_sizes(*sides, _refuse, effort is Effort.LAWS)
        if effort is Effort.PROOF and proof.verdict != PROVED:
            raise Undecided
        parts.append(_of_proof(proof, before, after))
    whole = _together(parts)
    if whole.verdict == DIFFERENT and not whole.is_exact and effort is Effort.SIZES:
        sufficient = sufficient_condition(before, after, whole.counterexample)
        whole = replace(whole, sufficient=sufficient)
    return whole


def _refuse(one: Program, two: Program) -> Proof:
    raise Undecided


def _of_output(program: Program, name: str) -> Program:
    if len(program.outputs) == 1:
        return program
    return Program(program.statements, [name])


def _of_proof(proof: Proof, before: Program, after: Program) -> SizesComparison:
    if proof.verdict != DIFFERENT:
        return SizesComparison(proof.verdict, coverage=proof.coverage)
    allowed = allowed_sizes(before, after)
    differing = allowed if proof.sizes is None else proof.sizes
    is_exact = proof.sizes is None or proof.are_sizes_exact
    inhabited = allowed.intersect(_without_empty_results(before, after))
    return SizesComparison(
        DIFFERENT, allowed, inhabited, differing, proof.region, is_exact, proof.coverage
    )


def _without_empty_results(*sides: Program) -> isl.Set:
    """Return the sizes at which no scope of programs is empty: an operator of which none of the
    windows fits, or a part of no elements, has no result.
    """
    extents = {}
    for side in sides:
        for _, statement in side.statements:
            for scope in all_scopes(statement):
                extents.update(dict.fromkeys(it.extent for it in scope.iterators))
    return where_not_negative(extent - 1 for extent in extents if not is_number(extent))


def _together(parts: list[SizesComparison]) -> SizesComparison:
    """Return what is known of all outputs."""
    different = [part for part in parts if part.verdict == DIFFERENT]
    if not different:
        tested = [part for part in parts if part.verdict == TESTED]
        return [*tested, *parts][0]
    first = different[0]
    sizes: isl.Set = first.differing
    for part in different[1:]:
        sizes = sizes.union(part.differing)
    is_exact = all(part.is_exact and part.verdict in (DIFFERENT, PROVED) for part in parts)
    sizes = sizes.intersect(first.allowed).coalesce()
    return replace(first, differing=sizes, is_exact=is_exact)


def at_sizes(sides: Sides, numbers: Mapping[str, int]) -> Sides:
    """Return two programs with numbers in the places of sizes, of which each has some. Raises as
    `Program.at` does.
    """
    numbers_of_sizes({**sides[0].sizes, **sides[1].sizes}, numbers)
    one, two = sides
    return _at(one, numbers), _at(two, numbers)


def _at(program: Program, numbers: Mapping[str, int]) -> Program:
    return program.at(**{name: numbers[name] for name in program.sizes if name in numbers})


def differs_at(sides: Sides, sizes: Mapping[str, int]) -> bool:
    """Return whether two programs differ at some sizes, by what they compute of numbers, or by a
    proof.
    """
    return differ(*at_sizes(sides, sizes))


def refuted_or_proved(before: Program, after: Program) -> Proof:
    """Return a difference without its region where one input shows it, else what a proof says."""
    if _differ_at_an_input(before, after):
        return Proof(DIFFERENT, None, AT_AN_INPUT, 0.0)
    return prove(before, after)


def differ(before: Program, after: Program) -> bool:
    """Return whether two programs differ at some sizes: at an input, or by a proof."""
    return _differ_at_an_input(before, after) or prove(before, after).verdict == DIFFERENT


def _differ_at_an_input(before: Program, after: Program) -> bool:
    """Return whether two small programs without sizes differ at random whole numbers, where both
    compute exactly with them.
    """
    if before.sizes or after.sizes:
        return False
    shapes = [[program[name].shape for name in program.outputs] for program in (before, after)]
    scopes = [scope for program in (before, after) for _, scope in program.statements]
    if shapes[0] != shapes[1] or evaluation_steps(scopes) > MAX_STEPS:
        return False
    tensors = {**before.inputs, **after.inputs}
    if not all(is_float(tensor.dtype) for tensor in tensors.values()):
        return False
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-9, 10, tensor.shape) for name, tensor in tensors.items()}
    results = []
    for program in (before, after):
        try:
            values = evaluate(program, **{name: arrays[name] for name in program.inputs})
        except (EinalgError, ArithmeticError):
            return False
        results.append(list(values.values()) if isinstance(values, dict) else [values])
    for ours, theirs in zip(*results):
        if ours.dtype.kind in "iO" and theirs.dtype.kind in "iO" and (ours != theirs).any():
            return True
    return False
