"""Programs of each size, and their fingerprints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from derive.substitutions.generation.programs.enumeration import ProgramEnumeration
from derive.substitutions.generation.programs.growing import SpaceGrowth, grow, grow_last
from derive.substitutions.generation.programs.operators import operators_of
from derive.substitutions.generation.programs.space import ProgramSpace

MATRICES = [(2, 3), (2, 3), (3, 3)]
CONVOLUTION = [(1, 2, 3, 3), (2, 2, 3, 3), (2, 1, 3, 3)]


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
        ([("softmax", {"axis": [0, 1]}), "add"], MATRICES),
    ],
)
def test_fingerprints_without_values_are_those_of_values(operators: Any, shapes: Any) -> None:
    """Linear functions of one input give the classes that evaluating each program gives."""
    space, growth = grown(operators, shapes, 2, last=False)
    other_space, other = grown(operators, shapes, 2, last=True)
    assert growth[:2] == other[:2]
    assert set(growth.repeated) != set() and len(growth.repeated) == len(other.repeated)
    pairs = [(node, space.classes[place].node) for node, place in growth.repeated]
    others = [(node, other_space.classes[place].node) for node, place in other.repeated]
    assert set(pairs) == set(others)


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
