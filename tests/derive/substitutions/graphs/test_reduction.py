"""More general rules: their convolutions and their leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import einalg as ea
from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.reduction import renamed_apart, without_activation
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
