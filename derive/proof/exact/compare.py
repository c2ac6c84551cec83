"""The exact comparison: equal as relations, and the exact set of output points that differ
(design §9).
"""

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

MAX_ISL_OPERATIONS = 1_000_000  # for one output: a few seconds; ordinary proofs take 50,000


@dataclass(frozen=True)
class ExactComparison:
    """`equal` is None where the exact comparison does not decide, `why` says the reason; `region`
    holds the points that differ.
    """

    equal: bool | None
    region: isl.Set | None = None
    why: str = ""


def compare_exactly(one: Scope, two: Scope) -> ExactComparison:
    """Compare two scopes of one shape, all that they read inlined, at every output point."""
    try:
        with bounded(MAX_ISL_OPERATIONS):
            return _compare(one, two)
    except OutsideFragment as reason:
        return ExactComparison(None, why=str(reason))
    except isl.Error:
        return ExactComparison(None, why="the relations are too large")
    except RecursionError:
        return ExactComparison(None, why="the expression is nested too deeply")


def _compare(one: Scope, two: Scope) -> ExactComparison:
    inliner = Inliner()
    ours, theirs = inliner.output(one), inliner.output(two)
    classes, point = Classes(inliner.ranges), output_indices(one.rank)
    left = _left_over(classes, point, ours, theirs)
    if not left:
        return ExactComparison(True)
    our_reduction, their_reduction = _reduction(ours), _reduction(theirs)
    if left.interpreted() and our_reduction and their_reduction:
        if our_reduction.function == their_reduction.function:
            (our_elements,), (their_elements,) = our_reduction.arguments, their_reduction.arguments
            once = our_reduction.idempotent
            left = _left_over(classes, point, our_elements, their_elements, once)
            if not left:
                return ExactComparison(True)
    if left.interpreted():
        functions = ", ".join(left.interpreted())
        return ExactComparison(None, why=f"functions that may obey other laws: {functions}")
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
    """Return the maximum, minimum or product that a polynomial is: over elements of tensors it is
    decided by which elements it meets.
    """
    factor = single_factor(polynomial)
    if factor is None or not isinstance(factor.head, FunctionFactor):
        return None
    return factor.head if factor.head.function.endswith("[]") else None
