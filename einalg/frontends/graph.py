"""Graphs of a framework's operators (design §11).

A front end imports an operator as a program where the language can express it, and as a call of the
framework elsewhere.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.frontends.axis_order import Array, Order, in_memory, positions
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.tensor import Tensor

Names = tuple[tuple[str, ...], tuple[str, ...]]  # of inputs and of outputs, in order
Statement = tuple[str, Any]
Shaped = tuple[Tensor, str, tuple[int, ...]]  # a tensor, its name and its shape
Compute = Callable[[Program, Mapping[str, Array]], Mapping[str, Array]]


@dataclass(frozen=True)
class GraphNode:
    """One operator of a framework: its name there, and the values that it reads and returns."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class ProgramNode(GraphNode):
    """A node that is a program.

    Its inputs are tensors of the names in `inputs`, and `outputs` are statements of it.
    """

    program: Program = field(repr=False)

    @cached_property
    def output_dtypes(self) -> list[tuple[str, np.dtype[Any]]]:
        """The outputs with the element types that their readers expect.

        The executor computes all integers as i64.
        """
        return [(name, numpy_dtype(self.program[name].dtype)) for name in self.outputs]


@dataclass(frozen=True)
class OpaqueNode(GraphNode):
    """A node that the framework computes: `call(*arrays)` returns an array for each output.

    `why` says why it is not a program. It `is_repeatable` where it returns the same whenever it is
    called.
    """

    call: Callable[..., Sequence[Array]] = field(repr=False)
    why: str
    is_repeatable: bool = False

    def identity(self) -> str | None:
        """Return a digest of what is called, with its constants; None where it is not known."""
        function = getattr(self.call, "identity", None)
        return function and function()


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they can be run, the inputs of a call, and constant arrays.

    `outputs` are values of nodes, inputs or weights. `names` are the framework's names of the
    inputs and the outputs, which may be anything; None where it has none. `orders` are the axes,
    outermost first, of inputs that lie in memory in another order than a call of the framework has.
    """

    inputs: tuple[Tensor, ...]
    weights: Mapping[str, Array] = field(repr=False)
    nodes: tuple[GraphNode, ...]
    outputs: tuple[str, ...]
    names: Names | None = None
    orders: Mapping[str, Order] = field(default_factory=dict)

    @property
    def opaque(self) -> list[OpaqueNode]:
        """The nodes that stay calls of the framework."""
        return [node for node in self.nodes if isinstance(node, OpaqueNode)]

    @property
    def called_inputs(self) -> tuple[Tensor, ...]:
        """The inputs with their axes as a call of the framework has them."""
        return tuple(_as_called(tensor, self.orders.get(tensor.name)) for tensor in self.inputs)

    @property
    def statement_count(self) -> int:
        """The number of statements of all programs."""
        programs = [node.program for node in self.nodes if isinstance(node, ProgramNode)]
        return sum(len(program.statements) for program in programs)

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        """Return the outputs for arrays of the inputs, in order, by the reference executor.

        Raises `ShapeError` where an array does not fit.
        """
        return self.run(arrays, execute_program)

    def run(self, arrays: Sequence[Any], compute: Compute) -> tuple[Array, ...]:
        """Return the outputs, with `compute(program, values)` for every program."""
        values: dict[str, Array] = {**self.weights, **self.named_arrays(arrays)}
        for node in self.nodes:
            if isinstance(node, ProgramNode):
                computed = compute(node.program, values)
                # A number that is too large for a shorter type is infinite there.
                with np.errstate(over="ignore", invalid="ignore"):
                    for name, dtype in node.output_dtypes:
                        values[name] = np.asarray(computed[name], dtype)
            elif isinstance(node, OpaqueNode):
                values.update(call_node(node, [values[name] for name in node.inputs]))
        return tuple([values[name] for name in self.outputs])

    @cached_property
    def _shapes(self) -> list[Shaped]:
        return _with_shapes(self.inputs)

    @cached_property
    def _called_shapes(self) -> list[Shaped]:
        return _with_shapes(self.called_inputs)

    def named_arrays(self, arrays: Sequence[Any]) -> dict[str, Array]:
        """Return arrays of the inputs by their names.

        Raises `ShapeError` for another number of them, or another shape.
        """
        return _named_arrays(self._shapes, arrays)

    def in_memory(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Return the arrays of a call of the framework with their axes in the order of `inputs`.

        Where `orders` has any, it raises `ShapeError` for another number of arrays or another
        shape than a call has.
        """
        if not self.orders:
            return arrays
        named = _named_arrays(self._called_shapes, arrays)
        return [in_memory(array, self.orders.get(name)) for name, array in named.items()]

    def merged(self) -> Graph:
        """Return the same graph with as few nodes as can be.

        Everything expressed between two opaque nodes is one program, without dead values.
        """
        nodes: list[GraphNode] = []
        for part in self._parts():
            if isinstance(part[0], ProgramNode):
                nodes.append(_merge(part, self._read_outside(part)))
            else:
                nodes.append(part[0])
        return replace(self, nodes=tuple(nodes))

    def _parts(self) -> list[list[Any]]:
        """Return opaque nodes alone, and the programs between them that can be computed together.

        Programs come as late as their readers allow.
        """
        level: dict[str, int] = {}  # how many opaque calls must come before a value
        parts: dict[tuple[int, int], list[Any]] = {}
        for position, node in enumerate(self._live_nodes()):
            before = max((level.get(name, 0) for name in node.inputs), default=0)
            # The programs of a level come before its opaque calls, each of which stands alone.
            key, after = (before, 0), before
            if isinstance(node, OpaqueNode):
                key, after = (before, position + 1), before + 1
            level.update(dict.fromkeys(node.outputs, after))
            parts.setdefault(key, []).append(node)
        return [parts[key] for key in sorted(parts)]

    def _live_nodes(self) -> list[GraphNode]:
        """Return the nodes of which something is read."""
        read, live = set(self.outputs), list[GraphNode]()
        for node in reversed(self.nodes):
            if not read.isdisjoint(node.outputs):
                read.update(node.inputs)
                live.append(node)
        return live[::-1]

    def _read_outside(self, part: Sequence[GraphNode]) -> set[str]:
        """Return the outputs, and the values that other nodes than these read."""
        inside = {id(node) for node in part}
        read = set(self.outputs)
        for node in self.nodes:
            if id(node) not in inside:
                read.update(node.inputs)
        return read


def execute_program(program: Program, values: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return the outputs of a program, by the reference executor."""
    return execute(program, values)


def call_node(node: OpaqueNode, arrays: Sequence[Any], strict: bool = False) -> dict[str, Any]:
    """Return the outputs of an opaque node by name: arrays, and values of other kinds.

    Only opaque nodes read the latter, which are lists of arrays, dictionaries and None. `strict`
    raises `ValueError` for another number of results than outputs.
    """
    outputs: dict[str, Any] = {}
    for name, value in zip(node.outputs, node.call(*arrays), strict=strict):
        if value is not None and not isinstance(value, (list, dict)):
            value = np.asarray(value)
        outputs[name] = value
    return outputs


def as_declared(value: Any, dtype: str) -> Array:
    """Return a value in the element type that its readers expect."""
    return np.asarray(value, numpy_dtype(dtype))


def live_statements(statements: Iterable[Statement], outputs: Iterable[str]) -> list[Statement]:
    """Return the statements that some output depends on."""
    read, live = set(outputs), list[Statement]()
    for name, scope in reversed(list(statements)):
        if name in read:
            read.update(scope.tensors)
            live.append((name, scope))
    return live[::-1]


def unique_name(name: str, used_names: Container[str]) -> str:
    """Return a name for a tensor that is like `name`, and is not used.

    >>> unique_name("layer1.0/conv:0", {"layer1_0_conv_0"})
    'layer1_0_conv_0_2'
    """
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "value"
    if word[0].isdigit() or keyword.iskeyword(word):
        word = f"v_{word}"
    if word not in used_names:
        return word
    return next(numbered for k in count(2) if (numbered := f"{word}_{k}") not in used_names)


def distinct_names(names: Sequence[str], used_names: Sequence[str]) -> list[str]:
    """Return the names, with others like them for what is named a second time.

    >>> distinct_names(["y", "y", "z"], ["x"])
    ['y', 'y_2', 'z']
    """
    distinct: list[str] = []
    for name in names:
        if name in distinct:
            name = unique_name(name, {*distinct, *names, *used_names})
        distinct.append(name)
    return distinct


def _as_called(tensor: Tensor, order: Order | None) -> Tensor:
    if order is None:
        return tensor
    axes = [tensor.box[place] for place in positions(order)]
    return Tensor(tensor.name, axes, tensor.dtype)


def _with_shapes(tensors: Iterable[Tensor]) -> list[Shaped]:
    return [(tensor, tensor.name, tensor.shape) for tensor in tensors]


def _named_arrays(shapes: Sequence[Shaped], arrays: Sequence[Any]) -> dict[str, Array]:
    if len(arrays) != len(shapes):
        names = ", ".join(name for _, name, _ in shapes)
        raise ShapeError(
            f"{len(shapes)} inputs are expected, not {len(arrays)}\n  give {names or 'none'}"
        )
    by_name: dict[str, Array] = {}
    for (tensor, name, shape), array in zip(shapes, arrays):
        is_array = type(array) is np.ndarray
        if not is_array or array.shape != shape or array.dtype.kind not in "biuf":
            array = _fitting(tensor, array)
        by_name[name] = array
    return by_name


def _fitting(tensor: Tensor, array: Any) -> Array:
    try:
        array = np.asarray(array)
    except Exception as error:  # of rows of different lengths, or of a class that is not ours
        raise ShapeError(
            f"input {tensor.name} cannot be read as an array: {error}\n"
            f"  give an array of shape {tensor.shape}"
        ) from None
    if array.shape != tensor.shape:
        raise ShapeError(
            f"input {tensor.name} has shape {tensor.shape}, not {array.shape}\n"
            "  give an array of that shape, or optimize the model for this one"
        )
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind != "V":  # which is what NumPy makes of bfloat16
        raise ShapeError(
            f"input {tensor.name} holds numbers of dtype {tensor.dtype}, and an array of dtype "
            f"{array.dtype} is given\n  give an array of numbers"
        )
    return as_declared(array, tensor.dtype)


def _merge(nodes: Sequence[ProgramNode], read: set[str]) -> ProgramNode:
    """Return nodes as one, with those outputs that are read."""
    statements: list[Statement] = []
    tensors: dict[str, Tensor] = {}  # of the statements so far
    outputs: list[str] = []
    for node in nodes:
        for name, scope in node.program.statements:
            changed: dict[str, Any] = {}
            for read_name, tensor in scope.tensors.items():
                if tensors.get(read_name, tensor) != tensor:
                    changed[read_name] = tensors[read_name]
            placed = substitute_tensors(scope, changed)
            statements.append((name, placed))
            tensors[name] = statement_tensor(name, placed)
        outputs += [name for name in node.outputs if name in read]
    live = live_statements(statements, outputs)
    if len(nodes) == 1 and _is_program(nodes[0].program, live, outputs):
        return nodes[0]
    program = Program(live, tuple(outputs))
    operators = dict.fromkeys(node.operator for node in nodes)
    return ProgramNode("+".join(operators), tuple(program.inputs), tuple(outputs), program)


def _is_program(program: Program, statements: Sequence[Statement], outputs: Sequence[str]) -> bool:
    """Return whether a program consists of these statements and outputs."""
    if tuple(outputs) != program.outputs or len(statements) != len(program.statements):
        return False
    pairs = zip(statements, program.statements)
    return all(scope is other for (_, scope), (_, other) in pairs)
