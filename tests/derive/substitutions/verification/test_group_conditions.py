"""Conditions on groups are exact: a random choice of groups meets the inferred one where both sides
are equal there, and nowhere else; a looser one allows a choice at which they differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import islpy as isl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.taps import choices_of_taps
from derive.substitutions.graphs.typed_rule import typed
from derive.substitutions.sizes.building import programs
from derive.substitutions.sizes.sizing import OpenSizes, Sizing
from derive.substitutions.verification.comparing import compared, differ
from derive.substitutions.verification.counterexamples import differs_with
from derive.substitutions.verification.verdict import RuleVerdict
from tests.helpers.rule_files import conv, op, rule, write

Convolution = tuple[int, int, int]  # groups, and channels that each reads and gives
CHANNELS, FEATURES = {"axis": 1, "ndim": 4}, {"axis": 0, "ndim": 4}
# The data and the weights of each convolution on the left side are leaves: (1, 2) and (3, 4), or,
# where both read one image, (1, 2) and (1, 4).
SHAPES = {
    "sum": (op("ewadd", "0", "1"), 3, op("concat", 2, 4, **CHANNELS)),
    "parts": (op("concat", "0", "1", **CHANNELS), 3, op("concat", 2, 4, **FEATURES)),
    "one image": (op("concat", "0", "1", **CHANNELS), 1, op("concat", 2, 4, **FEATURES)),
}
CONVOLUTIONS = list(product(range(1, 4), range(1, 3), range(1, 4)))
RULES = st.tuples(
    st.sampled_from(list(SHAPES)),
    st.sampled_from([{"pad": "same"}, {"pad": "valid", "stride": [2, 2]}, {"kernel": [1, 1]}]),
    st.booleans(),
)


def merged(shape: str, parameters: dict[str, Any], is_swapped: bool) -> dict[str, Any]:
    """Return a rule that makes one convolution of two."""
    last, second, weights = SHAPES[shape]
    before = [conv(1, 2, **parameters), conv(second, 4, **parameters), last]
    data: list[Any] = [op("concat", 1, 3, **CHANNELS)] if second == 3 else []
    image = str(len(data)) if data else 1
    after = [weights, *data, conv("1" if data else image, "0", **parameters)]
    sides = (after, before) if is_swapped else (before, after)
    return rule(shape, *sides)


def graph_of(folder: Path, content: dict[str, Any]) -> tuple[RuleGraph, RuleVerdict]:
    (one,) = ea.substitutions.load(write(folder, content))
    assert one.graph is not None
    return one.graph, ea.substitutions.verify(one)


def sizing_of(graph: RuleGraph, convolutions: list[Convolution], taps: int) -> Sizing | None:
    """Return the sizes of a rule with some groups; None where its operators do not allow them."""
    sizes: dict[int, tuple[int, ...]] = {}
    leaves = {leaf.number for leaf in graph.leaves}
    for (groups, depth, outputs), (data, weights) in zip(
        convolutions, [(1, 2), (3 if 3 in leaves else 1, 4)]
    ):
        shape = 1, groups * depth, 4, 4
        if sizes.setdefault(data, shape) != shape:
            return None
        sizes[weights] = groups * outputs, depth, taps, taps
    typed_rule = typed(graph)
    numbers = {}
    for leaf in graph.leaves:
        numbers |= dict(zip(typed_rule.tensors[leaf], sizes[leaf.number]))
    (choice,) = choices_of_taps(typed_rule)
    return OpenSizes(typed_rule, choice).at(numbers)


@cache
def choices(shape: str) -> list[list[Convolution]]:
    """Return the groups of both convolutions that the operators of a rule allow."""
    with TemporaryDirectory() as folder:
        content = merged(shape, {"kernel": [1, 1]}, False)
        (one,) = ea.substitutions.load(write(Path(folder), content))
    assert one.graph is not None
    pairs = map(list, product(CONVOLUTIONS, repeat=2))
    return [pair for pair in pairs if sizing_of(one.graph, pair, 1) is not None]


def allows(condition: isl.Set, sizing: Sizing) -> bool:
    """Return whether a condition allows a choice of groups."""
    parts = []
    for number, (groups, outputs) in enumerate(sizing.groups, start=1):
        parts += [f"G{number} = {groups}", f"P{number} = {outputs}"]
    names = ", ".join(part.split()[0] for part in parts)
    point = isl.Set(f"[{names}] -> {{ : {' and '.join(parts)} }}")
    return not condition.intersect(point).is_empty()


def loosened(condition: isl.Set) -> Iterator[isl.Set]:
    """Yield conditions with one constraint less, or of one side of an equation only."""
    (basic,) = condition.get_basic_sets()
    constraints = basic.get_constraints()
    for dropped in constraints:
        if not dropped.is_equality():
            continue
        rest = isl.BasicSet.universe(basic.get_space())
        for other in constraints:
            if other is not dropped:
                rest = rest.add_constraint(other)
        without = isl.Set.from_basic_set(rest)
        side = dropped.get_aff()
        for looser in (without, without.intersect(side.ge_set(side.sub(side)))):
            if not looser.is_subset(condition):
                yield looser


def check_condition(folder: Path, content: dict[str, Any], choice: list[Convolution]) -> None:
    """Compare a condition with what is computed at a choice of groups."""
    graph, verdict = graph_of(folder, content)
    assert verdict.condition is not None and verdict.counterexample is not None, verdict
    assert differs_with(graph, verdict.counterexample)
    sizing = sizing_of(graph, choice, content_taps(content))
    assert sizing is not None
    is_different = differ(*programs(typed(graph), sizing))
    assert allows(verdict.condition, sizing) != is_different, (verdict, sizing.groups)


def content_taps(content: dict[str, Any]) -> int:
    operations = [*content["src"], *content["dst"]]
    return next(one["params"]["kernel"][0] for one in operations if one["op"] == "conv2d")


QUICK = settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
THOROUGH = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(RULES, st.data())
def test_a_condition_on_groups_is_exact(tmp_path: Path, rule: Any, data: Any) -> None:
    check_condition(tmp_path, merged(*rule), data.draw(st.sampled_from(choices(rule[0]))))


@pytest.mark.nightly
@THOROUGH
@given(RULES, st.data())
def test_many_conditions_on_groups_are_exact(tmp_path: Path, rule: Any, data: Any) -> None:
    check_condition(tmp_path, merged(*rule), data.draw(st.sampled_from(choices(rule[0]))))


@pytest.mark.parametrize("shape", SHAPES)
def test_choices_of_groups_are_of_both_kinds(tmp_path: Path, shape: str) -> None:
    """Some meet the condition that is inferred, and some do not, so that both are compared."""
    graph, verdict = graph_of(tmp_path, merged(shape, {"kernel": [1, 1]}, False))
    met = []
    for choice in choices(shape):
        sizing = sizing_of(graph, choice, 1)
        assert sizing is not None
        met.append(allows(verdict.condition, sizing))
    assert min(met.count(True), met.count(False)) > 4


@pytest.mark.parametrize("shape", SHAPES)
def test_a_looser_condition_on_groups_is_wrong(tmp_path: Path, shape: str) -> None:
    content = merged(shape, {"kernel": [1, 1]}, False)
    graph, verdict = graph_of(tmp_path, content)
    assert verdict.condition is not None
    few = list(product((1, 2), (1,), (1, 2, 3)))
    differing = []
    for choice in product(few, few):
        sizing = sizing_of(graph, list(choice), 1)
        if sizing is not None and not allows(verdict.condition, sizing):
            differing.append(sizing)
    conditions = list(loosened(verdict.condition))
    assert conditions
    for condition in conditions:
        witnesses = [sizing for sizing in differing if allows(condition, sizing)]
        assert any(differ(*programs(typed(graph), sizing)) for sizing in witnesses), condition


def test_wrong_rules_are_compared_at_few_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differs for one group of one output has no condition, and no smaller counterexample."""
    before = [conv(1, 2), conv(3, 4), op("ewadd", "0", "1")]
    after = [conv(1, 4), conv(3, 2), op("ewadd", "0", "1")]
    choices = []

    def counted(*arguments: Any) -> Any:
        choices.append(arguments)
        return compared(*arguments)

    monkeypatch.setattr("derive.substitutions.verification.groups.compared", counted)
    _, verdict = graph_of(tmp_path, rule("wrong", before, after))
    assert verdict.verdict == "different" and verdict.region is not None
    assert len(choices) <= 4
