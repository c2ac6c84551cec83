"""Pairs of programs as rules, at sizes as general as they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from derive.proof.outcome.verdict import PROVED, TESTED, UNKNOWN
from derive.substitutions.generation.programs.applying import NO_HISTORY, NotApplicable, apply
from derive.substitutions.generation.programs.operators import OperatorChoice
from derive.substitutions.generation.rewriting import has_open_ranks
from derive.substitutions.generation.terms import ProgramPair
from derive.substitutions.graphs.graph import Port, RuleGraph, Source
from derive.substitutions.graphs.kinds import KINDS
from derive.substitutions.verification.refuting import quick_refutation
from derive.substitutions.verification.rule import Substitution
from derive.substitutions.verification.verdict import RuleVerdict
from derive.substitutions.verification.verifier import verdict_for_all_sizes, verify
from einalg.errors import EinalgError
from einalg.language.index.size import Size
from einalg.language.ir.program import Program, whole_tensor
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.builders import tensor
from einalg.runtime.clock import Clock, OutOfTime

NO_RULE = "no sizes in general were found"
UNNAMED = "pair"
UNDECIDED = "no proof for all sizes was found"


def rules_of(
    pair: ProgramPair, operators: Sequence[OperatorChoice], sizes: Mapping[int, Any]
) -> list[Substitution]:
    """Return a pair as rules, the most general one first: those of the operators of rule files have
    open sizes, others the sizes that numbers stand for, or these numbers.
    """
    graph = pair.graph
    if all(operation.operator in KINDS for side in graph.sides for operation in side):
        return [Substitution.of_graph(UNNAMED, _with_shapes(pair))]
    rules = []
    symbolic = [tuple([sizes.get(extent, extent) for extent in shape]) for shape in pair.shapes]
    for shapes in (symbolic, pair.shapes):
        try:
            sides = [_program(graph, side, operators, shapes) for side in (0, 1)]
        except NotApplicable:
            continue
        rules.append(Substitution(UNNAMED, *sides))
    return rules


def named(rule: Substitution, name: str) -> Substitution:
    """Return a rule under another name."""
    if rule.graph is not None:
        return Substitution.of_graph(name, rule.graph)
    return Substitution(name, *rule.sides)


def _with_shapes(pair: ProgramPair) -> RuleGraph:
    """Return a graph with the shapes of its leaves, where ranks are taken from them."""
    graph = pair.graph
    if has_open_ranks(graph) and all(len(shape) in (0, 2) for shape in pair.shapes):
        return graph
    shapes = tuple(enumerate(pair.shapes, start=1))
    return RuleGraph(graph.before, graph.after, graph.outputs, shapes)


def _program(
    graph: RuleGraph,
    side: int,
    operators: Sequence[OperatorChoice],
    shapes: Sequence[Sequence[Any]],
) -> Program:
    by_key = {(operator.name, operator.parameters): operator for operator in operators}
    values: dict[Source, Any] = {}
    histories: dict[Source, Any] = {}
    for leaf in graph.leaves:
        values[leaf] = tensor(leaf.name, tuple(shapes[leaf.number - 1]))
        histories[leaf] = (NO_HISTORY,) * values[leaf].rank
    for place, operation in enumerate(graph.sides[side]):
        operator = by_key[operation.operator, operation.parameters]
        inputs = [values[source] for source in operation.inputs]
        applied = apply(operator, inputs, [histories[source] for source in operation.inputs])
        for number, scope in enumerate(applied.scopes):
            values[Port(place, number)] = scope
            histories[Port(place, number)] = applied.histories[number]
    statements = []
    for number, sources in enumerate(graph.outputs):
        value = values[sources[side]]
        if isinstance(value, Tensor):
            value = whole_tensor(value)
        statements.append((f"O{number + 1}", value))
    return Program(statements, [name for name, _ in statements])


def input_shapes(rule: Substitution) -> list[tuple[int | Size, ...]]:
    """Return the shapes of the leaves of a rule of functions, in their order."""
    shapes = []
    for one in _inputs(rule).values():
        extents = [extent if type(extent) is int else extent.as_atom() for extent in one.shape]
        shapes.append(tuple(extents))
    return shapes


def _inputs(rule: Substitution) -> dict[str, Any]:
    inputs = {name: one for side in rule.sides for name, one in side.inputs.items()}
    return dict(sorted(inputs.items(), key=lambda item: int(item[0].removeprefix("x"))))


def numbers_text(rule: Substitution) -> str:
    """Return the shapes of the inputs that have numbers in them: `x1: 1xM`."""
    texts = []
    for name, one in _inputs(rule).items():
        if any(type(extent) is int for extent in one.shape):
            texts.append(f"{name}: {'x'.join(map(str, one.shape))}")
    return ", ".join(texts)


def verdict_of(rules: Sequence[Substitution], seconds: float) -> tuple[int, RuleVerdict]:
    """Return the verdict on the first of some rules that is proved, with its place; else that on
    the first one that is not decided in some seconds, else that on the first one.
    """
    verdicts = []
    for place, rule in enumerate(rules):
        try:
            with Clock.of(seconds).limiting():
                verdict = verify(rule) if rule.graph is None else _of_graph(rule.graph)
        except OutOfTime:
            verdict = undecided_in(seconds)
        except EinalgError as error:
            verdict = RuleVerdict(rule.name, TESTED, coverage=str(error).splitlines()[0])
        if verdict.verdict == PROVED:
            return place, verdict
        verdicts.append(verdict)
    if not verdicts:
        return 0, RuleVerdict(UNNAMED, TESTED, coverage=NO_RULE)
    undecided = [place for place, one in enumerate(verdicts) if one.verdict == UNKNOWN]
    place = undecided[0] if undecided else 0
    return place, verdicts[place]


def undecided_in(seconds: float) -> RuleVerdict:
    return RuleVerdict(UNNAMED, UNKNOWN, coverage=f"not decided in {seconds:g} s")


def _of_graph(graph: RuleGraph) -> RuleVerdict:
    """Decide a rule of open sizes, which has to hold wherever convolutions have one group, if they
    may have that: else no proof is sought. Agreement at more sizes would be no proof either.
    """
    for decided in (quick_refutation, verdict_for_all_sizes):
        verdict = decided(UNNAMED, graph)
        if verdict is not None:
            return verdict
    return RuleVerdict(UNNAMED, TESTED, coverage=UNDECIDED)
