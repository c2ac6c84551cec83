"""Contractions whose intermediate results keep within a bound on memory.

Orders are chosen that do. Where no order does, an index is cut in two ranges, and again, until
orders of the parts fit: the sum over it, or the results along it. The parts run one after the
other, and their intermediate results share memory. Each part has steps of its own: code and its
compilation grow by as many times, and what an index does not occur in is computed in each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from derive.contraction.exact import MAX_WITH_OUTER_PRODUCTS
from derive.contraction.network import TensorNetwork, union
from derive.contraction.ordering import ReductionPlace, Rules, contracted, long_products
from derive.contraction.orders import Order, all_orders, excess, improving
from derive.rewriting.moves import Move, apply
from derive.rewriting.paths import program_scopes, scope_at
from derive.rules.algebra import distribution, staging
from derive.rules.inter import expression_splitting
from derive.rules.inter.lifting_nesting import LIFTING, fresh_statement
from einalg.errors import EinalgError
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.traversal import accesses

MAX_CUTS = 15  # of sums and of results in a program
SHARES = (1, 2, 4)  # of the memory that one result may take: several are held at once

Spelling = tuple[Program, list[Move]]
Fission = Callable[[Program, Rules], Spelling]


def contracted_within(
    program: Program, rules: Rules, memory: float, fission: Fission
) -> Iterator[Spelling]:
    """Yield the program with its long products in orders for a bound on memory, with the moves.

    The bound is in bytes. It holds for every result within a product; how much is held at once is
    for the caller to ask. Where sums are cut, `fission` gives a scope of its own to each part, such
    as `derive.search.cleanup.fissioned`, and a second spelling adds the parts one by one.

    >>> import einalg as ea
    >>> from derive.rules import ALL
    >>> from derive.search.cleanup import fissioned
    >>> from einalg.language.ir.program import as_program
    >>> A, B, C = (ea.tensor(name, (8, 8)) for name in "ABC")
    >>> ring = as_program(ea.einsum("ij,jk,ki->", A, B, C))
    >>> _, moves = next(contracted_within(ring, ALL, 4 * 8 * 4, fissioned))
    >>> print(moves[0])
    distribution at O: step=in ranges, reduction=0, index=i, at=4
    """
    itemsize = max(numpy_dtype(scope.dtype).itemsize for scope in program_scopes(program))
    for share in SHARES:
        slicer = _Slicer(memory / itemsize / share, rules)
        cut = _cut(program, slicer)
        if cut is None:
            break
        parts, moves = cut
        if moves:
            parts, steps = fission(parts, rules)
            moves += steps
        for ordered, steps in contracted(parts, rules, slicer.orders):
            yield ordered, [*moves, *steps]
            if moves:
                added, adding = _added_one_by_one(ordered, rules)
                yield added, [*moves, *steps, *adding]


def _cut(program: Program, slicer: _Slicer) -> Spelling | None:
    """Return the program whose long products have orders within the points; None without one."""
    moves: list[Move] = []
    while True:
        place = slicer.place_to_cut(program)
        if place is None:
            return program, moves
        move = slicer.cut(program, place)
        if move is None or len(moves) >= MAX_CUTS:
            return None
        try:
            program = apply(program, move, slicer.rules)
        except EinalgError:
            return None
        moves.append(move)


@dataclass
class _Slicer:
    """Which long products have no order within so many points, and where to cut them."""

    most_points: float
    rules: Rules
    _known: dict[Any, list[Order]] = field(default_factory=dict)

    def place_to_cut(self, program: Program) -> ReductionPlace | None:
        """Return the place of a long product that no order fits; None where there is none."""
        for place, network in long_products(program).items():
            if next(self.orders(network), None) is None:
                return place
        return None

    def orders(self, network: TensorNetwork) -> Iterator[Order]:
        """Yield the orders of a network that fit: of a part of a sum, those of the whole too."""
        candidates = [*self._of_whole(network)]
        if len(network.factors) <= MAX_WITH_OUTER_PRODUCTS:
            candidates += all_orders(network, self.most_points)
        yield from improving(network, candidates, self.most_points)

    def _of_whole(self, network: TensorNetwork) -> list[Order]:
        """Return orders of the network whatever its sizes; the first that is met is the whole."""
        factors, kept, _ = network.identity
        if (factors, kept) not in self._known:
            free, bounded = all_orders(network), all_orders(network, self.most_points)
            self._known[factors, kept] = [*free, *bounded]
        return self._known[factors, kept]

    def cut(self, program: Program, place: ReductionPlace) -> Move | None:
        """Return the cut after which the least exceeds the points; None where none helps."""
        network, scope = long_products(program)[place], scope_at(program, place.path)
        best, best_cut = self._excess(network), None
        for index, cut in _cuts(scope, place, network).items():
            if cut.rule not in self.rules:
                continue
            size = network.sizes[index]
            part = replace(network, sizes={**network.sizes, index: -(-size // 2)})
            value = self._excess(part)
            if value[0] < best[0] or (best_cut and value < best):
                best, best_cut = value, cut
        return best_cut

    def _excess(self, network: TensorNetwork) -> tuple[float, int]:
        """Return the least points by which an order exceeds the bound, and its arithmetic."""
        values = []
        for order in self._of_whole(network):
            arithmetic = sum(network.points(step.indices) for step in order)
            values.append((excess(network, order, self.most_points), arithmetic))
        return min(values)


def _cuts(scope: Scope, place: ReductionPlace, network: TensorNetwork) -> dict[str, Move]:
    """Return the moves that cut an index of a long product in the middle, by its name.

    Results along it become two expressions, or a sum over it the sum of two, which comes second:
    the parts of results need not be added. A summed index of a condition stays whole.
    """
    cuts: dict[str, Move] = {}
    node = place.node(scope)
    assert node is not None
    indices = union(network.factors)
    for it in scope.iterators:
        if it.extent > 1 and it.index.name in indices:
            args = {"index": it.index.name, "at": it.low + it.extent // 2}
            cuts[it.index.name] = Move(expression_splitting.RULE.name, place.path, args)
    for it in node.iterators:
        if it.extent > 1 and it.index.name in indices - network.kept:
            middle = it.low + it.extent // 2
            args = {"step": "in ranges", "reduction": place.position}
            args |= {"index": it.index.name, "at": middle}
            cuts[it.index.name] = Move(distribution.RULE.name, place.path, args)
    return cuts


def _added_one_by_one(program: Program, rules: Rules) -> Spelling:
    """Return the program that adds no more than two terms at once, so that few are held.

    The sum so far is a statement, and is there before the next part is.
    """
    moves: list[Move] = []
    while True:
        addition = next(_additions(program), None)
        if addition is None:
            return program, moves
        before = inner_scopes(program[addition.path[0]])
        try:
            program = apply(program, addition, rules)
        except EinalgError:
            return program, moves
        new = inner_scopes(program[addition.path[0]])
        position = next(number for number, scope in enumerate(new) if scope not in before)
        path = (*addition.path, position)
        lifting = Move(LIFTING.name, path, {"name": fresh_statement(program)})
        program = apply(program, lifting, rules)
        moves += [addition, lifting]


def _additions(program: Program) -> Iterator[Move]:
    """Yield how the next two terms of a body with more are added first."""
    for name, scope in program.statements:
        if not isinstance(scope.body, sympy.Add) or len(scope.body.args) < 3:
            continue
        parts: list[int] = []
        others: list[int] = []
        for number, term in enumerate(scope.body.args):
            has_part = any(isinstance(access.base, Scope) for access in accesses(term))
            (parts if has_part else others).append(number)
        if parts:
            chosen = sorted([*others, *parts][:2])
            used = set().union(*(scope.body.args[number].free_symbols for number in chosen))
            axes = [index.name for index in scope.indices if index in used]
            yield Move(staging.RULE.name, (name,), {"terms": chosen, "axes": axes})
