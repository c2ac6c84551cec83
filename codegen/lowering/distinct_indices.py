"""Names of summed indices with which a statement is lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from codegen.lowering.guards import Range
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index, positional_reductions, rebuild, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import reductions


def distinct_indices(scope: Scope) -> Scope:
    """Return the scope with different names for indices of different ranges.

    Reductions that differ in the names of their indices alone get the same ones, for they are one
    value.

    >>> import einalg as ea
    >>> text = "O[i] = Max[r](A[i,r]) + Sum[s](A[i,s] - Max[t](A[i,t]))"
    >>> print(distinct_indices(ea.parse(text, A=(4, 5))).body)
    Max[r1:5](A[i, r1]) + Sum[s:5](A[i, s] - Max[r1:5](A[i, r1]))
    """
    known: dict[Index, Range] = dict(scope.ranges)

    def rename(node: Any) -> Any:
        if isinstance(node, Reduce):
            return _with_distinct_indices(node, known, rename)
        return node

    body = rebuild(_with_equal_reductions(scope), rename)
    if body is scope.body:
        return scope
    return Scope(scope.iterators, scope.where, body)


def _with_distinct_indices(
    reduce: Reduce, known: dict[Index, Range], rename: Callable[[Any], Any]
) -> Reduce:
    """Return a reduction whose indices are not in `known` with other ranges, and add them there.

    `rename` does the same for the reductions inside it.
    """
    used = {*known, *reduce.free_symbols, *reduce.indices}
    names: dict[Index, Affine] = {}
    iterators = []
    for old, low, high in reduce.iterators:
        index = old
        if known.get(old, (low, high)) != (low, high):
            index = fresh_index(old.name, used)
            names[old] = affine(index)
        used.add(index)
        known[index] = (low, high)
        iterators.append(LoopIndex(index, low, high))
    body = reduce.body
    if names:
        body = substitute(body, names)
    body = rebuild(body, rename)
    if body is reduce.body and not names:
        return reduce
    where = tuple(condition.substitute(names) for condition in reduce.where)
    return Reduce(reduce.op, iterators, where, body)


def _with_equal_reductions(scope: Scope) -> Any:
    """Return the body of a scope, in which reductions of one value are the same."""
    nodes = dict.fromkeys(reductions(scope.body))
    heads = Counter((node.op, tuple(it.extent for it in node.iterators)) for node in nodes)
    if len(heads) == len(nodes):
        return scope.body
    forms = Counter(positional_reductions(node, 0) for node in nodes)
    repeated = {form for form, count in forms.items() if count > 1}
    if not repeated:
        return scope.body
    used = set(scope.indices)
    for node in nodes:
        used.update(node.indices)
    return rebuild(scope.body, _EqualReductions(repeated, used))


@dataclass
class _EqualReductions:
    """Gives reductions of one value the same indices, which no other ones have.

    `repeated` are their forms with positions in the place of indices, and `used` all indices.
    """

    repeated: Collection[Any]
    used: set[Index]
    chosen: dict[Any, Reduce] = field(default_factory=dict)

    def __call__(self, node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        form = positional_reductions(node, 0)
        if form not in self.chosen:
            body = rebuild(node.body, self)
            self.chosen[form] = Reduce(node.op, node.iterators, node.where, body)
            if form in self.repeated:
                self.chosen[form] = with_fresh_indices(self.chosen[form], self.used)
        return self.chosen[form]


def with_fresh_indices(node: Reduce, used: set[Index]) -> Reduce:
    """Return a reduction over indices that are not in `used`, and add them there."""
    names: dict[Index, Affine] = {}
    iterators: list[LoopIndex] = []
    for it in node.iterators:
        index = fresh_index(it.index.name, used)
        used.add(index)
        names[it.index] = affine(index)
        iterators.append(LoopIndex(index, it.low, it.high))
    where = tuple(condition.substitute(names) for condition in node.where)
    return Reduce(node.op, iterators, where, substitute(node.body, names))
