"""Small rule files, and rules of them with one leaf replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from derive.substitutions.graphs.graph import Leaf, Operation, RuleGraph

CONV = {"stride": [1, 1], "pad": "same"}
K3 = {"kernel": [3, 3]}


def op(operator: str, *inputs: Any, **parameters: Any) -> dict[str, Any]:
    """An operation; an integer reads a leaf, a string the operation of that place."""
    sources = []
    for source in inputs:
        sources.append(["op", int(source), 0] if isinstance(source, str) else ["in", source])
    return {"op": operator, "params": parameters, "inputs": sources}


def rule(name: str, src: list[Any], dst: list[Any], *outputs: Any) -> dict[str, Any]:
    """A rule whose output is the last operation of each side, if no pairs are given."""
    pairs = outputs or ({"src": [len(src) - 1, 0], "dst": [len(dst) - 1, 0]},)
    return {"name": name, "src": src, "dst": dst, "outputs": list(pairs)}


def conv(data: Any, weight: Any, act: str = "none", **parameters: Any) -> dict[str, Any]:
    return op("conv2d", data, weight, **{**CONV, **K3, "act": act, **parameters})


def write(folder: Path, *rules: dict[str, Any]) -> Path:
    path = folder / "rules.json"
    path.write_text(json.dumps({"sets": {"set": {"rules": list(rules)}}}))
    return path


def with_wrong_leaf(graph: RuleGraph) -> list[RuleGraph]:
    """The rules in which one reading of a leaf on the right reads another leaf of the rule."""
    rules = []
    for place, operation in enumerate(graph.after):
        for position, source in enumerate(operation.inputs):
            for leaf in graph.leaves:
                if isinstance(source, Leaf) and leaf != source:
                    inputs = list(operation.inputs)
                    inputs[position] = leaf
                    after = list(graph.after)
                    after[place] = Operation(
                        operation.operator, operation.parameters, tuple(inputs)
                    )
                    rules.append(RuleGraph(graph.before, tuple(after), graph.outputs, graph.shapes))
    return rules
