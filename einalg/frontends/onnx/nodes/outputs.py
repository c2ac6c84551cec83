"""Results of a definition, checked against the types that ONNX infers for the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einalg.frontends.graph import live_statements
from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator
from einalg.frontends.onnx.nodes.values import Array, sizes_of
from einalg.language import ops
from einalg.language.analysis.overflow import may_wrap
from einalg.language.ir.dtypes import numpy_dtype, promote
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.builders import L


@dataclass
class NodeOutputs:
    """The outputs of a node: expressions, inputs that are handed on, and constants."""

    names: list[str] = field(default_factory=list)  # of the expressions, in order
    scopes: list[Scope] = field(default_factory=list)
    program: Program | None = None  # instead of scopes
    same: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    @property
    def expression(self) -> Any:
        """The program, the only scope, or a tuple of scopes."""
        if self.program is not None:
            return self.program
        if len(self.scopes) == 1:
            return self.scopes[0]
        return tuple(self.scopes)

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The tensors that the expression reads and that are no constants of it."""
        if self.program is not None:
            return self.program.inputs
        tensors: dict[str, Tensor] = {}
        for scope in self.scopes:
            for name, tensor in scope.tensors.items():
                if not hasattr(tensor, "values"):
                    tensors[name] = tensor
        return tensors

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the expressions by name."""
        scopes = self.scopes
        if self.program is not None:
            scopes = [self.program[output] for output in self.program.outputs]
        return {name: scope.shape for name, scope in zip(self.names, scopes)}


def node_outputs(definition: Any, node: Operator, kinds: Sequence[Any]) -> NodeOutputs:
    """Return the outputs that are read, in the types and shapes that they must have.

    `definition` is what a definition returned. Raises `NotExpressible` where types or shapes are
    others.
    """
    if node.unread:
        raise NotExpressible(f"attribute {node.unread[0]} has no meaning in the definition")
    outputs = NodeOutputs()
    if isinstance(definition, Program):
        _add_program(definition, node, outputs)
    else:
        if not isinstance(definition, tuple):
            definition = (definition,)
        for position, result in enumerate(definition):
            if node.wants(position):
                _add_output(result, node.outputs[position], node.dtypes[position], outputs)
    for name in node.outputs:
        if name and name not in (*outputs.names, *outputs.same, *outputs.constants):
            raise NotExpressible(f"its output {name} has no expression")
    _require_shapes(outputs, node, kinds)
    programs: Sequence[Any] = outputs.scopes
    if outputs.program is not None:
        programs = [outputs.program]
    if any(map(may_wrap, programs)):
        raise NotExpressible("integers of 8 and 16 bits wrap round where they are too large")
    return outputs


def _require_shapes(outputs: NodeOutputs, node: Operator, kinds: Sequence[Any]) -> None:
    """Raise `NotExpressible` for shapes that ONNX does not infer, and for empty tensors."""
    shapes = outputs.shapes()
    for name, kind in zip(node.outputs, kinds):
        inferred, shape = sizes_of(kind), shapes.get(name)
        if shape is None:
            continue
        if inferred is not None and inferred != shape:
            raise NotExpressible(f"the expression has shape {shape}, and ONNX {inferred}")
        if 0 in shape:
            raise NotExpressible(f"{name} has no elements")
    for tensor in outputs.tensors.values():
        if 0 in tensor.shape:
            raise NotExpressible(f"{tensor.name} has no elements")


def _add_program(program: Program, node: Operator, outputs: NodeOutputs) -> None:
    wanted: list[str] = []
    for position, output in enumerate(program.outputs):
        if not node.wants(position):
            continue
        dtype = node.dtypes[position]
        if dtype is not None and program[output].dtype != dtype:
            raise NotExpressible(
                f"the expression has elements of {program[output].dtype}, and ONNX has {dtype}"
            )
        wanted.append(output)
        outputs.names.append(node.outputs[position])
    outputs.program = Program(live_statements(program.statements, wanted), wanted)


def _add_output(result: Any, name: str, dtype: str | None, outputs: NodeOutputs) -> None:
    if isinstance(result, Tensor) and dtype in (None, result.dtype):
        outputs.same[name] = result
    elif isinstance(result, np.ndarray):
        if dtype is not None:
            result = result.astype(numpy_dtype(dtype))
        outputs.constants[name] = result
    elif result is not None:
        outputs.names.append(name)
        outputs.scopes.append(_with_dtype(_unconditional(result), dtype))


def _unconditional(scope: Any) -> Any:
    """Return a scope with a value at every point: 0 where its condition does not hold."""
    if not isinstance(scope, Scope) or not scope.where:
        return scope
    return L[_ranges(scope)](scope.pad(*(0,) * scope.rank)[scope.indices])


def _ranges(scope: Scope) -> Any:
    return tuple(slice(it.index, it.low, it.high) for it in scope.iterators) or ()


def _with_dtype(result: Any, dtype: str | None) -> Any:
    """Return an expression of a wider element type; as it is where ONNX does not say which."""
    if dtype is None or result.dtype == dtype:
        return result
    if dtype == "bool" or promote(result.dtype, dtype) != dtype:
        raise NotExpressible(f"the expression has elements of {result.dtype}, and ONNX has {dtype}")
    return ops.cast(result, dtype)
