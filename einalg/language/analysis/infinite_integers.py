"""Integers that may be infinite: extremes over no points, and elements of a padding.

No type of integers has an infinity. Compiled code therefore computes such a part as a float where
the infinity counts, and no rewriting stores it as an integer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import islpy as isl
import sympy

from einalg.errors import RuleError
from einalg.language.analysis.padded_reads import absorbed_reads, layers, skipping
from einalg.language.conversion import Conversion
from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.bounds import number_interval
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space, affine_of, bounded, domain_set
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, is_truth
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, paddings
from einalg.language.ir.traversal import accesses

EXTREMES = ("Max", "Min")


class Ends(NamedTuple):
    """Whether a value may be minus infinity, and whether it may be infinity."""

    below: bool = False
    above: bool = False


class InfiniteIntegers:
    """The integers and truth values of a scope's body that may be infinite; `are_none` where none
    is. `statements` are the scopes of other statements, some of which have no value at some points.

    >>> import einalg as ea
    >>> from einalg.language.ir.traversal import reductions
    >>> text = "O[i:4] = x[i] + Max[s:5](n[s], where=s < i) - Min[s:5](n[s], where=s <= i)"
    >>> scope = ea.parse(text, n=ea.tensor("n", (5,), "i32"), x=(4,))
    >>> infinite = InfiniteIntegers(scope)
    >>> [infinite.ends(node) for node in reductions(scope.body)]
    [Ends(below=False, above=False), Ends(below=True, above=False)]
    """

    def __init__(self, scope: Scope, statements: Mapping[str, Scope] | None = None):
        self.statements = statements or {}
        self.over_no_points = set(self._over_no_points(scope.body, scope.iterators, scope.where))
        fills = any(any(_ends_of_read(access)) for access in accesses(scope.body))
        self.are_none = not self.over_no_points and not fills

    def may_be(self, part: Any, absorbed: Collection[Access] = ()) -> bool:
        """Tell whether a part of integers may be infinite, apart from some reads."""
        return any(self.ends(part, absorbed))

    def ends(self, part: Any, absorbed: Collection[Access] = ()) -> Ends:
        """Tell which infinities a part of integers may be, apart from some reads."""
        if isinstance(part, Access):
            return _ends_of_read(part, absorbed)
        if isinstance(part, Reduce):
            return self._ends_of_reduction(part)
        if part.is_number:
            return Ends(part == -sympy.oo, part == sympy.oo)
        if is_truth(part) or isinstance(part, (IndexArithmetic, Conversion, sympy.sign)):
            return Ends()
        parts = [self.ends(operand, absorbed) for operand in _operands(part)]
        below = [one.below for one in parts]
        above = [one.above for one in parts]
        if isinstance(part, sympy.Max):
            return Ends(all(below), any(above))
        if isinstance(part, sympy.Min):
            return Ends(any(below), all(above))
        if isinstance(part, sympy.Piecewise):
            return Ends(any(below), any(above))
        return Ends(any(below + above), any(below + above))

    def _ends_of_reduction(self, node: Reduce) -> Ends:
        if is_float(result_dtype(node)):
            return Ends()
        ends = self.ends(node.body, absorbed_reads(node))
        if node.op not in EXTREMES:
            return Ends(any(ends), any(ends))
        is_over_no_points = node in self.over_no_points
        return Ends(
            ends.below or (is_over_no_points and node.op == "Max"),
            ends.above or (is_over_no_points and node.op == "Min"),
        )

    def are_ends(self, part: Any, absorbed: Collection[Access] = ()) -> bool:
        """Tell whether the end of its type is what a part of integers is computed to be where it is
        infinite: no operation is applied to an infinity.
        """
        if isinstance(part, Access) or not self.may_be(part, absorbed):
            return True
        if isinstance(part, Reduce):
            return part.op in EXTREMES and self.are_ends(part.body, absorbed_reads(part))
        if not isinstance(part, (sympy.Max, sympy.Min, sympy.Piecewise)):
            return False
        return all(self.are_ends(operand, absorbed) for operand in _operands(part))

    def leaves(self, part: Any, absorbed: Collection[Access] = ()) -> Iterator[Any]:
        """Yield the reads and reductions that make a part of integers infinite, apart from some
        reads.
        """
        if isinstance(part, (Access, Reduce)):
            if self.may_be(part, absorbed):
                yield part
        elif not is_truth(part) and not isinstance(part, IndexArithmetic):
            for operand in _operands(part):
                yield from self.leaves(operand, absorbed)

    def finite_where(
        self, part: Any, absorbed: Collection[Access] = ()
    ) -> tuple[Constraint, ...] | None:
        """Return conditions on indices for a part of integers to be finite, and for nothing else.

        None where there are no such conditions: elements decide, or one of several operands.
        """
        conditions: list[Constraint] = []
        for leaf in self.leaves(part, absorbed):
            if isinstance(leaf, Access):
                inside, *fills = layers(leaf, self.statements)
                known = inside[0] if all(fill.is_infinite for _, fill in fills) else None
            else:
                known = self._has_points(leaf)
            if known is None:
                return None
            conditions += known
        if conditions and _chooses(part):
            return None
        return tuple(dict.fromkeys(conditions))

    def _has_points(self, node: Reduce) -> Sequence[Constraint] | None:
        """Return the conditions under which an extreme is over some points that are finite."""
        absorbed = absorbed_reads(node)
        ends = self.ends(node.body, absorbed)
        inner = self.finite_where(node.body, absorbed)
        skips_infinite = (node.op == "Max" and not ends.above) or (
            node.op == "Min" and not ends.below
        )
        if inner is None or not skips_infinite:
            return None
        conditions = [*skipping(node, self.statements), *inner]
        free = set().union(*(condition.indices for condition in conditions)) - set(node.indices)
        around = sorted(free, key=lambda index: index.name)
        try:
            with bounded():
                space = Space([*around, *node.indices])
                points = space.set(node.iterators)
                for condition in conditions:
                    points = points.intersect(space.where(condition))
                reached = points.project_out(isl.dim_type.set, len(around), len(node.indices))
                parts = reached.coalesce().compute_divs().get_basic_sets()
                if len(parts) > 1:
                    return None
                return _constraints(parts, around)
        except (isl.Error, RuleError):
            return None

    def _over_no_points(
        self, body: Any, iterators: Sequence[LoopIndex], where: Sequence[Constraint]
    ) -> Iterator[Reduce]:
        """Yield the extremes of integers that may be over no points of a domain."""
        if isinstance(body, Reduce):
            conditions = skipping(body, self.statements)
            is_of_integers = body.op in EXTREMES and not is_float(result_dtype(body))
            if is_of_integers and _may_have_no_points(body.iterators, conditions, iterators, where):
                yield body
            inside = (*iterators, *body.iterators)
            yield from self._over_no_points(body.body, inside, (*where, *conditions))
        elif not isinstance(body, (Access, IndexArithmetic)):
            for operand in body.args:
                yield from self._over_no_points(operand, iterators, where)


def _operands(part: Any) -> Iterator[Any]:
    """Yield the values of which a part is made: those of its cases, and no conditions."""
    for operand in part.args:
        yield operand.args[0] if isinstance(part, sympy.Piecewise) else operand


def _chooses(part: Any) -> bool:
    """Tell whether a part has one of several values, outside of its reductions."""
    if isinstance(part, (Access, IndexArithmetic, Reduce)) or is_truth(part):
        return False
    if isinstance(part, (sympy.Max, sympy.Min, sympy.Piecewise)):
        return True
    return any(map(_chooses, part.args))


def _constraints(parts: Sequence[isl.BasicSet], indices: Sequence[Index]) -> list[Constraint]:
    """Return the conditions for a point to be in a set of at most one part."""
    if not parts:
        return [Constraint(affine(-1), ">=")]
    conditions = []
    for constraint in parts[0].get_constraints():
        form = affine_of(constraint.get_aff(), indices)
        conditions.append(Constraint(form, "==" if constraint.is_equality() else ">="))
    return conditions


def _ends_of_read(access: Access, absorbed: Collection[Access] = ()) -> Ends:
    if access in absorbed or is_float(access.tensor.dtype):
        return Ends()
    fills = [view.fill for view in paddings(access.base)]
    return Ends(-sympy.oo in fills, sympy.oo in fills)


def _may_have_no_points(
    iterators: Sequence[LoopIndex],
    conditions: Sequence[Constraint],
    around: Sequence[LoopIndex],
    where: Sequence[Constraint],
) -> bool:
    """Tell whether no point of a box meets some conditions, at some point of a domain around it."""
    if any(number_interval(it.extent)[0] <= 0 for it in iterators):
        return True
    if not conditions:
        return False
    try:
        with bounded():
            outer = domain_set(around, where)
            points = domain_set([*around, *iterators], [*where, *conditions])
            reached = points.project_out(isl.dim_type.set, len(around), len(iterators))
            return not outer.is_subset(reached)
    except isl.Error:
        return True
