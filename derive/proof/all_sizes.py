"""Proof for all symbolic sizes at once (design §9, §14).

The relations of the exact comparison have the sizes as parameters, so that what they decide holds
for every size. The laws of functions know sizes as whole numbers between bounds. Where neither
decides, both sides are compared at some sizes, and the proof says at which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from random import Random
from typing import TypeVar

import islpy as isl

from derive.proof.exact.compare import ExactComparison, compare_exactly
from derive.proof.identities.compare import Identity, shown_equal, together
from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED, Proof
from derive.proof.random.refutation import is_refuted
from einalg.language.analysis.sizes import (
    allowed_sizes,
    conditions_text,
    smallest,
    where_all_hold,
)
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.size import Extent, Size, by_name, check_names
from einalg.language.ir.program import Program, inlined
from einalg.language.ir.scope import Scope

WITH_SIZES = "with sizes as parameters"
METHOD = f"access relations {WITH_SIZES}"
AT_SOME_SIZES = "concrete sizes"
STEPS = (0, 1, 2, 4, 7)  # from the smallest sizes to those that are tried
MAX_TRIED = 12  # choices of sizes
MAX_DRAWN = 200  # random choices, where of the systematic ones too few are allowed
MAX_REFUTED = 3  # choices of sizes at which a difference is looked for before laws are tried
Shape = tuple[Extent, ...]
ConcreteProof = Callable[[Program, Program], Proof]
_Side = TypeVar("_Side", Program, Scope)


def prove_for_all_sizes(
    one: Program, two: Program, prove: ConcreteProof, with_laws: bool = True
) -> Proof:
    """Decide whether two programs with symbolic sizes are equal at all sizes at which both have a
    meaning; `prove` decides for numbers, and the laws of functions are tried `with_laws`.

    Sizes at which shapes differ count as sizes at which the two differ. Raises `NotationError`
    where the same name is two sizes.
    """
    check_names([*one.sizes.values(), *two.sizes.values()])
    allowed = allowed_sizes(one, two)
    alike = _sizes_of_equal_shapes(one, two)
    if alike is None:
        reason = "the outputs, or the axes of an output or of an input, are not as many"
        return Proof(DIFFERENT, None, "shapes", 0.0, reason=reason, sizes=allowed)
    unlike, allowed = allowed.subtract(alike), allowed.intersect(alike)
    if allowed.is_empty():
        reason = "the shapes differ at all sizes"
        return Proof(DIFFERENT, None, "shapes", 0.0, reason=reason, sizes=unlike)
    proof = _at_equal_shapes(one, two, allowed, with_laws)
    if proof is None:
        proof = _at_some_sizes(one, two, allowed, prove)
    if unlike.is_empty():
        return proof
    sizes = unlike if proof.sizes is None else unlike.union(proof.sizes).coalesce()
    reason = "the shapes differ at some sizes"
    if proof.verdict == DIFFERENT:
        reason += f", and {proof.explanation} at others"
    return replace(proof, verdict=DIFFERENT, reason=reason, sizes=sizes)


def _sizes_of_equal_shapes(one: Program, two: Program) -> isl.Set | None:
    """Return the sizes at which outputs and inputs of both have equal shapes, as parameters; None
    where their numbers differ.
    """
    if len(one.outputs) != len(two.outputs):
        return None
    shapes = [(one[a].shape, two[b].shape) for a, b in zip(one.outputs, two.outputs)]
    for name, tensor in one.inputs.items():
        if name in two.inputs:
            shapes.append((tensor.shape, two.inputs[name].shape))
    conditions: list[Constraint] = []
    for ours, theirs in shapes:
        if len(ours) != len(theirs):
            return None
        conditions += [Constraint(affine(a) - b, "==") for a, b in zip(ours, theirs)]
    return where_all_hold(conditions)


def _at_equal_shapes(one: Program, two: Program, allowed: isl.Set, with_laws: bool) -> Proof | None:
    """Compare the outputs in order at the sizes that are allowed; None where some are left
    undecided.
    """
    coverage = f"sizes {conditions_text(allowed) or 'of any value'}"
    undecided: list[tuple[Scope, Scope]] = []
    for name, other in zip(one.outputs, two.outputs):
        sides = inlined(one, name, in_order=False), inlined(two, other, in_order=False)
        comparison = compare_exactly(*sides, allowed)
        if comparison.equal is None:
            undecided.append(sides)
            if not with_laws:
                return None
        elif not comparison.equal:
            proof = Proof(DIFFERENT, comparison.region, METHOD, 0.0, name, is_region_exact=True)
            return replace(proof, coverage=coverage, sizes=_sizes_of(comparison))
    identities: list[Identity] = []
    for ours, theirs in undecided:
        identity = None
        if not _is_refuted(ours, theirs, allowed):
            identity = shown_equal(ours, theirs)
        if identity is None:
            return None
        identities.append(identity)
    method = METHOD
    if identities:
        method = f"{together(identities).method}, {WITH_SIZES}"
    nowhere = allowed.subtract(allowed)
    return Proof(PROVED, None, method, 0.0, coverage=coverage, sizes=nowhere)


def _is_refuted(one: Scope, two: Scope, allowed: isl.Set) -> bool:
    """Return whether two scopes differ at an input of one of the first choices of sizes."""
    sizes = list(by_name({*one.sizes.values(), *two.sizes.values()}).values())
    for numbers in _choices(sizes, allowed)[:MAX_REFUTED]:
        values = {size.name: number for size, number in zip(sizes, numbers)}
        ours, theirs = _at(one, values), _at(two, values)
        if prod(ours.shape) and is_refuted(ours, theirs, 0):
            return True
    return False


def _sizes_of(comparison: ExactComparison) -> isl.Set:
    assert comparison.region is not None
    return comparison.region.params().coalesce()


def _at_some_sizes(one: Program, two: Program, allowed: isl.Set, prove: ConcreteProof) -> Proof:
    """Compare both at some of the sizes that are allowed, smaller ones first."""
    sizes = list(by_name({*one.sizes.values(), *two.sizes.values()}).values())
    tried: list[str] = []
    for numbers in _choices(sizes, allowed):
        values = {size.name: number for size, number in zip(sizes, numbers)}
        proof = prove(_at(one, values), _at(two, values))
        if proof.verdict == DIFFERENT:
            return _different_at(proof, sizes, numbers)
        tried.append(_text(values))
    coverage = f"at sizes {'; '.join(tried)}"
    nowhere = allowed.subtract(allowed)
    return Proof(TESTED, None, AT_SOME_SIZES, None, coverage=coverage, sizes=nowhere)


def _at(side: _Side, values: Mapping[str, int]) -> _Side:
    return side.at(**{name: values[name] for name in side.sizes})


def _text(values: dict[str, int]) -> str:
    return ", ".join(f"{name} = {number}" for name, number in values.items())


def _different_at(proof: Proof, sizes: Sequence[Size], numbers: Sequence[int]) -> Proof:
    """Return a difference at some sizes as one of the expressions with symbolic sizes."""
    at = _point(sizes, numbers)
    region = None if proof.region is None else proof.region.intersect_params(at)
    coverage = f"at {_text({size.name: n for size, n in zip(sizes, numbers)})}"
    return replace(proof, region=region, is_region_exact=False, coverage=coverage, sizes=at)


def _point(sizes: Sequence[Size], numbers: Sequence[int]) -> isl.Set:
    """Return the set of one choice of sizes."""
    pairs = zip(sizes, numbers)
    return where_all_hold([Constraint(affine(size) - number, "==") for size, number in pairs])


def _choices(sizes: Sequence[Size], allowed: isl.Set) -> list[tuple[int, ...]]:
    """Return different choices of sizes that are allowed, smaller ones first."""
    first = smallest(allowed)
    starts = [first[size.name] for size in sizes]
    choices: dict[tuple[int, ...], None] = {}
    for steps in _steps(len(sizes)):
        numbers = tuple(map(_value, sizes, starts, steps))
        if numbers not in choices and not _point(sizes, numbers).intersect(allowed).is_empty():
            choices[numbers] = None
        if len(choices) == MAX_TRIED:
            break
    return sorted(choices, key=lambda numbers: (sum(numbers), numbers))


def _value(size: Size, start: int, step: int) -> int:
    """Return the value so many steps from a start, or the last one before it that there is."""
    while step and not size.holds(start + step * size.multiple_of):
        step -= 1
    return start + step * size.multiple_of


def _steps(count: int) -> Iterator[tuple[int, ...]]:
    """Yield how far sizes are from their start: all as far, one of them alone, and then
    as chance has it.
    """
    for step in STEPS:
        yield (step,) * count
    for step in STEPS[1:3]:
        for position in range(count):
            yield tuple([step if k == position else 0 for k in range(count)])
    chance = Random(0)
    for _ in range(MAX_DRAWN):
        yield tuple([chance.choice(STEPS) for _ in range(count)])
