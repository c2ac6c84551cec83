"""The values of an ATen graph as torch computes them, node by node; in f64 too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from einalg.frontends.graph import Array
from einalg.frontends.reading import Definition
from einalg.frontends.torch.nodes.causal_attention import (
    DEFINED_BY,
    is_causal_attention,
    results_of_seen_keys,
)
from einalg.frontends.torch.nodes.opaque_call import flat_results, map_nodes
from einalg.frontends.torch.nodes.tensors import array_of, tensor_of
from einalg.runtime.direct_call import HOST

if TYPE_CHECKING:
    from torch import fx

LOG = logging.getLogger("einalg")
IN_F64 = "its own results in f64"


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


def values_in_f64(
    graph: fx.Graph, constant: Callable[[fx.Node], Any], names: Mapping[fx.Node, Any]
) -> Definition:
    """Return a function from a node's name and values by name to the results of that node, computed
    by torch in f64, in the element types that they have there.

    Torch has other functions of one element for whole vectors, and these are not always right: its
    GELU of an infinity is NaN in vectors of f32. There are no results where it has none in f64.
    Causal attention is that of each query by itself.
    """
    nodes = {node.name: node for node in graph.nodes}

    def compute(origin: str, values: Mapping[str, Array]) -> dict[str, Array]:
        node = nodes[origin]

        def operand(read: fx.Node) -> Any:
            name = names.get(read)
            if isinstance(name, str) and name in values:
                return _in_f64(tensor_of(values[name], device=_device(read)))
            return _in_f64(constant(read))

        try:
            if is_causal_attention(node):
                results = results_of_seen_keys(node, operand)
            else:
                results = _results(node, operand)
        except Exception as error:  # whatever torch raises for types that differ
            LOG.debug("einalg: %s has no results in f64: %s", node.target, error)
            return {}
        found: dict[str, Array] = {}
        named = names.get(node)
        parts = [named] if isinstance(named, str) else named or ()
        for name, value in zip(parts, flat_results(results)):
            array = _array(value)
            if name in values and array is not None:
                with np.errstate(over="ignore"):
                    found[name] = array.astype(values[name].dtype)
        return found

    return compute


def definers(graph: fx.Graph) -> Callable[[str], str]:
    """Return a function from a node's name to what `values_in_f64` has for it, in words."""
    nodes = {node.name: node for node in graph.nodes}
    return lambda origin: DEFINED_BY if is_causal_attention(nodes[origin]) else IN_F64


def _in_f64(value: Any) -> Any:
    """Return a tensor of floats in f64, and anything else as it is."""
    if not hasattr(value, "is_floating_point") or not value.is_floating_point():
        return value
    return value.double()


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
    computed: dict[fx.Node, Any] = {}
    for node in graph.nodes:
        if node.op == "call_function":
            computed[node] = _results(node, computed.__getitem__)
        elif node.op == "placeholder" and names.get(node) in inputs_by_name:
            array = inputs_by_name[names[node]]
            computed[node] = tensor_of(array, node.meta["val"].dtype, _device(node))
        elif node.op != "output":
            computed[node] = constant(node)
    return computed


def _device(node: fx.Node) -> Any:
    """Return the device on which a trace has the value of a node; None for the host."""
    device = getattr(node.meta.get("val"), "device", None)
    if device is None or device.type in (HOST, "meta"):  # a stored trace has no devices
        return None
    return device


def _results(node: fx.Node, operand: Callable[[fx.Node], Any]) -> Any:
    """Return what the operator of a node has for these values of the nodes that it reads."""
    import torch

    args, kwargs = map_nodes(node.args, operand), map_nodes(node.kwargs, operand)
    with torch.no_grad():
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _array(value: Any) -> Array | None:
    """Return a tensor or a number as an array, None for anything else."""
    if hasattr(value, "layout"):
        return array_of(value)
    if isinstance(value, (bool, int, float)):
        return np.asarray(value)
    return None
