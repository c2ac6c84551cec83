"""Flat programs, one after the other, as one ONNX model (design §11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from codegen.ir.nodes import Buf
from codegen.targets.onnx.body import LoopAxes, known
from codegen.targets.onnx.graph_builder import OnnxGraphBuilder
from codegen.targets.onnx.operators import FLOATS, OPERATORS
from einalg.frontends.graph import Names, live_statements, unique_name
from einalg.language.analysis.batching import Slices
from einalg.language.analysis.compile_time import settled
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import dtype_name
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, Tensor
from einalg.language.ir.traversal import accesses

Array = np.ndarray[Any, Any]


def onnx_model(
    inputs: Sequence[Tensor],
    weights: Mapping[str, Array],
    programs: Sequence[tuple[Program, Sequence[Kernel], Slices | None]],
    outputs: Sequence[str],
    names: Names | None = None,
) -> Any:
    """A `ModelProto` that computes `outputs` from `inputs`, its operators those of the kernels; needs the package onnx.

    Each program reads inputs, weights and results of those before it; one of a slice is the body of a `Scan`. What depends on weights alone is
    computed now. `names` are what the model calls its inputs and outputs, by default as they are called here. Raises `CodegenError` for a
    function that ONNX has not.
    """
    own = [tensor.name for tensor in inputs]
    input_names, output_names = names or (own, _distinct(outputs, own))
    writer = OnnxGraphBuilder([*input_names, *output_names])
    given = {
        tensor.name: Buf(name, tensor.shape, tensor.dtype)
        for tensor, name in zip(inputs, input_names)
    }
    results: dict[str, Buf] = dict(given)
    for program, kernels, slices in programs:
        if slices is None:
            results |= _Programs(writer, results, weights).computed(program, kernels)
        else:
            results |= _scanned(writer, results, weights, (program, kernels, slices))
    found = [
        results.get(value)
        or writer.constant(weights[value], dtype_name(weights[value].dtype), f"{value}_values")
        for value in outputs
    ]
    return writer.model(
        list(given.values()),
        [_output(writer, name, result) for name, result in zip(output_names, found)],
    )


def _scanned(
    writer: OnnxGraphBuilder,
    results: Mapping[str, Buf],
    weights: Mapping[str, Array],
    one: tuple[Program, Sequence[Kernel], Slices],
) -> dict[str, Buf]:
    """The outputs of a program that computes a slice, for all slices."""
    program, kernels, slices = one
    whole = [(name, results[name]) for name in program.inputs if name in slices.names]
    with writer.body() as body:
        given = [
            Buf(writer.name(f"{buf.name}_slice"), buf.shape[1:], buf.dtype) for _, buf in whole
        ]
        read = {name: writer.reshape(buf, (1, *buf.shape)) for (name, _), buf in zip(whole, given)}
        found = _Programs(writer, {**results, **read}, weights).computed(program, kernels)
        made = {name: writer.reshape(buf, buf.shape[1:]) for name, buf in found.items()}
    all_made = {
        name: Buf(writer.name(name), (slices.count, *buf.shape), buf.dtype)
        for name, buf in made.items()
    }
    writer.scan(
        [buf for _, buf in whole], list(all_made.values()), body, given, list(made.values())
    )
    return all_made


def _distinct(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names, with others like them, which are not taken, for what is named a second time."""
    found: list[str] = []
    for name in names:
        found.append(unique_name(name, {*found, *names, *taken}) if name in found else name)
    return found


def _output(writer: OnnxGraphBuilder, name: str, found: Buf) -> Buf:
    """A result under the name that the model has for it."""
    if found.name == name:  # an input
        return found
    return writer.add("Identity", [found], found.shape, found.dtype, name)


class _Programs:
    """The statements of one program as nodes."""

    def __init__(
        self, writer: OnnxGraphBuilder, results: Mapping[str, Buf], weights: Mapping[str, Array]
    ):
        self.writer, self.results, self.weights = writer, dict(results), weights
        self.holes: dict[str, Any] = {}
        self.scopes: dict[Scope, Buf] = {}

    def computed(self, program: Program, kernels: Sequence[Kernel]) -> dict[str, Buf]:
        """The outputs of a program."""
        by_name = {kernel.output: kernel for kernel in kernels}
        ahead = settled(program, lambda tensor: tensor.name in self.weights)
        if ahead:
            known_ahead = Program(live_statements(program.statements, ahead), sorted(ahead))
            for name, array in execute(
                known_ahead, {n: self.weights[n] for n in known_ahead.inputs}
            ).items():
                self.results[name] = self.writer.constant(array, program[name].dtype, name)
        for name, scope in program.statements:
            self.holes[name] = known(scope)
            if name not in ahead:
                self.results[name] = self._statement(scope, by_name.get(name))
        return {name: self.results[name] for name in program.outputs}

    def _statement(self, scope: Scope, kernel: Kernel | None) -> Buf:
        return (self._operator(scope, kernel) if kernel else None) or self._body(scope)

    def _operator(self, scope: Scope, kernel: Kernel) -> Buf | None:
        """An operator of ONNX, where the kernel is one."""
        bind = OPERATORS.get(kernel.op)
        reads = [access.base for access in accesses(scope.body)]
        if (
            bind is None
            or not kernel.views
            or scope.dtype not in FLOATS
            or any(isinstance(base, Scope) for base in reads)
        ):
            return None
        arrays = [self._tensor(scope.tensors[view.name])[0] for view in kernel.views[:-1]]
        if any(array.dtype != scope.dtype for array in arrays) or any(
            self.holes.get(view.name) is not None for view in kernel.views
        ):
            return None
        before = len(self.writer.nodes)
        found = bind(self.writer, kernel, scope, arrays)
        if found is None:
            del self.writer.nodes[before:]
            return None
        return self.writer.reshape(found, scope.shape)

    def _body(self, scope: Scope) -> Buf:
        return LoopAxes(
            self.writer, self._read, {it.index: (it.low, it.high) for it in scope.iterators}
        ).statement(scope)

    def _read(self, base: Any) -> tuple[Buf, Any, Any]:
        if isinstance(base, Scope):
            if base not in self.scopes:
                self.scopes[base] = self._body(base)
            return self.scopes[base], base.box, known(base)
        return self._tensor(base)

    def _tensor(self, tensor: Any) -> tuple[Buf, Any, Any]:
        if isinstance(tensor, Constant):
            values = np.array([float(value) for value in tensor.values]).reshape(tensor.shape)
            return self.writer.constant(values, tensor.dtype, tensor.name), tensor.box, None
        if tensor.name not in self.results:
            self.results[tensor.name] = self.writer.constant(
                self.weights[tensor.name], tensor.dtype, tensor.name
            )
        return self.results[tensor.name], tensor.box, self.holes.get(tensor.name)
