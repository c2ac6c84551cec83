"""Queries to the onnx package about a node: schema, types of outputs, definition by others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from einalg.frontends.onnx.nodes.model_file import onnx_package
from einalg.frontends.onnx.nodes.values import Value, sizes_of

Opsets = Mapping[str, int]
MAX_PARAMETER_ELEMENTS = 2**10  # of a constant input whose values may decide a shape
IR_VERSION = 10
POOLINGS = ("AveragePool", "LpPool", "MaxPool")
RANDOM = ("Bernoulli", "Multinomial", "Dropout")


def schema_of(node: Any, opsets: Opsets) -> Any:
    """Return the schema of an operator in the model's version; None where ONNX has none."""
    onnx = onnx_package()
    domain = _domain(node)
    try:
        return onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except (onnx.defs.SchemaError, TypeError, ValueError):
        return None


def _domain(node: Any) -> str:
    if node.domain == "ai.onnx":
        return ""
    return node.domain


def infer(node: Any, values: Sequence[Value | None], opsets: Opsets) -> list[Any]:
    """Return the types of the outputs; None for those that ONNX cannot infer."""
    onnx = onnx_package()
    unknown: list[Any] = [None] * len(node.output)
    schema = schema_of(node, opsets)
    if schema is None:
        return unknown
    types: dict[str, Any] = {}
    data: dict[str, Any] = {}
    for name, value in zip(node.input, values):
        if not name or value is None:
            continue
        if value.type is None:
            return unknown
        types[name] = value.type
        if isinstance(value.array, np.ndarray) and value.array.size <= MAX_PARAMETER_ELEMENTS:
            data[name] = onnx.numpy_helper.from_array(value.array, name)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        inferred = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=imports, ir_version=IR_VERSION
        )
    except Exception:  # an error of the node is reported where it is built
        return unknown
    kinds = [inferred.get(name) for name in node.output]
    if node.op_type in POOLINGS and not _domain(node):
        return [_pooled(node, types.get(node.input[0]), kind) for kind in kinds]
    return kinds


def _pooled(node: Any, data: Any, kind: Any) -> Any:
    """Return the type of a pooling with `ceil_mode`, without last windows that would begin behind
    the data: no runtime computes them, and older versions of ONNX count them.
    """
    onnx = onnx_package()
    sizes, inferred = sizes_of(data), sizes_of(kind)
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    is_automatic = attributes.get("auto_pad", b"NOTSET") != b"NOTSET"
    if sizes is None or inferred is None or is_automatic or not attributes.get("ceil_mode"):
        return kind
    kernel = attributes["kernel_shape"]
    ones = [1] * len(kernel)
    strides, dilations = (attributes.get(name, ones) for name in ("strides", "dilations"))
    pads = attributes.get("pads", [0] * 2 * len(kernel))
    befores, afters = pads[: len(kernel)], pads[len(kernel) :]
    shape = list(inferred[:2])
    for size, taps, *window in zip(sizes[2:], kernel, strides, dilations, befores, afters):
        shape.append(_windows_upwards(size, taps, *window))
    return onnx.helper.make_tensor_type_proto(kind.tensor_type.elem_type, shape)


def _windows_upwards(
    size: int, taps: int, stride: int, dilation: int, before: int, after: int
) -> int:
    """Return how many windows an axis has, with a last one that is not full, but none that begins
    behind the data.

    >>> _windows_upwards(5, 3, 3, 1, 1, 1), _windows_upwards(5, 2, 3, 1, 0, 0)
    (2, 2)
    """
    extent = (taps - 1) * dilation + 1
    windows = -(-(size + before + after - extent) // stride) + 1
    if (windows - 1) * stride >= size + before:
        return windows - 1
    return windows


def is_deterministic(node: Any, opsets: Opsets) -> bool:
    """Return whether a node has the same outputs for the same inputs.

    That is an operator of ONNX, without inner graphs, and not random.
    """
    schema = schema_of(node, opsets)
    if schema is None or any(a.HasField("g") or a.graphs for a in node.attribute):
        return False
    return not is_random(node.op_type)


def is_random(operator: str) -> bool:
    """Return whether an operator may have another result at each call."""
    return operator.startswith("Random") or operator in RANDOM


def function_of(node: Any, types: Sequence[Any], opsets: Opsets) -> Any:
    """Return the definition of a node by other operators, as a `FunctionProto`.

    None where ONNX has none.
    """
    onnx = onnx_package()
    schema = schema_of(node, opsets)
    version = opsets.get(_domain(node), 1)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    if any(a.name not in schema.attributes for a in node.attribute):
        return None
    try:
        if schema.has_context_dependent_function:
            function = _function_for_types(schema, node, types, version)
        else:
            newest = _newest(schema.function_opset_versions, version)
            function = schema.get_function_with_opset_version(newest)
        if isinstance(function, bytes):
            function = onnx.FunctionProto.FromString(function)
    except Exception:  # a schema that has no function for these types
        return None
    if not isinstance(function, onnx.FunctionProto) or not function.node:
        return None
    return function


def _function_for_types(schema: Any, node: Any, types: Sequence[Any], version: int) -> Any:
    serialized: list[bytes] = []
    for kind in types:
        serialized.append(b"" if kind is None else kind.SerializeToString())
    newest = _newest(schema.context_dependent_function_opset_versions, version)
    return schema.get_context_dependent_function_with_opset_version(
        newest, node.SerializeToString(), serialized
    )


def _newest(versions: Iterable[int], version: int) -> int:
    """Return the newest version that is not newer than that of the model."""
    return max((v for v in versions if v <= version), default=version)
