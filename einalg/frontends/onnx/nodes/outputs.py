"""What a definition returns, checked against what ONNX says of the outputs."""

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
    """The outputs of a node: those that are an expression, those that are an input, those that are known."""

    names: list[str] = field(default_factory=list)  # of what is expressed, in order
    scopes: list[Scope] = field(default_factory=list)
    program: Program | None = None  # instead of scopes
    same: dict[str, Tensor] = field(default_factory=dict)
    known: dict[str, Array] = field(default_factory=dict)

    @property
    def expression(self) -> Any:
        return self.program or (self.scopes[0] if len(self.scopes) == 1 else tuple(self.scopes))

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """What the expression reads and needs an array for."""
        if self.program is not None:
            return self.program.inputs
        return {
            name: t
            for scope in self.scopes
            for name, t in scope.tensors.items()
            if not hasattr(t, "values")
        }

    def shapes(self) -> dict[str, tuple[int, ...]]:
        scopes = (
            [self.program[o] for o in self.program.outputs]
            if self.program is not None
            else self.scopes
        )
        return {name: scope.shape for name, scope in zip(self.names, scopes)}


def results_of(found: Any, node: Operator, kinds: Sequence[Any]) -> NodeOutputs:
    """The outputs that are read, in the types and shapes that they must have; raises `NotExpressible` where they have others."""
    if node.unread:
        raise NotExpressible(f"attribute {node.unread[0]} has no meaning in the definition")
    results = NodeOutputs()
    if isinstance(found, Program):
        _program(found, node, results)
    else:
        for position, one in enumerate(found if isinstance(found, tuple) else (found,)):
            if node.wants(position):
                _output(one, node.outputs[position], node.dtypes[position], results)
    absent = [
        name
        for name in filter(None, node.outputs)
        if name not in (*results.names, *results.same, *results.known)
    ]
    if absent:
        raise NotExpressible(f"its output {absent[0]} has no expression")
    for name, kind in zip(node.outputs, kinds):
        inferred, found_shape = sizes_of(kind), results.shapes().get(name)
        if inferred is not None and found_shape is not None and inferred != found_shape:
            raise NotExpressible(f"the expression has shape {found_shape}, and ONNX {inferred}")
        if found_shape is not None and 0 in found_shape:
            raise NotExpressible(f"{name} has no elements")
    empty = next((t.name for t in results.tensors.values() if 0 in t.shape), None)
    if empty is not None:
        raise NotExpressible(f"{empty} has no elements")
    if any(map(may_wrap, results.scopes if results.program is None else [results.program])):
        raise NotExpressible("integers of 8 and 16 bits wrap round where they are too large")
    return results


def _program(program: Program, node: Operator, results: NodeOutputs) -> None:
    wanted = [
        (output, node.outputs[k], node.dtypes[k])
        for k, output in enumerate(program.outputs)
        if node.wants(k)
    ]
    for output, _, dtype in wanted:
        if dtype is not None and program[output].dtype != dtype:
            raise NotExpressible(
                f"the expression has elements of {program[output].dtype}, and ONNX has {dtype}"
            )
    kept = [output for output, _, _ in wanted]
    results.program, results.names = (
        Program(live_statements(program.statements, kept), kept),
        [name for _, name, _ in wanted],
    )


def _output(one: Any, name: str, dtype: str | None, results: NodeOutputs) -> None:
    if isinstance(one, Tensor) and dtype in (None, one.dtype):
        results.same[name] = one
    elif isinstance(one, np.ndarray):
        results.known[name] = one if dtype is None else one.astype(numpy_dtype(dtype))
    elif one is not None:
        results.names.append(name)
        results.scopes.append(_with_dtype(_whole(one), dtype))


def _whole(scope: Any) -> Any:
    """A scope that has a value at every point: 0 where its condition does not hold."""
    if not isinstance(scope, Scope) or not scope.where:
        return scope
    return L[_ranges(scope)](scope.pad(*(0,) * scope.rank)[scope.indices])


def _ranges(scope: Scope) -> Any:
    return tuple(slice(it.index, it.low, it.high) for it in scope.iterators) or ()


def _with_dtype(one: Any, dtype: str | None) -> Any:
    """An expression of a wider element type; where ONNX does not say which, as it is."""
    if dtype is None or one.dtype == dtype:
        return one
    if dtype == "bool" or promote(one.dtype, dtype) != dtype:
        raise NotExpressible(f"the expression has elements of {one.dtype}, and ONNX has {dtype}")
    return ops.cast(one, dtype)
