"""Programs as a CUDA project: a function, its header, a program that checks it, build files."""

from __future__ import annotations

from pathlib import Path

from codegen.export.cuda.build_files import cmake_lists, makefile
from codegen.export.cuda.check_program import CudaCheckProgram
from codegen.export.cuda.cuda_file import CudaFunction
from codegen.export.cuda.header import header
from codegen.export.cuda.launch_plan import launch_plan
from codegen.export.folder import require_export_folder, write_folder
from codegen.export.identifiers import default_name
from codegen.export.project import ExampleCall, ExportedNetwork, blob_files, check_of, words
from codegen.targets.cuda.lowering.threads.schedule import schedule_for_accuracy


def export_cuda(
    network: ExportedNetwork,
    example: ExampleCall,
    folder: Path,
    name: str | None = None,
    accuracy: float | None = None,
) -> Path:
    """Write a network as a CUDA project into a folder, and return the folder.

    What depends on weights alone is computed now. Raises `RecordError` where the folder holds
    anything that no export has written, `CodegenError` for what no device runs.
    """
    require_export_folder(folder)
    function = exported_function(network, name or default_name(folder), accuracy)
    write_folder(folder, project_files(CudaCheckProgram(function, check_of(network, example))))
    return folder


def exported_function(
    network: ExportedNetwork, name: str, accuracy: float | None = None
) -> CudaFunction:
    """Return the function of a network, with its weights inside."""
    schedule = schedule_for_accuracy(accuracy)
    inputs, outputs = words(network)
    plan = launch_plan(name, inputs, outputs, network.weights, network.programs, schedule)
    return CudaFunction(name, network.summary, plan, schedule.grid)


def project_files(check: CudaCheckProgram) -> dict[str, bytes]:
    """Return the files of a project by their names."""
    function = check.function
    sources, main = [f"{function.name}.cu"], ["main.cu"]
    files: dict[str, bytes] = {}
    for blob, group, text in (
        (function.blob, sources, f"The weights of {function.name}."),
        (check.blob, main, "The inputs of main.cu, and the outputs that are expected."),
    ):
        if blob is not None:
            group.append(blob.assembler_name)
            files |= blob_files(blob, text)
    texts = {
        f"{function.name}.h": header(function),
        f"{function.name}.cu": function.text(),
        "main.cu": check.text(),
        "Makefile": makefile(function.name, sources, main),
        "CMakeLists.txt": cmake_lists(function.name, sources, main),
    }
    return {**{file: text.encode() for file, text in texts.items()}, **files}
