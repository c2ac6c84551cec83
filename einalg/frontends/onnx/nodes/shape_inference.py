"""What ONNX says of a node: its schema, the types of its outputs, its definition by other operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from einalg.frontends.onnx.nodes.model_file import onnx_package
from einalg.frontends.onnx.nodes.values import Value

Opsets = Mapping[str, int]
PARAMETER = 2**10  # elements of a known input whose values may decide the shape of an output
OWN_SIZE = {
    "NonZero",
    "Unique",
    "Compress",
}  # at most as many elements as there are in the inputs, times their axes
IR = 10


def schema_of(node: Any, opsets: Opsets) -> Any:
    """The schema of an operator in the version that the model uses; None where ONNX has none."""
    onnx = onnx_package()
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        return onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except (onnx.defs.SchemaError, TypeError, ValueError):
        return None


def infer(node: Any, values: Sequence[Value | None], opsets: Opsets) -> list[Any]:
    """The types of the outputs; None for those that ONNX cannot infer."""
    onnx = onnx_package()
    schema = schema_of(node, opsets)
    given = {name: v for name, v in zip(node.input, values) if name and v is not None}
    if schema is None or any(v.type is None for v in given.values()):
        return [None] * len(node.output)
    small = {
        n: v.array
        for n, v in given.items()
        if isinstance(v.array, np.ndarray) and v.array.size <= PARAMETER
    }
    data = {name: onnx.numpy_helper.from_array(array, name) for name, array in small.items()}
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        types = {name: v.type for name, v in given.items()}
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=imports, ir_version=IR
        )
    except Exception:  # what is wrong with the node is found where it is built
        found = {}
    return [found.get(name) for name in node.output]


def is_deterministic(node: Any, opsets: Opsets) -> bool:
    """Whether a node gives the same for the same inputs: an operator of ONNX, without inner graphs, and not random."""
    schema = schema_of(node, opsets)
    if schema is None or any(a.HasField("g") or a.graphs for a in node.attribute):
        return False
    return not is_random(node.op_type)


def is_random(operator: str) -> bool:
    """Whether an operator may give another result at each call."""
    return operator.startswith("Random") or operator in ("Bernoulli", "Multinomial", "Dropout")


def function_of(node: Any, types: Sequence[Any], opsets: Opsets) -> Any:
    """The definition of a node by other operators, as a `FunctionProto`; None where ONNX has none."""
    onnx = onnx_package()
    schema = schema_of(node, opsets)
    version = opsets.get("" if node.domain == "ai.onnx" else node.domain, 1)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    if any(a.name not in schema.attributes for a in node.attribute):
        return None
    try:
        if schema.has_context_dependent_function:
            kinds = [b"" if kind is None else kind.SerializeToString() for kind in types]
            versions = [
                v for v in schema.context_dependent_function_opset_versions if v <= version
            ] or [version]
            text = schema.get_context_dependent_function_with_opset_version(
                max(versions), node.SerializeToString(), kinds
            )
        else:
            versions = [v for v in schema.function_opset_versions if v <= version] or [version]
            text = schema.get_function_with_opset_version(max(versions))
        function = onnx.FunctionProto.FromString(text) if isinstance(text, bytes) else text
    except Exception:  # a schema that does not give it for these types
        return None
    return function if isinstance(function, onnx.FunctionProto) and function.node else None
