"""Exported CUDA projects on machines without a GPU: their text runs on the CPU, through the shim."""

from __future__ import annotations

import re
from pathlib import Path

from codegen.targets.cuda.shim import _source
from tests.helpers.c_project import said

STUB = Path(__file__).with_name("cuda_runtime_stub.h")
START = re.compile(r"(kernel_\d+)<<<(dim3\(.*?\)), (\d+), 0, stream>>>\(")
HOST_CODE = re.compile(r"\n(?=static const |extern \"C\" \{|size_t )")


def run_on_the_cpu(folder: Path) -> str:
    """Compile a project for the CPU, run it, and return what it says; its status is 0."""
    (source,) = [path for path in folder.glob("*.cu") if path.name != "main.cu"]
    text = source.read_text().replace("static __global__ void", 'extern "C" __global__ void')
    kernels, host = HOST_CODE.split(text, maxsplit=1)
    arguments: list[tuple[int, int]] = []
    for position, head in enumerate(re.findall(r"kernel_\d+\((.*)\) \{\n", kernels)):
        arguments.append((position, head.count("__restrict__")))
    host = START.sub(r"started(shim_\1, \2, \3, ", host)
    main = (folder / "main.cu").read_text()
    program = folder.parent / f"{folder.name}.cpp"
    header = _without_runtime(folder / f"{source.stem}.h")
    parts = [_source(kernels, arguments), STUB.read_text(), header, host, _lines(main)]
    program.write_text("\n".join(parts))
    executable = folder.parent / f"{folder.name}_check"
    blobs = map(str, folder.glob("*.S"))
    flags = ["-std=c++17", "-O1", "-w", "-fwrapv", "-fno-strict-aliasing", f"-I{folder}"]
    said(["g++", *flags, str(program), *blobs, "-o", str(executable)])
    return said([str(executable)])


def _without_runtime(header: Path) -> str:
    return header.read_text().replace("#include <cuda_runtime_api.h>", "")


def _lines(text: str) -> str:
    """Return a file without what it includes of the project."""
    return "\n".join(line for line in text.splitlines() if not line.startswith('#include "'))
