"""What a rule of a file must be: operators that are known, of which each reads earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from derive.substitutions.graphs.graph import Leaf, Operation, RuleGraph, Source
from derive.substitutions.graphs.kinds import KINDS, MAX_RANK, WrongOperation
from derive.substitutions.graphs.typed_rule import typed
from einalg.errors import RecordError

MAX_OPERATIONS = 64  # of a side
MAX_LEAF = 10**6
MAX_SIZE = 2**31
REMEDY = "correct the rule, or leave it out of the file"
SIDES = ("before", "after")


def wrong_rule(name: str, problem: str, remedy: str = REMEDY) -> RecordError:
    """Return the error of a rule that is none."""
    return RecordError(f"rule {name}: {problem}\n  {remedy}")


def checked_graph(
    name: str,
    sides: Sequence[Sequence[Operation]],
    outputs: Sequence[tuple[Source, Source]],
    shapes: Mapping[int, tuple[int, ...]],
) -> RuleGraph:
    """Return a rule whose operators are known, read what there is, and fit together. Raises
    `RecordError` for any other.
    """
    counts = []
    for side, operations in zip(SIDES, sides):
        if len(operations) > MAX_OPERATIONS:
            raise wrong_rule(name, f"{side} has more than {MAX_OPERATIONS} operations")
        counts.append(_checked_side(name, side, operations))
    if not outputs:
        raise wrong_rule(name, "it has no outputs")
    for pair in outputs:
        for side, known, source in zip(SIDES, counts, pair):
            _check_source(name, f"an output of {side}", source, known)
    graph = RuleGraph(
        tuple(sides[0]), tuple(sides[1]), tuple(outputs), tuple(sorted(shapes.items()))
    )
    try:
        typed(graph)
    except WrongOperation as error:
        raise wrong_rule(name, str(error)) from None
    return graph


def _checked_side(name: str, side: str, operations: Sequence[Operation]) -> list[int]:
    """Return the number of results of each operation."""
    counts: list[int] = []
    for place, operation in enumerate(operations):
        where = f"operation {place} of {side}, {operation.operator},"
        kind = KINDS.get(operation.operator)
        if kind is None:
            known = ", ".join(sorted(KINDS))
            problem = f"operation {place} of {side} is unknown: {operation.operator[:40]!r}"
            raise wrong_rule(name, problem, f"known are {known}")
        for source in operation.inputs:
            _check_source(name, where, source, counts)
        try:
            kind.check(dict(operation.parameters), len(operation.inputs))
        except WrongOperation as error:
            raise wrong_rule(name, f"{where} {error}") from None
        counts.append(operation.result_count)
    return counts


def _check_source(name: str, where: str, source: Source, counts: Sequence[int]) -> None:
    if isinstance(source, Leaf):
        if not 0 <= source.number <= MAX_LEAF:
            raise wrong_rule(name, f"{where} reads leaf {source.number}, which is no number of one")
        return
    if not 0 <= source.operation < len(counts):
        raise wrong_rule(
            name,
            f"{where} reads operation {source.operation}, which does not come before it",
            "an operation reads leaves and operations before it: there is no circle",
        )
    if not 0 <= source.output < counts[source.operation]:
        raise wrong_rule(
            name,
            f"{where} reads output {source.output} of operation {source.operation}, "
            f"which has {counts[source.operation]}",
        )


def operation(operator: str, parameters: Mapping[str, Any], inputs: Sequence[Source]) -> Operation:
    """Return an operation with its parameters in order, and lists as tuples."""
    pairs = []
    for key in sorted(parameters):
        value = parameters[key]
        pairs.append((key, tuple(value) if isinstance(value, list) else value))
    return Operation(operator, tuple(pairs), tuple(inputs))


def is_shape(value: Any) -> bool:
    """Return whether a value is a shape of numbers."""
    if not isinstance(value, list) or len(value) > MAX_RANK:
        return False
    return all(type(size) is int and 1 <= size <= MAX_SIZE for size in value)
