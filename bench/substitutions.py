"""Are the rules of a library of rewrites right, and under which conditions?

python -m bench.substitutions [FILE...] [--control] [--models] [--generate SIZE] [--json PATH]

Verifies each rule of some files, such as TASO's `graph_subst.pb`, and counts the verdicts of each
set by condition, with the time that it took on one core. `--equations` takes the time of the
different equations of a set instead, one for each output of a rule. `--control` also replaces, in
each rule, one leaf of its right side by another one, and counts how many of these wrong rules are
caught.
`--models` optimizes blocks of networks with and without the rules, and says which rules fit there,
and how long the processor takes for a call; `--networks inception squeezenet resnext50 nasnet bert`
does so with whole networks.
`--generate SIZE` generates the rules of the operators of each set over its inputs, `--operators`
those of some of them, and counts how many rules of the set follow from the generated ones.
`--families SIZE` does so over operators that TASO lacks (`bench.rule_operators`), and lists the
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import bench
import einalg as ea
from bench.blocks import BLOCKS
from bench.rule_operators import generated_of_families
from bench.tune import empty_cache
from derive.programs import RuleSet
from derive.programs.forms.rewriting.concatenations import with_neighbours_apart
from derive.programs.forms.rewriting.convolutions import convolution_kinds
from derive.programs.forms.rewriting.matching import matches
from derive.programs.forms.rewriting.patterns import RulePattern, apart
from derive.programs.forms.rewriting.replacement import replaced
from derive.substitutions import Rule, RuleVerdict, load, verify
from derive.substitutions.generation.generator import searched
from derive.substitutions.generation.instances import RuleInstances
from derive.substitutions.graphs.graph import Leaf, RuleGraph
from derive.substitutions.graphs.kinds import WrongOperation
from derive.substitutions.graphs.reduction import single_outputs
from derive.substitutions.verification.rule import general_sides
from einalg.frontends.random_inputs import random_arrays
from einalg.language.ir.program import Program

MAX_NAMES = 12  # in a row of a table
MAX_PLACES = 16  # of a rule in a program that are counted
TURNS, TURN_SECONDS = 5, 0.1  # of each call that is timed


def verdicts(rules: Sequence[Rule]) -> Iterator[tuple[RuleVerdict, float]]:
    """Yield the verdict on each rule, and the seconds that it took."""
    for rule in rules:
        start = process_time()
        verdict = verify(rule)
        yield verdict, process_time() - start


def by_condition(name: str, rules: Sequence[Rule]) -> Iterator[bench.Row]:
    """Yield the number of rules of each verdict and condition."""
    groups: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for verdict, seconds in verdicts(rules):
        key = verdict.verdict, verdict.condition_text, verdict.coverage
        groups.setdefault(key, []).append((verdict.rule.rpartition("/")[2], seconds))
    for (verdict, condition, coverage), members in groups.items():
        names = ", ".join(member for member, _ in members) if len(members) <= MAX_NAMES else ""
        yield {
            "set": name,
            "rules": len(members),
            "verdict": verdict,
            "condition": condition,
            "coverage": coverage,
            "s": sum(seconds for _, seconds in members),
            "slowest s": max(seconds for _, seconds in members),
            "which": names,
        }


def of_equations(name: str, rules: Sequence[Rule]) -> Iterator[bench.Row]:
    """Yield how many different equations the rules have, one for each output, and the seconds that
    the verdicts on these take.
    """
    graphs = dict.fromkeys(
        [one for rule in rules if rule.graph is not None for one in single_outputs(rule.graph)]
    )
    seconds = [spent for _, spent in verdicts([Rule.of_graph(name, graph) for graph in graphs])]
    total = sum(1 for rule in rules if rule.graph is not None for _ in rule.graph.outputs)
    yield {"set": name, "equations": total, "different ones": len(graphs), "s": sum(seconds)}


def with_wrong_leaf(rule: Rule) -> Rule | None:
    """Return a rule whose right side reads a wrong leaf; None where no other leaf fits there."""
    if rule.graph is None:
        return None
    for wrong in with_wrong_leaves(rule.graph):
        if _has_sizes(wrong):
            return Rule.of_graph(f"{rule.name} wrong", wrong)
    return None


def with_wrong_leaves(graph: RuleGraph) -> Iterator[RuleGraph]:
    """Yield the graphs in which one reading of a leaf on the right reads another leaf."""
    for place, operation in enumerate(graph.after):
        for position, source in enumerate(operation.inputs):
            for leaf in graph.leaves:
                if isinstance(source, Leaf) and leaf != source:
                    inputs = list(operation.inputs)
                    inputs[position] = leaf
                    after = list(graph.after)
                    after[place] = replace(operation, inputs=tuple(inputs))
                    yield replace(graph, after=tuple(after))


def _has_sizes(graph: RuleGraph) -> bool:
    try:
        return general_sides(graph) is not None
    except (WrongOperation, ValueError):
        return False


def control(name: str, rules: Sequence[Rule]) -> Iterator[bench.Row]:
    """Yield how many wrong rules are caught, and which are not."""
    wrong, missed = 0, []
    for rule in rules:
        other = with_wrong_leaf(rule)
        if other is None:
            continue
        wrong += 1
        verdict, right = verify(other), verify(rule)
        if verdict.verdict != "different" and verdict.condition_text == right.condition_text:
            missed.append(rule.name)
    yield {"set": name, "wrong rules": wrong, "caught": wrong - len(missed), "missed": missed}


class TimedNetwork(NamedTuple):
    """A model with what it is optimized with, weights too, and the arguments of a call."""

    model: Any
    example: Sequence[Any]
    arguments: Sequence[Any]


Networks = Mapping[str, Callable[[], TimedNetwork]]


def of_blocks(names: Sequence[str] = ()) -> Networks:
    """Return blocks of networks with random inputs, those of some names or all."""
    blocks = {}
    for name, block in BLOCKS.items():
        if not names or name in names:
            blocks[name] = partial(_with_inputs, block)
    return blocks


def _with_inputs(block: Callable[[], Program]) -> TimedNetwork:
    program = block()
    arrays = random_arrays(program.inputs.values())
    arguments = []
    for name, tensor in program.inputs.items():
        if tensor.role != "weight":
            arguments.append(arrays[name])
    return TimedNetwork(program, list(arrays.values()), arguments)


def of_models(names: Sequence[str], small: bool = False) -> Networks:
    """Return whole networks of `bench.models`, of some names."""
    models = import_module("bench.models")  # takes torch
    chosen = models.SMALL if small else models.MODELS
    return {name: partial(_module, chosen[name]) for name in names}


def _module(network: Callable[[int], tuple[Any, Sequence[Any]]]) -> TimedNetwork:
    model, inputs = network(1)
    return TimedNetwork(model, inputs, inputs)


def gains(
    networks: Networks, rules: Sequence[Rule], seconds: float, turns: int = TURNS
) -> Iterator[bench.Row]:
    """Yield the milliseconds of the processor that a call of each network takes without rules and
    with them, the least of some turns, and which rules were applied.
    """
    for name, network in networks.items():
        timed = network()
        made = []
        for some in ((), rules):
            options = {"seconds": seconds, "prefer": "einalg", "progress": False}
            with empty_cache():  # else the second finds what was searched for the first
                made.append(ea.optimize(timed.model, timed.example, substitutions=some, **options))
        calls = [partial(one, *timed.arguments) for one in made]
        without, applied = processor_seconds(calls, turns)
        changes = [change for part in made[1].parts.values() for change in part.changes]
        yield {
            "network": name,
            "ms without": 1e3 * without,
            "ms with": 1e3 * applied,
            "gain": without / applied,
            "changes": ", ".join(changes),
        }


def processor_seconds(calls: Sequence[Callable[[], Any]], turns: int) -> list[float]:
    """Return the least seconds of the processor that each call took in turns: what others run on
    the machine counts little.
    """
    for call in calls:
        call()
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(turns):
        for call, taken in zip(calls, times):
            start, number = process_time(), 0
            while number == 0 or process_time() - start < TURN_SECONDS:
                call()
                number += 1
            taken.append((process_time() - start) / number)
    return list(map(min, times))


def fitting(networks: Networks, rules: Sequence[Rule]) -> Iterator[bench.Row]:
    """Yield which rules fit in each network, and in how many places, before any is applied."""
    for name, network in networks.items():
        program = apart(network().model)
        counts: dict[str, int] = {}
        for pattern in RuleSet(tuple(rules)).patterns(convolution_kinds(program)):
            number = sum(1 for _ in islice(_places(pattern, program), MAX_PLACES))
            if number:
                rule = pattern.name.rpartition("/")[2]
                counts[rule] = counts.get(rule, 0) + number
        which = ", ".join(f"{rule} ({number})" for rule, number in counts.items())
        yield {"network": name, "rules": len(counts), "which (places)": which}


def _places(pattern: RulePattern, program: Program) -> Iterator[Any]:
    """Yield the different statements and tensors that a rule fits."""
    known = set()
    parts = [(program, None)]
    parts += [(other, [name]) for other, name in with_neighbours_apart(program)]
    for part, changed in parts:
        for match in matches(pattern, part, changed):
            if match.tensors in known:
                continue
            replacement = replaced(pattern, match, part)
            if replacement is not None and replacement.is_proved():
                known.add(match.tensors)
                yield match


def generated(
    rules: Sequence[Rule], size: int, seconds: float, operators: Sequence[str]
) -> tuple[list[bench.Row], list[bench.Row]]:
    """Return the numbers of each size of a generation over the operators and the inputs of some
    rules, and how many of those whose programs it has follow from what it proved.
    """
    graphs = [rule.graph for rule in rules if rule.graph is not None]
    chosen, shapes = _request(graphs, operators)
    start = process_time()
    search = searched(chosen, shapes or None, size, seconds)  # else inputs of its own
    spent = process_time() - start
    report = search.report()
    instances = RuleInstances(search.space, search.proofs.rewriting)
    verdicts = [instances.follows(graph) for graph in graphs]
    total: bench.Row = {
        "operators": len(search.space.operators),
        "inputs": len(shapes),
        "proved": report.total("proved"),
        "of two outputs": sum(counts.proved for counts in report.sizes if counts.outputs > 1),
        "complete": report.is_complete,
        "s": spent,
        "rules of the set": len(verdicts),
        "of these programs": sum(verdict is not None for verdict in verdicts),
        "derivable": sum(verdict is True for verdict in verdicts),
    }
    return [{**asdict(counts), "size": counts.name} for counts in report.sizes], [total]


def _request(
    graphs: Sequence[RuleGraph], names: Sequence[str]
) -> tuple[list[Any], list[tuple[int, ...]]]:
    """Return the operators of some rules, all or those of some names, with their parameters, and
    the shapes of their leaves that these read.
    """
    parameters: dict[tuple[str, Any], dict[str, list[Any]]] = {}
    shapes: dict[int, tuple[int, ...]] = {}
    for graph in graphs:
        operations = [*graph.before, *graph.after]
        if names and any(operation.operator not in names for operation in operations):
            continue
        for operation in operations:
            values = {key: [value] for key, value in operation.parameters}
            parameters[operation.operator, operation.parameters] = values
        leaves = {leaf.number for leaf in graph.leaves}
        shapes |= {number: shape for number, shape in graph.shapes if number in leaves}
    operators = [(operator, values) for (operator, _), values in parameters.items()]
    return operators, [shapes[number] for number in sorted(shapes)]


def by_set(files: Sequence[Path]) -> dict[str, list[Rule]]:
    """Return the rules of some files by the names of their sets."""
    sets: dict[str, list[Rule]] = {}
    for file in files:
        for rule in load(file):
            sets.setdefault(rule.name.rpartition("/")[0] or file.name, []).append(rule)
    return sets


def main() -> None:
    parser = bench.options(__doc__ or "")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--equations", action="store_true", help="time the different equations")
    parser.add_argument("--control", action="store_true", help="verify wrong rules too")
    parser.add_argument("--models", action="store_true", help="optimize blocks of networks")
    parser.add_argument("--names", nargs="*", default=[], help="of the blocks, all by default")
    parser.add_argument("--networks", nargs="*", default=[], help="of bench.models, to optimize")
    parser.add_argument("--small", action="store_true", help="networks of few channels")
    parser.add_argument("--generate", type=int, metavar="SIZE", help="generate rules of that size")
    parser.add_argument("--operators", nargs="*", default=[], help="of what is generated")
    parser.add_argument("--families", type=int, metavar="SIZE", help="rules of other operators")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each search")
    parser.add_argument("--sets", nargs="*", help="the sets that are looked at")
    arguments = parser.parse_args()
    tables: dict[str, Any] = {}
    if arguments.families:
        counts, rules = generated_of_families(arguments.families, arguments.seconds)
        tables |= {"rules of other operators": counts, "these rules": rules}
    for name, rules in by_set(arguments.files).items():
        if arguments.sets and name not in arguments.sets:
            continue
        if arguments.generate:
            size, seconds = arguments.generate, arguments.seconds
            counts, total = generated(rules, size, seconds, arguments.operators)
            tables[f"programs and rules by size, for {name}"] = counts
            tables[f"rules of {name} that follow"] = total
            continue
        if arguments.equations:
            tables[f"equations of {name}"] = of_equations(name, rules)
            continue
        tables[f"verdicts on {name}"] = by_condition(name, rules)
        if arguments.control:
            tables[f"wrong rules of {name}"] = control(name, rules)
        if arguments.models:
            networks = of_blocks(arguments.names)
            tables[f"rules of {name} that fit"] = fitting(networks, rules)
            tables[f"blocks with {name}"] = gains(networks, rules, arguments.seconds)
        if arguments.networks:
            networks = of_models(arguments.networks, arguments.small)
            tables[f"networks with {name}"] = gains(networks, rules, arguments.seconds)
    bench.report(tables, arguments.json)


if __name__ == "__main__":
    main()
