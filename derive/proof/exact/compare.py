"""The exact comparison: equal as relations, and the exact set of output points that differ
(design §9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from derive.proof.exact.congruence import Classes
from derive.proof.exact.differing_arguments import Sides, region_of_differences
from derive.proof.exact.inlining import Inliner, output_indices
from derive.proof.exact.polynomial import OutsideFragment, Polynomial
from derive.proof.exact.reduced_elements import reduced_elements
from derive.proof.exact.relations import Difference, difference
from derive.proof.outcome.regions import readable, with_axis_names
from einalg.language.index.affine import Index
from einalg.language.index.isl import Space, bounded
from einalg.language.ir.scope import Scope

MAX_ISL_OPERATIONS = 400_000  # for one output: about a second; ordinary proofs take 50,000


@dataclass(frozen=True)
class ExactComparison:
    """`equal` is None where the exact comparison does not decide, `why` says the reason; `region`
    holds the points that differ, none where both are equal, or those outside of which nothing does;
    these fall into `cells`, which are written alike; `sides` are the two polynomials.
    """

    equal: bool | None
    region: isl.Set | None = None
    why: str = ""
    cells: tuple[isl.Set, ...] = ()
    sides: Sides | None = None

    def region_of_differences(self) -> tuple[isl.Set, bool] | None:
        """Return points outside of which both sides are equal, and whether they differ at all of
        them; None where no such points are known.
        """
        if self.equal is not None and self.region is not None:
            return self.region, True
        if self.sides is None:
            return None
        try:
            with bounded(MAX_ISL_OPERATIONS):
                return region_of_differences(self.sides)
        except (OutsideFragment, isl.Error, RecursionError):
            return None


def compare_exactly(
    one: Scope, two: Scope, allowed_sizes: isl.Set | None = None
) -> ExactComparison:
    """Compare two scopes of one shape, all that they read inlined, at every output point; at all
    sizes of a set of isl's parameters, where there are symbolic ones.
    """
    try:
        with bounded(MAX_ISL_OPERATIONS):
            return _compare(one, two, allowed_sizes)
    except OutsideFragment as reason:
        return ExactComparison(None, why=str(reason))
    except isl.Error:
        return ExactComparison(None, why="the relations are too large")
    except RecursionError:
        return ExactComparison(None, why="the expression is nested too deeply")


def _compare(one: Scope, two: Scope, allowed_sizes: isl.Set | None) -> ExactComparison:
    inliner = Inliner()
    ours, theirs = inliner.output(one), inliner.output(two)
    point = output_indices(one.rank)
    within = None
    if allowed_sizes is not None:
        within = Space(point).universe().intersect_params(allowed_sizes)
    classes = Classes(inliner.ranges, within)
    left = structure = _left_over(classes, point, ours, theirs)
    names = [index.name for index in one.indices]
    if not left:
        return _equal_everywhere(names)
    elements = reduced_elements(ours, theirs)
    if left.interpreted() and elements is not None:
        left = _left_over(classes, point, elements.ours, elements.theirs, elements.once)
        if not left:
            return _equal_everywhere(names)
        if not elements.tell_apart:
            left = structure
    if left.interpreted():
        functions = ", ".join(left.interpreted())
        why = f"functions that may obey other laws: {functions}"
        sides = Sides(inliner.ranges, point, ours, theirs, within)
        return ExactComparison(None, structure.region(), why, tuple(structure.cells()), sides)
    return ExactComparison(False, readable(left.region(), names))


def _equal_everywhere(names: Sequence[str]) -> ExactComparison:
    nowhere = isl.Set.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(names)))
    return ExactComparison(True, with_axis_names(nowhere, names))


def _left_over(
    classes: Classes,
    point: Sequence[Index],
    ours: Polynomial,
    theirs: Polynomial,
    once: bool = False,
) -> Difference:
    return difference(classes.pieces(ours, point), classes.pieces(theirs, point), len(point), once)
