"""The exact comparison: equal as relations, and the exact set of output points that differ (design §9)."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from derive.proof.congruence import Classes, is_interpreted
from derive.proof.expansion import Expansion, output_indices
from derive.proof.polynomial import OutsideFragment
from derive.proof.relations import difference, union
from derive.proof.regions import readable
from einalg.polyhedra import bounded
from einalg.scope import Scope

OPERATIONS = 20_000_000  # of isl, for one output


@dataclass(frozen=True)
class Outcome:
    """`equal` is None where the exact comparison does not decide; `region` holds the points that differ."""

    equal: bool | None
    region: isl.Set | None = None
    why: str = ""


def compare_exactly(one: Scope, two: Scope) -> Outcome:
    """Compare two scopes of one shape, all that they read inlined, at every output point."""
    try:
        with bounded(OPERATIONS):
            return _compare(one, two)
    except OutsideFragment as reason:
        return Outcome(None, why=str(reason))
    except isl.Error:
        return Outcome(None, why="the relations are too large")
    except RecursionError:
        return Outcome(None, why="the expression is nested too deeply")


def _compare(one: Scope, two: Scope) -> Outcome:
    expansion = Expansion()
    ours, theirs = expansion.output(one), expansion.output(two)
    classes, point = Classes(expansion.ranges), output_indices(one.rank)
    left = difference(classes.pieces(ours, point), classes.pieces(theirs, point), one.rank)
    if not left:
        return Outcome(True)
    unclear = sorted({head for heads in left.left for head in heads if is_interpreted(head)})
    if unclear:
        return Outcome(None, why=f"functions that may obey other laws: {', '.join(unclear)}")
    region = union([left.region(heads) for heads in left.left])
    return Outcome(False, readable(region, [index.name for index in one.indices]))
