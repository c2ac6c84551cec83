"""Queries to the onnx package about a node: schema, types of outputs, definition by others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from einalg.frontends.onnx.nodes.model_file import onnx_package
from einalg.frontends.onnx.nodes.values import Value

Opsets = Mapping[str, int]
MAX_PARAMETER_ELEMENTS = 2**10  # of a constant input whose values may decide a shape
IR_VERSION = 10
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
    return [inferred.get(name) for name in node.output]


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
