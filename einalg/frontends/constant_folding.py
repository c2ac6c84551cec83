"""Constant folding of graphs: calls of the framework that depend on weights alone."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from einalg.frontends.graph import (
    Array,
    Graph,
    GraphNode,
    OpaqueNode,
    ProgramNode,
    call_node,
    execute_program,
)
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.tensor import Tensor

LOG = logging.getLogger("einalg")
MAX_FOLDED_ELEMENTS = 2**26  # of an array that a call returns and that becomes a weight


def fold_constants(graph: Graph) -> Graph:
    """Return the graph with results of calls that depend on weights alone as weights."""
    values = _ConstantValues(graph.weights)
    remaining = [node for node in graph.nodes if not values.fold(node)]
    if not values.folded:
        return graph
    nodes: list[GraphNode] = []
    for node in remaining:
        if isinstance(node, ProgramNode):
            node = _with_weights(node, values.folded)
        nodes.append(node)
    return replace(graph, weights={**graph.weights, **values.folded}, nodes=tuple(nodes))


class _ConstantValues:
    """The values that are known before a graph is called.

    These are its weights, what programs compute of them, and what calls return for these, which is
    `folded` too.
    """

    def __init__(self, weights: Mapping[str, Array]):
        self.folded: dict[str, Array] = {}
        self._values = dict(weights)
        self._programs: dict[str, ProgramNode] = {}  # by output; computed where a call reads it

    def fold(self, node: GraphNode) -> bool:
        """Return whether a node needs not be called, because its outputs are weights now."""
        if not all(name in self._values or name in self._programs for name in node.inputs):
            return False
        if isinstance(node, ProgramNode):
            self._programs.update(dict.fromkeys(node.outputs, node))
        if not isinstance(node, OpaqueNode) or not node.is_repeatable:
            return False
        try:
            arrays = [self._value(name) for name in node.inputs]
            outputs = call_node(node, arrays, strict=True)
        except Exception as error:  # whatever a framework raises, it does so at a call of the graph
            LOG.debug("einalg: %s cannot be called ahead: %s", node.operator, error)
            return False
        if not all(map(_can_be_weight, outputs.values())):
            return False
        self._values.update(outputs)
        self.folded.update(outputs)
        return True

    def _value(self, name: str) -> Array:
        if name not in self._values:
            node = self._programs[name]
            inputs = {read: self._value(read) for read in node.inputs}
            computed = execute_program(node.program, inputs)
            for output, dtype in node.output_dtypes:
                self._values[output] = np.asarray(computed[output], dtype)
        return self._values[name]


def _can_be_weight(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size <= MAX_FOLDED_ELEMENTS


def _with_weights(node: ProgramNode, names: Container[str]) -> ProgramNode:
    """Return a node for which tensors of these names are weights."""
    weights: dict[str, Tensor] = {}
    for name, tensor in node.program.inputs.items():
        if name in names:
            weights[name] = Tensor(name, tensor.axes, tensor.dtype, "weight")
    if not weights:
        return node
    statements: list[tuple[str, Any]] = []
    for name, scope in node.program.statements:
        read = {tensor: weights[tensor] for tensor in scope.tensors if tensor in weights}
        statements.append((name, substitute_tensors(scope, read)))
    return replace(node, program=Program(statements, node.program.outputs))
