"""Proof for all symbolic sizes at once (design §9, §14).

The relations of the exact comparison have the sizes as parameters, so that what they decide holds
for every size. The laws of functions know sizes as whole numbers between bounds. Where neither
decides, both sides are compared at some sizes, and the proof says at which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

import islpy as isl

from derive.proof.exact.compare import ExactComparison, compare_exactly
from derive.proof.identities.compare import Identity, shown_equal, together
from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED, Proof
from derive.proof.random.blocks import evaluation_steps
from derive.proof.random.refutation import is_refuted
from derive.proof.tried_sizes import choices_for, in_order, point_of_sizes, small_choices
from einalg.language.analysis.sizes import (
    allowed_sizes,
    conditions_text,
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
MAX_STEPS = 2_000_000  # bodies of both sides, evaluated at one input of all sizes that are tried
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
        return _unlike(reason, allowed)
    unlike, allowed = allowed.subtract(alike), allowed.intersect(alike)
    if allowed.is_empty():
        return _unlike("the shapes differ at all sizes", unlike)
    proof = _at_equal_shapes(one, two, allowed, with_laws)
    if proof is None:
        proof = _at_some_sizes(one, two, allowed, prove)
    if unlike.is_empty():
        return proof
    sizes = unlike if proof.sizes is None else unlike.union(proof.sizes).coalesce()
    reason = "the shapes differ at some sizes"
    if proof.verdict == DIFFERENT:
        reason += f", and {proof.explanation} at others"
    is_exact = proof.verdict == PROVED or proof.are_sizes_exact
    return replace(proof, verdict=DIFFERENT, reason=reason, sizes=sizes, are_sizes_exact=is_exact)


def _unlike(reason: str, sizes: isl.Set) -> Proof:
    """Return a difference of shapes at all sizes."""
    return Proof(DIFFERENT, None, "shapes", 0.0, reason=reason, sizes=sizes, are_sizes_exact=True)


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
            is_only = len(one.outputs) == 1  # else others may differ at other sizes
            sizes = _sizes_of(comparison)
            return replace(proof, coverage=coverage, sizes=sizes, are_sizes_exact=is_only)
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
    return Proof(PROVED, None, method, 0.0, coverage=coverage, sizes=nowhere, are_sizes_exact=True)


def _is_refuted(one: Scope, two: Scope, allowed: isl.Set) -> bool:
    """Return whether two scopes differ at an input of one of the first choices of sizes."""
    sizes = list(by_name({*one.sizes.values(), *two.sizes.values()}).values())
    for numbers in small_choices(sizes, allowed)[:MAX_REFUTED]:
        values = {size.name: number for size, number in zip(sizes, numbers)}
        ours, theirs = _at(one, values), _at(two, values)
        if prod(ours.shape) and is_refuted(ours, theirs, 0):
            return True
    return False


def _sizes_of(comparison: ExactComparison) -> isl.Set:
    assert comparison.region is not None
    return comparison.region.params().coalesce()


def _at_some_sizes(one: Program, two: Program, allowed: isl.Set, prove: ConcreteProof) -> Proof:
    """Compare both at some of the sizes that are allowed, smaller ones first, as far as these have
    few points.
    """
    sizes = list(by_name({*one.sizes.values(), *two.sizes.values()}).values())
    tried: list[str] = []
    for numbers in _affordable_choices(one, two, sizes, allowed):
        values = {size.name: number for size, number in zip(sizes, numbers)}
        proof = prove(_at(one, values), _at(two, values))
        if proof.verdict == DIFFERENT:
            return _different_at(proof, sizes, numbers)
        tried.append(_text(values))
    coverage = f"at sizes {'; '.join(tried)}"
    nowhere = allowed.subtract(allowed)
    return Proof(TESTED, None, AT_SOME_SIZES, None, coverage=coverage, sizes=nowhere)


def _affordable_choices(
    one: Program, two: Program, sizes: Sequence[Size], allowed: isl.Set
) -> list[tuple[int, ...]]:
    """Return the choices of sizes at which both together have few points, smaller ones first."""
    steps_left = MAX_STEPS
    affordable: list[tuple[int, ...]] = []
    for numbers in choices_for(_scopes(one, two), sizes, allowed):
        values = {size.name: number for size, number in zip(sizes, numbers)}
        steps = evaluation_steps(_scopes(_at(one, values), _at(two, values)))
        if not affordable or steps <= steps_left:
            affordable.append(numbers)
            steps_left -= steps
    return in_order(affordable)


def _scopes(*sides: Program) -> list[Scope]:
    return [scope for side in sides for _, scope in side.statements]


def _at(side: _Side, values: Mapping[str, int]) -> _Side:
    return side.at(**{name: values[name] for name in side.sizes})


def _text(values: dict[str, int]) -> str:
    return ", ".join(f"{name} = {number}" for name, number in values.items())


def _different_at(proof: Proof, sizes: Sequence[Size], numbers: Sequence[int]) -> Proof:
    """Return a difference at some sizes as one of the expressions with symbolic sizes."""
    at = point_of_sizes(sizes, numbers)
    region = None if proof.region is None else proof.region.intersect_params(at)
    coverage = f"at {_text({size.name: n for size, n in zip(sizes, numbers)})}"
    return replace(proof, region=region, is_region_exact=False, coverage=coverage, sizes=at)
