"""Rules as JSON, in the form that `json_file` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from derive.substitutions.graphs.graph import Leaf, Operation, RuleGraph, Source
from derive.substitutions.verification.rule import Substitution
from einalg.language.index.size import is_number
from einalg.language.ir.program import Program


def text_of_rules(rules: Iterable[Substitution]) -> str:
    """Return the text of a file of rules, one a line.

    >>> import einalg as ea
    >>> print(text_of_rules([ea.substitutions.Rule("one", "O[i] = 1*A[i]", "O[i] = A[i]", A=(2,))]))
    {"rules": [
    {"name": "one", "before": "O[i:2] = A[i]", "after": "O[i:2] = A[i]", "shapes": {"A": [2]}}
    ]}
    """
    lines = [json.dumps(_object(rule)) for rule in rules]
    return '{"rules": [\n' + ",\n".join(lines) + "\n]}"


def _object(rule: Substitution) -> dict[str, Any]:
    content: dict[str, Any] = {"name": rule.name}
    if rule.graph is not None:
        return content | _of_graph(rule.graph)
    before, after = rule.sides
    return content | {"before": str(before), "after": str(after), **_shapes((before, after))}


def _of_graph(graph: RuleGraph) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for side, operations in zip(("src", "dst"), graph.sides):
        content[side] = [_operation(operation) for operation in operations]
    outputs = []
    for before, after in graph.outputs:
        outputs.append({"src": _source(before), "dst": _source(after)})
    content["outputs"] = outputs
    if graph.shapes:
        content["leaf_shapes"] = {str(number): list(shape) for number, shape in graph.shapes}
    return content


def _operation(operation: Operation) -> dict[str, Any]:
    return {
        "op": operation.operator,
        "params": dict(operation.parameters),
        "inputs": [_source(source) for source in operation.inputs],
    }


def _source(source: Source) -> list[Any]:
    if isinstance(source, Leaf):
        return ["in", source.number]
    return ["op", source.operation, source.output]


def _shapes(sides: Sequence[Program]) -> dict[str, Any]:
    """Return the shapes of the tensors of two programs, and the bounds of their sizes."""
    shapes: dict[str, list[Any]] = {}
    bounds: dict[str, dict[str, Any]] = {}
    for program in sides:
        for name, tensor in program.inputs.items():
            entries = []
            for extent in tensor.shape:
                entries.append(int(extent) if is_number(extent) else str(extent))  # pyright: ignore
            shapes[name] = entries
        for name, size in program.sizes.items():
            bounds[name] = {
                "at_least": size.at_least,
                "at_most": size.at_most,
                "multiple_of": size.multiple_of,
            }
    content: dict[str, Any] = {"shapes": shapes}
    if bounds:
        content["sizes"] = bounds
    return content
