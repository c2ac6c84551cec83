"""More general rules: their convolutions and their leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import einalg as ea
from derive.substitutions.graphs.graph import Leaf, RuleGraph
from derive.substitutions.graphs.ordered_leaves import with_ordered_leaves
from derive.substitutions.graphs.reduction import (
    nests_sums,
    parts,
    renamed_apart,
    without_activation,
)
from tests.helpers.rule_files import conv, op, rule, write


def graph_of(folder: Path, content: dict[str, Any]) -> RuleGraph:
    (one,) = ea.substitutions.load(write(folder, content))
    assert one.graph is not None
    return one.graph


def test_convolutions_keep_their_order_without_their_activation(tmp_path: Path) -> None:
    side = [conv(3, 4, "relu"), conv(1, 2, "relu"), op("concat", "1", "0", axis=1, ndim=4)]
    graph = graph_of(tmp_path, rule("same", side, side))
    inner = without_activation(graph)
    assert inner is not None
    for operations, with_relu in zip(inner.sides, graph.sides):
        assert [one.operator for one in operations] == ["conv2d", "conv2d", "concat"]
        assert [one.inputs for one in operations] == [one.inputs for one in with_relu]
        assert not any(value == "relu" for one in operations for _, value in one.parameters)


def test_occurrences_of_a_leaf_are_new_leaves(tmp_path: Path) -> None:
    product = [op("matmul", 2, 1), op("matmul", "0", 2)]
    graph = graph_of(tmp_path, rule("same", product, product))
    general = renamed_apart(graph)
    assert general and not any(set(one.leaves) & set(graph.leaves) for one in general)


def test_parts_are_computed_from_the_same_leaves(tmp_path: Path) -> None:
    src = [op("matmul", 1, 2), op("relu", 1), op("matmul", "0", 3)]
    dst = [op("relu", 1), op("matmul", 2, 3), op("matmul", 1, "1")]
    graph = graph_of(tmp_path, rule("associative", src, dst))
    assert [part.leaves for _, _, part in parts(graph)] == [(Leaf(1),)]


def test_sums_inside_sums(tmp_path: Path) -> None:
    nested = [conv(1, 2), op("relu", "0"), conv("1", 3)]
    flat = [conv(1, 2), conv(3, 4), op("ewadd", "0", "1")]
    assert nests_sums(graph_of(tmp_path, rule("nested", nested, nested)))
    for sides in ((nested, flat), (flat, nested), (flat, flat)):
        assert not nests_sums(graph_of(tmp_path, rule("flat", *sides)))


def test_no_activation_is_one_that_is_not_stated(tmp_path: Path) -> None:
    stated, unstated = conv(1, 2), conv(1, 2)
    del unstated["params"]["act"]
    graphs = [graph_of(tmp_path, rule("same", [one], [one])) for one in (stated, unstated)]
    assert graphs[0] != graphs[1]
    assert with_ordered_leaves(graphs[0])[0] == with_ordered_leaves(graphs[1])[0]
