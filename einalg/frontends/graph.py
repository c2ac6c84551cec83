"""Graphs of a framework's operators: what a front end reads, as programs where the language can say it and calls elsewhere (design §11)."""

from __future__ import annotations

import keyword
import logging
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count
from typing import Any

import numpy as np

from einalg.errors import EinalgError, ShapeError
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import dtype_name, numpy_dtype
from einalg.language.ir.program import Program, as_program, statement_tensor, substitute_tensors
from einalg.language.ir.tensor import Tensor

LOG = logging.getLogger("einalg")
MOST_KNOWN = 2**26  # elements of what a call gives, to be kept as a weight
Array = np.ndarray[Any, Any]
Names = tuple[tuple[str, ...], tuple[str, ...]]  # of inputs and of outputs, in order


@dataclass(frozen=True)
class GraphNode:
    """One operator of a framework: its name there, and the values that it reads and gives."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class ProgramNode(GraphNode):
    """A node that is a program: its inputs are tensors of the names in `inputs`, and `outputs` are statements of it."""

    program: Program = field(repr=False)

    @cached_property
    def kinds(self) -> list[tuple[str, np.dtype[Any]]]:
        """The outputs with the element types that their readers expect; the executor computes integers as i64."""
        return [(name, numpy_dtype(self.program[name].dtype)) for name in self.outputs]


@dataclass(frozen=True)
class OpaqueNode(GraphNode):
    """A node that the framework computes: `call(*arrays)` gives one array for each of `outputs`. `why` says why it is not a program.

    It `is_repeatable` where it gives the same whenever it is called.
    """

    call: Callable[..., Sequence[Array]] = field(repr=False)
    why: str
    is_repeatable: bool = False


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they can be run, the tensors that a call gives, and the arrays that are known already.

    `outputs` are values of nodes, inputs or weights. `names` are what the framework calls the inputs and the outputs, which may be anything,
    None where it has no names of its own.
    """

    inputs: tuple[Tensor, ...]
    weights: Mapping[str, Array] = field(repr=False)
    nodes: tuple[GraphNode, ...]
    outputs: tuple[str, ...]
    names: Names | None = None

    @property
    def opaque(self) -> list[OpaqueNode]:
        """The nodes that stay calls of the framework."""
        return [node for node in self.nodes if isinstance(node, OpaqueNode)]

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        """The outputs for arrays of the inputs, in order, by the reference executor; `ShapeError` where one does not fit."""
        return self.run(arrays, _computed)

    def run(
        self,
        arrays: Sequence[Any],
        compute: Callable[[Program, Mapping[str, Array]], Mapping[str, Array]],
    ) -> tuple[Array, ...]:
        """The outputs, with `compute(program, values)` for every program."""
        values: dict[str, Array] = {**self.weights, **self.given(arrays)}
        for node in self.nodes:
            if isinstance(node, ProgramNode):
                computed = compute(node.program, values)
                with np.errstate(
                    over="ignore", invalid="ignore"
                ):  # what is too large for a shorter type is infinite there
                    values.update(
                        (name, np.asarray(computed[name], dtype)) for name, dtype in node.kinds
                    )
            elif isinstance(node, OpaqueNode):
                values.update(
                    zip(
                        node.outputs,
                        map(_called, node.call(*(values[name] for name in node.inputs))),
                    )
                )
        return tuple([values[name] for name in self.outputs])

    @cached_property
    def _shapes(self) -> list[tuple[Tensor, str, tuple[int, ...]]]:
        return [(tensor, tensor.name, tensor.shape) for tensor in self.inputs]

    def given(self, arrays: Sequence[Any]) -> dict[str, Array]:
        """The arrays of a call by the names of the inputs; `ShapeError` for another number of them, or another shape."""
        if len(arrays) != len(self.inputs):
            raise ShapeError(
                f"{len(self.inputs)} inputs are expected ({', '.join(t.name for t in self.inputs)}), not {len(arrays)}"
            )
        return {
            name: array
            if type(array) is np.ndarray and array.shape == shape and array.dtype.kind in "biuf"
            else _fitting(tensor, array)
            for (tensor, name, shape), array in zip(self._shapes, arrays)
        }

    def settled(self) -> Graph:
        """The same graph with what calls give that depend on weights alone as weights: computed now, not whenever the graph is called."""
        known = _Known(self.weights)
        left = [node for node in self.nodes if not known.take(node)]
        nodes = tuple(
            _with_weights(node, known.given) if isinstance(node, ProgramNode) else node
            for node in left
        )
        return (
            replace(self, weights={**self.weights, **known.given}, nodes=nodes)
            if known.given
            else self
        )

    def joined(self) -> Graph:
        """The same graph with as few nodes as can be: everything expressed between two opaque nodes is one program, without what nobody reads."""
        nodes = [
            _joined(part, self._read_after(part)) if isinstance(part[0], ProgramNode) else part[0]
            for part in self._parts()
        ]
        return replace(self, nodes=tuple(nodes))

    def _parts(self) -> list[list[Any]]:
        """Opaque nodes alone, and between them the expressed ones that can be computed together, as late as their readers allow."""
        level: dict[str, int] = {}  # how many opaque calls must come before a value
        parts: dict[tuple[int, int], list[Any]] = {}
        for position, node in enumerate(self._used()):
            before = max((level.get(name, 0) for name in node.inputs), default=0)
            opaque = isinstance(node, OpaqueNode)
            level.update(dict.fromkeys(node.outputs, before + opaque))
            # The programs of a level come before its opaque calls, each of which stands alone.
            parts.setdefault((before, position + 1) if opaque else (before, 0), []).append(node)
        return [parts[key] for key in sorted(parts)]

    def _used(self) -> list[GraphNode]:
        """The nodes of which something is read."""
        wanted, kept = set(self.outputs), []
        for node in reversed(self.nodes):
            if not wanted.isdisjoint(node.outputs):
                wanted.update(node.inputs)
                kept.append(node)
        return kept[::-1]

    def _read_after(self, part: Sequence[GraphNode]) -> set[str]:
        """The values that others than these nodes read."""
        own = {id(node) for node in part}
        return {name for node in self.nodes if id(node) not in own for name in node.inputs} | set(
            self.outputs
        )


class _Known:
    """What is known before a graph is called: its weights, what is computed of them, and what calls have `given` for these."""

    def __init__(self, weights: Mapping[str, Array]):
        self.values, self.given = dict(weights), dict[str, Array]()
        self._made: dict[str, ProgramNode] = {}  # by what they give: computed where a call reads it

    def take(self, node: GraphNode) -> bool:
        """Whether a node needs not be called, as what it gives is a weight from now on."""
        if not all(name in self.values or name in self._made for name in node.inputs):
            return False
        if isinstance(node, ProgramNode):
            self._made.update(dict.fromkeys(node.outputs, node))
        if not isinstance(node, OpaqueNode) or not node.is_repeatable:
            return False
        try:
            given = dict(
                zip(
                    node.outputs,
                    map(_called, node.call(*map(self._value, node.inputs))),
                    strict=True,
                )
            )
        except (
            Exception
        ) as error:  # whatever a framework raises, it does so when the graph is called
            LOG.debug("einalg: %s cannot be called ahead: %s", node.operator, error)
            return False
        if not all(
            isinstance(value, np.ndarray) and value.size <= MOST_KNOWN for value in given.values()
        ):
            return False
        self.values.update(given)
        self.given.update(given)
        return True

    def _value(self, name: str) -> Array:
        if name not in self.values:
            node = self._made[name]
            found = _computed(node.program, {read: self._value(read) for read in node.inputs})
            self.values.update(
                (output, np.asarray(found[output], dtype)) for output, dtype in node.kinds
            )
        return self.values[name]


def _computed(program: Program, values: Mapping[str, Array]) -> Mapping[str, Array]:
    """The outputs of a program, by the reference executor."""
    return execute(program, values)


def _with_weights(node: ProgramNode, names: Container[str]) -> ProgramNode:
    """A node for which tensors of these names are weights."""
    weights = {
        name: Tensor(name, t.axes, t.dtype, "weight")
        for name, t in node.program.inputs.items()
        if name in names
    }
    if not weights:
        return node
    statements = [
        (name, substitute_tensors(scope, {k: weights[k] for k in scope.tensors if k in weights}))
        for name, scope in node.program.statements
    ]
    return replace(node, program=Program(statements, node.program.outputs))


def _fitting(tensor: Tensor, array: Any) -> Array:
    array = np.asarray(array)
    if array.shape != tensor.shape:
        raise ShapeError(f"input {tensor.name} has shape {tensor.shape}, not {array.shape}")
    return array if array.dtype.kind in "biuf" else _as_declared(array, tensor.dtype)


def _as_declared(value: Any, dtype: str) -> Array:
    """A value in the element type that its readers expect."""
    return np.asarray(value, numpy_dtype(dtype))


def _called(value: Any) -> Any:
    """What a framework gives: an array, or a value of another kind that only opaque nodes read (lists of arrays, dictionaries)."""
    return value if value is None or isinstance(value, (list, dict)) else np.asarray(value)


def _joined(nodes: Sequence[ProgramNode], read: set[str]) -> ProgramNode:
    """Nodes as one, with those outputs that are read."""
    statements: list[tuple[str, Any]] = []
    known: dict[str, Any] = {}
    for node in nodes:
        for name, scope in node.program.statements:
            placed = substitute_tensors(
                scope,
                {k: known[k] for k, t in scope.tensors.items() if k in known and known[k] != t},
            )
            statements.append((name, placed))
            known[name] = statement_tensor(name, placed)
    outputs = tuple(name for node in nodes for name in node.outputs if name in read)
    kept, (first, *others) = needed(statements, outputs), nodes
    if (
        not others
        and outputs == first.program.outputs
        and [id(s) for _, s in kept] == [id(s) for _, s in first.program.statements]
    ):
        return first
    program = Program(kept, outputs)
    return ProgramNode(
        "+".join(dict.fromkeys(node.operator for node in nodes)),
        tuple(program.inputs),
        outputs,
        program,
    )


def needed(statements: Iterable[tuple[str, Any]], outputs: Iterable[str]) -> list[tuple[str, Any]]:
    """The statements that some output depends on."""
    wanted, kept = set(outputs), []
    for name, scope in reversed(list(statements)):
        if name in wanted:
            wanted.update(scope.tensors)
            kept.append((name, scope))
    return kept[::-1]


def _named(expression: Any, outputs: Sequence[str], taken: Iterable[str]) -> Program:
    """An expression as a program whose outputs have these names, and whose other statements have names that nothing else has."""
    if isinstance(expression, tuple):
        expression = Program(
            (f"{name}_", scope) for name, scope in zip(outputs, expression, strict=True)
        )
    program = as_program(expression, outputs[0])
    if len(program.outputs) != len(outputs):
        raise ShapeError(
            f"the expression has {len(program.outputs)} outputs, and {len(outputs)} names are given"
        )
    names = dict(zip(program.outputs, outputs))
    used = {*taken, *outputs}
    for name in program.names:
        if name not in names:
            names[name] = unique(f"{outputs[0]}_{name}", used)
            used.add(names[name])
    statements: list[tuple[str, Any]] = []
    known: dict[str, Any] = {}
    for name, scope in program.statements:
        placed = substitute_tensors(scope, {k: known[k] for k in scope.tensors if k in known})
        statements.append((names[name], placed))
        known[name] = statement_tensor(names[name], placed)
    return Program(statements, outputs)


def _tensor(name: str, shape: Sequence[int], dtype: Any, role: str = "input") -> Tensor | None:
    """None where the language has no such tensor: no elements, text."""
    try:
        return Tensor(name, shape, dtype_name(dtype), role)
    except EinalgError:
        return None


def unique(name: str, taken: Container[str]) -> str:
    """A name for a tensor that is like `name` and not taken.

    >>> unique("layer1.0/conv:0", {"layer1_0_conv_0"})
    'layer1_0_conv_0_2'
    """
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "value"
    word = f"v_{word}" if word[0].isdigit() or keyword.iskeyword(word) else word
    return next(w for w in chain([word], (f"{word}_{k}" for k in count(2))) if w not in taken)


class Builder:
    """A graph under construction: front ends add nodes in order, and read the shapes of values as they come.

    >>> from einalg import ops
    >>> b = Builder()
    >>> b.input("x", (2, 3), "f32"); b.weight("w", np.ones((3, 4), np.float32))
    >>> b.express("MatMul", ("x", "w"), ("y",), ops.matmul)
    >>> b.values["y"].shape, b.graph(["y"])(np.ones((2, 3)))[0].tolist()
    ((2, 4), [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]])
    """

    def __init__(self) -> None:
        self.values: dict[
            str, Tensor | None
        ] = {}  # None: of a shape or dtype that is known at run time only
        self.weights: dict[str, Array] = {}
        self._inputs: list[Tensor] = []
        self._nodes: list[GraphNode] = []
        self._inner: set[str] = (
            set()
        )  # statements inside programs, whose names must differ too where programs are joined

    @property
    def opaque(self) -> list[OpaqueNode]:
        """The nodes so far that stay calls."""
        return [node for node in self._nodes if isinstance(node, OpaqueNode)]

    def copy(self) -> Builder:
        """The same graph so far, to try what to add to it."""
        other = Builder()
        other.values, other.weights, other._inner = (
            dict(self.values),
            dict(self.weights),
            set(self._inner),
        )
        other._inputs, other._nodes = list(self._inputs), list(self._nodes)
        return other

    def unique(self, name: str) -> str:
        """A name for a value that is like `name`, and that nothing has yet."""
        return unique(name, {*self.values, *self._inner})

    def input(self, name: str, shape: Sequence[int], dtype: str) -> None:
        """An array that a call gives."""
        self.values[name] = tensor = Tensor(name, shape, dtype)
        self._inputs.append(tensor)

    def weight(self, name: str, array: Array, role: str = "weight") -> None:
        """An array that is known already; where the language has no tensor like it (no elements, text), only opaque nodes can read it."""
        self.values[name] = tensor = _tensor(name, array.shape, array.dtype, role)
        self.weights[name] = (
            array
            if tensor is None or array.dtype.kind in "biuf"
            else _as_declared(array, tensor.dtype)
        )

    def express(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        build: Callable[..., Any],
    ) -> None:
        """A node that is `build(*tensors)`: a scope, a program, or for several outputs a tuple of scopes.

        Raises an `EinalgError` where the expression cannot be built; then nothing is added.
        """
        tensors = [self.values[name] for name in inputs]
        if any(t is None for t in tensors):
            unknown = next(name for name, t in zip(inputs, tensors) if t is None)
            raise ShapeError(f"the shape of {unknown} is known at run time only")
        program = _named(build(*tensors), outputs, {*self.values, *self._inner})
        for name in outputs:
            scope = program[name]
            self.values[name] = Tensor(name, tuple(scope.box), scope.dtype, "input")
        self._inner.update(set(program.names) - set(outputs))
        self._nodes.append(ProgramNode(operator, tuple(inputs), tuple(outputs), program))

    def call(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Mapping[str, tuple[Sequence[int], str] | None],
        call: Any,
        why: str,
        is_repeatable: bool = False,
    ) -> None:
        """A node that stays a call of the framework; `outputs` gives the shape and dtype of each value, None where these are not known."""
        for name, known in outputs.items():
            self.values[name] = _tensor(name, *known) if known else None
        self._nodes.append(
            OpaqueNode(operator, tuple(inputs), tuple(outputs), call, why, is_repeatable)
        )

    def graph(self, outputs: Sequence[str], names: Names | None = None) -> Graph:
        """The graph with these values as outputs; `names` as in `Graph`."""
        return Graph(tuple(self._inputs), self.weights, tuple(self._nodes), tuple(outputs), names)
