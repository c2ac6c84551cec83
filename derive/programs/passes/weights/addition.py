"""Products of one tensor that are added, as one product with the sum of their weights.

A convolution with a smaller window beside one with a larger one, of which the results are added, is
a part of that: its weights are zero elsewhere. The weights are added once, ahead. Every change is
proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from itertools import permutations
from typing import Any

import sympy

from derive.programs.passes.normalise import fused, is_elementwise
from derive.programs.passes.subprogram import excerpt, is_proven
from derive.programs.passes.weights.folding import folded
from derive.programs.passes.weights.repetition import without_repetitions
from derive.programs.passes.weights.weighted_sums import WeightedSum, weighted_sum
from einalg.frontends.graph import live_statements, unique_name
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import with_parts
from einalg.language.ir.program import Program, in_order, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor, paddings


def with_folded_weights(
    program: Program, is_late: Callable[[], bool] = lambda: False, adds: bool = True
) -> Program:
    """Return a shaped program in which weights do what can be done ahead.

    What follows a product reads fewer tensors once factors are folded into weights, and may become
    one statement with what reads that. No factors are folded and no statements become one once it
    `is_late`. Weights are added all the same, unless they are not to be: that takes less time than
    it takes to compile the products apart. An infinity that two of them multiply is not NaN then.
    """
    program = folded(program, is_late)
    if adds:
        program = without_repetitions(program, is_late)
    ahead = compile_time_statements(program)

    def is_fusible(name: str, scope: Scope) -> bool:
        return name not in ahead and is_elementwise(scope)

    program = fused(program, is_fusible, is_late)[0]
    return with_added_weights(program) if adds else program


def with_added_weights(program: Program) -> Program:
    """Return the program with such products as one.

    >>> import einalg as ea
    >>> V, W = (ea.tensor(name, (3, n), role="weight") for name, n in (("V", 3), ("W", 1)))
    >>> products = "P[f,h:8] += A.pad(1)[h+r-1]*V[f,r]\\nQ[f,h:8] += A[h+r]*W[f,r]"
    >>> text = f"{products}\\nO[f,h] = P[f,h] + Q[f,h]"
    >>> print(with_added_weights(ea.parse(text, A=(8,), V=V, W=W)))
    V_W[f:3, r:3] = W.pad(0, 1)[f, r - 1] + V[f, r]
    P[f:3, h:8] = Sum[r:3](A.pad(1)[h + r - 1]*V_W[f, r])
    O[f:3, h:8] = P[f, h]
    """
    known, outputs = dict(program.statements), program.outputs
    ahead, readers = set(compile_time_statements(program)), _readers(program)
    for reader in program.names:
        while is_elementwise(known[reader]):
            single = {name for name in known[reader].tensors if readers.get(name) == [reader]}
            changed = _changed(known, reader, single - set(outputs), ahead)
            if not changed:
                break
            ahead |= changed.keys() - known.keys()
            known |= changed
    if len(known) == len(program.names):
        return program
    return Program(live_statements(in_order(known.items()), outputs), outputs)


def _readers(program: Program) -> dict[str, list[str]]:
    """Return the statements that read each one."""
    readers: dict[str, list[str]] = {name: [] for name in program.names}
    for reader, scope in program.statements:
        for name in scope.tensors.keys() & readers.keys():
            readers[name].append(reader)
    return readers


def _changed(
    known: Mapping[str, Scope], reader: str, single: Set[str], ahead: Set[str]
) -> dict[str, Scope]:
    """Return new statements for two products that a statement adds, and it; none without any.

    It reads these alone: they are among the `single` ones.
    """
    products: dict[str, WeightedSum] = {}
    for name in sorted(single):
        product = weighted_sum(name, known[name], ahead)
        if product is not None:
            products[name] = product
    scope = known[reader]
    for one, other in _added(scope.body, products):
        first, second = one.tensor.name, other.tensor.name
        merged = _merged(products[first], products[second], known)
        if not merged:
            continue
        body = with_parts(scope.body, {other: sympy.S.Zero})
        changed = {**merged, reader: Scope(scope.iterators, scope.where, body)}
        before = excerpt(known, [first, second, reader])
        after = excerpt({**known, **changed}, list(changed))
        if is_proven(before, after):
            return changed
    return {}


def _added(body: Any, products: Mapping[str, WeightedSum]) -> Iterator[tuple[Access, Access]]:
    """Yield pairs of reads of products that a body adds at the same point."""
    for node in sympy.preorder_traversal(body):
        if not isinstance(node, sympy.Add):
            continue
        reads: list[Access] = []
        for term in node.args:
            if not isinstance(term, Access) or not isinstance(term.base, Tensor):
                continue
            if term.base.name in products:
                reads.append(term)
        for one, other in permutations(reads, 2):
            if one.subscripts == other.subscripts:
                yield one, other


def _merged(one: WeightedSum, other: WeightedSum, known: Mapping[str, Scope]) -> dict[str, Scope]:
    """Return the statements of the added weights and of a product with these.

    None are returned where the window of the `other` is no part of the window of `one`.
    """
    shifts = _shifts(one, other)
    if shifts is None:
        return {}
    amounts: list[tuple[int, int]] = []
    moved: list[Affine] = []
    for loop, small, shift in zip(one.axes, other.axes, shifts):
        amounts.append((shift, loop.high - small.high - shift))
        moved.append(affine(loop.index).plus(Affine.constant(shift), -1))
    padded = Access.of(Padded(other.weights.tensor, amounts), tuple(moved))
    label = f"{one.weights.tensor.name}_{other.weights.tensor.name}"
    names = {*known, *one.scope.tensors, *other.scope.tensors}
    weights = Scope(one.axes, (), one.weights + padded)
    statement = (unique_name(label, names), weights)
    tensors = {one.weights.tensor.name: statement_tensor(*statement)}
    return dict([statement, (one.name, substitute_tensors(one.scope, tensors))])


def _shifts(one: WeightedSum, other: WeightedSum) -> list[int] | None:
    """Return for each axis of the weights where those of the `other` begin; None without a place.

    At the same point both read the same element of their data where the summed indices of `one` are
    those of the `other` and the shifts.
    """
    places = _places(one, other)
    if places is None or not _is_alike(one, other):
        return None
    shifts = dict.fromkeys(one.scope.indices, 0)
    for mine, theirs in zip(one.data.subscripts, other.data.subscripts):
        difference = mine.plus(theirs.substitute(places), -1)
        summed = mine.indices - set(one.scope.indices)
        if not summed and difference == Affine.constant(0):
            continue
        if len(summed) != 1:
            return None
        (index,) = summed
        shift = _shift(difference, index, mine.coefficient(index))
        if shift is None or shifts.setdefault(index, shift) != shift:
            return None
    return _within(one, other, shifts)


def _is_alike(one: WeightedSum, other: WeightedSum) -> bool:
    """Tell whether two products are of one tensor, zero outside, and have as many elements."""
    if one.data.tensor != other.data.tensor:
        return False
    if any(view.fill != 0 for read in (one.data, other.data) for view in paddings(read.base)):
        return False
    return one.scope.shape == other.scope.shape and one.scope.dtype == other.scope.dtype


def _places(one: WeightedSum, other: WeightedSum) -> dict[Index, Affine] | None:
    """Return the indices of the `other` as those of `one`, or as 0 where there is a single point.

    None where the axes of their weights are of different kinds.
    """
    if len(one.axes) != len(other.axes):
        return None
    places: dict[Index, Affine] = {}
    for mine, theirs in zip(one.scope.indices, other.scope.indices):
        places[theirs] = affine(mine)
    for mine, theirs in zip(one.axes, other.axes):
        if mine.index in one.scope.indices or theirs.index in places:
            if places.get(theirs.index) != affine(mine.index):
                return None
        elif theirs.extent == 1:
            places[theirs.index] = Affine.constant(0)
        else:
            places[theirs.index] = affine(mine.index)
    return places


def _shift(difference: Affine, index: Index, coefficient: int) -> int | None:
    """Return the shift of an index by which a difference of subscripts becomes 0.

    It is a constant, or has the index with this coefficient where the other one has a single point.
    None where there is no such shift, as where the index stands in quotients alone.
    """
    if coefficient == 0:
        return None
    rest = difference.plus(affine(index), -difference.coefficient(index))
    if difference.coefficient(index) not in (0, coefficient) or rest.indices:
        return None
    if not rest.is_number or rest.const % coefficient:
        return None
    return -rest.const // coefficient


def _within(one: WeightedSum, other: WeightedSum, shifts: Mapping[Index, int]) -> list[int] | None:
    """Return the shifts axis by axis; None where the smaller weights do not lie in the larger."""
    within: list[int] = []
    for mine, theirs in zip(one.axes, other.axes):
        shift = shifts.get(mine.index)
        if shift is None or not 0 <= shift <= mine.high - theirs.high:
            return None
        within.append(shift)
    return within
