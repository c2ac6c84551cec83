"""Verdicts by relations: of each output alone, and of more general rules, of which a rule is a
case: with common subexpressions as leaves, and with a leaf for each occurrence of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from derive.proof.outcome.verdict import PROVED
from derive.substitutions.graphs.graph import Port, RuleGraph
from derive.substitutions.graphs.kinds import WrongOperation
from derive.substitutions.graphs.ordered_leaves import with_ordered_leaves
from derive.substitutions.graphs.reduction import (
    nests_sums,
    parts,
    reduced,
    renamed_apart,
    single_outputs,
    without_activation,
)
from derive.substitutions.verification.comparing import Effort
from derive.substitutions.verification.counterexamples import confirmed
from derive.substitutions.verification.deciding import MAX_KNOWN, attempted
from derive.substitutions.verification.generalisation import of_case
from derive.substitutions.verification.refuting import quick_refutation
from derive.substitutions.verification.verdict import UNNAMED, RuleVerdict


def decided_by_relations(name: str, graph: RuleGraph) -> RuleVerdict | None:
    """Decide a rule of open sizes by exact comparisons, as a case of more general rules where these
    are simpler; None where these do not decide.
    """
    if len(graph.outputs) > 1:
        verdict = _of_each_output(name, graph)
        if verdict is not None:
            return verdict
    for general in _generalisations(graph):
        verdict = attempted(name, general, Effort.RELATIONS)
        if verdict is not None and general is not graph:
            verdict = of_case(verdict, general, graph)
        if verdict is not None:
            return confirmed(verdict, graph)
    return None


def _of_each_output(name: str, graph: RuleGraph) -> RuleVerdict | None:
    """Return the verdict on a rule each of whose outputs is proved alone, without a condition; None
    where one is not.
    """
    coverages = []
    for rule in single_outputs(graph):
        verdict = decided_by_relations(name, rule)
        if verdict is None or not verdict.is_unconditional:
            return None
        coverages.append(verdict.coverage)
    coverage = "; ".join(dict.fromkeys(filter(None, coverages)))
    return RuleVerdict(name, PROVED, coverage=coverage)


def _generalisations(graph: RuleGraph) -> Iterator[RuleGraph]:
    """Yield the rule itself, and rules of which it is a case: what costs least first. Sums inside
    sums are many terms, and of a leaf that is read twice there are more, so that equal parts and
    other leaves are tried first where both sides nest sums.
    """
    smaller = reduced(graph)
    if smaller is not None:
        yield smaller
    is_deep = nests_sums(graph)
    if is_deep:
        yield from _joined(graph)
        yield from renamed_apart(graph)
    inner = without_activation(graph)
    while inner is not None:
        yield inner
        inner = without_activation(inner)
    yield graph
    if not is_deep:
        yield from renamed_apart(graph)
        yield from _joined(graph)


def _joined(graph: RuleGraph) -> Iterator[RuleGraph]:
    """Yield the rule with a leaf for tensors inside both sides that are proved to be equal, if
    there are any.
    """
    equal: dict[Port, Port] = {}
    for before, after, part in parts(graph):
        if after not in equal and _is_proved(part):
            equal[after] = before
    if equal:
        joined = reduced(graph, equal)
        if joined is not None:
            yield joined


def _is_proved(graph: RuleGraph) -> bool:
    """Return whether a rule is proved for all sizes, and holds at random inputs first."""
    try:
        return _is_ordered_proved(with_ordered_leaves(graph)[0])
    except (WrongOperation, ValueError):
        return False


@lru_cache(maxsize=MAX_KNOWN)
def _is_ordered_proved(graph: RuleGraph) -> bool:
    if quick_refutation(UNNAMED, graph) is not None:
        return False
    verdict = attempted(UNNAMED, graph, Effort.RELATIONS)
    return verdict is not None and verdict.is_unconditional and not verdict.coverage
