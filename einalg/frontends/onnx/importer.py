"""ONNX graphs as graphs of programs and calls, node by node in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from einalg.errors import EinalgError, RecordError, first_line
from einalg.frontends.graph_builder import GraphBuilder
from einalg.frontends.onnx.nodes.attributes import (
    attributes_of,
    captured_names,
    inner_graphs,
    with_arguments,
)
from einalg.frontends.onnx.nodes.opaque_call import OnnxCall
from einalg.frontends.onnx.nodes.outputs import NodeOutputs, node_outputs
from einalg.frontends.onnx.nodes.registry import Operator
from einalg.frontends.onnx.nodes.shape_inference import Opsets, function_of, infer, is_deterministic
from einalg.frontends.onnx.nodes.values import (
    ELEMENTS,
    Value,
    array_of,
    constant_value,
    dtype_of,
    is_too_large,
    sizes_of,
    tensor_type,
)
from einalg.frontends.onnx.operators import DEFINITIONS
from einalg.language.ir.tensor import Tensor

Environment = dict[str, Value]
# Results up to this size are computed while the file is read, and not written as expressions.
MAX_FOLDED_ELEMENTS = 2**14
# The same for results that no expression gives but that depend on constants only.
MAX_STORED_ELEMENTS = 2**26
MAX_FUNCTION_DEPTH = 40  # of functions that call functions
# Errors that damaged nodes lead to.
BROKEN = (
    *(ValueError, TypeError, IndexError, KeyError),
    *(AttributeError, ArithmeticError, MemoryError),
)
STANDARD = ("", "ai.onnx")


@dataclass(frozen=True)
class _GraphBody:
    """Where a node stands: in a graph or function whose values are in `environment`."""

    environment: Environment
    opsets: Opsets
    depth: int

    def optional_values(self, names: Iterable[str]) -> list[Value | None]:
        """Return the values of inputs; None for one that is left out."""
        values: list[Value | None] = []
        for name in names:
            values.append(self.environment[name] if name else None)
        return values

    def values(self, names: Iterable[str]) -> dict[str, Value]:
        """Return the values of those inputs that are not left out."""
        return {name: self.environment[name] for name in names if name}

    def add_outputs(
        self, node: Any, inner: Environment, inner_names: Iterable[str], owner: str
    ) -> None:
        """Add the outputs of a branch or function as those of the node that stands for it."""
        for outer_name, inner_name in zip(node.output, inner_names):
            if outer_name:
                self.environment[outer_name] = required_value(inner, inner_name, owner)


class OnnxImporter:
    """Adds the nodes of a model to a builder.

    Nodes of its graph with a first output in `excluded` stay calls, for the reasons there.
    """

    def __init__(self, model: Any, excluded: Mapping[str, str] | None = None):
        self._excluded = excluded or {}
        self.builder = GraphBuilder()
        self._functions = {(f.domain, f.name): f for f in model.functions}
        self._declared = {v.name: v.type for v in (*model.graph.value_info, *model.graph.output)}
        self._opsets = _opsets(model)
        self._reserved: set[str] = set()  # names for values that are not in the builder yet

    def run(
        self, graph: Any, environment: Environment, opsets: Opsets | None = None, depth: int = 0
    ) -> None:
        """Add all nodes of a graph or function.

        `environment` has the values that they may read; their outputs are added to it.
        """
        if depth > MAX_FUNCTION_DEPTH:
            raise RecordError(
                f"the functions of the model call each other more than {MAX_FUNCTION_DEPTH} deep\n"
                "  a function must not call itself"
            )
        if opsets is None:
            opsets = self._opsets
        body = _GraphBody(environment, opsets, depth)
        origins = _origins(graph)
        defined: set[str] = set()
        read = _names_read(graph)
        for position, node in enumerate(graph.node):
            for name in node.input:
                if name and name not in environment:
                    raise _missing(name, node, origins.get(name, -1) >= position)
            for name in node.output:
                if name and name in defined:
                    raise RecordError(
                        f"{name} is given twice, also by {_place(node)}\n"
                        "  every value of a graph has one origin"
                    )
            defined.update(node.output)
            self._node(_without_unread(node, read), body)

    def _node(self, node: Any, body: _GraphBody) -> None:
        """Add a node as what it can become first: other nodes, constants, a program, a call."""
        why = self._excluded.get(first_output(node)) if not body.depth else None
        if why is not None:
            self._exclude(node, body, why)
            return
        function = self._functions.get((node.domain, node.op_type))
        if function is not None:
            self._function(function, node, body)
        elif not self._branch(node, body):
            self._operator(node, body)

    def _operator(self, node: Any, body: _GraphBody) -> None:
        inferred = infer(node, body.optional_values(node.input), body.opsets)
        kinds = [self._kind(name, kind) for name, kind in zip(node.output, inferred)]
        for shape in map(sizes_of, kinds):
            if shape is not None and is_too_large(shape):
                raise RecordError(
                    f"{_place(node)} gives an array of shape {shape}, "
                    "which is too large to compute\n  load the model with smaller inputs"
                )
        if node.input and self._fold(node, body, kinds, MAX_FOLDED_ELEMENTS):
            return
        why = self._express(node, body, kinds)
        if not why or self._expand(node, body, kinds):
            return
        if not self._fold(node, body, kinds, MAX_STORED_ELEMENTS):
            self._call(node, body, kinds, why)

    def _exclude(self, node: Any, body: _GraphBody, why: str) -> None:
        """Leave a node to the framework that could be an expression."""
        inferred = infer(node, body.optional_values(node.input), body.opsets)
        kinds = [self._kind(name, kind) for name, kind in zip(node.output, inferred)]
        self._call(node, body, kinds, why)

    def _kind(self, name: str, inferred: Any) -> Any:
        """Return the type of a value, as the file declares it where that says more."""
        declared = self._declared.get(name)
        if declared is None or sizes_of(inferred) is not None:
            return inferred
        if inferred is None or sizes_of(declared) is not None:
            return declared
        return inferred

    def _branch(self, node: Any, body: _GraphBody) -> bool:
        """Add the nodes of the branch of an `If` whose condition is constant."""
        if node.op_type != "If" or node.domain not in STANDARD:
            return False
        if len(node.input) != 1 or not node.input[0]:
            return False
        condition = body.environment[node.input[0]].array
        if condition is None or np.size(condition) != 1:
            return False
        name = "else_branch"
        if np.ravel(condition)[0]:
            name = "then_branch"
        branch = next((a.g for a in node.attribute if a.name == name), None)
        if branch is None or len(branch.output) != len(node.output):
            raise RecordError(
                f"{_place(node)} has no {name} with {len(node.output)} outputs\n"
                "  the file is damaged"
            )
        inner = dict(body.environment)
        for tensor in branch.initializer:
            array = array_of(tensor, f"initializer {tensor.name}")
            inner[tensor.name] = constant_value(tensor.name, array)
        self.run(branch, inner, body.opsets, body.depth + 1)
        names = [output.name for output in branch.output]
        body.add_outputs(node, inner, names, _place(node))
        return True

    def _function(self, function: Any, node: Any, body: _GraphBody) -> None:
        """Add the nodes of a function, with arguments for its parameters."""
        arguments: Environment = {}
        for parameter, name in zip(function.input, node.input):
            if name:
                arguments[parameter] = body.environment[name]
        absent = {name for name in function.input if name not in arguments}
        definition = with_arguments(function, node)
        for inner_node in definition.node:
            for position, name in enumerate(inner_node.input):
                if name in absent:
                    inner_node.input[position] = ""
        self.run(definition, arguments, _opsets(function) or self._opsets, body.depth + 1)
        body.add_outputs(node, arguments, function.output, _place(node))

    def _fold(self, node: Any, body: _GraphBody, kinds: Sequence[Any], max_elements: int) -> bool:
        """Compute a node that reads constants only, if its outputs are small."""
        values = body.values(node.input)
        if not all(value.is_constant for value in values.values()):
            return False
        if not is_deterministic(node, body.opsets):
            return False
        for shape in map(sizes_of, kinds):
            if shape is None or prod(shape) > max_elements:
                return False
        if sum(np.size(value.array) for value in values.values()) > MAX_STORED_ELEMENTS:
            return False
        try:
            arrays = OnnxCall(node, body.opsets, values)()
        except EinalgError:
            return False
        for name, array in zip(filter(None, node.output), arrays):
            body.environment[name] = constant_value(name, array)
        return True

    def _express(self, node: Any, body: _GraphBody, kinds: Sequence[Any]) -> str:
        """Add a node as a program; return the reason where it is none."""
        definition = None
        if node.domain in STANDARD:
            definition = DEFINITIONS.get(node.op_type)
        if definition is None:
            return f"{node.op_type} has no definition in the language"
        operands: dict[str, Value] = {}

        def read(value: Value) -> Tensor | None:
            tensor = self._tensor(value)
            if tensor is not None:
                operands[tensor.name] = value
            return tensor

        try:
            operator = Operator(
                node.op_type,
                body.opsets.get("", 1),
                attributes_of(node),
                tuple(body.optional_values(node.input)),
                tuple(node.output),
                tuple(map(dtype_of, kinds)),
                read=read,
            )
            outputs = node_outputs(definition(operator), operator, kinds)
        except EinalgError as error:
            return first_line(error)
        except BROKEN as error:
            return f"{type(error).__name__}: {error}"
        self._add(node, outputs, dict(zip(node.output, kinds)), operands, body.environment)
        return ""

    def _add(
        self,
        node: Any,
        outputs: NodeOutputs,
        kinds: Mapping[str, Any],
        operands: Mapping[str, Value],
        environment: Environment,
    ) -> None:
        if outputs.names:
            places = [self._reserve(name) for name in outputs.names]
            read = list(outputs.tensors)
            for name in read:
                self.reference(operands[name])
            self.builder.express(node.op_type, read, places, lambda *_: outputs.expression)
            for name, place in zip(outputs.names, places):
                environment[name] = self._placed(name, place, kinds[name])
        for name, tensor in outputs.same.items():
            environment[name] = operands[tensor.name]
        for name, array in outputs.constants.items():
            environment[name] = constant_value(name, array)

    def _call(self, node: Any, body: _GraphBody, kinds: Sequence[Any], why: str) -> None:
        """Leave a node to the framework."""
        values: Environment = {}
        for name in (*node.input, *captured_names(node)):
            if name in body.environment:
                values[name] = body.environment[name]
        functions: Sequence[Any] = ()
        is_function = (node.domain, node.op_type) in self._functions
        if is_function or any(True for _ in inner_graphs(node)):
            functions = list(self._functions.values())
        call = OnnxCall(node, body.opsets, values, functions)
        places: dict[str, str] = {}
        outputs: dict[str, Any] = {}
        for name, kind in zip(node.output, kinds):
            if name:
                places[name] = self._reserve(name)
                outputs[places[name]] = _shape_and_dtype(kind)
        reads = [self.reference(value) for value in values.values() if not value.is_constant]
        is_repeatable = is_deterministic(node, body.opsets)
        self.builder.call(node.op_type, reads, outputs, call, why, is_repeatable)
        for name, kind in zip(node.output, kinds):
            if name:
                body.environment[name] = self._placed(name, places[name], kind)

    def _placed(self, name: str, place: str, kind: Any) -> Value:
        """Return the value that a node of the builder computes."""
        tensor = self.builder.values[place]
        if tensor is not None and sizes_of(kind) is None:
            kind = tensor_type(ELEMENTS[tensor.dtype], tensor.shape)
        return Value(name, kind, None, place, tensor)

    def _expand(self, node: Any, body: _GraphBody, kinds: Sequence[Any]) -> bool:
        """Add a node as the operators by which ONNX defines it, if the language has them all.

        Their results are of the types that ONNX has for the node.
        """
        read: list[Any] = []
        for value in body.optional_values(node.input):
            read.append(value.type if value is not None else None)
        function = function_of(node, read, body.opsets)
        if function is None:
            return False
        before, inner = self.builder, dict(body.environment)
        self.builder = before.copy()
        try:
            self._function(function, node, _GraphBody(inner, body.opsets, body.depth))
            is_expressed = len(self.builder.opaque) == len(before.opaque)
        except EinalgError:
            is_expressed = False
        results: Environment = {}
        for name, kind in zip(node.output, kinds):
            if name and name in inner and _is_of_type(inner[name], kind):
                results[name] = inner[name]
        if not is_expressed or len(results) < sum(map(bool, node.output)):
            self.builder = before
            return False
        body.environment.update(results)
        return True

    # Names and tensors of the graph under construction.

    def _reserve(self, name: str) -> str:
        """Reserve a name that no value and no weight has."""
        free = self.builder.unique(name)
        while free in self._reserved:
            free = self.builder.unique(f"{free}_2")
        self._reserved.add(free)
        return free

    def _tensor(self, value: Value) -> Tensor | None:
        """Return the tensor that an expression reads for a value.

        A constant gets its name now; its array is stored when it is used.
        """
        if value.tensor is None and value.is_constant:
            dtype = dtype_of(value.type)
            if dtype is not None:
                value.place = self._reserve(value.name)
                value.tensor = Tensor(value.place, value.array.shape, dtype, "weight")
        return value.tensor

    def reference(self, value: Value) -> str:
        """Return the name of a value in the graph; store a constant there."""
        if value.place is None:
            value.place = self._reserve(value.name)
        if value.is_constant and value.place not in self.builder.weights:
            self.builder.weight(value.place, value.array)
        return value.place


def first_output(node: Any) -> str:
    """Return the first output of a node that has a name, which no other node has."""
    return next(filter(None, node.output), "")


def required_value(environment: Environment, name: str, reader: str) -> Value:
    """Return a value that some node must have; `RecordError` where none has."""
    if name not in environment:
        raise RecordError(
            f"{name}, an output of {reader}, is given by no node\n"
            "  the file is damaged, or an initializer is missing"
        )
    return environment[name]


def _shape_and_dtype(kind: Any) -> tuple[tuple[int, ...], str] | None:
    shape, dtype = sizes_of(kind), dtype_of(kind)
    if shape is None or dtype is None:
        return None
    return shape, dtype


def _origins(graph: Any) -> dict[str, int]:
    """Return the position of the last node that has a value as an output."""
    origins: dict[str, int] = {}
    for position, node in enumerate(graph.node):
        origins.update(dict.fromkeys(node.output, position))
    return origins


def _names_read(graph: Any) -> set[str]:
    """Return the values that some node reads, and the outputs."""
    names: set[str] = set()
    for node in graph.node:
        names.update(node.input, captured_names(node))
    for output in graph.output:
        names.add(output if isinstance(output, str) else output.name)
    return names


def _without_unread(node: Any, read: set[str]) -> Any:
    """Return a node without names of outputs that nobody reads.

    ONNX allows that for outputs after the first.
    """
    if all(name in read for name in node.output[1:]):
        return node
    other = type(node)()
    other.CopyFrom(node)
    for position, name in enumerate(node.output):
        if position and name not in read:
            other.output[position] = ""
    return other


def _opsets(model: Any) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = entry.domain
        if domain in STANDARD:
            domain = ""
        opsets[domain] = entry.version
    return opsets


def _is_of_type(value: Value, kind: Any) -> bool:
    """Say whether a value has the element type of another one, as far as that is known."""
    dtype = dtype_of(kind)
    return dtype is None or value.tensor is None or value.tensor.dtype == dtype


def _place(node: Any) -> str:
    """Return a node as messages name it, for example `node 'y' (Relu)`."""
    name = node.name
    if not name and node.output:
        name = node.output[0]
    return f"node {name!r} ({node.op_type})"


def _missing(name: str, node: Any, is_later: bool) -> RecordError:
    if is_later:
        return RecordError(
            f"{_place(node)} reads {name}, which is given later\n"
            "  the nodes of an ONNX graph stand in order and form no cycle"
        )
    return RecordError(
        f"{_place(node)} reads {name}, which nothing gives\n"
        "  the file is damaged, or an initializer is missing"
    )
