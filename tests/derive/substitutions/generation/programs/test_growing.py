"""Programs of each size, and their fingerprints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

import einalg as ea
from derive.substitutions.generation.programs.enumeration import ProgramEnumeration
from derive.substitutions.generation.programs.growing import SpaceGrowth, grow, grow_last
from derive.substitutions.generation.programs.leaf_order import LeafOrder
from derive.substitutions.generation.programs.operators import operators_of
from derive.substitutions.generation.programs.space import AppliedNode, ProgramSpace

MATRICES = [(2, 3), (2, 3), (3, 3)]
CONVOLUTION = [(1, 2, 3, 3), (2, 2, 3, 3), (2, 1, 3, 3)]


def relu_of_product(x: Any, y: Any) -> Any:
    return ea.ops.relu(ea.ops.matmul(x, y))


def grown(
    operators: Sequence[Any], shapes: Any, size: int, last: bool
) -> tuple[ProgramSpace, SpaceGrowth]:
    space = ProgramSpace(operators_of(operators, shapes), shapes)
    enumeration = ProgramEnumeration(space, set())
    for current in range(1, size):
        grow(enumeration, current, lambda _: True)
    function = grow_last if last else grow
    return space, function(enumeration, size, lambda _: True)


@pytest.mark.parametrize(
    ("operators", "shapes"),
    [
        (["ewadd", "ewmul", "matmul", "transpose", "relu"], MATRICES),
        (["concat", "split", "ewadd"], MATRICES),
        (["conv2d", "enlarge", "poolavg", "const_pool"], CONVOLUTION),
        ([relu_of_product, "ewadd", "transpose"], MATRICES),
        ([("softmax", {"axis": [0, 1]}), "add"], MATRICES),
    ],
)
def test_fingerprints_without_values_are_those_of_values(operators: Any, shapes: Any) -> None:
    """Linear functions of one input give the classes that evaluating each program gives, of the
    programs that read the first inputs of each shape.
    """
    space, growth = grown(operators, shapes, 2, last=False)
    other_space, other = grown(operators, shapes, 2, last=True)
    assert 0 < other.enumerated <= growth.enumerated
    assert other.enumerated == other.distinct + len(other.repeated)
    assert shared(space) == shared(other_space) != set()


def shared(space: ProgramSpace) -> set[frozenset[AppliedNode]]:
    """Return the sets of programs of one value, of those of one operation and those that read the
    first inputs.
    """
    order = LeafOrder(space)
    sets = set()
    for one in space.classes:
        nodes = []
        for node in one.nodes:
            is_small = all(space.classes[place].size == 0 for place in node.inputs)
            if is_small or order.first([np.array([place]) for place in node.inputs]).all():
                nodes.append(node)
        if len(nodes) + (one.leaf is not None) > 1:
            sets.add(frozenset(nodes))
    return sets


def test_classes_are_values() -> None:
    """The programs of a class have one value, those of different classes different ones."""
    space, _ = grown(["ewadd", "ewmul", "transpose"], MATRICES, 2, last=False)
    field = space.field.modulus
    for number, one in enumerate(space.classes):
        for node in one.nodes:
            name = space.operators[node.operator].name
            inputs = [space.classes[place].values for place in node.inputs]
            expected: Any = {
                "ewadd": lambda a, b: (a + b) % field,
                "ewmul": lambda a, b: a * b % field,
                "transpose": lambda a: a.swapaxes(1, 2),
            }[name](*inputs)
            assert np.array_equal(one.values, expected)  # pyright: ignore
        for other in space.classes[:number]:
            assert not np.array_equal(one.values, other.values)  # pyright: ignore


def test_every_program_is_enumerated_once() -> None:
    """Sums of vectors: in one operation two are added; in two, three, or a sum to itself."""
    shapes = [(2,)] * 4
    space = ProgramSpace(operators_of(["ewadd"], shapes), shapes)
    enumeration = ProgramEnumeration(space, set())
    two, three = [len(list(combinations_with_replacement(shapes, count))) for count in (2, 3)]
    assert grow(enumeration, 1, lambda _: True)[:2] == (len(shapes) ** 2, two)
    assert grow(enumeration, 2, lambda _: True)[:2] == (2 * two * len(shapes) + two, three + two)
    nodes = [node for one in space.classes for node in one.nodes]
    assert len(nodes) == len(set(nodes)) == len(space.by_node)


def test_splits_undo_the_joining() -> None:
    shapes = [(1, 2), (3, 2)]
    space, growth = grown(
        [("concat", {"axis": [0]}), ("split", {"axis": [0], "n": [2]})], shapes, 2, last=False
    )
    values = {space.classes[place].leaf for node, place in growth.repeated if node.operator == 1}
    assert values == {0, 1}
    assert all(space.types[one.type].shape[1] == 2 for one in space.classes)


def test_truth_values_are_no_numbers() -> None:
    """The larger one of two vectors is the first one where that is greater."""
    shapes = [(3,)] * 2
    for seed in range(4):
        space = ProgramSpace(operators_of(["where", "greater", "maximum"], shapes), shapes, seed)
        enumeration = ProgramEnumeration(space, set())
        grow(enumeration, 1, lambda _: True)
        grow(enumeration, 2, lambda _: True)
        comparison = space.by_node[AppliedNode(1, (0, 1))]
        assert space.types[space.classes[comparison].type].dtype == "bool"
        larger = space.by_node[AppliedNode(2, (0, 1))]
        assert space.by_node[AppliedNode(0, (comparison, 0, 1))] == larger
        assert space.by_node[AppliedNode(0, (comparison, 1, 0))] != larger
