"""Attributes of nodes as Python values, and those of functions, which their callers set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from einalg.frontends.onnx.nodes.model_file import onnx_package
from einalg.frontends.onnx.nodes.values import array_of


def attributes_of(node: Any) -> dict[str, Any]:
    """Return numbers, lists, bytes and arrays by name, without inner graphs and other kinds."""
    onnx = onnx_package()
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        if not attribute.type:
            continue
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            values[attribute.name] = array_of(value, f"attribute {attribute.name}")
        elif isinstance(value, (int, float, bytes)):
            values[attribute.name] = value
        elif value is not None and not hasattr(value, "SerializeToString"):
            values[attribute.name] = list(value)
    return values


def inner_graphs(node: Any) -> Iterator[Any]:
    """Yield the graphs of a node: branches, bodies of loops."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def captured_names(node: Any) -> list[str]:
    """Return names that the inner graphs of a node may read from outside."""
    captured: dict[str, None] = {}
    for graph in inner_graphs(node):
        defined = {value.name for value in (*graph.input, *graph.initializer)}
        read: list[str] = []
        for inner in graph.node:
            defined.update(inner.output)
            read += [*inner.input, *captured_names(inner)]
        read += [output.name for output in graph.output]
        captured.update((name, None) for name in read if name and name not in defined)
    return list(captured)


def with_arguments(function: Any, node: Any) -> Any:
    """Return a copy of a function whose nodes have the attributes of its caller.

    Those that the caller does not set have the function's defaults.
    """
    body = onnx_package().FunctionProto()
    body.CopyFrom(function)
    arguments = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
    for inner in body.node:
        _set_attributes(inner, arguments)
    return body


def _set_attributes(node: Any, arguments: dict[str, Any]) -> None:
    """Replace references to attributes of a function by its arguments."""
    attributes: list[Any] = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            argument = arguments.get(attribute.ref_attr_name)
            if argument is None:
                continue
            name = attribute.name
            attribute.CopyFrom(argument)
            attribute.name = name
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                _set_attributes(inner, arguments)
        copied = type(attribute)()
        copied.CopyFrom(attribute)
        attributes.append(copied)
    del node.attribute[:]
    node.attribute.extend(attributes)
