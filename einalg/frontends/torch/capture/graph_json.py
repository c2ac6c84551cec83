"""Graphs of ATen operators as they are exported, and as records: what is kept of a module for the next time (design §11)."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from einalg.frontends.import_cache import Origin
from einalg.frontends.torch.nodes.tensors import Array, array_of, memory_of
from einalg.storage.fingerprint import array_digest

if TYPE_CHECKING:
    from torch import fx

GETITEM = "getitem"
LIBRARIES = ("aten", "einalg")  # whose operators a record may name


class NotRecordable(ValueError):
    """A graph holds what a record does not."""


@dataclass(frozen=True)
class Weight:
    """A tensor that is known already: its name, and whether it is a constant of the code, which no parameter decides."""

    name: str
    tensor: Any
    is_constant: bool


@dataclass(frozen=True)
class ExportedGraph:
    """A module as a graph of ATen operators, with the weights behind its placeholders and the structure of its arguments and of what it returns.

    `owner` has what the graph reads as attributes, if it does.
    """

    graph: fx.Graph
    weights: Mapping[str, Weight]
    in_spec: Any
    out_spec: Any
    owner: Any = None


def graph_record(exported: ExportedGraph) -> dict[str, Any]:
    """A graph as JSON values; `NotRecordable` where it holds constants, branches or sizes that depend on data."""
    from torch.utils._pytree import treespec_dumps

    if any(weight.is_constant for weight in exported.weights.values()):
        raise NotRecordable("constants of the code")
    nodes = [_node_record(node) for node in exported.graph.nodes]
    try:
        specs = [treespec_dumps(spec) for spec in (exported.in_spec, exported.out_spec)]
    except (
        NotImplementedError,
        TypeError,
        ValueError,
    ) as error:  # of classes that torch cannot name
        raise NotRecordable(str(error)) from None
    return {
        "nodes": nodes,
        "weights": {placeholder: weight.name for placeholder, weight in exported.weights.items()},
        "specs": specs,
    }


def graph_from_record(row: Any, tensors: Mapping[str, Any]) -> ExportedGraph:
    """A graph read back, with the tensors of a module by name; `ValueError`, `KeyError`, `TypeError` or `AttributeError` for a damaged record."""
    from torch import fx
    from torch.utils._pytree import treespec_loads

    graph, nodes = fx.Graph(), dict[str, Any]()
    for kind, name, target, args, kwargs, val in row["nodes"]:
        if kind not in ("placeholder", "call_function", "output"):
            raise ValueError(f"a node of the kind {kind}")
        called = _operator(target) if kind == "call_function" else target
        given, named = (
            _decoded(args, nodes),
            {key: _decoded(value, nodes) for key, value in kwargs.items()},
        )
        node = nodes[name] = graph.create_node(kind, called, tuple(given), named, name)
        node.name = name  # also where it is one of Python's own, such as `input`
        if val is not None:
            node.meta["val"] = _decoded(val, nodes)
    weights = {
        str(placeholder): Weight(str(name), tensors[name], False)
        for placeholder, name in row["weights"].items()
    }
    in_spec, out_spec = map(treespec_loads, row["specs"])
    return ExportedGraph(graph, weights, in_spec, out_spec)


def graph_origin(exported: ExportedGraph) -> Origin | None:
    """What decides how a graph is read: its record, which weights are one tensor, and their values. None for a graph without a record."""
    try:
        row = json.dumps(graph_record(exported))
    except NotRecordable:
        return None
    weights, first = exported.weights, dict[Any, str]()
    shared = [
        first.setdefault(memory_of(weight.tensor) or name, name) for name, weight in weights.items()
    ]

    def array(name: str) -> Array:
        return array_of(weights[name].tensor)

    return Origin(
        f"{row} {shared}", lambda: array_digest((name, array(name)) for name in weights), array
    )


def _node_record(node: fx.Node) -> list[Any]:
    if node.op not in ("placeholder", "call_function", "output"):
        raise NotRecordable(f"a node of the kind {node.op}")
    target = _operator_name(node.target) if node.op == "call_function" else str(node.target)
    kwargs = {key: _encoded(value) for key, value in node.kwargs.items()}
    return [
        node.op,
        node.name,
        target,
        [_encoded(value) for value in node.args],
        kwargs,
        _encoded(node.meta.get("val"), _value),
    ]


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
    found: Callable[..., Any] = getattr(getattr(getattr(torch.ops, library), base), overload)
    return found


def _value(leaf: Any) -> Any:
    """A tensor of a trace by its shape and dtype."""
    import torch

    if isinstance(leaf, torch.Tensor):
        if not all(type(size) is int for size in leaf.shape):
            raise NotRecordable("a shape that depends on data")
        return {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}
    raise NotRecordable(f"a value of the kind {type(leaf).__name__}")


def _argument(leaf: Any) -> Any:
    """A node by its name, and torch's own constants."""
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
        return torch.empty(row["shape"], dtype=_constant(row["dtype"]), device="meta")
    ((kind, value),) = row.items()
    if kind == "node":
        return nodes[value]
    if kind == "tuple":
        return tuple(_decoded(one, nodes) for one in value)
    return torch.device(value) if kind == "device" else _constant(value)


def _constant(name: str) -> Any:
    """A dtype, layout or memory format of torch by its name."""
    import torch

    found = getattr(torch, name.removeprefix("torch."))
    if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
        raise ValueError(f"{name} is no constant of torch")
    return found
