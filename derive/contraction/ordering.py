"""Sums of products of many factors, taken apart in a good order of their contractions.

Products that read each other, statements or inner scopes, are one long product once they are
merged. A step of an order sums some indices away: a summation splitting, which keeps the other
indices outside and takes along the factors that have the ones that are summed. Where two factors
meet and nothing is summed yet, they are staged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import sympy

from derive.contraction.network import (
    ContractionStep,
    TensorNetwork,
    factors_of,
    index_names,
    network_of,
)
from derive.contraction.orders import Order, orders
from derive.rewriting.body_queries import names_of
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import Path, paths, program_scopes, scope_at
from derive.rules.algebra import staging
from derive.rules.intra import summation_splitting
from einalg.errors import EinalgError
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import reductions

MIN_FACTORS = 3  # a product of two has one order

Rules = Mapping[str, Rule]
OrderFinder = Callable[[TensorNetwork], Iterator[Order]]


class ReductionPlace(NamedTuple):
    """A reduction: the path of its scope, and its position in the body."""

    path: Path
    position: int

    def node(self, scope: Scope) -> Reduce | None:
        """Return the reduction in a scope; None where it is not there any more."""
        nodes = list(reductions(scope.body))
        return nodes[self.position] if self.position < len(nodes) else None

    def after(self, before: Program, after: Program) -> ReductionPlace:
        """Return where the reduction is after a move that changed nothing else."""
        path = self.path[:1]
        for length in range(1, len(self.path)):
            old = inner_scopes(scope_at(before, self.path[:length]))
            new = inner_scopes(scope_at(after, path))
            path = (*path, _position_of_new(old, new, self.path[length]))
        old = list(reductions(scope_at(before, self.path).body))
        new = list(reductions(scope_at(after, path).body))
        return ReductionPlace(path, _position_of_new(old, new, self.position))


def _position_of_new(old: Sequence[Any], new: Sequence[Any], default: int) -> int:
    """Return the position of the last that was not there before; the default where all were."""
    known = set(old)
    for position in reversed(range(len(new))):
        if new[position] not in known:
            return position
    return default


def contracted(
    program: Program, rules: Rules, find_orders: OrderFinder = orders
) -> Iterator[tuple[Program, list[Move]]]:
    """Yield the program with its long products in good orders, each time with the moves.

    Long is a sum of products of three factors or more. Of a program without any, there is none.
    `find_orders` yields the orders of a network that are tried.

    >>> import einalg as ea
    >>> from derive.rules import ALL
    >>> from einalg.language.ir.program import as_program
    >>> A, v = ea.tensor("A", (4, 4)), ea.tensor("v", (4,))
    >>> ((_, moves),) = contracted(as_program(ea.einsum("ij,jk,k->i", A, A, v)), ALL)
    >>> print(*moves)
    summation splitting at O: reduction=0, outer=(j)
    """
    networks = {network.identity: network for network in long_products(program).values()}
    alternatives = [find_orders(network) for network in networks.values()]
    for choice in _choices(alternatives):
        result, moves = _ordered(program, dict(zip(networks, choice)), rules)
        if moves:
            yield result, moves


def has_nested_products(program: Program) -> bool:
    """Tell whether a sum of products has a sum of products among its factors.

    >>> import einalg as ea
    >>> lines = "T[i,j] += A[i,k]*A[k,j]", "O[i] += T[i,j]*v[j]"
    >>> has_nested_products(ea.parse("\\n".join(lines), A=(4, 4), v=4))
    True
    """
    for scope in program_scopes(program):
        for node in reductions(scope.body):
            for factor in factors_of(node):
                if node.op == "Sum" and _reads_sum(program, factor):
                    return True
    return False


def _reads_sum(program: Program, factor: Any) -> bool:
    """Tell whether a factor is the element of a sum, of an inner scope or of a statement, or a
    power of one.
    """
    if isinstance(factor, sympy.Pow) and factor.exp.is_Integer:
        factor = factor.base
    if not isinstance(factor, Access):
        return False
    base = factor.base
    if isinstance(base, Tensor) and base.name in program.names:
        base = program[base.name]
    return isinstance(base, Scope) and isinstance(base.body, Reduce) and base.body.op == "Sum"


def _choices(alternatives: Sequence[Iterator[Order]]) -> Iterator[list[Order]]:
    """Yield the first order of every network, then the next of each that has one, and so on.

    Where a network has none, there is no choice.
    """
    current: list[Order] = []
    for following in zip_longest(*alternatives):
        current = [order or before for order, before in zip_longest(following, current)]
        if None in current:
            return
        yield list(current)


def long_products(program: Program) -> dict[ReductionPlace, TensorNetwork]:
    """Return the networks of all long products by their places; what stands inside comes first."""
    networks = {}
    for path, scope in reversed(list(paths(program))):
        for position in reversed(range(len(list(reductions(scope.body))))):
            network = network_of(scope, position)
            if network is not None and len(network.factors) >= MIN_FACTORS:
                networks[ReductionPlace(path, position)] = network
    return networks


def _ordered(
    program: Program, choice: Mapping[Any, Order], rules: Rules
) -> tuple[Program, list[Move]]:
    """Take the steps of an order for each network, by its identity.

    A scope, and a body, may have other positions for what it reads after each step.
    """
    done = set[Reduce]()
    moves: list[Move] = []
    while True:
        place, order = _next_product(program, choice, done)
        if place is None:
            return program, moves
        program, place, steps = _in_order(program, place, order, rules)
        moves += steps
        node = place.node(scope_at(program, place.path))
        if node is not None:
            done.add(node)


def _next_product(
    program: Program, choice: Mapping[Any, Order], done: Collection[Reduce]
) -> tuple[ReductionPlace | None, Order]:
    for place, network in long_products(program).items():
        node = place.node(scope_at(program, place.path))
        if node not in done and network.identity in choice:
            return place, choice[network.identity]
    return None, ()


def _in_order(
    program: Program, place: ReductionPlace, order: Order, rules: Rules
) -> tuple[Program, ReductionPlace, list[Move]]:
    """Take the steps of an order up to the last that sums; those that a rule refuses are left.

    Returns the place where the product is then, too.
    """
    moves: list[Move] = []
    for step in _until_last_sum(order):
        move = _move(scope_at(program, place.path), place, step)
        if move is None or move.rule not in rules:
            continue
        try:
            after = apply(program, move, rules)
        except EinalgError:
            continue
        moves.append(move)
        place, program = place.after(program, after), after
    return program, place, moves


def _until_last_sum(order: Order) -> Sequence[ContractionStep]:
    """Return the steps without those at the end that sum nothing: the body multiplies these."""
    end = len(order)
    while end and not order[end - 1].summed:
        end -= 1
    return order[:end]


def _move(scope: Scope, place: ReductionPlace, step: ContractionStep) -> Move | None:
    """Return the move that takes a step; None where nothing is to be done."""
    node = place.node(scope)
    if node is None:
        return None
    if not step.summed:
        return _staging(scope, node, place, step)
    names = names_of(node.indices)
    outer = [name for name in names if name not in step.summed]
    if len(outer) == len(names) or (not outer and not _has_other_factor(node)):
        return None
    args = {"reduction": place.position, "outer": outer}
    return Move(summation_splitting.RULE.name, place.path, args)


def _has_other_factor(node: Reduce) -> bool:
    """Tell whether a sum multiplies something that none of its indices occurs in."""
    summed = set(names_of(node.indices))
    return any(summed.isdisjoint(index_names(factor)) for factor in factors_of(node))


def _staging(
    scope: Scope, node: Reduce, place: ReductionPlace, step: ContractionStep
) -> Move | None:
    """Return the move that multiplies two factors before anything else."""
    positions = _positions(factors_of(node), step)
    if positions is None:
        return None
    bound = names_of([*scope.indices, *node.indices])
    axes = [name for name in bound if name in step.indices]
    args = {"factors": positions, "reduction": place.position, "axes": axes}
    return Move(staging.RULE.name, place.path, args)


def _positions(factors: Sequence[Any], step: ContractionStep) -> list[int] | None:
    """Return the positions of factors with the indices of those that meet; None if one is missing.

    For the order, factors with the same indices are as good as each other.
    """
    positions: list[int] = []
    for indices in step.factors:
        for position, factor in enumerate(factors):
            if position not in positions and index_names(factor) == indices:
                positions.append(position)
                break
        else:
            return None
    return sorted(positions)
