"""ATen graphs as einalg graphs (design §11).

A node is an expression where the table of operators has one, and a call of torch elsewhere.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Container, Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from einalg.errors import EinalgError, first_line
from einalg.frontends.axis_order import Order, positions
from einalg.frontends.graph import live_statements, unique_name
from einalg.frontends.graph_builder import GraphBuilder
from einalg.frontends.torch.capture.functionalize import operator_names
from einalg.frontends.torch.nodes.opaque_call import TorchCall, flat_results, map_nodes, nodes_in
from einalg.frontends.torch.nodes.registry import (
    ATEN,
    TAKES_CONSTANT_INTEGERS,
    NotExpressed,
    TrainingMode,
)
from einalg.frontends.torch.nodes.tensors import array_of, memory_key, shape_and_dtype
from einalg.language.analysis.overflow import may_wrap
from einalg.language.ir.dtypes import dtype_name, is_float, promote
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.language.ops.math.cast import cast
from einalg.language.ops.shape.indexing import transpose

if TYPE_CHECKING:
    from torch import fx

LOG = logging.getLogger("einalg")
# Operators whose result has one value everywhere.
UNIFORM = {
    *("full", "full_like", "new_full"),
    *("zeros", "zeros_like", "new_zeros"),
    *("ones", "ones_like", "new_ones"),
    "scalar_tensor",
}
# Operators that read the shape of an operand and nothing else.
SHAPE_ONLY = {
    *("full_like", "zeros_like", "ones_like", "empty_like"),
    *("new_full", "new_zeros", "new_ones", "new_empty"),
}
# Errors of a handler for arguments that it does not know.
FAILURES = (EinalgError, ArithmeticError, IndexError, TypeError, ValueError)


class GraphImporter:
    """A graph under construction from FX nodes.

    `values` has for each node the name of a value of the graph, or a list of names. Nodes of the
    names in `excluded` stay calls of torch, for the reasons there.
    """

    def __init__(self, excluded: Mapping[str, str] | None = None) -> None:
        self._excluded = excluded or {}
        self.builder = GraphBuilder()
        self.values: dict[fx.Node, Any] = {}
        self._inputs: set[fx.Node] = set()
        self.orders: dict[str, Order] = {}  # of the axes of inputs in memory
        self.sources: dict[str, str] = {}  # the placeholders of weights, by the names of these
        self._objects: dict[fx.Node, Any] = {}  # values that are no arrays: modules, None
        self.read_ahead: set[str] = set()  # weights whose elements the graph itself depends on
        self._constants: set[str] = set()  # weights that depend on no parameter of the module
        self._shared: dict[Any, str] = {}  # names of weights, by `memory_key`

    def input(self, node: fx.Node, order: Order | None = None) -> None:
        """Add a tensor that a call passes, with its axes in the order of memory."""
        self._inputs.add(node)
        name = self._unique(node.name)
        shape, dtype = tuple(node.meta["val"].shape), dtype_name(node.meta["val"].dtype)
        if order is None:
            self.builder.input(name, shape, dtype)
            self.values[node] = name
            return
        self.builder.input(name, [shape[axis] for axis in order], dtype)
        self.orders[name] = order
        view = self.values[node] = self._unique(f"{name}_as_called")
        self.builder.express("input", (name,), (view,), lambda x: transpose(x, positions(order)))

    def weight(self, node: fx.Node, name: str, tensor: Any, constant: bool = False) -> None:
        """Add a constant tensor; one that has several names is one weight."""
        key = memory_key(tensor) or node
        if key not in self._shared:
            self._shared[key] = self._unique(name)
            self.sources[self._shared[key]] = node.name
            self.builder.weight(self._shared[key], array_of(tensor))
        self.values[node] = self._shared[key]
        if constant:
            self._constants.add(self._shared[key])

    def attribute(self, node: fx.Node, value: Any) -> None:
        """Add an attribute of the graph: a constant tensor, or a module of a branch."""
        if hasattr(value, "data_ptr"):
            node.meta.setdefault("val", value)
            self.weight(node, node.name, value, constant=True)
        else:
            self._objects[node] = value

    @property
    def called_inputs(self) -> list[str]:
        """The names of the inputs as a call has them, in order."""
        return [name for node, name in self.values.items() if node in self._inputs]

    def call(self, node: fx.Node) -> None:
        """Add a node of an operator: an expression, a constant, or a call of torch."""
        if node.target is operator.getitem:
            self.values[node] = self.values[node.args[0]][node.args[1]]  # type: ignore[index]
            return
        reads = nodes_in(node.args, node.kwargs)
        overload, _ = operator_names(node.target)
        is_repeatable = _is_repeatable(node.target)
        if is_repeatable and self._is_constant(node, reads):
            self._compute(node, reads, constant=True)
            return
        why = self._excluded.get(node.name) or self._express(node, overload)
        if why is None:
            return
        LOG.info("einalg: %s stays a call of torch: %s", overload, why)
        if is_repeatable and self._all_in(reads, self.builder.weights):
            self._compute(node, reads, constant=False)
        else:
            self._call_torch(node, overload, reads, why)

    def outputs(self, node: fx.Node) -> list[Any]:
        """Return the names of the graph's outputs; None for one that is no value."""
        nodes: list[Any] = []
        map_nodes(node.args, nodes.append)
        return [self.values.get(output) for output in nodes]

    def _is_constant(self, node: fx.Node, reads: Sequence[fx.Node]) -> bool:
        """Return whether a value depends on no parameter and no input of the module."""
        _, base = operator_names(node.target)
        if base in SHAPE_ONLY and all(map(_has_constant_shape, (*reads, node))):
            return True
        return self._all_in(reads, self._constants)

    def _all_in(self, reads: Sequence[fx.Node], names: Container[str]) -> bool:
        return all(self.values[node] in names for node in self._arrays_among(reads))

    def _arrays_among(self, reads: Iterable[fx.Node]) -> list[fx.Node]:
        return [node for node in reads if node not in self._objects]

    def _express(self, node: fx.Node, overload: str) -> str | None:
        """Add a node as an expression; return the reason where it has none."""
        if overload not in ATEN:
            return f"{overload} has no expression"
        try:
            operand = self._operand
            if overload in TAKES_CONSTANT_INTEGERS:
                operand = self._integers_or_operand
            results = ATEN[overload](*map_nodes(_in_order(node), operand))
            self.values[node] = self._add(node, overload, results)
        except TrainingMode:
            raise
        except FAILURES as error:
            return first_line(error)
        return None

    def _operand(self, node: fx.Node) -> Any:
        if node in self._objects:
            return self._objects[node]
        tensor = self.builder.values[self.values[node]]
        if tensor is None or not hasattr(node.meta.get("val"), "dtype"):
            raise NotExpressed(f"{node.name} is known at run time only")
        return tensor

    def _integers_or_operand(self, node: fx.Node) -> Any:
        """Return an operand, as an array where it is constant integers."""
        name = str(self.values.get(node))
        array = self.builder.weights.get(name)
        if array is not None and array.dtype.kind in "iu":
            self.read_ahead.add(name)
            return array
        return self._operand(node)

    def _add(self, node: fx.Node, overload: str, results: Any) -> Any:
        """Add the statement of a node, or one for each of its results that is used."""
        if isinstance(results, Program) and len(results.outputs) > 1:
            return self._add_program(node, overload, results)
        if not isinstance(results, tuple):
            (value,) = self._add_results(overload, {node.name: _fitted(results, node.meta["val"])})
            return value
        used, examples = _used_results(node), node.meta["val"]
        fitted: dict[str, Any] = {}
        for position in used:
            result = _fitted(results[position], examples[position])
            fitted[f"{node.name}_{position}"] = result
        values = dict(zip(used, self._add_results(overload, fitted)))
        return [values.get(position) for position in range(len(examples))]

    def _add_results(self, overload: str, results: Mapping[str, Any]) -> list[str]:
        """Add expressions by the names that they should have; return their names.

        A result that is an operand keeps the name of that.
        """
        names: list[str] = []
        new: dict[str, Any] = {}
        inputs: dict[str, None] = {}
        for name, result in results.items():
            if isinstance(result, Tensor):
                names.append(result.name)
                continue
            names.append(self._unique(name))
            new[names[-1]] = result
            inputs.update(dict.fromkeys(as_program(result).inputs))
        if not new:
            return names
        expression: Any = tuple(new.values())
        if len(new) == 1:
            (expression,) = expression
        self.builder.express(overload, tuple(inputs), tuple(new), lambda *_: expression)
        return names

    def _add_program(self, node: fx.Node, overload: str, program: Program) -> list[str | None]:
        """Add a program with several results, as far as they are used."""
        used, examples = _used_results(node), node.meta["val"]
        outputs: list[str] = []
        names: list[str | None] = [None] * len(examples)
        for position in used:
            outputs.append(program.outputs[position])
            names[position] = self._unique(f"{node.name}_{position}")
            scope = program[outputs[-1]]
            if (scope.shape, scope.dtype) != shape_and_dtype(examples[position]):
                raise NotExpressed(f"a result would be {scope.dtype} of shape {scope.shape}")
        part = Program(live_statements(program.statements, outputs), outputs)
        added = tuple(name for name in names if name is not None)
        self.builder.express(overload, tuple(part.inputs), added, lambda *_: part)
        return names

    def _compute(self, node: fx.Node, reads: Iterable[fx.Node], constant: bool) -> None:
        """Add the values of a node as weights."""
        reads = self._arrays_among(reads)
        examples = flat_results(node.meta["val"])
        _, base = operator_names(node.target)
        array_of_node = self._array
        if base in SHAPE_ONLY:
            array_of_node = _zeros
        call = TorchCall(node, reads, range(len(examples)), self._objects)
        names: list[str] = []
        for result in call(*map(array_of_node, reads)):
            if base in UNIFORM and result.size > 1:
                result = np.broadcast_to(result.flat[0], result.shape)
            names.append(self._unique(node.name))
            self.builder.weight(names[-1], result)
        if constant:
            self._constants.update(names)
        if isinstance(node.meta["val"], (tuple, list)):
            self.values[node] = names
        else:
            self.values[node] = names[0]

    def _array(self, node: fx.Node) -> Any:
        self.read_ahead.add(self.values[node])
        return self.builder.weights[self.values[node]]

    def _call_torch(self, node: fx.Node, overload: str, reads: Iterable[fx.Node], why: str) -> None:
        """Add a node as a call of torch, with those of its results that are used."""
        reads = self._arrays_among(reads)
        example = node.meta.get("val")
        examples = flat_results(example)
        wanted = {0: node.name}
        if isinstance(example, (tuple, list)):
            wanted = {position: f"{node.name}_{position}" for position in _used_results(node)}
        names: dict[int, str] = {}
        outputs: dict[str, Any] = {}
        for position, name in wanted.items():
            if examples[position] is not None:
                names[position] = self._unique(name)
                outputs[names[position]] = shape_and_dtype(examples[position])
        call = TorchCall(node, reads, tuple(names), self._objects)
        inputs = tuple(self.values[read] for read in reads)
        is_repeatable = _is_repeatable(node.target)
        self.builder.call(overload, inputs, outputs, call, why, is_repeatable)
        if isinstance(example, (tuple, list)):
            self.values[node] = [names.get(position) for position in range(len(examples))]
        else:
            self.values[node] = names.get(0)

    def _unique(self, name: str) -> str:
        return unique_name(name, self.builder.values)


def _is_repeatable(target: Any) -> bool:
    """Return whether an operator is not random: its result is the same at each call."""
    if not hasattr(target, "_schema"):
        return False
    return all(tag.name != "nondeterministic_seeded" for tag in target.tags)


def _zeros(node: fx.Node) -> Any:
    return np.broadcast_to(np.zeros((), np.float32), node.meta["val"].shape)


def _has_constant_shape(node: fx.Node) -> bool:
    """Return whether no size of a tensor depends on data."""
    return all(type(size) is int for size in getattr(node.meta.get("val"), "shape", ()))


def _in_order(node: fx.Node) -> list[Any]:
    """Return the arguments of a node in the order of its operator's schema, with defaults."""
    entries = node.target._schema.arguments  # type: ignore[union-attr]
    arguments: list[Any] = list(node.args)
    for entry in entries[len(arguments) :]:
        arguments.append(node.kwargs.get(entry.name, entry.default_value))
    return arguments


def _used_results(node: fx.Node) -> list[int]:
    """Return the positions of the results of a node that are read."""
    used: set[Any] = set()
    for user in node.users:
        if user.target is operator.getitem:
            used.add(user.args[1])
    return sorted(used)


def _fitted(result: Any, example: Any) -> Any:
    """Return a result in the dtype that torch gives it; `NotExpressed` for another shape."""
    if result is None:
        raise NotExpressed("a result that says where something is, or is for gradients")
    expected = shape_and_dtype(example)
    if expected is None:
        raise NotExpressed("a result whose shape is known at run time only")
    shape, dtype = expected
    scope = result
    if not isinstance(result, Tensor):
        scope = as_program(result).result
    if tuple(scope.shape) != shape:
        raise NotExpressed(f"it would have the shape {tuple(scope.shape)}, and torch gives {shape}")
    if isinstance(scope, Scope):
        _require_elements(scope)
        if may_wrap(scope):
            raise NotExpressed(f"integers of {scope.dtype} wrap round where they are too large")
    if scope.dtype == dtype:
        return result
    if is_float(scope.dtype) and promote(scope.dtype, dtype) != dtype:
        # Autocast: torch rounds the operands first.
        raise NotExpressed(f"torch computes it in {dtype}, of operands of {scope.dtype}")
    return cast(scope, dtype)


def _require_elements(scope: Scope) -> None:
    for shape in (scope.shape, *(tensor.shape for tensor in scope.tensors.values())):
        if not prod(shape):
            raise NotExpressed("a tensor without elements")
