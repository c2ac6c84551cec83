"""A model operator by operator: what einalg reads it as, beside what its framework computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einalg.frontends.graph import Array, Graph, OpaqueNode, ProgramNode, call_node, execute_program

Exclusions = Mapping[str, str]  # nodes of a framework that stay its own, and why
# Of a value's name, its expected and its computed array: what is wrong, or "".
Judge = Callable[[str, Array, Array], str]


# Of a node of a framework and values by name: the outputs of the node by its definition.
Definition = Callable[[str, Mapping[str, Array]], Mapping[str, Array]]


def no_definition(origin: str, values: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return nothing: the framework's results are the only definition of its operators."""
    return {}


@dataclass(frozen=True)
class Reading:
    """A graph with a node for each operator of a model, and the framework's values for arrays of
    its inputs.

    `origins` are the framework's nodes of these values, by their names in the graph. `definition`
    computes the outputs of one node as what defines them, which `defined_by` names: a standard that
    the framework implements, or its results in another type. Where it is not known, there are none.
    """

    graph: Graph
    origins: Mapping[str, str]
    framework_values: Callable[[Sequence[Array]], Mapping[str, Array]] = field(repr=False)
    definition: Definition = field(default=no_definition, repr=False)
    defined_by: Callable[[str], str] = str

    def misread(self, values: Mapping[str, Array], judge: Judge) -> dict[str, str]:
        """Return the framework's nodes whose values einalg computes otherwise from the framework's
        own values of their inputs, and what is wrong.

        >>> import numpy as np
        >>> from einalg import ops
        >>> from einalg.frontends.graph_builder import GraphBuilder
        >>> b = GraphBuilder()
        >>> b.input("x", (2,), "f32"); b.express("Abs", ("x",), ("y",), ops.relu)
        >>> x = np.array([-1, 1], np.float32)
        >>> reading = Reading(b.graph(["y"]), {"y": "abs_1"}, lambda arrays: {"y": abs(arrays[0])})
        >>> known = {"x": x, **reading.framework_values([x])}
        >>> reading.misread(known, lambda _, a, b: "" if np.array_equal(a, b) else "other")
        {'abs_1': 'other'}
        """
        known: dict[str, Any] = {**self.graph.weights, **values}
        faults: dict[str, str] = {}
        for node in self.graph.nodes:
            for name, array in _computed(node, known).items():
                if name not in values:
                    known[name] = array
                    continue
                origin = self.origins.get(name)
                fault = judge(name, values[name], array)
                if fault and origin is not None:
                    faults.setdefault(origin, fault)
        return faults

    def operator(self, origin: str) -> str:
        """Return the operator of one of the framework's nodes."""
        for node in self.graph.nodes:
            if any(self.origins.get(name) == origin for name in node.outputs):
                return node.operator
        return origin


def _computed(node: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of a node as einalg computes them; none where an input is not known."""
    if any(name not in known for name in node.inputs):
        return {}
    if isinstance(node, OpaqueNode):
        if all(name in known for name in node.outputs):
            return {}
        return call_node(node, [known[name] for name in node.inputs])
    if not isinstance(node, ProgramNode):
        return {}
    with np.errstate(all="ignore"):
        results = execute_program(node.program, known)
        return {name: np.asarray(results[name], dtype) for name, dtype in node.output_dtypes}
