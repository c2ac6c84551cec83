"""Candidates and optimized networks as C projects, with what their `main.c` checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codegen.export.cuda.project import export_cuda
from codegen.export.identifiers import FUNCTION_NAME
from codegen.export.project import ExampleCall, ExportedNetwork, export_c
from derive.cost.accuracy import relative_error, scales, tolerance
from derive.matching.program_kernels import kernels_of
from derive.programs import OptimizedNetwork
from derive.programs.optimization.optimize import interpreted_outputs, reference_outputs
from derive.results.sample_inputs import Arrays, InputSample, inputs_with_values, steadier_sample
from derive.results.selection import SELECTION
from einalg import __version__
from einalg.errors import CodegenError, ShapeError
from einalg.frontends.axis_order import in_call
from einalg.frontends.graph import Graph, OpaqueNode, distinct_names, unique_name
from einalg.language.analysis.batching import Slices
from einalg.language.analysis.compile_time import is_weight
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.language.ir.tensor import Tensor
from einalg.language.ops.shape.indexing import transpose
from einalg.options import optional

FlatProgram = tuple[Program, Sequence[Kernel], Slices | None]
MAX_SHOWN_STATEMENTS = 12  # of a program, in a header
Array = np.ndarray[Any, Any]


def export_program(
    program: Program,
    kernels: Sequence[Kernel],
    inputs: Mapping[str, Tensor],
    target: str,
    accuracy: float | None,
    folder: Any,
    name: str | None,
    weights: Mapping[str, Any] | None,
) -> Path:
    """Write a flat program as a project in C or CUDA, as a function of `inputs`, of which it may
    ignore some; `weights` are arrays of inputs inside it.

    Raises `UseError` for a name that C does not allow, `ShapeError` for weights that do not fit,
    and what the export of the target raises.
    """
    function_name = optional(FUNCTION_NAME).check("name", name)
    known = dict(weights or {})
    unknown = sorted(known.keys() - inputs.keys())
    if unknown:
        raise ShapeError(
            f"{unknown[0]} is not an input of the program; the inputs are "
            f"{', '.join(inputs) or 'none'}\n  leave it out"
        )
    allowed = tolerance(program) if accuracy is None else accuracy
    arrays, expected = _sample(program, inputs, known, allowed)
    arrays |= known
    sizes = scales(expected, program, arrays)
    example = ExampleCall(
        arrays,
        tuple(expected[output] for output in program.outputs),
        allowed,
        tuple(sizes[output] for output in program.outputs),
    )
    arguments = tuple(tensor for key, tensor in inputs.items() if key not in known)
    network = ExportedNetwork(
        arguments,
        program.outputs,
        ((program, kernels, None),),
        known,
        summary=_summary(program, arguments),
    )
    return _written(network, example, target, accuracy, folder, function_name)


def _sample(
    program: Program, inputs: Mapping[str, Tensor], known: Mapping[str, Any], allowed: float
) -> InputSample:
    """Return random inputs, beside what is known, on which rounding alone makes no error that is
    not allowed.
    """

    def reference(drawn: Arrays) -> Arrays:
        return reference_outputs(program, {**drawn, **known})

    def rounding_error(sample: InputSample) -> float:
        given = {**sample.arrays, **known}
        return relative_error(sample.expected, interpreted_outputs(program, given), program, given)

    sample = inputs_with_values(program, inputs, reference)
    limit = SELECTION.max_rounding_share * allowed
    return steadier_sample(sample, reference, rounding_error, limit) or sample


def export_network(
    network: OptimizedNetwork,
    arrays: Sequence[Any],
    target: str,
    accuracy: float | None,
    folder: Any,
    name: str | None,
) -> Path:
    """Write an optimized network as a project that checks itself on `arrays` of its inputs.

    Raises `CodegenError` where something stays a call of the framework, and what `export_program`
    raises.
    """
    function_name = optional(FUNCTION_NAME).check("name", name)
    require_no_calls(network.opaque)
    exported = exported_network(network)
    example = _example(network.graph, exported.inputs, arrays, accuracy)
    return _written(exported, example, target, accuracy, folder, function_name)


def exported_network(network: OptimizedNetwork) -> ExportedNetwork:
    """Return a network as a function of inputs that have their axes as a call of the model has.

    Raises `RecordError` where something stays a call of the framework.
    """
    graph = network.graph
    inputs, programs, names = graph.inputs, network.programs(), graph.names
    if graph.orders:
        inputs = _called_inputs(graph)
        reordered = _reordered_inputs(graph, inputs, programs)
        programs = [*((program, kernels_of(program), None) for program in reordered), *programs]
        input_names = tuple(tensor.name for tensor in graph.inputs)
        names = names or (input_names, tuple(distinct_names(graph.outputs, input_names)))
    summary = f"A network, as einalg {__version__} optimized and verified it."
    return ExportedNetwork(inputs, graph.outputs, tuple(programs), graph.weights, names, (summary,))


def _called_inputs(graph: Graph) -> tuple[Tensor, ...]:
    """Return the inputs as a call has them: with other names, where the order of axes differs."""
    used_names = {tensor.name for tensor in graph.inputs} | graph.weights.keys()
    for node in graph.nodes:
        used_names.update(node.outputs)
    inputs: list[Tensor] = []
    for tensor in graph.called_inputs:
        if tensor.name in graph.orders:
            name = unique_name(f"{tensor.name}_as_called", used_names)
            used_names.add(name)
            tensor = Tensor(name, tensor.axes, tensor.dtype)
        inputs.append(tensor)
    return tuple(inputs)


def _reordered_inputs(
    graph: Graph, called: Sequence[Tensor], programs: Sequence[FlatProgram]
) -> list[Program]:
    """Return programs that put the axes of a call's inputs in the orders that `programs` read."""
    read = {name for program, _, _ in programs for name in program.inputs}
    reordered: list[Program] = []
    for tensor, source in zip(graph.inputs, called):
        if tensor.name in graph.orders and tensor.name in read:
            scope = transpose(source, graph.orders[tensor.name])
            reordered.append(Program([(tensor.name, scope)], (tensor.name,)))
    return reordered


def _written(
    network: ExportedNetwork,
    example: ExampleCall,
    target: str,
    accuracy: float | None,
    folder: Any,
    name: str | None,
) -> Path:
    if target == "cuda":
        return export_cuda(network, example, Path(folder), name, accuracy)
    return export_c(network, example, Path(folder), name)


def require_no_calls(opaque: Sequence[OpaqueNode]) -> None:
    """Raise `CodegenError` where something stays a call of the framework."""
    if opaque:
        operators = ", ".join(dict.fromkeys(node.operator for node in opaque))
        raise CodegenError(
            f"the network is no C code: calls of the framework are left in it ({operators})\n"
            "  export the parts of the model before and after them, each optimized by itself"
        )


def _example(
    graph: Graph, inputs: Sequence[Tensor], arrays: Sequence[Any], accuracy: float | None
) -> ExampleCall:
    """Return the outputs that the reference computes for arrays of a graph's inputs.

    `inputs` are these as a call has them, with names of their own.
    """
    called: dict[str, Array] = {}
    for tensor, (name, array) in zip(inputs, graph.named_arrays(arrays).items()):
        called[tensor.name] = in_call(array, graph.orders.get(name))
    sizes: dict[str, float] = {}
    allowed = 0.0

    def compute(program: Program, known: Mapping[str, Array]) -> Mapping[str, Array]:
        nonlocal allowed
        outputs = reference_outputs(program, known)
        read = {name: known[name] for name in program.inputs}
        sizes.update(scales(outputs, program, read))
        allowed = max(allowed, tolerance(program))
        return outputs

    outputs = graph.run(arrays, compute)
    return ExampleCall(
        called,
        outputs,
        allowed if accuracy is None else accuracy,
        tuple(sizes.get(name, 1.0) for name in graph.outputs),
    )


def _summary(program: Program, inputs: Sequence[Tensor]) -> tuple[str, ...]:
    """Return the lines that say what a function of some inputs computes."""
    lines = [f"Generated by einalg {__version__}."]
    if len(program.statements) <= MAX_SHOWN_STATEMENTS:
        text = str(program).replace("*/", "* /")
        lines += ["", *(f"  {line}" for line in text.splitlines())]
    weights = [tensor.name for tensor in inputs if is_weight(tensor)]
    if weights:
        lines += [
            "",
            f"What depends on weights alone ({', '.join(weights)}) is computed in every call.",
            f"export_c(folder, weights={{'{weights[0]}': array}}) has it inside.",
        ]
    return tuple(lines)
