"""From the nodes of an ONNX graph, in order, to those of a graph of programs and calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from einalg.errors import EinalgError, RecordError
from einalg.frontends.graph_builder import GraphBuilder
from einalg.frontends.onnx.nodes.attributes import (
    attributes_of,
    captured,
    inner_graphs,
    with_arguments,
)
from einalg.frontends.onnx.nodes.opaque_call import OnnxCall
from einalg.frontends.onnx.nodes.outputs import NodeOutputs, results_of
from einalg.frontends.onnx.nodes.registry import Operator
from einalg.frontends.onnx.nodes.shape_inference import Opsets, function_of, infer, is_deterministic
from einalg.frontends.onnx.nodes.values import (
    ELEMENTS,
    Value,
    array_of,
    dtype_of,
    is_too_large,
    known,
    sizes_of,
    tensor_type,
)
from einalg.frontends.onnx.operators import DEFINITIONS
from einalg.language.ir.tensor import Tensor

Environment = dict[str, Value]
FOLDED = (
    2**14
)  # elements: results that are computed while the file is read rather than written as expressions
STORED = (
    2**26
)  # elements of a result that no expression gives but that depends on known values only
DEEPEST = 40  # functions in functions
BROKEN = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    ArithmeticError,
    MemoryError,
)  # what damaged nodes lead to
STANDARD = ("", "ai.onnx")


class Converter:
    """Adds the nodes of a model to a builder."""

    def __init__(self, model: Any):
        self.builder = GraphBuilder()
        self._functions = {(f.domain, f.name): f for f in model.functions}
        self._declared = {v.name: v.type for v in (*model.graph.value_info, *model.graph.output)}
        self._opsets = _opsets(model)
        self._taken: set[str] = set()  # names that are kept for values

    def run(
        self, graph: Any, environment: Environment, opsets: Opsets | None = None, depth: int = 0
    ) -> None:
        """All nodes of a graph or function; `environment` has the values that they may read, and gets those that they give."""
        if depth > DEEPEST:
            raise RecordError(
                f"the functions of the model call each other more than {DEEPEST} deep\n  a function must not call itself"
            )
        origin: dict[str, int] = {
            name: position for position, node in enumerate(graph.node) for name in node.output
        }
        given: set[str] = set()
        read = _read(graph)
        for position, node in enumerate(graph.node):
            for name in filter(None, node.input):
                if name not in environment:
                    raise _missing(name, node, origin.get(name, -1) >= position)
            twice = next((name for name in node.output if name and name in given), None)
            if twice is not None:
                raise RecordError(
                    f"{twice} is given twice, also by {_place(node)}\n  every value of a graph has one origin"
                )
            given.update(node.output)
            node = _without_unread(node, read)
            self._node(node, environment, self._opsets if opsets is None else opsets, depth)

    def _node(self, node: Any, environment: Environment, opsets: Opsets, depth: int) -> None:
        """The first of what a node can become: other nodes, known values, a program, a call."""
        local = self._functions.get((node.domain, node.op_type))
        if local is not None:
            self._function(local, node, environment, depth)
        elif not self._branch(node, environment, opsets, depth):
            self._operator(node, environment, opsets, depth)

    def _operator(self, node: Any, environment: Environment, opsets: Opsets, depth: int) -> None:
        values = [environment[name] if name else None for name in node.input]
        kinds = [
            self._kind(name, kind) for name, kind in zip(node.output, infer(node, values, opsets))
        ]
        large = next(
            (shape for shape in map(sizes_of, kinds) if shape is not None and is_too_large(shape)),
            None,
        )
        if large is not None:
            raise RecordError(
                f"{_place(node)} gives an array of shape {large}, which is too large to compute\n  load the model with smaller inputs"
            )
        if node.input and self._computed(node, environment, opsets, kinds, FOLDED):
            return
        why = self._expressed(node, environment, opsets, kinds)
        if (
            why
            and not self._expanded(node, environment, opsets, depth)
            and not self._computed(node, environment, opsets, kinds, STORED)
        ):
            self._call(node, environment, opsets, kinds, why)

    def _kind(self, name: str, inferred: Any) -> Any:
        """The type of a value: what the file says of it where inference finds less."""
        stated = self._declared.get(name)
        if stated is None or sizes_of(inferred) is not None:
            return inferred
        return stated if inferred is None or sizes_of(stated) is not None else inferred

    def _branch(self, node: Any, environment: Environment, opsets: Opsets, depth: int) -> bool:
        """`If` of a known condition: the nodes of the branch that is taken."""
        if (
            node.op_type != "If"
            or node.domain not in STANDARD
            or len(node.input) != 1
            or not node.input[0]
        ):
            return False
        condition = environment[node.input[0]].array
        if condition is None or np.size(condition) != 1:
            return False
        name = "then_branch" if np.ravel(condition)[0] else "else_branch"
        branch = next((a.g for a in node.attribute if a.name == name), None)
        if branch is None or len(branch.output) != len(node.output):
            raise RecordError(
                f"{_place(node)} has no {name} with {len(node.output)} outputs\n  the file is damaged"
            )
        inner = {
            **environment,
            **{
                t.name: known(t.name, array_of(t, f"initializer {t.name}"))
                for t in branch.initializer
            },
        }
        self.run(branch, inner, opsets, depth + 1)
        environment.update(
            {
                outer: given(inner, own.name, _place(node))
                for outer, own in zip(node.output, branch.output)
                if outer
            }
        )
        return True

    def _function(self, function: Any, node: Any, environment: Environment, depth: int) -> None:
        """A call of a function: the nodes of its body, with arguments for its parameters."""
        arguments = {
            parameter: environment[name]
            for parameter, name in zip(function.input, node.input)
            if name
        }
        body = with_arguments(function, node)
        for one in body.node:
            one.input[:] = [
                "" if name in function.input and name not in arguments else name
                for name in one.input
            ]
        inner = dict(arguments)
        self.run(body, inner, _opsets(function) or self._opsets, depth + 1)
        environment.update(
            {
                outer: given(inner, own, _place(node))
                for outer, own in zip(node.output, function.output)
                if outer
            }
        )

    def _computed(
        self, node: Any, environment: Environment, opsets: Opsets, kinds: Sequence[Any], most: int
    ) -> bool:
        """Whether the node reads known values only and its outputs are small; then these are computed now."""
        values = {name: environment[name] for name in node.input if name}
        if not all(v.is_known for v in values.values()) or not is_deterministic(node, opsets):
            return False
        shapes = [sizes_of(kind) for kind in kinds]
        if (
            any(shape is None or prod(shape) > most for shape in shapes)
            or sum(np.size(v.array) for v in values.values()) > STORED
        ):
            return False
        try:
            arrays = OnnxCall(node, opsets, values)()
        except EinalgError:
            return False
        environment.update(
            (name, known(name, array)) for name, array in zip(filter(None, node.output), arrays)
        )
        return True

    def _expressed(
        self, node: Any, environment: Environment, opsets: Opsets, kinds: Sequence[Any]
    ) -> str:
        """Add the node as a program; else say why it is none."""
        definition = DEFINITIONS.get(node.op_type) if node.domain in STANDARD else None
        if definition is None:
            return f"{node.op_type} has no definition in the language"
        values = tuple(environment[name] if name else None for name in node.input)
        seen: dict[str, Value] = {}

        def read(value: Value) -> Tensor | None:
            tensor = self._tensor(value)
            if tensor is not None:
                seen[tensor.name] = value
            return tensor

        try:
            dtypes = tuple(map(dtype_of, kinds))
            operator = Operator(
                node.op_type,
                opsets.get("", 1),
                attributes_of(node),
                values,
                tuple(node.output),
                dtypes,
                read=read,
            )
            results = results_of(definition(operator), operator, kinds)
        except EinalgError as error:
            return str(error).splitlines()[0]
        except BROKEN as error:
            return f"{type(error).__name__}: {error}"
        self._add(node, results, kinds, seen, environment)
        return ""

    def _add(
        self,
        node: Any,
        results: NodeOutputs,
        kinds: Sequence[Any],
        seen: Mapping[str, Value],
        environment: Environment,
    ) -> None:
        if results.names:
            places = []
            for name in results.names:
                places.append(self._free(name))
                self._taken.add(places[-1])
            read = list(results.tensors)
            for name in read:
                self.reference(seen[name])
            self.builder.express(node.op_type, read, places, lambda *_: results.expression)
            for name, place in zip(results.names, places):
                environment[name] = self._placed(name, place, kinds[list(node.output).index(name)])
        environment.update((name, seen[tensor.name]) for name, tensor in results.same.items())
        environment.update((name, known(name, array)) for name, array in results.known.items())

    def _call(
        self, node: Any, environment: Environment, opsets: Opsets, kinds: Sequence[Any], why: str
    ) -> None:
        """Leave the node to the framework."""
        read = dict.fromkeys(name for name in (*node.input, *captured(node)) if name in environment)
        values = {name: environment[name] for name in read}
        functions = list(self._functions.values()) if any(True for _ in inner_graphs(node)) else ()
        call = OnnxCall(node, opsets, values, functions)
        places: dict[str, str] = {}
        for name in filter(None, node.output):
            places[name] = self._free(name)
            self._taken.add(places[name])
        types = {name: (sizes_of(kind), dtype_of(kind)) for name, kind in zip(node.output, kinds)}
        outputs = {
            place: types[name] if None not in types[name] else None
            for name, place in places.items()
        }
        reads = [self.reference(v) for v in values.values() if not v.is_known]
        self.builder.call(node.op_type, reads, outputs, call, why, is_deterministic(node, opsets))  # pyright: ignore
        for name, kind in zip(node.output, kinds):
            if name:
                environment[name] = self._placed(name, places[name], kind)

    def _placed(self, name: str, place: str, kind: Any) -> Value:
        tensor = self.builder.values[place]
        if kind is None or sizes_of(kind) is None:
            kind = tensor_type(ELEMENTS[tensor.dtype], tensor.shape) if tensor is not None else kind
        return Value(name, kind, None, place, tensor)

    # Names and tensors of the graph that is built.

    def _free(self, name: str) -> str:
        """A name that no value and no weight has, and that is not kept for one."""
        found = self.builder.unique(name)
        while found in self._taken:
            found = self.builder.unique(f"{found}_2")
        return found

    def _tensor(self, value: Value) -> Tensor | None:
        """The tensor that an expression reads for a value; a known one gets a name now, and its array is stored when it is used."""
        if value.tensor is None and value.is_known and dtype_of(value.type) is not None:
            value.place = self._free(value.name)
            self._taken.add(value.place)
            value.tensor = Tensor(
                value.place, value.array.shape, dtype_of(value.type) or "", "weight"
            )
        return value.tensor

    def reference(self, value: Value) -> str:
        """The name of a value in the graph that is built, where a known one is then stored."""
        if value.place is None:
            value.place = self._free(value.name)
            self._taken.add(value.place)
        if value.is_known and value.place not in self.builder.weights:
            self.builder.weight(value.place, value.array)
        return value.place

    def _expanded(self, node: Any, environment: Environment, opsets: Opsets, depth: int) -> bool:
        """Whether ONNX defines the node by other operators of which the language has all; then these are added."""
        function = function_of(
            node, [environment[name].type if name else None for name in node.input], opsets
        )
        if function is None:
            return False
        before, inner = self.builder, dict(environment)
        self.builder = before.copy()
        try:
            self._function(function, node, inner, depth)
            done = len(self.builder.opaque) == len(before.opaque) and all(
                name in inner for name in node.output if name
            )
        except EinalgError:
            done = False
        if not done:
            self.builder = before
            return False
        environment.update((name, inner[name]) for name in node.output if name)
        return True


def given(environment: Environment, name: str, reader: str) -> Value:
    """A value that something must have given; `RecordError` where it has not."""
    if name not in environment:
        raise RecordError(
            f"{name}, an output of {reader}, is given by no node\n  the file is damaged, or an initializer is missing"
        )
    return environment[name]


def _read(graph: Any) -> set[str]:
    """The values that some node reads, or that are outputs."""
    inside = (name for node in graph.node for name in (*node.input, *captured(node)))
    return {
        *inside,
        *(output if isinstance(output, str) else output.name for output in graph.output),
    }


def _without_unread(node: Any, read: set[str]) -> Any:
    """A node whose outputs that nobody reads have no name; ONNX allows that for outputs after the first."""
    if all(name in read for name in node.output[1:]):
        return node
    other = type(node)()
    other.CopyFrom(node)
    other.output[1:] = [name if name in read else "" for name in node.output[1:]]
    return other


def _opsets(model: Any) -> dict[str, int]:
    return {
        "" if entry.domain in STANDARD else entry.domain: entry.version
        for entry in model.opset_import
    }


def _place(node: Any) -> str:
    return f"node {node.name or (node.output[0] if node.output else '')!r} ({node.op_type})"


def _missing(name: str, node: Any, later: bool) -> RecordError:
    if later:
        return RecordError(
            f"{_place(node)} reads {name}, which is given later\n  the nodes of an ONNX graph stand in order and form no cycle"
        )
    return RecordError(
        f"{_place(node)} reads {name}, which nothing gives\n  the file is damaged, or an initializer is missing"
    )
