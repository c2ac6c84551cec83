"""Exported graphs of ATen operators, and their records for the next time (design §11)."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from einalg.frontends.import_cache import Origin
from einalg.frontends.torch.nodes.tensors import Array, array_of, memory_key
from einalg.storage.fingerprint import array_digest

if TYPE_CHECKING:
    from torch import fx

GETITEM = "getitem"
LIBRARIES = ("aten", "einalg")  # whose operators a record may name
NODE_KINDS = ("placeholder", "call_function", "output")


class NotRecordable(ValueError):
    """A graph holds something that a record cannot hold."""


@dataclass(frozen=True)
class Weight:
    """A tensor whose values are constant, with its name in the module.

    It `is_constant` where the code has it, and not a parameter or buffer.
    """

    name: str
    tensor: Any
    is_constant: bool


@dataclass(frozen=True)
class ExportedGraph:
    """A module as a graph of ATen operators.

    `weights` are by the names of their placeholders; `in_spec` and `out_spec` say how arguments and
    results are nested. `owner` has the attributes that the graph reads, if it does.
    """

    graph: fx.Graph
    weights: Mapping[str, Weight]
    in_spec: Any
    out_spec: Any
    owner: Any = None


def graph_record(exported: ExportedGraph) -> dict[str, Any]:
    """Return a graph as JSON values.

    Raises `NotRecordable` where it holds constants, branches or sizes that depend on data.
    """
    from torch.utils._pytree import treespec_dumps

    if any(weight.is_constant for weight in exported.weights.values()):
        raise NotRecordable("constants of the code")
    nodes = [_node_record(node) for node in exported.graph.nodes]
    try:
        specs = [treespec_dumps(spec) for spec in (exported.in_spec, exported.out_spec)]
    except (NotImplementedError, TypeError, ValueError) as error:
        # Torch has no names for some classes.
        raise NotRecordable(str(error)) from None
    names = {placeholder: weight.name for placeholder, weight in exported.weights.items()}
    return {"nodes": nodes, "weights": names, "specs": specs}


def graph_from_record(row: Any, tensors: Mapping[str, Any]) -> ExportedGraph:
    """Return the graph of a record, with the tensors of a module by name.

    A damaged record raises `ValueError`, `KeyError`, `TypeError` or `AttributeError`.
    """
    from torch.utils._pytree import treespec_loads

    graph = _graph(row["nodes"])
    weights: dict[str, Weight] = {}
    for placeholder, name in row["weights"].items():
        weights[str(placeholder)] = Weight(str(name), tensors[name], False)
    in_spec, out_spec = map(treespec_loads, row["specs"])
    return ExportedGraph(graph, weights, in_spec, out_spec)


def _graph(rows: Any) -> fx.Graph:
    from torch import fx

    graph, nodes = fx.Graph(), dict[str, Any]()
    for kind, name, target, args, kwargs, val in rows:
        if kind not in NODE_KINDS:
            raise ValueError(f"a node of the kind {kind}")
        if kind == "call_function":
            target = _operator(target)
        arguments = tuple(_decoded(args, nodes))
        keywords = {key: _decoded(value, nodes) for key, value in kwargs.items()}
        node = nodes[name] = graph.create_node(kind, target, arguments, keywords, name)
        node.name = name  # also where it is one of Python's own, such as `input`
        if val is not None:
            node.meta["val"] = _decoded(val, nodes)
    return graph


def graph_origin(exported: ExportedGraph) -> Origin | None:
    """Return what decides how a graph is imported; None for a graph without a record.

    That is its record, which weights share a tensor, and their values.
    """
    try:
        row = json.dumps(graph_record(exported))
    except NotRecordable:
        return None
    weights, first = exported.weights, dict[Any, str]()
    shared: list[str] = []
    for name, weight in weights.items():
        shared.append(first.setdefault(memory_key(weight.tensor) or name, name))

    def array(name: str) -> Array:
        return array_of(weights[name].tensor)

    def digest() -> str:
        return array_digest((name, array(name)) for name in weights)

    return Origin(f"{row} {shared}", digest, array)


def _node_record(node: fx.Node) -> list[Any]:
    if node.op not in NODE_KINDS:
        raise NotRecordable(f"a node of the kind {node.op}")
    target = str(node.target)
    if node.op == "call_function":
        target = _operator_name(node.target)
    args = [_encoded(value) for value in node.args]
    kwargs = {key: _encoded(value) for key, value in node.kwargs.items()}
    return [node.op, node.name, target, args, kwargs, _encoded(node.meta.get("val"), _value)]


def _operator_name(target: Any) -> str:
    if target is operator.getitem:
        return GETITEM
    if not hasattr(target, "_schema") or target.namespace not in LIBRARIES:
        raise NotRecordable(f"a call of {target}")
    return str(target)


def _operator(name: str) -> Callable[..., Any]:
    import torch

    if name == GETITEM:
        return operator.getitem
    library, base, overload = name.split(".")
    if library not in LIBRARIES:
        raise ValueError(f"an operator of {library}")
    operators = getattr(torch.ops, library)
    return getattr(getattr(operators, base), overload)


def _value(leaf: Any) -> Any:
    """Return a tensor of a trace as its shape, strides and dtype."""
    import torch

    if isinstance(leaf, torch.Tensor):
        if leaf.layout is not torch.strided:
            raise NotRecordable(f"a tensor of the layout {leaf.layout}")
        shape, strides = list(leaf.shape), list(leaf.stride())
        if not all(type(size) is int for size in (*shape, *strides)):
            raise NotRecordable("a shape that depends on data")
        return {"shape": shape, "strides": strides, "dtype": str(leaf.dtype)}
    raise NotRecordable(f"a value of the kind {type(leaf).__name__}")


def _argument(leaf: Any) -> Any:
    """Return a node as its name, and torch's own constants as text."""
    import torch
    from torch import fx

    if isinstance(leaf, fx.Node):
        return {"node": leaf.name}
    if isinstance(leaf, (torch.dtype, torch.layout, torch.memory_format)):
        return {"torch": str(leaf)}
    if isinstance(leaf, torch.device):
        return {"device": str(leaf)}
    raise NotRecordable(f"an argument of the kind {type(leaf).__name__}")


def _encoded(value: Any, leaf: Callable[[Any], Any] = _argument) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_encoded(one, leaf) for one in value]}
    if isinstance(value, list):
        return [_encoded(one, leaf) for one in value]
    return leaf(value)


def _decoded(row: Any, nodes: Mapping[str, Any]) -> Any:
    import torch

    if isinstance(row, list):
        return [_decoded(one, nodes) for one in row]
    if not isinstance(row, dict):
        return row
    if "shape" in row:
        dtype = _constant(row["dtype"])
        return torch.empty_strided(row["shape"], row["strides"], dtype=dtype, device="meta")
    ((kind, value),) = row.items()
    if kind == "node":
        return nodes[value]
    if kind == "tuple":
        return tuple(_decoded(one, nodes) for one in value)
    if kind == "device":
        return torch.device(value)
    return _constant(value)


def _constant(name: str) -> Any:
    """Return the dtype, layout or memory format of torch that has a name."""
    import torch

    constant = getattr(torch, name.removeprefix("torch."))
    if not isinstance(constant, (torch.dtype, torch.layout, torch.memory_format)):
        raise ValueError(f"{name} is no constant of torch")
    return constant
