"""The layouts of a program chosen statement by statement, by measured times and copies between.

Of two forms, with channels where they were and last, each statement costs what its kernels take,
and whatever lies otherwise where it is read costs a copy. The cheapest choice is a minimum cut of
the graph of statements, for any graph.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from math import inf, prod

from derive.cost.backend import Backend
from derive.cost.model import Roofline, known_rates
from derive.programs.forms.variants import Variant, mixed_variant
from derive.programs.passes.layout_selection import movable_orders
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program
from einalg.text.wording import milliseconds

log = logging.getLogger("einalg")

MIN_SAVED_SHARE = 0.02  # of the time of the faster form, that a mixture is expected to save
COPY_PASSES = 4  # over what is copied: it is read, written, and in one of these by short steps
EXPECTED = "einalg: layouts that are mixed are expected to take %s, where one layout takes %s"
Seconds = Mapping[str, float]
Edge = tuple[str, str]
FIRST, LAST = "", " "  # the ends of the graph: no statement is called so


@dataclass(frozen=True)
class LayoutMixture:
    """The statements that lie channels last, and the seconds that a call is expected to take."""

    last: frozenset[str]
    seconds: float


def mixture(variant: Variant, first: Seconds, last: Seconds, backend: Backend) -> Variant | None:
    """Return the form in which some statements lie as they do in another, some channels last.

    `first` and `last` are the seconds of its kernels, and of those with channels last. None where
    no mixture is expected to be faster.
    """
    program = variant.program
    movable = movable_orders(program)
    rates = known_rates(backend) or Roofline()

    def copy_seconds(name: str) -> float:
        scope = program[name]
        size = prod(scope.shape) * numpy_dtype(scope.dtype).itemsize
        return rates.time(0.0, COPY_PASSES * size, library=False)

    best = cheapest_mixture(program, first, last, movable, copy_seconds)
    one = min(sum(by_statement(times, program.names).values()) for times in (first, last))
    moved = movable.keys() & best.last
    if not moved or moved == movable.keys() or best.seconds > (1 - MIN_SAVED_SHARE) * one:
        return None
    log.info(EXPECTED, milliseconds(best.seconds), milliseconds(one))
    return mixed_variant(variant, best.last)


def cheapest_mixture(
    program: Program,
    first: Seconds,
    last: Seconds,
    movable: Collection[str],
    copy_seconds: Callable[[str], float],
) -> LayoutMixture:
    """Return the cheapest choice of the layouts of a program's statements.

    `first` and `last` are the seconds of kernels by what they compute, in the program and in the
    same with channels last. Only `movable` statements lie otherwise there. A statement without a
    kernel of its own is a part of one that reads it, and has the layout of that.
    """
    names = dict.fromkeys(program.names)
    before, after = by_statement(first, names), by_statement(last, names)
    capacities: dict[Edge, float] = {}
    for name in names:
        _add(capacities, (FIRST, name), after.get(name, 0.0))
        _add(capacities, (name, LAST), before.get(name, 0.0))
    for read, reader in _reads(program):
        cost = 0.0
        if read in movable:
            cost = copy_seconds(read)
        if read not in before or read not in after:
            cost = inf
        _add(capacities, (read, reader), cost)
        _add(capacities, (reader, read), cost)
    seconds, near_first = minimum_cut(capacities, FIRST, LAST)
    return LayoutMixture(frozenset(names.keys() - near_first), seconds)


def by_statement(seconds: Seconds, names: Collection[str]) -> dict[str, float]:
    """Return the seconds of kernels, those of a layer's candidate with the statement it computes.

    Its other statements come before that one.

    >>> by_statement({"T1_U": 1.0, "T1_V": 2.0, "T1": 3.0, "T2": 4.0}, ["T1", "T2"])
    {'T1': 6.0, 'T2': 4.0}
    """
    sums: dict[str, float] = {}
    waiting = 0.0
    for name, own in seconds.items():
        waiting += own
        if name in names:
            sums[name] = sums.get(name, 0.0) + waiting
            waiting = 0.0
    return sums


def _reads(program: Program) -> Iterator[Edge]:
    """Yield every statement with each statement that reads it."""
    for reader, scope in program.statements:
        for name in scope.tensors:
            if name in program.names:
                yield name, reader


def _add(capacities: dict[Edge, float], edge: Edge, capacity: float) -> None:
    if capacity > 0:
        capacities[edge] = capacities.get(edge, 0.0) + capacity


def minimum_cut(
    capacities: Mapping[Edge, float], source: str, sink: str
) -> tuple[float, frozenset[str]]:
    """Return the capacity of a minimum cut, and the nodes on the side of the source.

    >>> capacity, near = minimum_cut({("s", "a"): 3.0, ("a", "b"): 1.0, ("b", "t"): 2.0}, "s", "t")
    >>> capacity, sorted(near)
    (1.0, ['a', 's'])
    """
    residual: dict[str, dict[str, float]] = {source: {}, sink: {}}
    for (start, end), capacity in capacities.items():
        residual.setdefault(start, {}).setdefault(end, 0.0)
        residual.setdefault(end, {}).setdefault(start, 0.0)
        residual[start][end] += capacity
    flow = 0.0
    while True:
        parents = _reached(residual, source)
        if sink not in parents:
            return flow, frozenset(parents)
        path = [sink]
        while path[-1] != source:
            path.append(parents[path[-1]])
        steps = list(zip(path[1:], path))
        least = min(residual[start][end] for start, end in steps)
        for start, end in steps:
            residual[start][end] -= least
            residual[end][start] += least
        flow += least


def _reached(residual: Mapping[str, Mapping[str, float]], source: str) -> dict[str, str]:
    """Return the nodes that are reached by what is left of capacities, each with the one before."""
    parents = {source: source}
    waiting = deque([source])
    while waiting:
        node = waiting.popleft()
        for neighbour, capacity in residual[node].items():
            if capacity > 0 and neighbour not in parents:
                parents[neighbour] = node
                waiting.append(neighbour)
    return parents
