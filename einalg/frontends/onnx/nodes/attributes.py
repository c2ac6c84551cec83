"""Attributes of nodes as Python values, and those of functions, which their callers set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from einalg.frontends.onnx.nodes.model_file import onnx_package
from einalg.frontends.onnx.nodes.values import array_of


def attributes_of(node: Any) -> dict[str, Any]:
    """Numbers, lists, bytes and arrays by name; inner graphs and other kinds are left out."""
    onnx = onnx_package()
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute) if attribute.type else None
        if isinstance(value, onnx.TensorProto):
            found[attribute.name] = array_of(value, f"attribute {attribute.name}")
        elif isinstance(value, (int, float, bytes)):
            found[attribute.name] = value
        elif value is not None and not hasattr(value, "SerializeToString"):
            found[attribute.name] = list(value)
    return found


def inner_graphs(node: Any) -> Iterator[Any]:
    """The graphs of a node: branches, bodies of loops."""
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else []
        yield from attribute.graphs


def captured(node: Any) -> list[str]:
    """Names that the inner graphs of a node may read from outside."""
    found: dict[str, None] = {}
    for graph in inner_graphs(node):
        own = {name for one in graph.node for name in one.output} | {
            v.name for v in (*graph.input, *graph.initializer)
        }
        read = [name for one in graph.node for name in (*one.input, *captured(one))] + [
            output.name for output in graph.output
        ]
        found.update((name, None) for name in read if name and name not in own)
    return list(found)


def with_arguments(function: Any, node: Any) -> Any:
    """A copy of a function whose nodes have the attributes that its caller gives, or else its defaults."""
    body = onnx_package().FunctionProto()
    body.CopyFrom(function)
    given = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
    for one in body.node:
        _settle(one, given)
    return body


def _settle(node: Any, given: dict[str, Any]) -> None:
    kept = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            argument = given.get(attribute.ref_attr_name)
            if argument is None:
                continue
            name = attribute.name
            attribute.CopyFrom(argument)
            attribute.name = name
        for graph in [attribute.g] if attribute.HasField("g") else []:
            for inner in graph.node:
                _settle(inner, given)
        copied = type(attribute)()
        copied.CopyFrom(attribute)
        kept.append(copied)
    del node.attribute[:]
    node.attribute.extend(kept)
