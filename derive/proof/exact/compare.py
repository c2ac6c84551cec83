"""The exact comparison: equal as relations, and the exact set of output points that differ (design §9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from derive.proof.exact.congruence import Classes
from derive.proof.exact.inlining import Inliner, output_indices
from derive.proof.exact.polynomial import FunctionFactor, OutsideFragment, Polynomial, single_factor
from derive.proof.exact.relations import Difference, difference
from derive.proof.outcome.regions import readable
from einalg.language.index.affine import Index
from einalg.language.index.isl import bounded
from einalg.language.ir.scope import Scope

OPERATIONS = (
    1_000_000  # of isl, for one output: a few seconds at most, where ordinary proofs take 50,000
)


@dataclass(frozen=True)
class ExactComparison:
    """`equal` is None where the exact comparison does not decide; `region` holds the points that differ."""

    equal: bool | None
    region: isl.Set | None = None
    why: str = ""


def compare_exactly(one: Scope, two: Scope) -> ExactComparison:
    """Compare two scopes of one shape, all that they read inlined, at every output point."""
    try:
        with bounded(OPERATIONS):
            return _compare(one, two)
    except OutsideFragment as reason:
        return ExactComparison(None, why=str(reason))
    except isl.Error:
        return ExactComparison(None, why="the relations are too large")
    except RecursionError:
        return ExactComparison(None, why="the expression is nested too deeply")


def _compare(one: Scope, two: Scope) -> ExactComparison:
    expansion = Inliner()
    ours, theirs = expansion.output(one), expansion.output(two)
    classes, point = Classes(expansion.ranges), output_indices(one.rank)
    left = _left_over(classes, point, ours, theirs)
    if not left:
        return ExactComparison(True)
    reductions = _reduction(ours), _reduction(theirs)
    if (
        left.interpreted()
        and reductions[0]
        and reductions[1]
        and reductions[0].function == reductions[1].function
    ):
        left = _left_over(
            classes,
            point,
            reductions[0].arguments[0],
            reductions[1].arguments[0],
            reductions[0].idempotent,
        )
        if not left:
            return ExactComparison(True)
    if left.interpreted():
        return ExactComparison(
            None, why=f"functions that may obey other laws: {', '.join(left.interpreted())}"
        )
    return ExactComparison(False, readable(left.region(), [index.name for index in one.indices]))


def _left_over(
    classes: Classes,
    point: Sequence[Index],
    ours: Polynomial,
    theirs: Polynomial,
    once: bool = False,
) -> Difference:
    return difference(classes.pieces(ours, point), classes.pieces(theirs, point), len(point), once)


def _reduction(polynomial: Polynomial) -> FunctionFactor | None:
    """The maximum, minimum or product that a polynomial is: over elements of tensors it is decided by which elements it meets."""
    factor = single_factor(polynomial)
    return (
        factor.head
        if factor
        and isinstance(factor.head, FunctionFactor)
        and factor.head.function.endswith("[]")
        else None
    )
