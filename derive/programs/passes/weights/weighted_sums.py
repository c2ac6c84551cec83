"""Products of data and weights: the statements whose weights can be changed ahead."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import sympy

from einalg.language.analysis.compile_time import compile_time_statements, is_weight
from einalg.language.index.affine import Index
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor


@dataclass(frozen=True)
class WeightedSum:
    """A statement that sums products of what it reads of `data` and of all `weights`, these by one
    index for each axis. `loops` are those indices with their ranges, which begin at 0.
    """

    name: str
    scope: Scope
    data: Access
    weights: Access
    loops: Mapping[Index, LoopIndex]

    @property
    def axes(self) -> list[LoopIndex]:
        """The index of each axis of the weights."""
        return [self.loops[subscript.as_index()] for subscript in self.weights.subscripts]


def weighted_sum(name: str, scope: Scope, ahead: Set[str]) -> WeightedSum | None:
    """Return a statement as a product of data and weights; None where it is none.

    Weights have the type of the sums: in a shorter one, sums of them may not fit.
    """
    total = scope.body
    if not isinstance(total, Reduce) or total.op != "Sum" or scope.where or total.where:
        return None
    factors = [factor for factor in total.body.args if isinstance(factor, Access)]
    if not isinstance(total.body, sympy.Mul) or len(factors) != 2 or len(total.body.args) != 2:
        return None
    data, weights = sorted(factors, key=lambda factor: is_ahead(factor, ahead))
    if is_ahead(data, ahead) or not is_ahead(weights, ahead):
        return None
    if weights.tensor.dtype != scope.dtype:
        return None
    loops = {loop.index: loop for loop in (*scope.iterators, *total.iterators)}
    indices = [subscript.as_index() for subscript in weights.subscripts]
    if None in indices or len(set(indices)) < len(indices):
        return None
    if not {loop.index for loop in total.iterators} <= set(indices):
        return None
    for index, size in zip(indices, weights.tensor.shape):
        if loops[index].low != 0 or loops[index].high != size:
            return None
    return WeightedSum(name, scope, data, weights, loops)


def adds_weights(program: Program) -> bool:
    """Tell whether a program adds weights ahead: elements of one tensor, or of several."""
    known = dict(program.statements)
    return any(_adds(known[name].body) for name in compile_time_statements(program))


def _adds(body: Any) -> bool:
    for node in sympy.preorder_traversal(body):
        if isinstance(node, Reduce) and node.op == "Sum":
            return True
        if isinstance(node, sympy.Add) and sum(bool(part.atoms(Access)) for part in node.args) > 1:
            return True
    return False


def is_ahead(read: Access, ahead: Set[str]) -> bool:
    """Tell whether a read is of a tensor that is known ahead, without padding."""
    tensor = read.base
    return isinstance(tensor, Tensor) and (tensor.name in ahead or is_weight(tensor))
