"""Flat programs, one after the other, as one ONNX model (design §11)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from codegen.ir.nodes import Buf
from codegen.targets.onnx.body import LoopAxes
from codegen.targets.onnx.graph_builder import OnnxGraphBuilder
from codegen.targets.onnx.operators import OPERATORS
from einalg.frontends.graph import Names, distinct_names, live_statements
from einalg.language.analysis.batching import Slices
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.numpy.loops import defined_points
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
    """Return a `ModelProto` that computes `outputs` from `inputs`, with operators for the kernels.

    Each program reads inputs, weights and results of those before it; one of a slice is the body of
    a `Scan`. What depends on weights alone is computed now. `names` are what the model calls its
    inputs and outputs, by default as they are called here. Needs the package onnx. Raises
    `CodegenError` for a function that ONNX has not.
    """
    if names is None:
        program_inputs = [tensor.name for tensor in inputs]
        names = program_inputs, distinct_names(outputs, program_inputs)
    input_names, output_names = names
    writer = OnnxGraphBuilder([*input_names, *output_names])
    model_inputs: dict[str, Buf] = {}
    for tensor, name in zip(inputs, input_names):
        model_inputs[tensor.name] = Buf(name, tensor.shape, tensor.dtype)
    results = dict(model_inputs)
    for program, kernels, slices in programs:
        if slices is None:
            results |= _ProgramWriter(writer, results, weights).outputs(program, kernels)
        else:
            results |= _scanned(writer, results, weights, (program, kernels, slices))
    model_outputs = []
    for value, name in zip(outputs, output_names):
        result = results.get(value)
        if result is None:
            array = weights[value]
            result = writer.constant(array, dtype_name(array.dtype), f"{value}_values")
        model_outputs.append((name, result))
    return writer.model(
        list(model_inputs.values()), [_output(writer, *output) for output in model_outputs]
    )


def _scanned(
    writer: OnnxGraphBuilder,
    results: Mapping[str, Buf],
    weights: Mapping[str, Array],
    sliced: tuple[Program, Sequence[Kernel], Slices],
) -> dict[str, Buf]:
    """Return the outputs of a program that computes a slice, for all slices."""
    program, kernels, slices = sliced
    arrays = {name: results[name] for name in program.inputs if name in slices.names}
    with writer.body() as body:
        inputs: dict[str, Buf] = {}
        for name, buf in arrays.items():
            inputs[name] = Buf(writer.name(f"{buf.name}_slice"), buf.shape[1:], buf.dtype)
        read = dict(results)
        for name, buf in inputs.items():
            read[name] = writer.reshape(buf, (1, *buf.shape))
        slice_outputs: dict[str, Buf] = {}
        for name, buf in _ProgramWriter(writer, read, weights).outputs(program, kernels).items():
            slice_outputs[name] = writer.reshape(buf, buf.shape[1:])
    outputs: dict[str, Buf] = {}
    for name, buf in slice_outputs.items():
        outputs[name] = Buf(writer.name(name), (slices.count, *buf.shape), buf.dtype)
    writer.scan(
        list(arrays.values()),
        list(outputs.values()),
        body,
        list(inputs.values()),
        list(slice_outputs.values()),
    )
    return outputs


def _output(writer: OnnxGraphBuilder, name: str, result: Buf) -> Buf:
    """Return a result under the name that the model has for it."""
    if result.name == name:  # an input
        return result
    return writer.add("Identity", [result], result.shape, result.dtype, name)


class _ProgramWriter:
    """Writes the statements of one program as nodes."""

    def __init__(
        self, writer: OnnxGraphBuilder, results: Mapping[str, Buf], weights: Mapping[str, Array]
    ):
        self.writer, self.results, self.weights = writer, dict(results), weights
        self.defined: dict[str, Any] = {}  # where each statement has values; None: everywhere
        self.scopes: dict[Scope, Buf] = {}

    def outputs(self, program: Program, kernels: Sequence[Kernel]) -> dict[str, Buf]:
        """Return the outputs of a program."""
        kernel_of = {kernel.output: kernel for kernel in kernels}
        constants = compile_time_statements(program, lambda tensor: tensor.name in self.weights)
        if constants:
            self._compute(program, constants)
        for name, scope in program.statements:
            self.defined[name] = defined_points(scope)
            if name not in constants:
                self.results[name] = self._statement(scope, kernel_of.get(name))
        return {name: self.results[name] for name in program.outputs}

    def _compute(self, program: Program, constants: Collection[str]) -> None:
        """Compute and store the statements that depend on weights alone."""
        ahead = Program(live_statements(program.statements, constants), sorted(constants))
        arrays = execute(ahead, {name: self.weights[name] for name in ahead.inputs})
        for name, array in arrays.items():
            self.results[name] = self.writer.constant(array, program[name].dtype, name)

    def _statement(self, scope: Scope, kernel: Kernel | None) -> Buf:
        result = None
        if kernel is not None:
            result = self._operator(scope, kernel)
        if result is None:
            result = self._body(scope)
        return result

    def _operator(self, scope: Scope, kernel: Kernel) -> Buf | None:
        """Return the result of an operator of ONNX, where the kernel is one."""
        binding = OPERATORS.get(kernel.op)
        if binding is None or not kernel.views or scope.dtype not in binding.dtypes:
            return None
        if any(isinstance(access.base, Scope) for access in accesses(scope.body)):
            return None
        arrays = [self._tensor(scope.tensors[view.name])[0] for view in kernel.views[:-1]]
        if any(array.dtype != scope.dtype for array in arrays):
            return None
        if any(self.defined.get(view.name) is not None for view in kernel.views):
            return None
        before = len(self.writer.nodes)
        result = binding.bind(self.writer, kernel, scope, arrays)
        if result is None:
            del self.writer.nodes[before:]
            return None
        return self.writer.reshape(result, scope.shape)

    def _body(self, scope: Scope) -> Buf:
        ranges = {it.index: (it.low, it.high) for it in scope.iterators}
        return LoopAxes(self.writer, self._read, ranges).statement(scope)

    def _read(self, base: Any) -> tuple[Buf, Any, Any]:
        """Return the array of a scope or tensor, its box, and where it has values."""
        if not isinstance(base, Scope):
            return self._tensor(base)
        if base not in self.scopes:
            self.scopes[base] = self._body(base)
        return self.scopes[base], base.box, defined_points(base)

    def _tensor(self, tensor: Any) -> tuple[Buf, Any, Any]:
        name, writer = tensor.name, self.writer
        if isinstance(tensor, Constant):
            values = np.array([float(value) for value in tensor.values]).reshape(tensor.shape)
            return writer.constant(values, tensor.dtype, name), tensor.box, None
        if name not in self.results:
            self.results[name] = writer.constant(self.weights[name], tensor.dtype, name)
        return self.results[name], tensor.box, self.defined.get(name)
