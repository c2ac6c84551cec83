"""Construction of graphs by front ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from einalg.errors import EinalgError, ShapeError
from einalg.frontends.graph import (
    Array,
    Graph,
    GraphNode,
    Names,
    OpaqueNode,
    ProgramNode,
    as_declared,
    unique_name,
)
from einalg.language.ir.dtypes import dtype_name
from einalg.language.ir.program import Program, as_program, statement_tensor, substitute_tensors
from einalg.language.ir.tensor import Tensor


class GraphBuilder:
    """A graph under construction: front ends add nodes in order, and read the shapes of values.

    >>> import numpy as np
    >>> from einalg import ops
    >>> b = GraphBuilder()
    >>> b.input("x", (2, 3), "f32"); b.weight("w", np.ones((3, 4), np.float32))
    >>> b.express("MatMul", ("x", "w"), ("y",), ops.matmul)
    >>> b.values["y"].shape, b.graph(["y"])(np.ones((2, 3)))[0].tolist()
    ((2, 4), [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]])
    """

    def __init__(self) -> None:
        # None for a value whose shape or dtype is known at run time only.
        self.values: dict[str, Tensor | None] = {}
        self.weights: dict[str, Array] = {}
        self._inputs: list[Tensor] = []
        self._nodes: list[GraphNode] = []
        # Statements inside programs have names that differ too, where programs are merged.
        self._inner: set[str] = set()

    @property
    def opaque(self) -> list[OpaqueNode]:
        """The nodes so far that stay calls."""
        return [node for node in self._nodes if isinstance(node, OpaqueNode)]

    def copy(self) -> GraphBuilder:
        """Return the same graph so far, to try additions to it."""
        other = GraphBuilder()
        other.values, other.weights = dict(self.values), dict(self.weights)
        other._inputs, other._nodes = list(self._inputs), list(self._nodes)
        other._inner = set(self._inner)
        return other

    def unique(self, name: str) -> str:
        """Return a name for a value that is like `name`, and is not used yet."""
        return unique_name(name, {*self.values, *self._inner})

    def input(self, name: str, shape: Sequence[int], dtype: str) -> None:
        """Add an array that a call passes."""
        self.values[name] = tensor = Tensor(name, shape, dtype)
        self._inputs.append(tensor)

    def weight(self, name: str, array: Array, role: str = "weight") -> None:
        """Add a constant array.

        Where the language has no tensor like it (no elements, text), only opaque nodes can read it.
        """
        self.values[name] = tensor = _tensor(name, array.shape, array.dtype, role)
        if tensor is not None and array.dtype.kind not in "biuf":
            array = as_declared(array, tensor.dtype)
        self.weights[name] = array

    def express(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        build: Callable[..., Any],
    ) -> None:
        """Add a node that is `build(*tensors)`.

        That is a scope, a program, or for several outputs a tuple of scopes. Raises an
        `EinalgError` where the expression cannot be built; then nothing is added.
        """
        tensors = [self.values[name] for name in inputs]
        for name, tensor in zip(inputs, tensors):
            if tensor is None:
                raise ShapeError(
                    f"the shape of {name} is known at run time only\n"
                    "  leave the operator to its framework"
                )
        program = _named_program(build(*tensors), outputs, {*self.values, *self._inner})
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
        """Add a node that stays a call of the framework.

        `outputs` has the shape and dtype of each value, None where these are known at run time
        only.
        """
        for name, declared in outputs.items():
            self.values[name] = None
            if declared:
                self.values[name] = _tensor(name, *declared)
        self._nodes.append(
            OpaqueNode(operator, tuple(inputs), tuple(outputs), call, why, is_repeatable)
        )

    def graph(self, outputs: Sequence[str], names: Names | None = None) -> Graph:
        """Return the graph with these values as outputs; `names` as in `Graph`."""
        return Graph(tuple(self._inputs), self.weights, tuple(self._nodes), tuple(outputs), names)


def _tensor(name: str, shape: Sequence[int], dtype: Any, role: str = "input") -> Tensor | None:
    """Return a tensor; None where the language has no such one: no elements, text."""
    try:
        return Tensor(name, shape, dtype_name(dtype), role)
    except EinalgError:
        return None


def _named_program(expression: Any, outputs: Sequence[str], used_names: Iterable[str]) -> Program:
    """Return an expression as a program whose outputs have these names.

    Its other statements have names that are not used.
    """
    if isinstance(expression, tuple):
        pairs = zip(outputs, expression, strict=True)
        expression = Program((f"{name}_", scope) for name, scope in pairs)
    program = as_program(expression, outputs[0])
    if len(program.outputs) != len(outputs):
        raise ShapeError(
            f"the expression has {len(program.outputs)} outputs, and {len(outputs)} names are "
            f"given\n"
            "  give one name for each"
        )
    return _renamed(program, _new_names(program, outputs, used_names), outputs)


def _new_names(
    program: Program, outputs: Sequence[str], used_names: Iterable[str]
) -> dict[str, str]:
    names = dict(zip(program.outputs, outputs))
    used = {*used_names, *outputs}
    for name in program.names:
        if name not in names:
            names[name] = unique_name(f"{outputs[0]}_{name}", used)
            used.add(names[name])
    return names


def _renamed(program: Program, names: Mapping[str, str], outputs: Sequence[str]) -> Program:
    statements: list[tuple[str, Any]] = []
    tensors: dict[str, Any] = {}
    for name, scope in program.statements:
        read = {tensor: tensors[tensor] for tensor in scope.tensors if tensor in tensors}
        placed = substitute_tensors(scope, read)
        statements.append((names[name], placed))
        tensors[name] = statement_tensor(names[name], placed)
    return Program(statements, outputs)
