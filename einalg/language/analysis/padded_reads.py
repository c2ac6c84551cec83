"""Reads through padding: where they are inside of their tensors, and where they read a fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor, paddings
from einalg.language.ir.traversal import accesses

Range = tuple[int, int]  # low <= value < high
Layer = tuple[tuple[Constraint, ...], Any]


def in_box(subscripts: Sequence[Affine], box: Sequence[Range]) -> tuple[Constraint, ...]:
    """Return the conditions under which subscripts are inside a box."""
    conditions = []
    for form, (low, high) in zip(subscripts, box):
        conditions += [Constraint(form - low, ">="), Constraint(-form + (high - 1), ">=")]
    return tuple(conditions)


def layers(access: Access, statements: Mapping[str, Scope]) -> list[Layer]:
    """Return what a padded access reads, as (conditions, value), the first whose conditions hold.

    That is the tensor (None), else the fills. `statements` are the scopes of other statements, some
    of which have no value at some points of their box.
    """
    views: list[Padded] = []
    base = access.base
    while isinstance(base, Padded):
        views.insert(0, base)
        base = base.base
    if not views:
        return [((), None)]
    inside = in_box(access.subscripts, base.box)
    statement = base if isinstance(base, Scope) else statements.get(base.name)
    if statement is not None:
        names = dict(zip(statement.indices, access.subscripts))
        inside += tuple(condition.substitute(names) for condition in statement.where)
    results: list[Layer] = [(inside, None)]
    reach = base.box
    for view in views[:-1]:
        reach = _padded(reach, view.amounts)
        results.append((in_box(access.subscripts, reach), view.fill))
    results.append(((), views[-1].fill))
    return results


def _padded(box: Sequence[Range], amounts: Sequence[tuple[int, int]]) -> tuple[Range, ...]:
    """Return a box with so many elements before and after each axis."""
    return tuple((low - before, high + after) for (low, high), (before, after) in zip(box, amounts))


def fills_gaps(scope: Scope, known: Mapping[str, Scope]) -> bool:
    """Tell whether a scope reads something else than 0 where a statement of `known` has no value.

    Memory holds 0 there, which is what an operator sees that knows nothing of conditions.
    """
    for access in accesses(scope.body):
        innermost, base = None, access.base
        while isinstance(base, Padded):
            innermost, base = base, base.base
        if innermost is None or innermost.fill == 0 or not isinstance(base, Tensor):
            continue
        read = known.get(base.name)
        if read is not None and read.where:
            return True
    return False


def skipping(reduce: Reduce, statements: Mapping[str, Scope]) -> tuple[Constraint, ...]:
    """Return conditions outside of which a point of a reduction contributes nothing.

    They are its own, and those of fills that are absorbed, as 0 is by a sum.
    """
    conditions = list(reduce.where)
    for access in absorbed_reads(reduce):
        conditions += layers(access, statements)[0][0]
    return tuple(dict.fromkeys(conditions))


def absorbed_reads(reduce: Reduce) -> list[Access]:
    """Return the padded reads of a reduction at which it skips the points where they read a fill.

    >>> import einalg as ea
    >>> largest = ea.parse("O[i:4] = Max[s:3](A.pad(1, fill=-inf)[i+s-1])", A=(4,)).body
    >>> absorbed_reads(largest)
    [A.pad(1, fill=-inf)[i + s - 1]]
    """
    absorbed = []
    for access in dict.fromkeys(direct_accesses(reduce.body)):
        fills = [view.fill for view in paddings(access.base)]
        if fills and all(_absorbs(reduce, access, fill) for fill in fills):
            absorbed.append(access)
    return absorbed


def _absorbs(reduce: Reduce, access: Access, fill: Any) -> bool:
    """Whether a point of a reduction contributes nothing where an access reads a fill."""

    def read(node: Any) -> Any:
        if node == access:
            return fill
        return node

    return rebuild(reduce.body, read) == reduce.identity


def direct_accesses(body: Any) -> list[Access]:
    """Return the accesses of a body that are in no reduction."""
    results: list[Access] = []

    def see(node: Any) -> Any:
        if isinstance(node, Access):
            results.append(node)
        return node

    rebuild(body, see)
    return results
