"""The header of an exported CUDA function: its declaration, and all that a caller must know."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from codegen.export.call_plan import Buffer
from codegen.export.cuda.cuda_file import CudaFunction, device_type
from codegen.export.cuda.launch_plan import device_bytes
from codegen.export.header import COMMENT_WIDTH, HEADS, header_file, strides
from einalg.text.tables import aligned

ALIGNMENT_BYTES = 64  # of all memory, which kernels read up to 16 bytes at a time
NOTES = {
    "f16": "half precision: the 16 bits of an IEEE binary16 number, a __half of CUDA",
    "bf16": "the upper 16 bits of a float, a __nv_bfloat16 of CUDA",
}


def header(function: CudaFunction) -> str:
    """Return the text of the header, for C and for C++."""
    return header_file(
        function.name,
        _comment(function),
        function.prototype(),
        includes="#include <cuda_runtime_api.h>\n",
        more=_weights(function),
    )


def _weights(function: CudaFunction) -> str:
    if not function.plan.data:
        return ""
    return f"""
/* The bytes of the weights, and what copies them to memory of the device that has so many. */
size_t {function.name}_weights_size(void);
cudaError_t {function.name}_load_weights(void *weights, cudaStream_t stream);
"""


def _comment(function: CudaFunction) -> Iterator[str]:
    yield from function.summary
    yield ""
    rows = [HEADS]
    rows += [_row(buffer, "const ") for buffer in function.plan.inputs]
    rows += [_row(buffer, "") for buffer in function.plan.outputs]
    yield from (line.rstrip() for line in aligned(rows, str.ljust).splitlines())
    for paragraph in (_arrays(function), _memory(function), _calls()):
        yield ""
        yield from wrap(paragraph, COMMENT_WIDTH)


def _row(buffer: Buffer, qualifier: str) -> tuple[str, ...]:
    text = f"{qualifier}{device_type(buffer.dtype)} *"
    if buffer.dtype in NOTES:
        text = f"{text} ({buffer.dtype})"
    return (
        buffer.name,
        text,
        " x ".join(map(str, buffer.shape)) or "-",
        ", ".join(map(str, strides(buffer))) or "-",
        str(device_bytes(buffer)),
    )


def _arrays(function: CudaFunction) -> str:
    text = (
        "All arrays lie in the memory of the device, at multiples of "
        f"{ALIGNMENT_BYTES} bytes, as cudaMalloc places them. They are dense and in row-major "
        "order: the last index varies fastest. Shapes are fixed, and strides count elements. "
        "Inputs are only read, and every element of the outputs is written. An output must overlap "
        "nothing else."
    )
    plan = function.plan
    for dtype in dict.fromkeys(buffer.dtype for buffer in (*plan.inputs, *plan.outputs)):
        if dtype in NOTES:
            text += f" {dtype} is {NOTES[dtype]}."
    return text


def _memory(function: CudaFunction) -> str:
    name, size = function.name, function.plan.bytes
    text = f"workspace: none is needed ({name}_workspace_size() is 0), and NULL will do."
    if size:
        text = (
            f"workspace: {name}_workspace_size() bytes ({size}). What it holds before a call does "
            "not matter, and nothing is kept in it after one."
        )
    if function.plan.data:
        text += (
            f" weights: {name}_weights_size() bytes ({function.weight_bytes}), which "
            f"{name}_load_weights fills once; calls only read them."
        )
    return text


def _calls() -> str:
    return (
        "The function starts its kernels on the stream and returns before they end, with what "
        "cudaGetLastError says then. It has no state and allocates nothing: calls on several "
        "streams may run at the same time, each with a workspace and outputs of its own. It needs "
        "nvcc of CUDA 11.5 or later, and a device of compute capability 8.0 or later."
    )
