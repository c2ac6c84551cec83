"""Are the rules of a library of rewrites right, and under which conditions?

python -m bench.substitutions FILE... [--control] [--models] [--json PATH]

Verifies each rule of some files, such as TASO's `graph_subst.pb`, and counts the verdicts of each
set by condition, with the time that it took on one core. `--control` also replaces, in each rule,
one leaf of its right side by another one, and counts how many of these wrong rules are caught.
`--models` optimizes blocks of networks with and without the rules, and gives the times of a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time

import bench
import einalg as ea
from bench.blocks import BLOCKS
from derive.substitutions import Rule, RuleVerdict, load, verify
from derive.substitutions.graphs.graph import Leaf, RuleGraph
from derive.substitutions.graphs.kinds import WrongOperation
from derive.substitutions.verification.rule import general_sides
from einalg.api.backend import LocalBackend
from einalg.frontends.random_inputs import random_arrays

MAX_NAMES = 12  # in a row of a table


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


def gains(rules: Sequence[Rule], seconds: float) -> Iterator[bench.Row]:
    """Yield the milliseconds of a call of each block without rules and with them, and which were
    applied.
    """
    for name, block in BLOCKS.items():
        program = block()
        arrays = random_arrays(program.inputs.values())
        calls, changes = [], ""
        for some in ((), rules):
            made = ea.optimize(program, arrays, seconds=seconds, substitutions=some)
            (part,) = made.parts.values()
            calls.append(partial(made, *arrays.values()))
            changes = ", ".join(part.changes)
        without, applied = calls
        measured = LocalBackend().measure_both(without, applied, f"block {name}", False)
        times = {}
        for title, one in zip(("ms without", "ms with"), measured or ()):
            times[title] = 1e3 * one.seconds
        yield {"block": name, **times, "changes": changes}


def by_set(files: Sequence[Path]) -> dict[str, list[Rule]]:
    """Return the rules of some files by the names of their sets."""
    sets: dict[str, list[Rule]] = {}
    for file in files:
        for rule in load(file):
            sets.setdefault(rule.name.rpartition("/")[0] or file.name, []).append(rule)
    return sets


def main() -> None:
    parser = bench.options(__doc__ or "")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--control", action="store_true", help="verify wrong rules too")
    parser.add_argument("--models", action="store_true", help="optimize blocks of networks")
    parser.add_argument("--seconds", type=float, default=120.0, help="for each optimization")
    arguments = parser.parse_args()
    tables = {}
    for name, rules in by_set(arguments.files).items():
        tables[f"verdicts on {name}"] = by_condition(name, rules)
        if arguments.control:
            tables[f"wrong rules of {name}"] = control(name, rules)
        if arguments.models:
            tables[f"models with {name}"] = gains(rules, arguments.seconds)
    bench.report(tables, arguments.json)


if __name__ == "__main__":
    main()
