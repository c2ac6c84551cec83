"""The judgement of values of a framework beside those of a graph, with values that are made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import einalg as ea
from derive.programs import OptimizedNetwork, OptimizedProgram
from derive.programs.optimized_program import SPREADING
from einalg.api.verification import localisation
from einalg.api.verification.localisation import Faults, Localisation
from einalg.frontends.graph import Graph, ProgramNode
from einalg.frontends.reading import Reading
from einalg.language.ir.program import Program, as_program

ONES = np.ones(4)
READS_ONE = as_program(ea.parse("O[i] = x[i]", x=(4,)))
ADDS_WEIGHTS = as_program(
    ea.parse(
        "V[()] = w[0] + w[1]\nO[i] = x[i]*V[()]", x=(4,), w=ea.tensor("w", (2,), role="weight")
    )
)
WEIGHTS = {"w": np.array([2.0, -1.0])}
READS_ALL = as_program(ea.parse("O[i] = x[i] + Sum[j](y[j])", x=(4,), y=(4,)))


def node_of(program: Program) -> ProgramNode:
    return ProgramNode("own", tuple(program.inputs), program.outputs, program)


def network_of(program: Program, run: Callable[..., Any], rules: list[str]) -> OptimizedNetwork:
    """Return a network of one program, which runs as `run` and has a layer made by rules."""
    moves = [SimpleNamespace(rule=rule) for rule in rules]
    layer: Any = SimpleNamespace(names=["O"], candidate=SimpleNamespace(moves=moves))
    part = OptimizedProgram(program, program, lambda: [layer], run=run)  # pyright: ignore
    weights = {name: WEIGHTS[name] for name in program.inputs if name in WEIGHTS}
    inputs = tuple(tensor for name, tensor in program.inputs.items() if name not in weights)
    graph = Graph(inputs, weights, (node_of(program),), program.outputs)
    return OptimizedNetwork(graph, {0: part}, 0.0)


def judged(
    values: dict[str, Any],
    rough: dict[str, Any],
    network: Any = None,
    expected: Any = None,
    may_spread: bool = False,
) -> Localisation:
    """Return a localisation that knows the framework's values."""
    reading: Any = SimpleNamespace(
        graph=Graph((), {}, (node_of(READS_ONE),), ("O",)),
        misread=lambda values, judge: {},
        origins={"O": "node"},
    )
    original = SimpleNamespace(name="torch")
    example: Any = SimpleNamespace(expected=expected, name="one NaN", original=original)
    result = Localisation(reading, example, network, None, may_spread)
    result.__dict__.update(values=values, rough_values=rough)
    return result


@pytest.mark.parametrize(
    ("result", "rough", "is_model"),
    [
        (ONES, ONES, True),
        (1.5 * ONES, ONES, False),
        (1.5 * ONES, 1.1 * ONES, True),  # other rounding changes as much
        (np.full(4, np.nan), ONES, False),
    ],
)
def test_a_graph_is_the_model_where_its_results_are(
    result: Any, rough: Any, is_model: bool
) -> None:
    known = judged({"O": ONES}, {"O": rough}, expected=[(result, "f32")])
    assert known.is_model is is_model


def test_a_graph_is_the_model_where_nothing_says_that_it_is_not() -> None:
    assert judged({}, {}, expected=[(ONES, "f32")]).is_model
    assert judged({"O": ONES}, {"O": ONES}, expected=[]).is_model


def test_forms_spread_nans_where_they_may() -> None:
    (rule,) = SPREADING
    spreading, other = (network_of(READS_ONE, dict, rules) for rules in ([rule], ["fusion"]))
    assert judged({}, {}, spreading, may_spread=True).is_spread
    assert not judged({}, {}, spreading).is_spread
    assert not judged({}, {}, other, may_spread=True).is_spread
    assert not judged({}, {}, len, may_spread=True).is_spread


class Computed:
    """What is computed of a program, with `wrong` in the place of some elements."""

    def __init__(self, program: Program, wrong: dict[int, float]):
        self.program, self.wrong = program, wrong

    def __call__(self, **arrays: Any) -> Any:
        weights = {name: WEIGHTS[name] for name in self.program.inputs if name in WEIGHTS}
        result = np.array(ea.evaluate(self.program, **arrays, **weights), float)
        for place, element in self.wrong.items():
            result[place] = element
        return result


@pytest.mark.parametrize(
    ("wrong", "may_spread", "is_fault"),
    [
        ({}, False, True),  # the form makes all NaN
        ({}, True, False),
        ({0: 7.0}, True, True),  # a NaN is lost, which no form does
    ],
)
def test_how_far_a_nan_may_reach(
    wrong: dict[int, float], may_spread: bool, is_fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as it does in the form as it is written: here everywhere, by a sum of very little."""
    (rule,) = SPREADING
    x, y = np.arange(4.0), np.array([0, np.nan, 0, 1e-30])
    program = READS_ALL
    values = {"x": x, "y": y, "O": np.where(np.arange(4) == 0, np.nan, x)}
    network = network_of(program, Computed(program, wrong), [rule])
    monkeypatch.setattr(Localisation, "_of_part", lambda self, position, node, part, fault: fault)
    known = judged(values, {}, network, may_spread=may_spread)
    fault: Any = known.faults()
    assert (isinstance(fault, str) and "einalg deviates from torch on one NaN" in fault) is is_fault
    if not is_fault:
        monkeypatch.setattr(localisation, "MAX_REACH_OPERATIONS", 0)
        assert not judged(values, {}, network, may_spread=True).faults().nodes


@pytest.mark.parametrize(
    ("read", "wrong", "may_spread", "is_fault"),
    [
        (np.inf, {}, True, False),  # as the form has it
        (np.inf, {}, False, True),
        (np.inf, {1: 7.0}, True, True),  # the form has no number there
        (np.inf, {0: np.inf}, True, True),  # nor an infinity here
        (np.inf, {1: -np.inf}, True, True),  # nor one of another sign
        (np.inf, {1: np.nan, 2: np.nan}, True, True),  # nor NaN
        (5.0, {}, True, True),  # of numbers alone no form has other results
        (np.nan, {1: np.inf}, True, True),  # a NaN is NaN in any form
    ],
)
def test_infinities_may_be_multiplied_by_added_weights(
    read: float, wrong: dict[int, float], may_spread: bool, is_fault: bool
) -> None:
    """Where weights of different signs multiply one, the framework has NaN."""
    values = {"x": np.array([0, read, 2, 3]), "O": np.array([0, np.nan, 2, 3])}
    network = network_of(ADDS_WEIGHTS, Computed(ADDS_WEIGHTS, wrong), [])
    known = judged(values, {}, network, may_spread=may_spread)
    fault = known._fault_of(node_of(ADDS_WEIGHTS), network.parts[0], network.parts[0].run)
    assert bool(fault) is is_fault
    assert bool(known.adding) is not is_fault
    assert not known.is_spread


@pytest.mark.parametrize("program", [ADDS_WEIGHTS, READS_ONE])
def test_infinities_are_compared_in_forms_that_add_no_weights_or_take_long(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nothing tells to be allowed is a fault."""
    if program is ADDS_WEIGHTS:
        monkeypatch.setattr(localisation, "MAX_REACH_OPERATIONS", 0)
    values = {"x": np.array([0, np.inf, 2, 3]), "O": np.array([0, np.nan, 2, 3])}
    network = network_of(program, Computed(program, {}), [])
    known = judged(values, {}, network, may_spread=True)
    assert known._fault_of(node_of(program), network.parts[0], network.parts[0].run)
    assert not known.adding


def test_only_what_is_computed_of_added_weights_may_have_other_infinities() -> None:
    programs = {
        "O": ADDS_WEIGHTS,
        "Y": as_program(ea.parse("Y[i] = O[i]", O=(4,))),
        "Z": as_program(ea.parse("Z[i] = x[i]", x=(4,))),
    }
    nodes = [
        ProgramNode("own", tuple(program.inputs), (name,), program)
        for name, program in programs.items()
    ]
    graph = Graph(tuple(READS_ONE.inputs.values()), WEIGHTS, tuple(nodes), ("Y", "Z"))
    parts = {
        place: OptimizedProgram(node.program, node.program, run=Computed(node.program, {}))
        for place, node in enumerate(nodes)
    }
    network, arrays = OptimizedNetwork(graph, parts, 0.0), [(ONES, "f32"), (ONES, "f32")]
    known = judged({}, {}, network, arrays, may_spread=True)
    assert not known.are_of_added_weights([0])
    known.adding.add("O")
    assert known.are_of_added_weights([0])
    assert not known.are_of_added_weights([1]) and not known.are_of_added_weights([0, 1])
    known = judged({}, {}, network, [(np.array(3), "int"), *arrays], may_spread=True)
    known.adding.add("O")
    assert not known.are_of_added_weights([1])  # a number stands before the tensors


@pytest.mark.parametrize(
    ("defined", "expected", "may_spread", "is_fault"),
    [
        (np.full(4, np.nan), np.arange(4.0), True, False),
        (np.full(4, np.nan), np.arange(4.0), False, True),  # NaNs are to be where they are there
        (np.full(4, np.nan), 2 + np.arange(4.0), True, False),  # which numbers, does not matter
        (np.array([0.0, 1, 2, np.nan]), np.arange(4.0), True, True),  # the definition has numbers
        (np.full(4, np.inf), np.arange(4.0), True, True),  # nor is it NaN
        (np.full(4, np.nan), np.full(4, np.inf), True, False),  # nor do infinities
        (None, np.arange(4.0), True, True),  # no definition is known
    ],
)
def test_what_the_framework_computes_otherwise_than_defined_is_no_fault(
    defined: Any, expected: Any, may_spread: bool, is_fault: bool
) -> None:
    """Where the definition of an operator has NaN as einalg has, and the framework something else."""
    program = READS_ALL
    values = {"x": np.arange(4.0), "y": np.array([0, np.nan, 0, 1]), "O": expected}

    def definition(origin: str, known: Any) -> dict[str, Any]:
        assert origin == "node" and known is values
        return {} if defined is None else {"O": defined}

    graph = Graph(tuple(program.inputs.values()), {}, (node_of(program),), ("O",))
    reading = Reading(graph, {"O": "node"}, lambda arrays: values, definition)
    network = network_of(program, Computed(program, {}), [])
    known = replace(judged(values, {}, network, may_spread=may_spread), reading=reading)
    known.__dict__.update(values=values, rough_values={})
    faults = known.faults()
    assert (list(faults.nodes) == ["node"]) is is_fault
    assert (known.undefined == {"node"}) is not is_fault
    assert known.is_spread is not is_fault


@pytest.mark.parametrize(
    ("wrong", "is_defined", "is_fault"),
    [
        ({}, True, False),  # the number that follows from the definition
        ({1: 5.0}, True, True),  # another one
        ({1: np.nan}, True, False),  # what the framework has
        ({0: np.nan}, True, True),  # a NaN where both have a number
        ({0: 5.0}, True, True),
        ({}, False, True),
    ],
)
def test_numbers_may_follow_from_what_the_framework_computes_otherwise_than_defined(
    wrong: dict[int, float], is_defined: bool, is_fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The framework has NaN for an infinity at first, of which its next operator has NaN too."""
    first = Program([("T", ea.parse("T[i] = x[i]", x=(4,)))], ["T"])
    second = as_program(ea.parse("O[i] = exp(-T[i])", T=(4,)))
    whole = as_program(ea.parse("T[i] = x[i]\nO[i] = exp(-T[i])", x=(4,)))
    x = np.array([1, np.inf, 2, 3])
    known = np.where(np.isinf(x), np.nan, x)
    values = {"x": x, "T": known, "O": np.exp(-known)}

    def definition(origin: str, values: Any) -> dict[str, Any]:
        return {"T": x} if is_defined and origin == "first" else {}

    graph = Graph(tuple(first.inputs.values()), {}, tuple(map(node_of, (first, second))), ("O",))
    origins = {"T": "first", "O": "second"}
    reading = Reading(graph, origins, lambda arrays: values, definition)
    network = network_of(whole, Computed(whole, wrong), [])
    judge = replace(judged(values, {}, network, may_spread=True), reading=reading)
    judge.__dict__.update(values=values, rough_values={})
    monkeypatch.setattr(
        Localisation, "_of_part", lambda self, *arguments: Faults({"part": arguments[-1]})
    )
    assert bool(judge.faults().nodes) is is_fault


def test_what_the_framework_does_not_tell_is_not_judged() -> None:
    """Neither programs whose inputs are not known, nor outputs that are not."""
    network = network_of(READS_ONE, Computed(READS_ONE, {2: 9.0}), [])
    for values in ({"O": ONES}, {"x": ONES}):
        faults = judged(values, {}, network).faults()
        assert not faults.nodes and faults.replaced is None
