"""The values of an ATen graph as torch computes them, node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from einalg.frontends.graph import Array
from einalg.frontends.torch.nodes.opaque_call import map_nodes
from einalg.frontends.torch.nodes.tensors import array_of, tensor_of

if TYPE_CHECKING:
    from torch import fx


def framework_values(
    graph: fx.Graph,
    constant: Callable[[fx.Node], Any],
    values: Mapping[fx.Node, Any],
    inputs: Sequence[str],
) -> Callable[[Sequence[Array]], dict[str, Array]]:
    """Return a function from arrays of the inputs to torch's values, by their names.

    `values` are these names by nodes, or lists of them for a node with several results, as
    `GraphImporter` has them. `constant(node)` is the value of a node that is no call and no input.
    """
    names = [(node, name) for node, name in values.items() if name is not None]

    def compute(arrays: Sequence[Array]) -> dict[str, Array]:
        inputs_by_name = dict(zip(inputs, arrays))
        computed = _run(graph, constant, values, inputs_by_name)
        results: dict[str, Array] = dict(inputs_by_name)
        for node, name in names:
            parts = [(name, computed.get(node))]
            if not isinstance(name, str):
                parts = list(zip(name, computed.get(node) or ()))
            for part_name, value in parts:
                array = _array(value)
                if part_name is not None and array is not None:
                    results.setdefault(part_name, array)
        return results

    return compute


def origins(values: Mapping[fx.Node, Any]) -> dict[str, str]:
    """Return the nodes that values come from, by the names of the values."""
    nodes: dict[str, str] = {}
    for node, name in values.items():
        if node.op != "call_function" or getattr(node.target, "__name__", "") == "getitem":
            continue
        names = [name] if isinstance(name, str) else name or ()
        for part in names:
            if part is not None:
                nodes.setdefault(part, node.name)
    return nodes


def _run(
    graph: fx.Graph,
    constant: Callable[[fx.Node], Any],
    names: Mapping[fx.Node, Any],
    inputs_by_name: Mapping[str, Array],
) -> dict[fx.Node, Any]:
    import torch

    computed: dict[fx.Node, Any] = {}
    with torch.no_grad():
        for node in graph.nodes:
            if node.op == "call_function":
                args = map_nodes(node.args, computed.__getitem__)
                kwargs = map_nodes(node.kwargs, computed.__getitem__)
                computed[node] = node.target(*args, **kwargs)  # type: ignore[operator]
            elif node.op == "placeholder" and names.get(node) in inputs_by_name:
                array = inputs_by_name[names[node]]
                computed[node] = tensor_of(array, node.meta["val"].dtype)
            elif node.op != "output":
                computed[node] = constant(node)
    return computed


def _array(value: Any) -> Array | None:
    """Return a tensor or a number as an array, None for anything else."""
    if hasattr(value, "layout"):
        return array_of(value)
    if isinstance(value, (bool, int, float)):
        return np.asarray(value)
    return None
