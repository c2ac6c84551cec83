"""Programs as a C project: a function, its header, a program that checks it, and build files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from codegen.export.build_files import cmake_lists, makefile
from codegen.export.c_file import ExportedFunction
from codegen.export.call_plan import Array, ExportedPart, call_plan
from codegen.export.check_program import Check, CheckProgram
from codegen.export.folder import require_export_folder, write_folder
from codegen.export.header import header
from codegen.export.identifiers import default_name
from codegen.export.numbers import Blob
from codegen.lowering.schedule import DEFAULT
from codegen.program.building.built_program import build_generated
from codegen.program.building.problem import BuildProblem
from codegen.program.compile import checked_kernels
from codegen.program.executable import Executable
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, Compiler, find_compiler
from einalg.errors import CodegenError
from einalg.frontends.graph import Names, unique_name
from einalg.language.analysis.batching import Slices
from einalg.language.ir.dtypes import dtype_name, numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.language.ir.tensor import Tensor


@dataclass(frozen=True)
class ExportedNetwork:
    """Flat programs in order, each with its kernels, and with slices where it is that of one.

    Each reads `inputs`, `weights` and results of those before it. `outputs` are names of values,
    and `names` are what inputs and outputs are called. `summary` is the head of the header.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[str, ...]
    programs: tuple[tuple[Program, Sequence[Kernel], Slices | None], ...]
    weights: Mapping[str, Array] = field(default_factory=dict, repr=False)
    names: Names | None = None
    summary: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExampleCall:
    """Arrays of the inputs by name, and the outputs in order that a reference computed for them.

    Each output may differ by `allowed`, relative to its `scale`.
    """

    inputs: Mapping[str, Any] = field(repr=False)
    outputs: tuple[Any, ...] = field(repr=False)
    allowed: float
    scales: tuple[float, ...]


def export_c(
    network: ExportedNetwork, example: ExampleCall, folder: Path, name: str | None = None
) -> Path:
    """Write a network as a C project into a folder, and return the folder.

    All kernels are generated code, whatever library is faster. What depends on weights alone is
    computed now. Raises `RecordError` where the folder holds anything that no export has written,
    `CodegenError` where there is no C compiler.
    """
    require_export_folder(folder)
    compiler = find_compiler()
    if compiler is None:
        raise CodegenError(
            "no C compiler works here, and one is needed to compute what depends on weights alone\n"
            "  install gcc or clang, or set CC"
        )
    function = exported_function(network, name or default_name(folder), compiler)
    write_folder(folder, project_files(CheckProgram(function, check_of(network, example))))
    return folder


def exported_function(network: ExportedNetwork, name: str, compiler: Compiler) -> ExportedFunction:
    """Return the function of a network, with its weights inside."""
    pieces: list[ExportedPart] = []
    for program, kernels, slices in network.programs:
        executable = generated_executable(program, kernels, compiler)
        read = {key: network.weights[key] for key in program.inputs if key in network.weights}
        pieces.append(ExportedPart(executable.bind(**read), slices))
    inputs, outputs = words(network)
    plan = call_plan(name, inputs, outputs, network.weights, pieces)
    return ExportedFunction(name, network.summary, plan)


def words(network: ExportedNetwork) -> tuple[list[tuple[str, Tensor]], list[tuple[str, str]]]:
    """Return the inputs with what they are called, and what the outputs are called."""
    input_names = [tensor.name for tensor in network.inputs]
    output_names = list(network.outputs)
    if network.names is not None:
        input_names, output_names = map(list, network.names)
    inputs = [(_word(word), tensor) for word, tensor in zip(input_names, network.inputs)]
    return inputs, list(zip(network.outputs, map(_word, output_names)))


def generated_executable(
    program: Program, kernels: Sequence[Kernel], compiler: Compiler
) -> Executable:
    """Return a flat program with generated kernels alone."""
    problem = BuildProblem.of(
        program, checked_kernels(program, kernels), compiler, DEFAULT, COMPILE_TIMEOUT_SECONDS
    )
    built = build_generated(problem)
    return Executable(built.program, "cpu", built.steps(), built)


def project_files(check: CheckProgram) -> dict[str, bytes]:
    """Return the files of a project by their names."""
    function = check.function
    sources, main = [f"{function.name}.c"], ["main.c"]
    files: dict[str, bytes] = {}
    for blob, group, text in (
        (function.blob, sources, f"The weights of {function.name}."),
        (check.blob, main, "The inputs of main.c, and the outputs that are expected."),
    ):
        if blob is not None:
            group.append(blob.assembler_name)
            files |= blob_files(blob, text)
    texts = {
        f"{function.name}.h": header(function),
        f"{function.name}.c": function.text(),
        "main.c": check.text(),
        "Makefile": makefile(function, sources, main),
        "CMakeLists.txt": cmake_lists(function, sources, main),
    }
    return {**{file: text.encode() for file, text in texts.items()}, **files}


def blob_files(blob: Blob, text: str) -> dict[str, bytes]:
    """Return the files of arrays that no compiler reads; `text` says what these are."""
    return {blob.assembler_name: blob.assembler(text).encode(), blob.file_name: blob.content()}


def check_of(network: ExportedNetwork, example: ExampleCall) -> Check:
    """Return the example in the element types of the function."""
    inputs: list[Array] = []
    for tensor in network.inputs:
        array = np.asarray(example.inputs[tensor.name], numpy_dtype(tensor.dtype))
        inputs.append(array.reshape(tensor.shape))
    dtypes = _dtypes(network)
    outputs: list[Array] = []
    for name, array in zip(network.outputs, example.outputs, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            outputs.append(np.asarray(array).astype(numpy_dtype(dtypes[name])))
    return Check(tuple(inputs), tuple(outputs), example.allowed, example.scales)


def _dtypes(network: ExportedNetwork) -> dict[str, str]:
    """Return the element types of all values that may be outputs."""
    from_weights = {name: dtype_name(array.dtype) for name, array in network.weights.items()}
    dtypes = {**from_weights, **{tensor.name: tensor.dtype for tensor in network.inputs}}
    for program, _, _ in network.programs:
        for name in program.outputs:
            dtypes[name] = program[name].dtype
    return dtypes


def _word(name: str) -> str:
    """Return a name as one word: `layer1.0/conv` as `layer1_0_conv`."""
    if name.isidentifier():
        return name
    return unique_name(name, ())
